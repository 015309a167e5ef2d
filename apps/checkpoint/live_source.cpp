#include "apps/checkpoint/live_source.h"

#include "ptc/base/status.h"

#ifdef SCALAI_WITH_EXECUTOR
#include "apps/exec/reader_transport.h"
#include "apps/exec/run_folder.h"
#include "executor/live/live_run.h"
#include "executor/live/live_stats.h"
#endif

namespace scalai::apps {

#ifndef SCALAI_WITH_EXECUTOR

absl::StatusOr<std::unique_ptr<LiveSource>> LiveSource::open(const std::string&, const LiveQuestion&) {
  return missing("running jobs need the executor, without which this program was built");
}

#else

namespace {

namespace ex = scalai::executor;

class RunSource final : public LiveSource {
 public:
  RunSource(std::unique_ptr<ex::PeerTransport> transport, ex::LiveOptions options)
      : transport_(std::move(transport)), run_([&] {
          options.transport = transport_.get();
          return options;
        }()) {}

  absl::Status take(const std::string& job) {
    SCALAI_ASSIGN_OR_RETURN(step_, run_.newest(job));
    return absl::OkStatus();
  }
  const std::shared_ptr<const checkpoint::Checkpoint>& checkpoint() const override { return step_->checkpoint(); }
  absl::StatusOr<std::vector<checkpoint::TensorStats>> stats(const std::vector<size_t>& tensors) const override {
    return ex::stats_of_step(*step_, tensors);
  }

 private:
  const std::unique_ptr<ex::PeerTransport> transport_;
  ex::LiveRun run_;
  std::shared_ptr<const ex::LiveStep> step_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LiveSource>> LiveSource::open(const std::string& run, const LiveQuestion& question) {
  const RunFolder folder(run);
  SCALAI_ASSIGN_OR_RETURN(const ex::CtlTarget target, folder.target());
  SCALAI_ASSIGN_OR_RETURN(const HowRun how, folder.how());
  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<ex::PeerTransport> transport, reader_transport(how, target));
  auto source = std::make_unique<RunSource>(
      std::move(transport),
      ex::LiveOptions{
          .target = target, .place = folder.path(), .optimizer = question.optimizer, .stats = !question.elements});
  SCALAI_RETURN_IF_ERROR(source->take(question.job));
  return source;
}

#endif

}  // namespace scalai::apps
