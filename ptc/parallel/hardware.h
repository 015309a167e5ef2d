#pragma once
// The machine as a configuration sees it: which GPU each pipeline stage runs on, how the ranks of each parallel group
// lie in hosts, and what a rank gets of the links. Derived from a host kind alone (`uniform_hardware`, for searches) or
// from real devices of a cluster (`hardware_of`), slow ones and uneven hosts included.

#include <map>
#include <span>
#include <vector>

#include "ptc/collection/layout_name.h"
#include "ptc/parallel/training.h"
#include "ptc/plan/cluster.h"

namespace scalai::parallel {

// The ranks of a communicator, of several alike the worst: a step waits for all of them, and where one crosses hosts it
// does not help that another does not.
struct Group {
  int ranks = 1;
  int per_host = 1;  // that share a host. Of groups that are not in one host: the fewest on any of theirs, whose cards
                     // every ring goes through
  int over_hosts = 0;  // the most hosts that one of them is in; 0 = as few as per_host allows
  int hosts() const { return over_hosts > 0 ? over_hosts : (ranks + per_host - 1) / per_host; }
};

// The GPU of a pipeline stage whose matrix products are the slowest.
struct StageGpu {
  plan::GpuKind gpu;
  double speed = 1;  // of nominal (degraded devices)
  // What the slowest memory of the stage reaches, where that is another GPU's: efficiency and speed counted. 0 = this
  // GPU's is the slowest.
  double memory_bytes_per_s = 0;
  friend bool operator==(const StageGpu&, const StageGpu&) = default;
};

// The way of the messages between a stage and the next, of the last one's to the first (interleaved).
struct Hop {
  bool crosses_hosts = false;  // those of some ranks do
  // Of a rank, per direction, where it leaves its host: its card's rate shared by the ranks of the stage that send
  // through it, PCIe counted; 0 = unlimited.
  double bytes_per_s = 0;
};

struct GpuCount {
  plan::GpuKind gpu;
  int count = 0;
};

struct Hardware {
  std::vector<StageGpu> stages;  // one = all alike, else one a pipeline stage
  std::vector<GpuCount> gpus;    // all that work; empty = those of `stages`, as many of each
  int gpus_per_host = 1;
  double link_bytes_per_s = 0;      // GPU to GPU in a host, per direction; 0 = unlimited
  double nic_bytes_per_s = 0;       // a GPU's share of its host's cards, per direction; 0 = unlimited
  double host_nic_bytes_per_s = 0;  // all cards of a host; 0 = unlimited
  double fabric_share = 1;  // of the cards, when all hosts send at once: oversubscription or a backbone; 0 < share <= 1
  double price_per_gpu_hour = 0;  // US dollars; 0 = unknown

  // Communicators. dp and edp are those that gradients are summed over (cp included: dp·cp); dense without experts.
  Group tp, cp, dp, ep, etp, edp;
  bool pipeline_crosses_hosts = false;  // some neighbouring stages are on different hosts
  std::vector<Hop> hops;  // one = all alike, else one a stage; empty = by pipeline_crosses_hosts and nic_bytes_per_s

  const StageGpu& stage(int index) const {
    return stages.size() == 1 ? stages.front() : stages.at(static_cast<size_t>(index));
  }
  Hop hop(int stage) const {
    if (hops.empty()) return {.crosses_hosts = pipeline_crosses_hosts, .bytes_per_s = nic_bytes_per_s};
    return hops.size() == 1 ? hops.front() : hops.at(static_cast<size_t>(stage));
  }
};

// Shares of peaks that large kernels and collectives reach where the GPU kind does not say (ptc/parallel/README.md).
struct Efficiency {
  double matrix = 0, memory = 0, link = 0, network = 0;
};
Efficiency efficiency_of(const plan::GpuKind& gpu, Math math);
// Peak of matrix products: FP8 of a GPU without it is its 16-bit peak, TF32 without it the vector peak.
double peak_flops(const plan::GpuKind& gpu, Math math);
// Of all GPUs together, at nominal speed.
double peak_flops(const Hardware& hardware, const collection::ParallelConfig& config, Math math);

// Ranks in the layout's order over hosts of this kind, filled one after the other.
Hardware uniform_hardware(const plan::Host& host, const collection::ParallelConfig& config);

// Ranks on these devices, in rank order. `speed`: share of nominal of degraded devices. `math`: what products compute
// in, which decides what the slowest GPU of a stage is. CHECK: as many devices as ranks.
Hardware hardware_of(const plan::Cluster& cluster, const collection::ParallelConfig& config,
                     std::span<const DeviceId> devices, const std::map<DeviceId, double>& speed = {},
                     Math math = Math::kBF16);

}  // namespace scalai::parallel
