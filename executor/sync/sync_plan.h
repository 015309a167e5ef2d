#pragma once
// SyncPlan: the way of a training run's weights to receivers in another layout, as a plan over both runs' devices.
//
//   step of the run ─ its layout ──► from ─┐
//   layout of the receivers ───────► to ───┴─► plan: which receiver reads what of whom, and passes it on
//
// Hosts and devices of the training run have the first numbers, the receivers' follow. Pure functions.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/live/live_run.h"
#include "ptc/cluster/cluster.h"
#include "ptc/plan/plan.h"
#include "ptc/state/collection/collection.h"
#include "ptc/state/transform/transform.h"
#include "ptc/store/views/view.h"

namespace scalai::proto {
class LiveState;
class Foreign;
}  // namespace scalai::proto

namespace scalai::executor::sync {

struct SyncTarget {
  store::ViewSpec layout;              // a layout or a collection; naming and form do not count
  std::optional<tensor::DType> dtype;  // of floating parameters; absent: as they are trained
  std::vector<int> gpus_of_host;       // of the receivers; together as many as the layout has ranks
  std::vector<std::string>
      transforms{};      // steps that tensors go through on their way (ptc/state/transform), after the cast to `dtype`
  std::string folder{};  // of paths in them that do not begin with /, at the receivers, too
};

// Both runs' hosts: what can be known of them without measuring.
cluster::Cluster joint_cluster(const proto::LiveState& state, const std::vector<int>& gpus_of_host);

// Of a tensor that steps make only of whole rows `from` says that whoever has a part of a row has all of it: receivers
// read the rest elsewhere (ForeignTensors).
struct SyncTensors {
  collection::Collection from, to;                   // parameters and buffers, in the order of `to`; both of epoch 0
  std::vector<int32_t> numbers;                      // of the tensor that each is made of, in the training run
  std::vector<collection::LogicalTensor> origins{};  // those tensors, as they are there
  std::vector<transform::Tensor> made{};             // what steps make of them; not to be read here
  std::vector<std::string> steps{};                  // as text; none: tensors are as they are there
  std::string steps_digest{};                        // of steps and what they read
};
struct SyncPlan : SyncTensors {
  plan::Plan plan;
};

// InvalidArgument: the state cannot be laid out this way, or the layout has another number of ranks than the receivers
// have devices; the plan's state that nobody holds; steps that do not fit. Errors of opening what steps read.
absl::StatusOr<SyncPlan> plan_sync(const live::LiveStep& step, const SyncTarget& target);

// Digests of a step by tensor (number in the training run) and box.
using StepDigests = std::map<std::pair<TensorId, tensor::Box>, std::vector<uint64_t>>;
absl::StatusOr<StepDigests> digests_of(const proto::LiveState& state);
// What is to be read for this step where an earlier one is held: `foreign.changes`. All without the earlier one's
// digests.
absl::Status set_changes(const SyncPlan& plan, const StepDigests& before, const StepDigests& now, int64_t digest_bytes,
                         proto::Foreign& foreign);

}  // namespace scalai::executor::sync
