#include <fmt/format.h>

#include "apps/checkpoint/commands.h"
#include "apps/common/runs/reader_step.h"
#include "apps/exec/exec_commands.h"
#include "executor/cuda/step_device.h"
#include "executor/live/live_stats.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

class RunningSource final : public LiveSource {
 public:
  explicit RunningSource(std::unique_ptr<ReaderStep> step) : step_(std::move(step)) {}
  const std::shared_ptr<const store::Checkpoint>& checkpoint() const override { return step_->step().checkpoint(); }
  absl::StatusOr<std::vector<store::TensorStats>> stats(const std::vector<size_t>& tensors) const override {
    return executor::live::stats_of_step(step_->step(), tensors);
  }

 private:
  const std::unique_ptr<ReaderStep> step_;
};

absl::StatusOr<std::unique_ptr<LiveSource>> open_run(const std::string& run, const LiveQuestion& question) {
  SCALAI_ASSIGN_OR_RETURN(
      std::unique_ptr<ReaderStep> step,
      ReaderStep::open(run, question.job, {.optimizer = question.optimizer, .stats = !question.elements}));
  return std::make_unique<RunningSource>(std::move(step));
}

absl::StatusOr<std::shared_ptr<transform::Device>> first_gpu() {
  auto device = executor::cuda::make_step_device({});
  if (device.ok()) return device;
  return absl::Status(device.status().code(), fmt::format("--backend=cuda: {}", message_of(device.status())));
}

}  // namespace

std::vector<Command> exec_checkpoint_commands() { return {stats_command(open_run), reshard_command(first_gpu)}; }

}  // namespace scalai::apps
