#pragma once
// The cluster as the planner and the runtimes see it: hosts, their GPUs, link rates. Plain data; a const Cluster is
// safe to share between threads. Bandwidths are bytes per second and direction; 0 = unlimited (storage: absent).

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ptc/base/ids.h"

namespace scalai::cluster {

// Built-in kinds are in catalogue.h.
struct GpuKind {
  std::string name;
  int64_t memory_bytes = 0;
  double peak_flops = 0;  // dense matrix peak with 16-bit inputs, FLOP/s
  double memory_bandwidth_bytes_per_s = 0;
  double link_bytes_per_s = 0;  // of one GPU: NVLink, or PCIe to its peers
  double pcie_bytes_per_s = 0;  // to the host, per GPU

  // For the cost models of ptc/cost/step; 0 = unknown.
  double peak_flops_fp8 = 0;   // dense; 0 = no such rate
  double peak_flops_fp4 = 0;   // likewise
  double peak_flops_tf32 = 0;  // dense matrix peak with fp32 inputs
  double peak_flops_fp32 = 0;  // vector peak
  double power_w = 0;          // board power limit
  int multiprocessors = 0;
  bool in_switch_reduction = false;  // NVLink switches compute sums (NVLS)
  // Shares of the peaks that large kernels reach, 0 to 1; 0 = the default of ptc/cost/step/hardware.h.
  double matrix_efficiency = 0, matrix_efficiency_fp8 = 0, memory_efficiency = 0;
  double link_efficiency = 0, network_efficiency = 0;  // 0 = the default of link_share, network_share
  friend bool operator==(const GpuKind&, const GpuKind&) = default;
};

// One machine. Its devices are first_device … first_device + gpus − 1; hosts follow one another without gaps.
struct Host {
  int first_device = 0;
  int gpus = 0;
  GpuKind gpu;
  double gpu_link_bytes_per_s = 0;
  double pcie_bytes_per_s = 0;
  int nics = 1;
  double nic_bytes_per_s = 0;
  // Rates of the host's memory as a store: reads from it, writes into it.
  double store_serve_bytes_per_s = 0;
  double store_ingest_bytes_per_s = 0;
  double copy_bytes_per_s = 0;  // emulated devices: all bytes that arrive at the host or are copied on its devices
  std::string kind;             // name in the catalogue; "" = none
  double price_per_hour = 0;    // US dollars; 0 = unknown
  // GPU links that join several hosts (a rack of GB200 NVL72: 18 hosts of four GPUs). Hosts with the same number are
  // one NVLink domain; -1 = the links end in the host. Hosts of a domain follow one another; each still fails by
  // itself.
  int nvlink_hosts = 1;  // as many a domain, the last of a group may have fewer
  int nvlink_domain = -1;
};

// Shares of the rates of links that large messages reach: of the kind where the catalogue knows them, else of its
// generation. Steps and transfers use the same (docs/parallelizer.md has their sources).
double link_share(const GpuKind& gpu);     // between GPUs of a host
double network_share(const GpuKind& gpu);  // between hosts
inline constexpr double kPcieShare =
    0.82;  // pinned memory, large copies: 26 of 32 GB/s of generation 4, as bandwidthTest prints

// The rate of a host's memory, which clusters do not say, from what came with it: one processor for four GPUs, at least
// one and at most two, with eight channels of DDR4-3200 (204.8 GB/s, EPYC 7002) beside PCIe 4. Each doubling of PCIe
// came with half as much again: 128 GB/s beside PCIe 3 (six channels of DDR4-2666, Xeon of 2017), 307.2 beside PCIe 5
// (eight of DDR5-4800, Xeon of 2023). Slower links count as PCIe 3, unknown ones as PCIe 4.
double memory_bytes_per_s(const Host& host);

// What transfers reach. Rates of hosts without a kind of GPU, and of emulated ones, are taken as measured.
struct Rates {
  double gpu_link_bytes_per_s = 0, pcie_bytes_per_s = 0, nic_bytes_per_s = 0;
};
Rates reached(const Host& host);

enum class FabricKind : uint8_t { kStar, kLeafSpine, kRail, kFatTree, kDragonfly };

struct Cluster {
  std::string name;
  std::vector<Host> hosts;
  FabricKind fabric = FabricKind::kStar;
  int leaf_hosts = 0;   // kLeafSpine, kFatTree: hosts of a leaf, a rack; kDragonfly: of a router, 0 = limits nothing
  int group_hosts = 0;  // kFatTree: hosts of a pod; kDragonfly: of a group; kRail: that share rail switches, 0 = all
  int rack_hosts = 0;   // other fabrics: hosts of a rack; 0 = all hosts are one rack
  double oversubscription = 1;        // not kStar: sum of the NICs below a first switch / its uplinks
  double group_oversubscription = 1;  // kFatTree, kDragonfly: sum of the NICs in a pod or group / its uplinks
  double backbone_bytes_per_s = 0;    // kStar: shared by all cross-host and storage traffic
  double storage_read_bytes_per_s = 0;
  double storage_write_bytes_per_s = 0;
  double machine_copy_bytes_per_s = 0;  // emulated hosts on one machine: all bytes that arrive anywhere

  int device_count() const;
  HostId host_of(DeviceId device) const;  // CHECK: the device exists
  int rack_of(HostId host) const;
  int group_of(HostId host) const;  // pod, dragonfly group or rail unit; 0 where the fabric has none
  // Equal for hosts whose GPUs reach each other by their links: one NVLink domain, or one host.
  int64_t domain_of(HostId host) const;
  // Hosts of a leaf or router, a rack and a group, as far as there are such: ascending. Scenarios have each divide the
  // next.
  std::vector<int> block_sizes() const;
  int rack_count() const;                               // 0: the cluster names no racks, and rack_of() is 0 for all
  std::vector<HostId> hosts_of_rack(int rack) const;    // none if there is no such rack
  int local_index(DeviceId device) const;               // 0 … gpus − 1 on its host; CHECK as above
  std::vector<DeviceId> devices_of(HostId host) const;  // CHECK: the host exists
};

// The devices grouped by host. Hosts come in the order of their first device in the list; CHECK: the devices exist.
std::vector<std::pair<HostId, std::vector<DeviceId>>> devices_by_host(const std::vector<DeviceId>& devices,
                                                                      const Cluster& cluster);
// The hosts of these devices in the same order. Those of one NVLink domain are one host, with the GPUs and NICs of all
// of them. For cost models.
std::vector<Host> joined_hosts(const std::vector<DeviceId>& devices, const Cluster& cluster);

// Switches between the NICs and the top of a fabric. Traffic climbs to the first tier with a switch that both ends have
// below them, else over the top. A switch stands for all that work side by side, and its uplink for all of theirs:
// routing is taken to spread traffic evenly (ECMP, adaptive routing). Tiers by fabric, from the NICs up:
//   kStar       none
//   kLeafSpine  leaf
//   kRail       rail: one for each NIC of the hosts that share rail switches
//   kFatTree    leaf, pod                                         (Leiserson 1985; Al-Fares et al., SIGCOMM'08)
//   kDragonfly  router, group; groups are joined by global links  (Kim et al., ISCA'08; dragonfly+: Shpiner et al.
//               2017)
// Of a dragonfly's global links a group has the sum of its NICs / group_oversubscription, whatever group they go to:
// adaptive routing takes detours where the direct ones are full. What detours take from groups on their way is not
// counted.
struct Tier {
  std::string name;  // its switches are leaf0, leaf1 …
  int hosts = 0;     // below one switch, in order; 0 = all
  int nics = 0;      // kRail: switches side by side, one for each NIC; else 0
  double oversubscription = 1;
  int switch_of(HostId host, int nic) const {
    const int block = hosts > 0 ? host.value / hosts : 0;
    return nics > 0 ? block * nics + nic : block;
  }
};
std::vector<Tier> tiers_of(const Cluster& cluster);
// The NICs below each switch of a tier together, bytes per second; 0 when one of them is unlimited, or there are none.
std::vector<double> nics_below(const Cluster& cluster, const Tier& tier);

// Nothing in the fabric is narrower than the NICs: then it makes no difference how hosts lie in it.
bool is_wide(const Cluster& cluster);

// A whole NVLink domain of such hosts as one host; a host whose links end in it stays as it is. For cost models.
Host joined(Host host);

// The links that a scenario may fail or degrade, in order: "h0.g1.up|down" (GPU link), "h0.g1.pcie.up|down",
// "h0.nic0.up|down", "leaf0.up|down" and others of the tiers, "fabric", "storage.read|write", "h0.store.serve|ingest",
// "h0.copy", "machine.copy". The uplink of a switch has the sum of the NICs below it / oversubscription. Links with
// unlimited bandwidth do not exist, nor does the uplink above an unlimited NIC.
struct NamedLink {
  std::string name;
  double bandwidth_bytes_per_s = 0;
};
std::vector<NamedLink> links_of(const Cluster& cluster);

// The cluster at the rates that transfers reach.
Cluster reached(Cluster cluster);

// The switches that a scenario may fail, with the links that end at each; only links of links_of() count. Those of the
// tiers, from the NICs up: their uplinks, and the NICs or uplinks below. The top has the uplinks of the last tier:
// "spine", or "core" of a fat-tree; a dragonfly has none. "fabric", the one switch of a star: the backbone and all
// NICs. A cluster of one host has none.
struct NamedSwitch {
  std::string name;
  std::vector<std::string> links;
};
std::vector<NamedSwitch> switches_of(const Cluster& cluster);

}  // namespace scalai::cluster
