#pragma once
// The way of readers outside of a run to its workers' memories.

#include <memory>

#include "absl/status/statusor.h"
#include "apps/common/runs/run_folder.h"
#include "executor/transport/peer_transport.h"

namespace scalai::apps {

// To workers of other machines, for a run whose state travels by UCX; null: all are here. `answer` is what others get
// that have the run's key; without it nothing. Errors: those of UcxTransport.
absl::StatusOr<std::unique_ptr<executor::transport::PeerTransport>> reader_transport(
    const HowRun& how, const executor::rpc::CtlTarget& target, executor::transport::AnswerHandler answer = {});

}  // namespace scalai::apps
