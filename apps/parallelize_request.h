#pragma once
// What `scalai parallelize` is asked: its options, read and checked as a whole. All problems are reported.

#include <optional>
#include <string>
#include <vector>

#include "apps/problems.h"
#include "ptc/base/command.h"
#include "ptc/collection/collection.h"
#include "ptc/parallel/search.h"
#include "ptc/plan/cluster.h"

namespace scalai::apps {

// Where the job is now (--from).
struct OldState {
  collection::ParallelConfig config;
  std::vector<DeviceId> devices;  // in rank order
  collection::Residency residency;
  bool can_stay = false;  // all of its devices are among those that are left
};

struct ParallelizeRequest {
  model::Model model;
  model::Recipe recipe;
  parallel::ModelShape shape;
  parallel::SearchSpace space;
  plan::Cluster cluster;          // without --cluster: hosts alike
  std::vector<DeviceId> devices;  // that may be used, in rank order: space.gpus of them
  std::optional<OldState> from;
  std::optional<collection::ParallelConfig> layout;  // the only one to be priced
  std::string network_of;  // host kind whose network cards were taken for want of --nic; "" = not needed
  bool uniform = true;     // space.host says all of the hardware
};

std::vector<OptionSpec> parallelize_options();

// Nothing when there are problems.
std::optional<ParallelizeRequest> read_parallelize_request(const Arguments& arguments, Problems& problems);

}  // namespace scalai::apps
