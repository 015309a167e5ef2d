#pragma once
// Runs one change several times on the workers of a pool. The state is created once, then
//
//   prepare → rounds, hop by hop (timed) → verify every element → forget the new epoch
//
// as in a job (executor/controller/job_work.h). Nothing is committed, so each repetition starts alike: new memory,
// which reads as zeros, and the unchanged old epoch. All state is forgotten at the end. One thread.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/bench/cases.h"
#include "executor/controller/worker_pool.h"
#include "ptc/plan/plan.h"

namespace scalai::executor::bench {

struct Runs {
  double first_s = 0;              // transfer of the first repetition, with new mappings
  std::vector<double> transfer_s;  // of the others, in order; all rounds, as measured by the controller
  std::vector<double> prepare_s;   // of the same repetitions
  std::vector<double> verify_s;    // of the same repetitions: every element of the new epoch
  int64_t errors = 0;              // wrong pieces, over all repetitions
  std::string first_error;         // the first of these
};

// repetitions >= 1, after the first one. Errors: those of WorkerPool::call.
absl::StatusOr<Runs> run_case(controller::WorkerPool& pool, const Case& one, const plan::Plan& plan, int repetitions);

// Runs a change and its way back several times, with commits, for plans that free the old epoch early. `there.from` is
// created once; `back` leads to it again. One entry for each of the two.
absl::StatusOr<std::pair<Runs, Runs>> run_there_and_back(controller::WorkerPool& pool, const Case& there,
                                                         const plan::Plan& plan_there, const Case& back,
                                                         const plan::Plan& plan_back, int repetitions);

}  // namespace scalai::executor::bench
