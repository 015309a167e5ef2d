#pragma once
// What workers read of a job's dataset, when the control loop says that steps are done.

#include <string>

#include "absl/status/statusor.h"
#include "executor/runtime/crew.h"
#include "ptc/control/events.h"

namespace scalai::executor {

// Has the samples of these steps read, by each data-parallel rank's host; where that is lost by another one in its stead,
// for the steps were done while it lived. `index`: file with the content, as workers find it; "" = samples have none.
// Waits. From any thread, beside anything. Errors: Unavailable or Cancelled (no worker lives, or one was lost on the way:
// to be tried again), those of workers.
absl::StatusOr<control::SamplesRead> read_samples(const control::Scenario& scenario, Crew& crew,
                                                  const std::string& index, const control::Read& read);

}  // namespace scalai::executor
