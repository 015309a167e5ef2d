#pragma once
// The model of a job of a workload, for the parallelizer and the planner: a catalogue model, or one from a scenario,
// with batch, precision, optimizer and the free choices of the search. Values; one thread at a time.
//
// Defaults for facts that a trace lacks, printed by describe(): bf16 with Adam, the model's own sequence, 1F1B, flash
// attention, ZeRO stage 1, recomputation and micro-batch chosen by the search, a batch of default_batch() samples.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/cost/step/search.h"
#include "ptc/run/policy/job.h"
#include "ptc/state/model/model.h"

namespace scalai::jobs {

struct JobModel {
  std::string name;        // for reports: the catalogue's name, or the scenario's job
  model::Model model;      // its tensors move in changes
  step::ModelShape shape;  // for the step time
  model::Recipe recipe;
  step::Training training;  // the search chooses micro_batch and recompute unless pinned
  step::Pins pins;
  std::vector<int> micro_batches = {1, 2, 4, 8, 16};  // candidates
};

// Deviations from the defaults. Empty and 0 mean the default.
struct JobModelSpec {
  std::string model;  // catalogue name
  int64_t global_batch = 0;
  int sequence = 0;
  std::string precision, optimizer, schedule, recompute;
  int micro_batch = 0;
  std::string pins;           // a layout name: "tp8,pp16,zero0"
  bool whole_batches = true;  // false: dp need not divide the batch, so any number of replicas is possible
};

// Samples per step with about 1 Mi tokens, rounded to a power of two; 1,024 for models without tokens.
int64_t default_batch(const model::Model& model, int sequence);

// InvalidArgument, all problems, one per line: unknown names (with the nearest), a sequence that the model does not
// support, pins that are no layout.
absl::StatusOr<JobModel> job_model(const JobModelSpec& spec);

// One line: "llama3-8b: batch 128, sequence 8192, bf16, adam, 1f1b, zero 1, micro-batch chosen, recompute chosen".
std::string describe(const JobModel& model);

// The models of the jobs of a workload, by type and batch. Jobs of one type with different batches are different
// models.
class JobModels {
 public:
  // Job::type is a catalogue name unless `by_type` has it; Job::batch > 0 is the batch. `common` has defaults for all.
  // InvalidArgument: errors of job_model, each with its type.
  static absl::StatusOr<JobModels> of(const policy::Workload& workload, const JobModelSpec& common = {},
                                      const std::map<std::string, JobModelSpec>& by_type = {});

  // Adds or replaces the model for jobs of this type and batch.
  void add(const std::string& type, int64_t batch, JobModel model);

  // CHECK: knows(job). The reference is valid until this object changes, moves or ends.
  const JobModel& model_of(const policy::Job& job) const;
  bool knows(const policy::Job& job) const;
  // One line per model.
  std::string description() const;

 private:
  std::map<std::pair<std::string, int64_t>, JobModel> models_;
};

}  // namespace scalai::jobs
