#pragma once
// What `scalai plan` is asked: its options, read and checked as a whole. All problems are reported.

#include <optional>
#include <string>
#include <vector>

#include "apps/problems.h"
#include "ptc/base/command.h"
#include "ptc/plan/planner.h"

namespace scalai::apps {

struct PlanRequest {
  std::string model;  // name; "" when both sides are files
  collection::Collection from, to;
  std::vector<DeviceId> candidates;  // what may take new ranks; with --placement=identity the first do, in order
  plan::Cluster cluster;
  collection::Residency residency;
  plan::PlannerOptions options;

  plan::PlannerInput input() const { return {from, to, cluster, residency, options}; }
};

// Nothing when there are problems.
std::optional<PlanRequest> read_plan_request(const Arguments& arguments, Problems& problems);

// Reports a tensor that is not among `names`, with those it may be meant for.
void check_tensor_name(const std::string& tensor, const std::vector<std::string>& names, Problems& problems);

}  // namespace scalai::apps
