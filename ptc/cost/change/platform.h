#pragma once
// A cluster as a flow network: the links of a transfer between two places. Owns the network spec, refers to the
// cluster; a const Platform is safe to share between threads.
//
//   same device        gN.copy  (memory bandwidth / 2: read and write)
//   same host          gA.up → gB.down             NVLink or peer PCIe; also between hosts of an NVLink domain
//   to host memory     gN.pcie.up → store.ingest   a host's memory is its in-memory store
//   other host         gA.pcie.up → nic.up → [uplinks → downlinks | fabric] → nic.down → gB.pcie.down
//   storage            storage.read → … → nic.down → gB.pcie.down, and back to storage.write
//
// With emulated devices, every transfer to a host and every copy on its devices ends with hN.copy, and with
// machine.copy if hosts are processes of one machine.
//
// Traffic climbs the tiers of the fabric (cluster::tiers_of) to the first switch that both ends have below them, over
// the uplinks of those under it. Each place is one endpoint per reach (local, so many tiers up). So every route is the
// `up` links of the source followed by the `down` links of the destination. Links with unlimited bandwidth do not
// exist. GPUs are spread over the NICs of their host evenly. A host's memory and processes use the NIC of the GPU at
// the other end; between the memories of two hosts the lane says the NIC: that of the GPU whose state it is.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ptc/cluster/cluster.h"
#include "ptc/cost/change/network.h"
#include "ptc/plan/plan.h"

namespace scalai::change {

// Rates of links: as the hardware has them (simulated steps, which count what they reach by themselves), or what
// transfers reach (cluster::reached).
enum class LinkRates : uint8_t { kNominal, kReached };

// What a host's memory does as a store over HTTP, all clients together; 0 = no limit. The same as shares of the rate of
// that memory (cluster::memory_bytes_per_s).
struct StoreRates {
  double serve_bytes_per_s = 0, ingest_bytes_per_s = 0;
};
struct StoreShares {
  double serve = 0, ingest = 0;
};
// Those of the host; where it has none, these shares of its memory's rate.
StoreRates store_rates(const cluster::Host& host, const StoreShares& shares);

class Platform {
 public:
  // Keeps a reference to the cluster, which outlives it unchanged. `stores`: of hosts that have no rates of their own.
  explicit Platform(const cluster::Cluster& cluster, LinkRates rates = LinkRates::kNominal,
                    const StoreShares& stores = {});

  // The reference lives as long as the platform.
  const NetworkSpec& spec() const { return spec_; }
  // Index in spec().links of a link by its name in cluster::links_of, or "h0.g1.copy" for copies on a device; -1 if it
  // does not exist.
  int link(const std::string& name) const;
  // The endpoints of a transfer, as indices into spec().endpoints. `dst_process`: the destination host reads the bytes
  // without writing them into its store. `src_process`: the source host writes them out of a process, not out of its
  // store. `lane`: the NIC between the memories of two hosts, modulo those that a host has.
  std::pair<int, int> route(plan::Location src, plan::Location dst, bool src_process = false, bool dst_process = false,
                            int lane = 0) const;
  HostId host_of(plan::Location place) const;  // invalid for storage
  int64_t domain_of(DeviceId device) const { return cluster_.domain_of(cluster_.host_of(device)); }

 private:
  enum class Place { kDevice, kDevicePcie, kDeviceCopy, kStore, kProcess, kStorage };
  using Reach = int;  // 0: local; n: over the NICs and the uplinks of n − 1 tiers
  static constexpr Reach kLocal = 0;
  Reach top() const { return static_cast<Reach>(tiers_.size()) + 1; }

  void add_endpoint(Place place, int index, Reach reach, std::vector<int> up, std::vector<int> down);
  void add_remote_endpoints(Place place, int index, int host, int nic, const std::vector<int>& out,
                            const std::vector<int>& in);
  int memory_index(int host, int nic) const { return host + nic * static_cast<int>(cluster_.hosts.size()); }
  void add_device_endpoints(int host, int local);
  void add_host_endpoints(int host);
  void append(std::vector<int>& links, const std::string& name) const;  // if it exists
  void append_copies(std::vector<int>& links, int host) const;
  bool joined(plan::Location src, plan::Location dst) const;  // GPUs of one NVLink domain
  int nic_of(plan::Location place, plan::Location other, int lane) const;
  Reach reach_of(plan::Location src, plan::Location dst, int src_nic, int dst_nic) const;
  int endpoint(plan::Location location, int nic, bool process, bool same_device, bool to_host, Reach reach) const;

  const cluster::Cluster& cluster_;
  const std::vector<cluster::Tier> tiers_;
  NetworkSpec spec_;
  std::map<std::string, int> link_index_;
  std::map<std::tuple<Place, int, Reach>, int> endpoint_index_;
};

}  // namespace scalai::change
