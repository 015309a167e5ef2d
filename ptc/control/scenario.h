#pragma once
// A scenario, loaded and validated: what load_scenario() hands to the control loop. All cross-references are resolved
// (devices instead of hosts, links that exist, layouts that fit the model), all quantities are in bytes and seconds.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/ids.h"
#include "ptc/collection/layout_name.h"
#include "ptc/data/state.h"
#include "ptc/model/model.h"
#include "ptc/model/scaling.h"
#include "ptc/parallel/search.h"
#include "ptc/parallel/training.h"
#include "ptc/plan/cluster.h"

namespace scalai::control {

// One configuration of a job.
struct ParallelChoice {
  collection::ParallelConfig config;
  double step_s = 0;  // seconds per step; 0 = ask the step-time model
  std::optional<parallel::Training>
      training;  // a chosen one has its own micro-batch and recomputation; absent = the job's
  friend bool operator==(const ParallelChoice& a, const ParallelChoice& b) {
    const auto own = [](const std::optional<parallel::Training>& t) {
      return t ? std::pair(t->micro_batch, static_cast<int>(t->recompute)) : std::pair(0, 0);
    };
    return a.config == b.config && a.step_s == b.step_s && own(a.training) == own(b.training);
  }
};

// `parallel: choose`: how the control loop looks for a configuration at each event.
struct ChoosePolicy {
  parallel::Objective objective = parallel::Objective::kThroughput;
  parallel::Pins pins;      // given micro_batch and recompute among them
  std::string pins_text;    // their layout name, canonical; "" = none
  double horizon_s = 3600;  // pay-off: how long a configuration is thought to last
  std::vector<int> micro_batches = {1, 2, 4, 8, 16};
};

struct CheckpointPolicy {
  int64_t every_steps = 0;  // 0 = none
  bool host_memory_copy = false;
};

struct RedundancyPolicy {
  int copies = 0;
  bool other_host = true;
  int64_t every_steps = 1;
};

// What a job reads.
struct DatasetSpec {
  data::State state;       // before step 0
  std::string index;       // file as the scenario names it; "" = samples have no content
  std::string index_path;  // the same as seen from where this process runs
};

// Who gets which GPUs: a policy of ptc/sched/policies/catalogue.h, or a program (ptc/sched/policies/external).
struct PolicySpec {
  std::string name;              // "" = the program
  std::vector<std::string> set;  // parameters: "round=360s"
  std::string exec;              // "" = the named one
  std::string folder;            // where the program runs, as seen from here: that of the scenario
  double timeout_s = 10;         // for one answer of the program
};

struct JobSpec {
  std::string name;
  model::Model model;          // scaled by the scenario's scale_model
  parallel::ModelShape shape;  // before that: steps take as long as this one's, and choices are made for it
  double state_ratio = 1;      // its state's bytes over those of `model`
  model::Recipe recipe;
  parallel::Training training;
  int gpus = 0;                      // wanted at the start
  std::vector<DeviceId> devices;     // or exactly these, in rank order (then gpus = devices.size())
  double submit_s = 0;               // when it arrives
  int min_gpus = 0;                  // a policy gives none, or a number from here …
  int max_gpus = 0;                  // … to here; both are `gpus` unless the scenario says
  double weight = 1;                 // share it is entitled to, relative to others
  std::optional<double> deadline_s;  // when it should be done, from the scenario's start
  // Listed: at least one, distinct GPU counts. With `choose` just one: what the job starts with when it gets the GPUs it
  // asks for.
  std::vector<ParallelChoice> configs;
  std::optional<ChoosePolicy> choose;
  int64_t steps = 0;  // 0 = until the scenario ends
  CheckpointPolicy checkpoint;
  RedundancyPolicy redundancy;
  std::optional<DatasetSpec> dataset;
};

// When an event happens; exactly one alternative.
struct AtTime {
  double at_s = 0;
};
struct AtStep {
  int job = 0;
  int64_t step = 0;
};
struct During {
  int job = 0;
  int reconfiguration = 1;
  int after_round = 0;
  double delay_s = 0;
};
using When = std::variant<AtTime, AtStep, During>;

// What happens. Devices include those of named hosts; links include those of failed hosts' names only when given.
struct Resize {
  int job = 0;
  int gpus = 0;
};
struct Redeploy {
  int job = 0;
  std::vector<DeviceId> devices;
};
struct Fail {
  std::vector<DeviceId> devices;
  std::vector<std::string> links;
};
struct Repair {
  std::vector<DeviceId> devices;
  std::vector<std::string> links;
};
struct Degrade {
  std::vector<std::string> links;
  std::vector<DeviceId> devices;
  double factor = 1;
};
struct Preempt {
  std::vector<DeviceId> devices;
  double notice_s = 0;
};
using What = std::variant<Resize, Redeploy, Fail, Repair, Degrade, Preempt>;

struct ScenarioEvent {
  When when;
  What what;
};

// Overrides of a strategy's cost preset; absent = the preset.
struct CostOverride {
  std::string strategy;  // "" = all
  std::optional<double> detect_s, plan_s, restart_s, allocate_bytes_per_s, verify_bytes_per_s, communicator_s,
      transfer_start_s;
};

struct Expectation {
  std::string metric;    // JSON pointer into summary.json
  std::string strategy;  // "" = the scenario's own
  std::optional<double> at_least, at_most, equals;
  std::optional<std::string> is;
};

// Where step times come from that a scenario does not give.
enum class Compute : uint8_t { kAnalytic, kSimulated };

struct Scenario {
  std::string name;
  std::string description;
  uint64_t seed = 0;
  std::optional<double> until_s;
  plan::Cluster cluster;
  std::vector<JobSpec> jobs;
  std::vector<ScenarioEvent> events;  // in file order, then those of `availability` by time
  std::vector<DeviceId> absent;       // devices that are not there at the start
  std::optional<PolicySpec> policy;   // absent = jobs keep what they ask for, first come, first served
  std::string strategy = "reshard";
  Compute compute = Compute::kAnalytic;
  std::vector<CostOverride> costs;
  int64_t round_bytes = 0;      // 0 = one round; in proportion to the scaled models' state
  int64_t memory_cap = -1;      // bytes a device beyond the larger of old and new state, in proportion too; −1 = none
  model::Fraction scale_model;  // of every job's model (ptc/model/scaling.h); given step times stay the real model's
  std::vector<Expectation> expectations;
  std::string resolved_text;  // the scenario with every default and file written out, as textproto
  std::string digest;         // of resolved_text whatever its strategy: runs of several strategies are of one scenario
};

// Reads, parses (textproto, or JSON when the name ends in ".json" or the first character is '{') and validates a
// scenario. On bad input the status message is the rendered list of all problems (several lines, see
// ptc/base/diagnostics.h). `cluster_file` ("" = none) replaces the scenario's cluster. `scale_model` replaces the
// scenario's own and, where it differs, drops its expectations: they were written for models of another size.
absl::StatusOr<Scenario> load_scenario(const std::string& path, const std::string& cluster_file = "",
                                       const std::optional<model::Fraction>& scale_model = std::nullopt);

// Reads, parses and validates a cluster file (textproto or JSON); on bad input as above.
absl::StatusOr<plan::Cluster> load_cluster(const std::string& path);

// Reads a file that a scenario names (its cluster, a model's config.json); the path is already relative to the scenario.
using FileReader = std::function<absl::StatusOr<std::string>(const std::string& path)>;

// The same for a scenario's text; `file_name` appears in messages, and relative names count from its folder.
absl::StatusOr<Scenario> parse_scenario(const std::string& text, const std::string& file_name, const FileReader& read,
                                        const std::string& cluster_file = "",
                                        const std::optional<model::Fraction>& scale_model = std::nullopt);

// The six strategies a scenario may name, in the order they are documented.
std::vector<std::string> strategy_names();

}  // namespace scalai::control
