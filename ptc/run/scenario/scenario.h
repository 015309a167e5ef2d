#pragma once
// A loaded and validated scenario: the input of the control loop, or of sim/jobs. All cross-references are resolved
// (devices instead of hosts, existing links, layouts that fit the model), all quantities are in bytes and seconds.
// Plain values; the functions keep no state, any thread may call them.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/ids.h"
#include "ptc/cluster/cluster.h"
#include "ptc/cost/change/setup.h"
#include "ptc/cost/step/search.h"
#include "ptc/cost/step/software.h"
#include "ptc/cost/step/training.h"
#include "ptc/run/scenario/many_jobs.h"
#include "ptc/state/collection/collection.h"
#include "ptc/state/collection/layout_name.h"
#include "ptc/state/model/model.h"
#include "ptc/state/model/scaling.h"
#include "ptc/store/datasets/state.h"

namespace scalai::scenario {

// One configuration of a job.
struct ParallelChoice {
  collection::ParallelConfig config;
  double step_s = 0;  // seconds per step; 0 = from the step-time model
  // A chosen configuration has its own micro-batch and recomputation; absent = those of the job.
  std::optional<step::Training> training;
  std::string idle;  // of a chosen one: why it leaves devices idle (SearchResult::idle)
  // The state in this configuration, of a job without a model; null: that of the job's model
  // (ptc/run/scenario/job_state.h).
  std::shared_ptr<const collection::Collection> collection;
  friend bool operator==(const ParallelChoice& a, const ParallelChoice& b) {
    const auto own = [](const std::optional<step::Training>& t) {
      return t ? std::tuple(t->global_batch, t->micro_batch, t->recompute) : std::tuple(0, 0, step::Recompute::kNone);
    };
    return a.config == b.config && a.step_s == b.step_s && own(a.training) == own(b.training) &&
           a.collection == b.collection;
  }
};

// `parallel: choose`: the search for a configuration at each event.
struct ChoosePolicy {
  step::Objective objective = step::Objective::kThroughput;
  step::Pins pins;          // given micro_batch and recompute included
  std::string pins_text;    // their canonical layout name; "" = none
  double horizon_s = 3600;  // pay-off: expected time that a configuration lasts
  std::vector<int> micro_batches = {1, 2, 4, 8, 16};
  double batch_tolerance = 0;  // share by less than which the global batch may change
};

struct CheckpointPolicy {
  int64_t every_steps = 0;  // 0 = none
  bool host_memory_copy = false;
  bool before_change = true;  // one more where a planned change restarts from it, or leaves the job without devices
};

struct RedundancyPolicy {
  int copies = 0;
  bool other_host = true;
  int64_t every_steps = 1;
};

// The dataset of a job.
struct DatasetSpec {
  datasets::State state;   // before step 0
  std::string index;       // index file, as in the scenario; "" = samples have no content
  std::string index_path;  // the same file, relative to the working directory
};

// The policy that gives GPUs to jobs: one of ptc/run/policy/policies/catalogue.h, or a program
// (ptc/run/policy/policies/external).
struct PolicySpec {
  std::string name;              // "" = a program
  std::vector<std::string> set;  // parameters: "round=360s"
  std::string exec;              // command of the program; "" = the policy `name`
  std::string folder;            // working directory of the program: the scenario's folder, relative to ours
  double timeout_s = 10;         // for one answer of the program
};

struct JobSpec {
  std::string name;
  std::string model_config;  // content of the file that describes the model; "" = a model of the catalogue
  model::Model model;        // scaled by scale_model of the scenario; empty if configurations name their collections
  step::ModelShape shape;    // of the model before scaling; step times and choices follow it
  double state_ratio = 1;    // bytes of the unscaled state / bytes of the state of `model`
  model::Recipe recipe;
  step::Training training;
  std::string software;  // that trains: "megatron-core-0.16"; "" = of a model that is no transformer
  step::Given given = step::Given::kNothing;  // of it
  int gpus = 0;                               // number at the start
  std::vector<DeviceId> devices;              // or exactly these, in rank order (then gpus = devices.size())
  double submit_s = 0;                        // arrival
  int min_gpus = 0;                           // a policy gives 0 GPUs, or a number from min_gpus …
  int max_gpus = 0;                           // … to max_gpus; both default to `gpus`
  double weight = 1;                          // entitled share, relative to other jobs
  std::optional<double> deadline_s;           // from the scenario's start
  // Listed configurations: at least one, with distinct GPU counts. With `choose` exactly one: the start configuration
  // for the requested number of GPUs.
  std::vector<ParallelChoice> configs;
  std::optional<ChoosePolicy> choose;
  int64_t steps = 0;  // 0 = until the end of the scenario
  CheckpointPolicy checkpoint;
  RedundancyPolicy redundancy;
  std::optional<DatasetSpec> dataset;
};

// Time of an event; exactly one alternative.
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

// The event. Devices include those of named hosts; links include only the links that the scenario names.
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
  bool hangs = false;                // devices stand still, which takes longer to notice than that they are gone
  bool leave = false;                // jobs leave hosts that the links cut off
  std::optional<double> expected_s;  // so long the links are thought to be down; nothing: nobody knows
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

// Overrides of a strategy's cost preset; absent fields keep the preset.
struct CostOverride {
  std::string strategy;  // "" = all
  std::optional<const change::Stack*> stack;
  std::optional<double> detect_s, hang_s, plan_s, restart_s, allocate_bytes_per_s, verify_bytes_per_s, communicator_s,
      transfer_start_s, box_s, peer_s, compile_s;
};

struct Expectation {
  std::string metric;    // JSON pointer into summary.json
  std::string strategy;  // "" = the strategy of the scenario
  std::optional<double> at_least, at_most, equals;
  std::optional<std::string> is;
};

// Source of step times that the scenario does not give.
enum class Compute : uint8_t { kAnalytic, kSimulated };

struct Scenario {
  std::string name;
  std::string description;
  uint64_t seed = 0;
  std::optional<double> until_s;
  cluster::Cluster cluster;
  std::shared_ptr<ManyJobs> many_jobs;  // of `workload` and `recovery`, else null: the control loop does not run them
  std::vector<JobSpec> jobs;
  std::vector<ScenarioEvent> events;  // in file order, then those of `availability` by time
  std::vector<DeviceId> absent;       // devices that are away at the start
  std::optional<PolicySpec> policy;   // absent = first come, first served; jobs keep their requested GPUs. Of
                                      // `recovery`: the design
  std::string strategy = "reshard";
  Compute compute = Compute::kAnalytic;
  std::vector<CostOverride> costs;
  int64_t round_bytes = 0;  // maximum bytes of a round, scaled with the models' state; 0 = one round
  // Maximum bytes of a device beyond the larger of its old and new state, scaled likewise; −1 = none.
  int64_t memory_cap = -1;
  model::Fraction
      scale_model;  // of every job's model (ptc/state/model/scaling.h); given step times stay the real model's
  std::vector<Expectation> expectations;
  std::string folder;         // of the files and programs that it names, from the working directory; "" = it names none
  std::string resolved_text;  // the scenario with all defaults and files written out, as textproto; without its folder
  std::string digest;         // of resolved_text without its strategy: equal for runs of several strategies
};

// A resolved scenario has the collections of its jobs.
inline constexpr int64_t kMaxFileBytes = int64_t{64} << 20;

struct LoadOptions {
  std::vector<std::string> settings;           // replace fields of the file (scenario_set.h)
  std::string cluster_file;                    // replaces the scenario's cluster; "" = none
  std::optional<model::Fraction> scale_model;  // replaces that of the scenario
  Engine* engine = nullptr;                    // null: `workload` and `recovery` are problems
  const std::string* text = nullptr;           // of the file, where the caller has read it
};

// Reads, parses (textproto, or JSON if the name ends in ".json" or the first character is '{') and validates a
// scenario. The expectations of the file hold for it as it is: with settings, or another scale_model, they are dropped.
// Each file may have kMaxFileBytes. InvalidArgument: the rendered list of all problems (several lines, see
// ptc/base/diagnostics.h). FailedPrecondition (exit code 4): the only problems are missing traces or tables; the
// message describes them and their origin.
absl::StatusOr<Scenario> load(const std::string& path, const LoadOptions& options = {});

// Reads, parses and validates a cluster file (textproto or JSON). Errors as above.
absl::StatusOr<cluster::Cluster> load_cluster(const std::string& path);

// Reads a file that a scenario names (its cluster, a model's config.json). `path` is already relative to the scenario.
using FileReader = std::function<absl::StatusOr<std::string>(const std::string& path)>;

// The same for the text of a scenario. `file_name` appears in messages, and its folder is the base of relative names,
// unless the scenario names another.
// `read` is used during the call only.
absl::StatusOr<Scenario> parse_scenario(const std::string& text, const std::string& file_name, const FileReader& read,
                                        const LoadOptions& options = {});

// A resolved text with another name in its "strategy" line. Expectations that name a strategy keep it.
std::string with_strategy(const std::string& resolved_text, const std::string& strategy);

// A resolved text as a file in `target`: its "folder" line leads from there to `folder`, the Scenario's. Links are
// followed; both are from the working directory.
std::string text_in_folder(const std::string& resolved_text, const std::string& folder, const std::string& target);

// The six strategies of a scenario, in the order of the documentation.
std::vector<std::string> strategy_names();

}  // namespace scalai::scenario
