#pragma once
// A step of a run that goes on, for programs outside of it: the way to its workers' memories, and the step, which stays
// as it is while this lives. One thread.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/live/live_run.h"
#include "executor/transport/peer_transport.h"

namespace scalai::apps {

class ReaderStep {
 public:
  // The last step of a job ("": the only one). `run`: its --out folder; the rest of `options` says what is wanted of
  // the step. Errors: NotFound (no run goes on there), those of executor::LiveRun::newest.
  static absl::StatusOr<std::unique_ptr<ReaderStep>> open(const std::string& run, const std::string& job,
                                                          executor::live::LiveOptions options);
  const executor::live::LiveStep& step() const { return *step_; }

 private:
  ReaderStep(std::unique_ptr<executor::transport::PeerTransport> transport, executor::live::LiveOptions options);
  const std::unique_ptr<executor::transport::PeerTransport> transport_;
  executor::live::LiveRun run_;
  std::shared_ptr<const executor::live::LiveStep> step_;
};

}  // namespace scalai::apps
