#pragma once
// Reading of a job's dataset by workers, after the control loop reports finished steps.

#include <string>

#include "absl/status/statusor.h"
#include "executor/controller/worker_pool.h"
#include "ptc/run/control/events.h"

namespace scalai::executor::controller {

// Lets workers read the samples of these steps: the host of each data-parallel rank, or another host if that one is
// lost, because the steps were done while it lived. `index`: index file of the content, as workers find it; "" =
// samples without content. Blocks. Any thread, concurrently with other calls. Unavailable or Cancelled: no worker
// lives, or one was lost during the call; retry. Other errors: those of workers.
absl::StatusOr<control::SamplesRead> read_samples(const scenario::Scenario& scenario, WorkerPool& pool,
                                                  const std::string& index, const control::Read& read);

}  // namespace scalai::executor::controller
