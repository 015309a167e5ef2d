#pragma once
// The reference sets, a file each, and what they share. `data` is the folder of public data.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/accuracy/policies/validation.h"
#include "sim/jobs/engine.h"

namespace scalai::sched::validation {

using Rows = absl::StatusOr<std::vector<ReferenceRow>>;

Rows gavel_fairness(const std::string& data);    // G1
Rows gavel_makespan(const std::string& data);    // G2
Rows pollux_workload(const std::string& data);   // G4
Rows recovery_on_spot(const std::string& data);  // G7
Rows recovery_by_rate(const std::string& data);  // G9
Rows philly_orders(const std::string& data);     // G11
Rows llama_failures(const std::string& data);    // G12
Rows bamboo_trace(const std::string& data);      // G16
Rows pop_optima(const std::string& data);        // G18
Rows parcae_choices(const std::string& data);    // Parcae

// data/name; NotFound when it is not there.
absl::StatusOr<std::string> need(const std::string& data, const std::string& name);

struct PolicyRun {
  std::string policy;
  std::vector<std::string> set;  // its parameters
  uint64_t seed = 1;
  std::string changes = "none";  // preset
  const Workload* workload = nullptr;
  const Fleet* fleet = nullptr;
  const Throughput* throughput = nullptr;
};
absl::StatusOr<Outcome> run_policy(const PolicyRun& run);

// Hosts of `gpus_per_host` GPUs for each (type, GPUs).
Fleet fleet_of(const std::vector<std::pair<std::string, int>>& types, int gpus_per_host);

// From submission to the end, of the jobs that finished, by id.
std::vector<double> completion_times_s(const Workload& workload, const Outcome& outcome);
double mean(const std::vector<double>& values);

}  // namespace scalai::sched::validation
