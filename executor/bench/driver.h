#pragma once
// Runs one change several times on the workers of a crew: the state is made once, then
//
//   prepare → rounds, hop by hop (timed) → verify every element → forget the new epoch
//
// as a job's work does it (runtime/job_work.h). Nothing is committed, so that each time begins alike: new memory, which
// reads as zeros, and the old epoch as it was. Everything is forgotten at the end. One thread.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/bench/cases.h"
#include "executor/runtime/crew.h"
#include "ptc/plan/plan.h"

namespace scalai::executor::bench {

struct Runs {
  double first_s = 0;              // transfer of the first time: mappings are new
  std::vector<double> transfer_s;  // of the others, in order; all rounds, as the controller sees them
  std::vector<double> prepare_s;   // of the same
  std::vector<double> verify_s;    // of the same: every element of the new epoch
  int64_t errors = 0;              // pieces that were not what they should be, over all times
  std::string first_error;         // of these
};

// repetitions >= 1, besides the first time. Errors: those of Crew::call.
absl::StatusOr<Runs> run_case(Crew& crew, const Case& one, const plan::Plan& plan, int repetitions);

// There and back again, several times, each change committed: for plans that free the old epoch early, too. The first
// change's `from` is made once; the second leads back to it. One entry for each of the two.
absl::StatusOr<std::pair<Runs, Runs>> run_there_and_back(Crew& crew, const Case& there, const plan::Plan& plan_there,
                                                         const Case& back, const plan::Plan& plan_back,
                                                         int repetitions);

}  // namespace scalai::executor::bench
