#pragma once
// Recovery designs by name with their options: a scenario's `recovery { design set throughputs costs … }` as a
// RecoverySetup.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/sched/recovery/recovery.h"
#include "ptc/sched/trace/import.h"

namespace scalai::sched {

struct RecoveryInfo {
  std::string name;  // "templates"
  RecoveryDesign design;
  std::string summary;               // one line
  std::string source;                // "Oobleck, SOSP'23"
  std::vector<TraceOption> options;  // of `set`; those of all designs among them
};

// All of them, in the order they are documented.
const std::vector<RecoveryInfo>& recovery_designs();

struct RecoveryRequest {
  std::string design;
  std::vector<std::string> set;   // "model=GPT-3-6.7b", "spares=2"
  std::string throughputs;        // CSV of host_tables.h; "" = samples_per_s below. Of proactive: layouts
  std::string costs;              // CSV of host_tables.h; "published" = constants of the design; "" = change_s below
  std::string checkpoint_period;  // "10min", "young-daly"; "" = none, or every 10 steps where the rules are published
  std::string checkpoint_write;   // "15.8s"; "" = what the costs say, else 0

  // Where no table is named: computed by the caller.
  std::function<double(int hosts)> samples_per_s;
  std::function<double(const HostChange&)> change_s;
  std::function<bool(const HostChange&)> state_survives;
  double samples_per_step = 0;  // 0 = what the costs or the option `batch` say

  const Availability* availability = nullptr;  // outlives the setup
  int hosts = 0;
  double until_s = 0;  // 0 = the last event
  int gpus_per_host = 1;
  double usd_per_host_hour = 0;
};

// Errors: InvalidArgument with all problems: unknown design, option or model (with the closest or those there are),
// values that are none, young-daly without failures, a design without throughput or cost; errors of the tables.
absl::StatusOr<RecoverySetup> make_recovery(const RecoveryRequest& request);

// Mean seconds between the moments at which hosts are lost, up to `until_s` (0 = the last event); kNever without any.
double mean_time_between_losses_s(const Availability& availability, double until_s);

}  // namespace scalai::sched
