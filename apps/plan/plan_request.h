#pragma once
// The options of `scalai plan`, read and checked as a whole. All problems are reported.

#include <optional>
#include <string>
#include <vector>

#include "apps/common/problems.h"
#include "ptc/base/command.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/planner.h"

namespace scalai::apps {

struct PlanRequest {
  std::string model;  // name; "" when both sides are files
  collection::Collection from, to;
  std::vector<DeviceId> candidates;  // devices for new ranks; --placement=identity takes the first ones, in order
  cluster::Cluster cluster;
  collection::Residency residency;
  plan::PlannerOptions options;
  plan::PlacementOptions placement;

  // Refers to this object, which must outlive it.
  plan::PlannerInput input() const { return {from, to, cluster, residency, options}; }
};

// nullopt if there are problems.
std::optional<PlanRequest> read_plan_request(const Arguments& arguments, Problems& problems);

// Reports a tensor that is not among `names`, with similar names.
void check_tensor_name(const std::string& tensor, const std::vector<std::string>& names, Problems& problems);

}  // namespace scalai::apps
