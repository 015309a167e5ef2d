#include "apps/checkpoint/live_source.h"

#include "ptc/base/status.h"

#ifdef SCALAI_WITH_EXECUTOR
#include "apps/exec/reader_step.h"
#include "executor/live/live_stats.h"
#endif

namespace scalai::apps {

#ifndef SCALAI_WITH_EXECUTOR

absl::StatusOr<std::unique_ptr<LiveSource>> LiveSource::open(const std::string&, const LiveQuestion&) {
  return missing("running jobs need the executor, without which this program was built");
}

#else

namespace {

class RunningSource final : public LiveSource {
 public:
  explicit RunningSource(std::unique_ptr<ReaderStep> step) : step_(std::move(step)) {}
  const std::shared_ptr<const store::Checkpoint>& checkpoint() const override { return step_->step().checkpoint(); }
  absl::StatusOr<std::vector<store::TensorStats>> stats(const std::vector<size_t>& tensors) const override {
    return executor::stats_of_step(step_->step(), tensors);
  }

 private:
  const std::unique_ptr<ReaderStep> step_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LiveSource>> LiveSource::open(const std::string& run, const LiveQuestion& question) {
  SCALAI_ASSIGN_OR_RETURN(
      std::unique_ptr<ReaderStep> step,
      ReaderStep::open(run, question.job, {.optimizer = question.optimizer, .stats = !question.elements}));
  return std::make_unique<RunningSource>(std::move(step));
}

#endif

}  // namespace scalai::apps
