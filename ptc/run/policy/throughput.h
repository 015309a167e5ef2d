#pragma once
// The rate of a job on given GPUs. Behind this interface measured tables, goodput models, the parallelizer's model and
// simulated iterations are interchangeable. Equal questions have equal answers; a source may cache, so one thread at a
// time.

#include <string>
#include <utility>

#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"

namespace scalai::policy {

struct Rate {
  double per_s = 0;            // iterations per second; 0 = cannot run there
  double until_work = kNever;  // the rate holds until this much of the job's work is done (goodput changes over time)
};

class Throughput {
 public:
  virtual ~Throughput() = default;

  // Rate of `job` on `gpus` GPUs of a type, on as few hosts as possible. `work_done` in [0, job.work).
  virtual Rate rate(const Job& job, GpuType type, int gpus, double work_done) const = 0;

  // The same for placed GPUs. Default: the placement has no effect.
  virtual Rate placed_rate(const Job& job, const Placement& placement, double work_done) const {
    return rate(job, placement.type, placement.gpus(), work_done);
  }

  // Two jobs on the same `gpus` GPUs of a type: iterations per second of each; (0, 0) = not possible.
  virtual std::pair<double, double> shared_rate(const Job& /*a*/, const Job& /*b*/, GpuType /*type*/,
                                                int /*gpus*/) const {
    return {0, 0};
  }

  // Kind of the source, and its rule where it has no measurement, for reports: "table gavel, beyond it: refuse".
  virtual std::string description() const = 0;
};

}  // namespace scalai::policy
