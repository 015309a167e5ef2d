#pragma once
// How fast a job runs on given GPUs: the seam behind which measured tables, goodput models, the parallelizer's model
// and simulated iterations are interchangeable. Sources are immutable to their users: const calls, same answer for the
// same question (they may cache). One thread.

#include <string>
#include <utility>

#include "ptc/sched/fleet.h"
#include "ptc/sched/job.h"

namespace scalai::sched {

struct Rate {
  double per_s = 0;            // iterations per second; 0 = cannot run there
  double until_work = kNever;  // the rate holds until so much of the job's work is done (goodput changes as it trains)
};

class Throughput {
 public:
  virtual ~Throughput() = default;

  // Of `job` on `gpus` GPUs of a type, on as few hosts as they fit on. `work_done` in [0, job.work).
  virtual Rate rate(const Job& job, GpuType type, int gpus, double work_done) const = 0;

  // The same for GPUs as placed. Default: where they lie makes no difference.
  virtual Rate placed_rate(const Job& job, const Placement& placement, double work_done) const {
    return rate(job, placement.type, placement.gpus(), work_done);
  }

  // Two jobs that share the same `gpus` GPUs of a type: iterations per second of each; (0, 0) = they cannot.
  virtual std::pair<double, double> shared_rate(const Job& /*a*/, const Job& /*b*/, GpuType /*type*/,
                                                int /*gpus*/) const {
    return {0, 0};
  }

  // What it is and the rule it goes by where it knows no measurement, for reports: "table gavel, beyond it: refuse".
  virtual std::string description() const = 0;
};

}  // namespace scalai::sched
