#pragma once
// A cluster as a flow network: which links a transfer between two places crosses.
//
//   same device        gN.copy  (memory bandwidth / 2: read and write)
//   same host          gA.up → gB.down             NVLink or peer PCIe
//   to host memory     gN.pcie.up → store.ingest   a host's memory is its in-memory store
//   other host         gA.pcie.up → nic.up → [leaf|rail up → leaf|rail down | fabric] → nic.down → gB.pcie.down
//   storage            storage.read → … → nic.down → gB.pcie.down, and back to storage.write
//
// Where devices are emulated in host memory, all that arrives at a host or is copied on its devices ends with hN.copy, and
// machine.copy where hosts are processes of one machine.
//
// Each place is one endpoint per reach (local, same switch, across the spine), so that every route is the source's `up`
// links followed by the destination's `down` links. Links with unlimited bandwidth do not exist. A host's memory and
// processes use its first NIC, a GPU the NIC of its share.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ptc/change/network.h"
#include "ptc/plan/cluster.h"
#include "ptc/plan/plan.h"

namespace scalai::change {

class Platform {
 public:
  explicit Platform(const plan::Cluster& cluster);

  const NetworkSpec& spec() const { return spec_; }
  // Index of a link by the names of plan::links_of; -1 when it does not exist.
  int link(const std::string& name) const;
  // Endpoints of a transfer. `process`: the destination host reads the bytes without writing them into its store, or
  // the source host writes them out of a process, not out of its store.
  std::pair<int, int> route(plan::Location src, plan::Location dst, bool src_process = false,
                            bool dst_process = false) const;
  HostId host_of(plan::Location place) const;  // invalid for storage

 private:
  enum class Place { kDevice, kDevicePcie, kDeviceCopy, kStore, kProcess, kStorage };
  enum class Reach { kLocal, kSwitch, kSpine };

  void add_endpoint(Place place, int index, Reach reach, std::vector<int> up, std::vector<int> down);
  void add_device_endpoints(int host, int local);
  void add_host_endpoints(int host);
  void append(std::vector<int>& links, const std::string& name) const;  // if it exists
  void append_copies(std::vector<int>& links, int host) const;
  std::string uplink_of(int host, int nic) const;  // "leaf0", "rail1" or ""
  int nic_of(plan::Location place) const;
  Reach reach_of(plan::Location src, plan::Location dst) const;
  int endpoint(plan::Location location, bool process, bool same_device, bool to_host, Reach reach) const;

  const plan::Cluster& cluster_;
  NetworkSpec spec_;
  std::map<std::string, int> link_index_;
  std::map<std::tuple<Place, int, Reach>, int> endpoint_index_;
};

}  // namespace scalai::change
