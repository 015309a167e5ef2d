#pragma once
// Sources and fan-out: how a box that some devices (or redundant copies in hosts' memory) hold in the old epoch reaches
// those that want it.
//
// In place, a box crosses to a host that lacks it once. Where several hosts (or several devices of one host) want what
// fewer have, they form chains from the least loaded holders, each passing on to the next, so that nobody sends a box
// twice over one link (without PlannerOptions::relay each fetches from an old holder). Hosts of an NVLink domain, rack
// or group that has the box are served inside it. Staged strategies, and those bound to the first replica, pull for
// every device by itself, as the systems they model do. Ties go to the lowest id.
//
// Taking the least loaded for box after box is not always best. The planner then asks for the exchanges, shares them
// (sharing.h) and says who sends; a place may then send a box more than once.

#include <cstdint>
#include <vector>

#include "ptc/plan/internal/sharing.h"
#include "ptc/plan/planner.h"

namespace scalai::plan::internal {

// Devices by host: hosts ascending, devices in the order given. Also remembers the first device.
struct DevicesByHost {
  struct Group {
    HostId host;
    std::vector<DeviceId> devices;
    bool copy = false;  // this host's memory has a redundant copy (holders only)
  };
  std::vector<Group> groups;
  DeviceId first;
  const Group* find(HostId host) const;
};
DevicesByHost by_host(const std::vector<DeviceId>& devices, const cluster::Cluster& cluster,
                      const std::vector<HostId>& copies = {});

class FanOut {
 public:
  FanOut(const cluster::Cluster& cluster, const PlannerOptions& options);
  // Legs that bring `bytes` from `holders` to `wanting` (disjoint sets, neither empty), sources before those they feed.
  std::vector<Leg> distribute(const DevicesByHost& holders, const DevicesByHost& wanting, int64_t bytes);
  // The same where one device holds and one wants, in place.
  Leg direct(DeviceId holder, DeviceId wanting, int64_t bytes);

  // Legs that bring `bytes` from storage to `wanting` (not empty). kOnce: a chain of hosts from the one that reads,
  // those that have sent least first. CHECK: not kEachDevice, which needs no legs between devices.
  std::vector<Leg> read(const DevicesByHost& wanting, StorageReads reads, int64_t bytes);

  // Bytes so far, of plans in place. Places are numbered by host, or devices first and hosts' memories after them.
  struct Loads {
    std::vector<int64_t> sent, received;      // by device
    std::vector<int64_t> entered;             // by device: received from other hosts or storage, over its NIC
    std::vector<int64_t> memory_sent;         // out of each host's memory
    std::vector<int64_t> crossing, entering;  // out of and into each host
    bool crosses() const;
    std::vector<int64_t> by_place(bool hosts) const;  // what each sends
    int64_t hottest(bool hosts) const;                // sent or received
    int64_t most_received(bool hosts) const;
  };
  const Loads& loads() const { return loads_; }
  void reset(Loads loads) { loads_ = std::move(loads); }

  // Between hosts: what crosses them. Between devices: what stays in each host.
  std::vector<Exchange> exchanges(const DevicesByHost& holders, const DevicesByHost& wanting, bool hosts) const;
  // As distribute, but the exchanges go along these edges.
  std::vector<Leg> along(const DevicesByHost& holders, const DevicesByHost& wanting, bool hosts,
                         const std::vector<std::vector<Edge>>& exchanges, int64_t bytes);

 private:
  using Group = DevicesByHost::Group;
  // Hosts that serve each other.
  struct Crossing {
    std::vector<const Group*> sources, wanting;
  };
  void pass_on(std::vector<Location> sources, const std::vector<DeviceId>& wanting, int32_t hop, int64_t bytes);
  void pass_on_inside(const DevicesByHost& holders, const DevicesByHost& wanting, int64_t bytes);
  std::vector<Crossing> crossings(const DevicesByHost& holders, const DevicesByHost& wanting) const;
  void cross_hosts(Crossing crossing, int64_t bytes);
  void chain(Location from, const std::vector<const Group*>& hosts, size_t first, size_t step, int64_t bytes);
  bool less_crossing(const Group* a, const Group* b);
  Location enter(const Location& from, const Group& wanting, int32_t hop, int64_t bytes);
  void fetch_each(const DevicesByHost& holders, const DevicesByHost& wanting, int64_t bytes);
  void pull_each(const DevicesByHost& holders, const DevicesByHost& wanting, int64_t bytes);
  Location least_loaded(const Group& group);
  DeviceId least_entered(const std::vector<DeviceId>& devices) const;
  void send(Location src, DeviceId dst, TransferClass transfer_class, int32_t hop, int64_t bytes);
  int64_t& sent(const Location& place);
  int64_t& crossing(HostId host) { return loads_.crossing[static_cast<size_t>(host.value)]; }

  enum class Nearness : uint8_t { kDomain, kRack, kGroup };

  const cluster::Cluster& cluster_;
  std::vector<Nearness> levels_;  // of those that the cluster has, the nearest first
  const PlannerOptions& options_;
  Loads loads_;
  std::vector<Leg> legs_;
};

}  // namespace scalai::plan::internal
