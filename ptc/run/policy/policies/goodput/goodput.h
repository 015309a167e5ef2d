#pragma once
// Goodput as a throughput source: progress per second of measured applications (profiles.h), with the best batch for
// their GPUs or with the job's own batch. Progress, and with it Job::work, counts iterations at the application's
// initial batch. Rate::until_work is the end of the current epoch, because the gradient noise is measured by epoch.
//
//   goodput = gain(batch, epoch) / (step + accumulation × (step − sync))          Pollux, OSDI'21, section 3

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/run/policy/policies/goodput/profiles.h"
#include "ptc/run/policy/throughput.h"

namespace scalai::policy {

enum class BatchMode : uint8_t {
  kAdaptive,  // the best of 50 batches from the initial to the largest one, by placement and epoch (Pollux, Sia)
  kFixed,     // Job::batch on any GPUs (Tiresias, Optimus); 0 = the initial one
};

// A goodput source also gives the measurements of a training job, for policies that fit their own model to them.
class GoodputSource : public Throughput {
 public:
  // Null if the job's application is unknown. The pointer lives as long as the source.
  virtual const Application* application(const Job& job) const = 0;
  // The batch of Throughput's rate; {0, 0} = cannot run there.
  virtual BatchCut batch(const Job& job, const Placement& placement, double work_done) const = 0;
};

// Candidate cuts on `replicas` GPUs: 50 global batches in geometric steps, each once; empty if even the smallest local
// batch is too large.
std::vector<BatchCut> adaptive_cuts(const Application& application, int replicas);

// `folder` holds one folder for each application (profiles.h). NotFound: no profiles. InvalidArgument: unknown job
// types (all are named); hosts with more than 4 GPUs or of several types (the profiles have one type and up to 4 GPUs a
// node). Jobs with a fixed batch in the authors' simulator (ncf: 32768 on one GPU) keep it in both modes. The source
// keeps no reference to fleet and workload.
absl::StatusOr<std::unique_ptr<GoodputSource>> pollux_throughput(const std::string& folder, const Fleet& fleet,
                                                                 const Workload& workload, BatchMode mode);

// Completes a workload from CSV: `work` (the application's progress at the end of its last epoch), min_gpus = 1 and
// max_gpus. Adaptive: max_gpus = largest batch / smallest local batch, at most 64. Fixed: the job's batch / smallest
// local batch. ncf: 1. Errors as above.
absl::Status pollux_set_work(const std::string& folder, BatchMode mode, Workload* workload);

}  // namespace scalai::policy
