#pragma once
// The options of `scalai parallelize`, read and checked as a whole. All problems are reported.

#include <optional>
#include <string>
#include <vector>

#include "apps/common/problems.h"
#include "ptc/base/command.h"
#include "ptc/cluster/cluster.h"
#include "ptc/cost/step/calibration.h"
#include "ptc/cost/step/search.h"
#include "ptc/state/collection/collection.h"

namespace scalai::apps {

// The present state of the job (--from).
struct OldState {
  collection::ParallelConfig config;
  std::vector<DeviceId> devices;  // in rank order
  collection::Residency residency;
  bool can_stay = false;  // all of its devices are still available
};

struct ParallelizeRequest {
  model::Model model;
  model::Recipe recipe;
  step::ModelShape shape;
  step::SearchSpace space;
  cluster::Cluster cluster;       // without --cluster: equal hosts
  std::vector<DeviceId> devices;  // available ones, in rank order: space.gpus of them
  std::optional<OldState> from;
  std::optional<collection::ParallelConfig> layout;  // the only layout to evaluate
  int64_t offload_bytes = 0;     // state and activations that stay on a GPU; 0 = all. Then any size is priced …
  int64_t gpu_memory_bytes = 0;  // … and this is what a GPU has
  std::string network_of;        // host kind whose NICs replace a missing --nic; "" = not needed
  std::string software;          // that trains: "megatron-core-0.16"; "" = of a model that is no transformer
  step::Given given = step::Given::kNothing;  // of it
  int segment = 0;                            // GPUs that are taken of each NVLink domain of more; 0 = all
  bool uniform = true;                        // space.host describes all of the hardware
};

std::vector<OptionSpec> parallelize_options();

// nullopt if there are problems.
std::optional<ParallelizeRequest> read_parallelize_request(const Arguments& arguments, Problems& problems);

}  // namespace scalai::apps
