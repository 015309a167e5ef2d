#pragma once
// What a reconfiguration costs besides moving bytes, by the software that runs the job: to notice a failure, to start
// processes again, to set up communicators. Each number has a published source (docs/scenarios.md, "Stacks"). Pure
// functions; any thread may call them.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/cluster/cluster.h"
#include "ptc/state/collection/collection.h"

namespace scalai::change {

// Groups of ranks of one kind, each with a communicator. They are set up side by side, kinds one after another.
struct GroupKind {
  std::string name;  // axis, "world", "model" (a replica: Megatron's model-parallel group), "embedding"
  int ranks = 1;     // of each group
  int groups = 1;
  bool across_hosts = false;
};
struct Groups {
  int ranks = 1;
  std::vector<GroupKind> kinds;  // none for one rank
  int ranks_in_switch = 0;       // most ranks of a host whose GPU links reduce in their switch (NVLS)
  bool processes_stay = false;   // each rank's process was in communicators before
};

// Those of Megatron-LM: the world, one kind an axis of the collection's meshes, replicas, and the ends of the pipeline.
// `before`: what the job trained in; its processes stay if all devices are among those, and none was `lost` since, with
// its process. Null: all processes are new.
Groups groups_of(const collection::Collection& collection, const cluster::Cluster& cluster,
                 const collection::Collection* before = nullptr, const std::set<DeviceId>& lost = {});
// For expectations without a layout: the world, and data parallelism over all ranks, on hosts like the cluster's first.
Groups groups_of(int ranks, const cluster::Cluster& cluster);

// Published values of one quantity: the smallest and the largest that are about such a stack.
struct Published {
  double low = 0, high = 0;
};

struct Stack {
  std::string_view name;      // "stock-2025"
  std::string_view software;  // "PyTorch 2.4 and later, NCCL 2.23 to 2.28; containers are rebuilt"

  // Detection of a failure: a process or host that is gone; one that hangs (watchdog), and then the diagnosis of which.
  double detect_s = 0, hang_s = 0, diagnose_s = 0;
  Published detect, hang;

  // Restart: max(restart_least_s, restart_2048_s + restart_doubling_s · log2(ranks / 2048)).
  double restart_least_s = 0, restart_2048_s = 0, restart_doubling_s = 0;
  Published restart;

  // Communicators, see initialisation_s.
  double store_s_per_rank = 0;     // clients of the rendezvous store, one after another
  bool barrier_per_group = false;  // a barrier of the world after each new group; else one a kind, or none
  double barrier_least_s = 0, barrier_s_per_rank = 0;  // of one barrier; 0 = there is none
  // A process's first communicator: kernels are loaded, memory is allocated, more where switches reduce.
  double kernels_s = 0, allocate_s = 0, allocate_s_per_gpu = 0;
  double each_s = 0;              // every kind: topology, and connections in a host
  double across_hosts_s = 0;      // connections over the network
  double stagger_s_per_rank = 0;  // how far apart ranks of groups above 128 contact the root
  int allgathers = 0;             // rings of n − 1 steps in NCCL's bootstrap
  bool both_directions = false;   // half as many steps (NCCL 2.28.7)
  double square_s = 0;            // loops over pairs of ranks, times n²
  Published initialisation;       // factor to the model's time
};

// The stacks, the default first: "stock-2025", "stock-2022", "tuned".
const std::vector<Stack>& stacks();
std::vector<std::string> stack_names();
// InvalidArgument names all.
absl::StatusOr<const Stack*> find_stack(std::string_view name);

// Set-up of communicators:
//   store_s_per_rank · ranks + barriers · max(barrier_least_s, barrier_s_per_rank · ranks)
//     + kernels_s + allocate_s + allocate_s_per_gpu · ranks_in_switch (unless processes stay)
//     + Σ kinds (each_s + across_hosts_s + stagger · n + allgathers · steps(n) · 0.15 ms + square_s · n²)
// for groups of n ranks. 0.15 ms a step is fitted to two totals at 96,000 GPUs; the other constants were measured
// alone. What ranks wait for each other is not in it.
double initialisation_s(const Stack& stack, const Groups& groups);
double restart_s(const Stack& stack, int ranks);

}  // namespace scalai::change
