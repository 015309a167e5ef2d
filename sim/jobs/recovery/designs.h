#pragma once
// Recovery designs by name, with their options: converts a scenario's `recovery { design set throughputs costs … }` to
// a RecoverySetup. Free functions; any thread.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/scenario/trace/import.h"
#include "sim/jobs/recovery/recovery.h"

namespace scalai::jobs {

struct RecoveryInfo {
  std::string name;  // "templates"
  RecoveryDesign design;
  std::string summary;                      // one line
  std::string source;                       // "Oobleck, SOSP'23"
  std::vector<trace::TraceOption> options;  // for `set`, including the options of all designs
};

// All designs, in the order of the documentation. The reference is valid for the whole process.
const std::vector<RecoveryInfo>& recovery_designs();

struct RecoveryRequest {
  std::string design;
  std::vector<std::string> set;   // "model=GPT-3-6.7b", "spares=2"
  std::string throughputs;        // CSV of host_tables.h (proactive: layouts); "" = samples_per_s below
  std::string costs;              // CSV of host_tables.h; "" = change_s below
  std::string checkpoint_period;  // "10min", "young-daly"; "" = in the time of as many steps as the costs say, else 10
  std::string checkpoint_write;   // "15.8s"; "" = from the costs, else 0

  // Computed by the caller, if no table is named.
  std::function<double(int hosts)> samples_per_s;
  std::function<double(const HostChange&)> change_s;
  double detect_s = 0;  // with change_s: until a loss is noticed, unless the option `detect` says it
  std::function<bool(const HostChange&)> state_survives;
  std::function<double(const HostChange&)> leave_s;
  double samples_per_step = 0;  // 0 = from the costs or the option `batch`

  const policy::Availability* availability = nullptr;  // outlives the setup
  int hosts = 0;
  double until_s = 0;  // 0 = the last event
  int gpus_per_host = 1;
  double usd_per_host_hour = 0;
};

// InvalidArgument with all problems: unknown design, option or model (with the closest or the known ones), malformed
// values, young-daly without failures, a design without throughput or cost; errors of the tables.
absl::StatusOr<RecoverySetup> make_recovery(const RecoveryRequest& request);

// Mean seconds between losses of hosts, up to `until_s` (0 = the last event); losses at one moment count once. kNever
// without losses.
double mean_time_between_losses_s(const policy::Availability& availability, double until_s);

}  // namespace scalai::jobs
