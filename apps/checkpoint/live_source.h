#pragma once
// A job that trains as what `scalai checkpoint stats` looks at: its last step, in the memories of its workers
// (executor/live). scalai-exec makes them; scalai hands such calls over to it.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/store/views/checkpoint_stats.h"

namespace scalai::apps {

struct LiveQuestion {
  std::string job;         // "": the only one
  bool optimizer = false;  // masters and moments, too
  bool elements = false;   // they are read here; else workers look at what their devices hold, and nothing can be read
};

// The step stays as it is while this lives, and so does the run's way to it. One thread.
class LiveSource {
 public:
  virtual ~LiveSource() = default;
  virtual const std::shared_ptr<const store::Checkpoint>& checkpoint() const = 0;
  // What workers found. Errors: those of executor::stats_of_step.
  virtual absl::StatusOr<std::vector<store::TensorStats>> stats(const std::vector<size_t>& tensors) const = 0;
};

// Errors: NotFound (no run goes on there, no such job), those of LiveRun::newest.
using OpenRun =
    std::function<absl::StatusOr<std::unique_ptr<LiveSource>>(const std::string& run, const LiveQuestion& question)>;

}  // namespace scalai::apps
