#pragma once
// Goodput as a throughput source: progress per second of measured applications (profiles.h) with the batch that is best
// for the GPUs they have, or with the batch the job came with. Progress, and with it Job::work, counts iterations at
// the application's initial batch; Rate::until_work is the end of the epoch under way, for the gradient noise is
// measured by epoch.
//
//   goodput = gain(batch, epoch) / (step + accumulation x (step - sync))          Pollux, OSDI'21, section 3

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/sched/policies/goodput/profiles.h"
#include "ptc/sched/throughput.h"

namespace scalai::sched {

enum class BatchMode : uint8_t {
  kAdaptive,  // the best of 50 batches from the initial to the largest one, by placement and epoch (Pollux, Sia)
  kFixed,     // Job::batch whatever the GPUs (Tiresias, Optimus); 0 = the initial one
};

// A goodput source tells more than a rate: what a job measures while it trains, for policies that fit their own model
// of it.
class GoodputSource : public Throughput {
 public:
  // Null when the job's application is not known.
  virtual const Application* application(const Job& job) const = 0;
  // The batch that Throughput's rate holds for; {0, 0} = cannot run there.
  virtual BatchCut batch(const Job& job, const Placement& placement, double work_done) const = 0;
};

// The cuts worth trying on `replicas` GPUs: 50 global batches in geometric steps, each once; empty when even the
// smallest local batch is too much.
std::vector<BatchCut> adaptive_cuts(const Application& application, int replicas);

// `folder` holds one folder an application (see profiles.h). Errors: profiles not there; a job type they do not know
// (all of them are named); hosts of more than 4 GPUs or of several types (the profiles are of one type, up to 4 GPUs a
// node). Jobs whose batch is pinned in the authors' simulator (ncf: 32768 on one GPU) keep it in both modes.
absl::StatusOr<std::unique_ptr<GoodputSource>> pollux_throughput(const std::string& folder, const Fleet& fleet,
                                                                 const Workload& workload, BatchMode mode);

// What the workload's CSV lacks: `work` (the application's progress at the end of its last epoch) and how elastic a job
// is: min_gpus 1; max_gpus, adaptive: largest batch / smallest local batch, at most 64; fixed: its batch / smallest
// local batch; ncf: 1. Errors as above.
absl::Status pollux_set_work(const std::string& folder, BatchMode mode, Workload* workload);

}  // namespace scalai::sched
