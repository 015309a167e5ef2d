#pragma once
// What a job of a workload trains, as the parallelizer and the planner need it: a catalogue model (or one that a
// scenario gives) with batch, precision, optimizer and what the search may choose. Values.
//
// What a trace does not say has these defaults, which describe() prints: bf16 with Adam, the model's own sequence,
// 1F1B, flash attention, ZeRO stage 1, recomputation and micro-batch as the search finds best, a batch of
// default_batch() samples.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/model/model.h"
#include "ptc/parallel/search.h"
#include "ptc/sched/job.h"

namespace scalai::sched {

struct JobModel {
  std::string name;            // for reports: the catalogue's name, or the scenario's job
  model::Model model;          // whose tensors move
  parallel::ModelShape shape;  // whose steps are priced
  model::Recipe recipe;
  parallel::Training training;  // micro_batch and recompute are chosen unless pinned
  parallel::Pins pins;
  std::vector<int> micro_batches = {1, 2, 4, 8, 16};  // that may be tried
};

// What differs from the defaults. Empty and 0: the default.
struct JobModelSpec {
  std::string model;  // catalogue name
  int64_t global_batch = 0;
  int sequence = 0;
  std::string precision, optimizer, schedule, recompute;
  int micro_batch = 0;
  std::string pins;           // a layout name: "tp8,pp16,zero0"
  bool whole_batches = true;  // false: dp need not divide the batch, so that any number of replicas will do
};

// Samples a step that make 1 Mi tokens, rounded to a power of two; 1,024 samples without tokens.
int64_t default_batch(const model::Model& model, int sequence);

// Errors (InvalidArgument), all of them, one a line: unknown names (with the nearest), a sequence that the model does
// not take, pins that are no layout.
absl::StatusOr<JobModel> job_model(const JobModelSpec& spec);

// One line: "llama3-8b: batch 128, sequence 8192, bf16, adam, 1f1b, zero 1, micro-batch chosen, recompute chosen".
std::string describe(const JobModel& model);

// The models of a workload's jobs, by type and batch. Jobs of one type with different batches are different models.
class JobModels {
 public:
  // Job::type is a catalogue name unless `by_type` says what a type is; Job::batch > 0 is its batch. `common` are
  // defaults for all. Errors: job_model's, each with the type it is about.
  static absl::StatusOr<JobModels> of(const Workload& workload, const JobModelSpec& common = {},
                                      const std::map<std::string, JobModelSpec>& by_type = {});

  // One that a scenario gives in full; for jobs of this type and batch.
  void add(const std::string& type, int64_t batch, JobModel model);

  // CHECK: of() or add() knows it. The reference holds as long as this object is not changed.
  const JobModel& model_of(const Job& job) const;
  bool knows(const Job& job) const;
  // A line a model.
  std::string description() const;

 private:
  std::map<std::pair<std::string, int64_t>, JobModel> models_;
};

}  // namespace scalai::sched
