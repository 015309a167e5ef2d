#pragma once
// The machine of one configuration: the GPU of each pipeline stage, the spread of each parallel group over hosts, and a
// rank's share of the links. Made from a host kind (`uniform_hardware`, for searches) or from real devices of a cluster
// (`hardware_of`), with slow devices and uneven hosts. Plain values and pure functions; any thread may call them.

#include <map>
#include <span>
#include <vector>

#include "ptc/cluster/cluster.h"
#include "ptc/cost/step/training.h"
#include "ptc/state/collection/layout_name.h"

namespace scalai::step {

// The ranks of a communicator. Several groups of one axis are merged into their worst case, because a step waits for
// all of them: if one group crosses hosts, all count as crossing.
struct Group {
  int ranks = 1;
  // Ranks of the group on one host. If groups cross hosts: the fewest on any of their hosts, because every ring passes
  // that host's NICs.
  int per_host = 1;
  int over_hosts = 0;  // the most hosts of any one group; 0 = as few as per_host allows
  // Share of the NIC rates left when all groups of the axis communicate at once: oversubscription or a backbone; 0 <
  // share <= 1.
  double fabric_share = 1;
  int hosts() const { return over_hosts > 0 ? over_hosts : (ranks + per_host - 1) / per_host; }
};

// The GPU with the slowest matrix products in a pipeline stage.
struct StageGpu {
  cluster::GpuKind gpu;
  double speed = 1;  // share of nominal; below 1 for degraded devices
  // Share of the median GPU's products that the slowest of all GPUs of the job reaches (slowest_share): ranks wait for
  // it.
  double slowest = 1;
  // What the slowest memory of the stage reaches, where that is another GPU's: efficiency and speed counted. 0 = this
  // GPU's is the slowest.
  double memory_bytes_per_s = 0;
  friend bool operator==(const StageGpu&, const StageGpu&) = default;
};

// Path of the messages from a stage to the next one; for the last stage, to the first (interleaved pipelines).
struct Hop {
  bool crosses_hosts = false;  // true if the messages of any rank leave their host
  // Rate of a rank that leaves its host, per direction: the rate of its NIC / the ranks of the stage that send through
  // it, at most the rate of its PCIe link, and its share of the uplinks that it crosses; 0 = unlimited.
  double bytes_per_s = 0;
};

struct GpuCount {
  cluster::GpuKind gpu;
  int count = 0;
};

struct Hardware {
  std::vector<StageGpu> stages;  // one entry if all stages are equal, else one for each pipeline stage; never empty
  std::vector<GpuCount> gpus;    // all GPUs at work; empty = the GPUs of `stages`, the same number of each
  int gpus_per_host = 1;
  double link_bytes_per_s = 0;  // GPU to GPU in a host, per direction; 0 = unlimited
  // Share of a GPU in its host's NICs, at most the rate of its PCIe link, per direction; 0 = unlimited.
  double nic_bytes_per_s = 0;
  double host_nic_bytes_per_s = 0;  // all NICs of a host; 0 = unlimited
  // What rings over hosts reach for each rank, per direction, where someone measured it; 0 = the share of the NICs that
  // network_efficiency gives. Messages between two ranks are not bound by it.
  double ring_bytes_per_s = 0;
  double price_per_gpu_hour = 0;  // US dollars, mean over the GPUs; 0 = unknown

  // Communicators. dp and edp are the groups that sum gradients (dp includes cp: dp·cp). dp is for dense parameters,
  // edp for experts.

  Group tp, cp, dp, ep, etp, edp;
  bool pipeline_crosses_hosts = false;  // true if any two neighbouring stages of a pipeline are on different hosts
  // One entry if all hops are equal, else one for each stage; empty = pipeline_crosses_hosts and nic_bytes_per_s.
  std::vector<Hop> hops;

  const StageGpu& stage(int index) const {
    return stages.size() == 1 ? stages.front() : stages.at(static_cast<size_t>(index));
  }
  Hop hop(int stage) const {
    if (hops.empty()) return {.crosses_hosts = pipeline_crosses_hosts, .bytes_per_s = nic_bytes_per_s};
    return hops.size() == 1 ? hops.front() : hops.at(static_cast<size_t>(stage));
  }
};

// Shares of the peak rates that large kernels and collectives reach, 0 … 1.
struct Efficiency {
  double matrix = 0, memory = 0, link = 0, network = 0;
};
// The shares of the catalogue; a typical share of its generation where the GPU kind gives none
// (docs/parallelizer.md).
Efficiency efficiency_of(const cluster::GpuKind& gpu, Math math);
// Peak of matrix products, FLOP/s. FP8 on a GPU without it: the 16-bit peak. TF32 on a GPU without it: the vector peak,
// which is 1/16 of the 16-bit peak if unknown.
double peak_flops(const cluster::GpuKind& gpu, Math math);
// Of all GPUs together, at nominal speed.
double peak_flops(const Hardware& hardware, const collection::ParallelConfig& config, Math math);

// Share of the median GPU's clock that the slowest of n GPUs of one kind is expected to have under load:
// 1 / (1 + kClockSpread · z), z the mean of the largest of n standard normal values (Cramér 1946, 28.6.16). 1 for one.
double slowest_share(int gpus);
// Standard deviation of the speed of equal GPUs under load. Whiskers of Sinha et al. (SC'22) are 8 % of the median
// apart on average over their clusters; of a normal distribution they are 5.4 standard deviations apart.
inline constexpr double kClockSpread = 0.08 / 5.4;

// Ranks in the layout's order on hosts of one kind, one host after the other. CHECK: host.gpus >= 1.
Hardware uniform_hardware(const cluster::Host& host, const collection::ParallelConfig& config);

// Ranks on these devices of `cluster`, in rank order. `speed`: share of nominal speed of degraded devices. `math`: type
// of the matrix products; it decides the slowest GPU of a stage. The arguments are used during the call only.
// CHECK: as many devices as ranks.
Hardware hardware_of(const cluster::Cluster& cluster, const collection::ParallelConfig& config,
                     std::span<const DeviceId> devices, const std::map<DeviceId, double>& speed = {},
                     Math math = Math::kBF16);

}  // namespace scalai::step
