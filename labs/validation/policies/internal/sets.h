#pragma once
// The reference sets, a file each, and what they share. `data` is the folder of public data.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "labs/validation/policies/validation.h"
#include "sim/jobs/engine.h"

namespace scalai::policy::validation {

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
// Small cases against small/; no data.
Rows small_orders(const std::string& data);
Rows small_shares(const std::string& data);
Rows small_deadlines(const std::string& data);
Rows small_markets(const std::string& data);

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
  const Availability* availability = nullptr;  // null: all hosts are always up
  double change_s = -1;                        // >= 0: of every start and change, in place of the preset
  double until_s = kNever;
  jobs::Watcher watcher = {};
};
absl::StatusOr<Outcome> run_policy(const PolicyRun& run);
// The same with a policy that is there.
absl::StatusOr<Outcome> run_policy(const PolicyRun& run, Policy& policy);

// Hosts of `gpus_per_host` GPUs for each (type, GPUs).
Fleet fleet_of(const std::vector<std::pair<std::string, int>>& types, int gpus_per_host);

// From submission to the end, of the jobs that finished, by id.
std::vector<double> completion_times_s(const Workload& workload, const Outcome& outcome);
double mean(const std::vector<double>& values);

// Rates by Job::batch, type and GPUs - 1; 0 where there is none.
class RatesByJob : public Throughput {
 public:
  using Rates = std::vector<std::vector<std::vector<double>>>;
  explicit RatesByJob(Rates rates) : rates_(std::move(rates)) {}
  Rate rate(const Job& job, GpuType type, int gpus, double work_done) const override;
  std::string description() const override { return "rates by job"; }

 private:
  Rates rates_;
};

// Numbers of two players, one by one.
class Tally {
 public:
  // `within`: so near they are equal.
  void add(double reference, double ours, double within);
  // Two rows of `policy`: how many are equal, of how many (exact); and the sums, to `tolerance`.
  void rows(const std::string& set, const std::string& policy, const std::string& cases, const std::string& unit,
            double tolerance, std::vector<ReferenceRow>& out) const;

 private:
  int64_t count_ = 0, equal_ = 0;
  double reference_ = 0, ours_ = 0;
};

}  // namespace scalai::policy::validation
