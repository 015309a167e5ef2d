#pragma once
// What readers outside of a run are told of a step that workers hold (executor/live).

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/controller/live_steps.h"
#include "executor/controller/worker_pool.h"
#include "ptc/state/collection/collection.h"

namespace scalai::executor::controller {

struct ShownState {
  int32_t job = 0;
  std::string name;  // of the job
  int64_t step = 0;
  std::string model;  // text of model.textproto; empty: unknown
  std::vector<int> gpus_of_host;
  const collection::Collection* collection = nullptr;  // outlives the call
};

// Gives what the workers of these hosts hold of the collection's epoch this version, too (Copy in place). Errors: those
// of WorkerPool::call; then some may have done it.
absl::StatusOr<proto::LiveState> show_state(WorkerPool& pool, const std::set<HostId>& hosts, const ShownState& shown,
                                            state::StateVersion version, const LiveSteps::Kind& kind);

}  // namespace scalai::executor::controller
