#pragma once
// summary.json as plain structs: what a run did, in numbers. report_numbers.cpp fills them from a report;
// report_summary.cpp turns them into JSON and back, from one list of keys: the only source that knows a JSON library.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/screen.h"
#include "ptc/base/statistics.h"
#include "ptc/report/internal/basis.h"
#include "ptc/report/internal/intervals.h"
#include "ptc/report/internal/moments.h"
#include "ptc/report/report.h"
#include "ptc/report/run_notes.h"

namespace scalai::report {

// Names, layouts and causes in tables are cut to this many columns.
constexpr size_t kNameColumns = 24;

struct AnyPlacementBound {
  int64_t cross_host = 0;
};

struct ReconfigurationSummary {
  int64_t index = 0;
  double at_s = 0;
  std::optional<double> resumed_s;  // null: the job never went on
  std::string cause, from, to;
  int64_t from_gpus = 0, to_gpus = 0;
  int64_t step = 0, rolled_back_steps = 0;
  bool completed = false;
  int64_t aborted_attempts = 0;
  std::string plan_file, plan_digest;  // "": no plan was made
  int64_t rounds = 0;
  plan::ClassBytes bytes, lower_bound_bytes;
  AnyPlacementBound lower_bound_any_placement;
  control::PhaseSeconds phases_s;
  std::optional<control::PhaseSeconds> scenario_phases_s;  // in scenario time, where phases_s is measured
  double pause_s = 0;                                      // all phases
  int64_t survives_host_losses = 0;
};

// Sums over a job's life.
struct JobTotals {
  int64_t reconfigurations = 0;
  int64_t completed = 0, aborted_attempts = 0;
  double pause_s = 0;
  control::PhaseSeconds phases_s;
  plan::ClassBytes bytes;              // of completed reconfigurations
  plan::ClassBytes transferred_bytes;  // all transfers that were done, whatever for
};

// What a job has read; null numbers: this run read nothing.
struct DatasetSummary {
  std::string index;  // digest; "" = samples without content
  int64_t samples = 0, sequence = 0;
  uint64_t seed = 0;
  bool shuffle = false, drop_last = false;
  int64_t pass = 0, consumed = 0;  // where the job stands
  std::optional<int64_t> samples_read, bytes_read;
  int64_t steps_read_again = 0, samples_read_again = 0;
  std::optional<int64_t> samples_not_proved;  // no reader told their ids; nothing: there are none
  std::optional<bool> exactly_once;
};

// Redundant copies of a job's state in hosts' memories.
struct RedundancySummary {
  int64_t copies = 0, made = 0;
  std::optional<int64_t> survives_host_losses;  // null: none were made
  std::optional<int64_t> left_out;              // the key is there only where some were
};

// What a job trained as, from one moment on.
struct ConfigurationSummary {
  double since_s = 0;
  std::string layout;
  int64_t gpus = 0;
  std::optional<int64_t> global_batch;  // the key is there only where it is not that of the scenario
  int64_t micro_batch = 1;
  std::string recompute;
  std::optional<double> step_s, mfu;  // null: it stood still; the peak is unknown
  std::optional<std::string> idle;    // the key is there only where it leaves GPUs idle
};

// What a job really trained in a layout; `step_s` is the mean as measured.
struct TrainedSummary {
  std::string layout;
  int64_t gpus = 0, steps = 0;
  double step_s = 0, scenario_step_s = 0;
};

// When a job came and got its GPUs.
struct ScheduleSummary {
  double submit_s = 0;
  std::optional<double> first_start_s;  // null: it never did
  double waited_s = 0;
  int64_t restarts = 0, preemptions = 0;
  std::optional<double> deadline_s;  // null: it has none
  std::optional<bool> deadline_met;  // null: it has none, or it may still be met
};

// The downtime of a job by cause.
struct WaitSummary {
  std::string reason;
  double seconds = 0;
  bool until_end = false;
};
struct DowntimeSummary {
  double reconfigurations_s = 0, waiting_s = 0;
  std::vector<WaitSummary> waits;
  double run_again_s = 0, cut_off_s = 0, snapshots_s = 0;
};

// A loss of devices, and what it led to.
struct LossEffectSummary {
  std::string job, outcome;
  std::optional<int64_t> reconfiguration;  // null: none followed
};
struct LossSummary {
  double at_s = 0, noticed_s = 0;
  std::string devices;
  int64_t gpus = 0;
  std::vector<LossEffectSummary> effects;
  std::optional<std::string> cause;  // in words; the key is there only where it is known
};

// What a job did about a notice (control::NoticeRecord).
struct NoticeSummary {
  double at_s = 0, deadline_s = 0;
  std::string devices, answer;
  double starts_s = 0, takes_s = 0;
  int64_t only_there_bytes = 0, in_time_bytes = 0;
  std::string lost;  // "" = nothing
  int64_t step = 0, repeated_steps = 0;
  double repeated_s = 0;
};

struct JobSummary {
  std::string name, state, failure;
  int64_t steps = 0, samples = 0;
  double wall_s = 0, training_s = 0, downtime_s = 0;
  std::optional<DowntimeSummary> downtime;  // nothing: of a report that is older than the key
  std::optional<JobIntervals> interval;     // the key is there only where a calibrated model has a part in them
  std::optional<MomentSummary> any_moment;  // the key is there only where a single failure had the job change
  int64_t lost_steps = 0;
  std::optional<int64_t> checkpoints_left_out;  // the key is there only where some were
  double goodput_samples_per_s = 0, gpu_hours = 0;
  std::optional<double> cost_usd;           // the key is there only where hosts have prices
  std::optional<ScheduleSummary> schedule;  // the key is there only where jobs come later or a policy gives and takes
  std::optional<DatasetSummary> dataset;    // the key is there only for a job that has one
  std::optional<RedundancySummary> redundancy;  // likewise
  // The key is there only for a job with step times that were computed.
  std::optional<std::vector<ConfigurationSummary>> configurations;
  std::optional<std::vector<TrainedSummary>> trained;  // the key is there only with real training
  std::optional<std::vector<NoticeSummary>> notices;   // the key is there only for a job that had one
  JobTotals totals;
  std::vector<ReconfigurationSummary> reconfigurations;
};

struct Summary {
  static constexpr int64_t kSchemaVersion = 1;
  int64_t schema_version = kSchemaVersion;
  std::string version;  // of Scalai
  std::string scenario, scenario_digest;
  uint64_t seed = 0;
  std::string strategy, runtime;
  std::string rules;  // of a recovery run
  // Of many jobs and of recovery runs, which other reports have no keys for.
  std::vector<std::string> notes;
  std::string policy_remarks;
  double end_s = 0;
  std::optional<std::vector<Basis>> basis;
  std::vector<JobSummary> jobs;
  std::optional<std::vector<LossSummary>> losses;  // nothing: of a report that is older than the key
};

Summary summarize(const control::RunReport& report);
NoticeSummary summarize(const control::NoticeRecord& record);

// Errors (InvalidArgument): not JSON, another schema version, a key that is missing or of another type (with its JSON
// pointer). Keys we do not know are ignored.
absl::StatusOr<Summary> read_summary(const std::string& text);

// Numbers for people: "12.34", "12.34 /s"; without an exponent below 10^15: "18690000".
std::string four_digits(double value);
std::string rate(double samples_per_s);

// "plans/001.binpb": where a report keeps its n-th plan, from 0.
std::string plan_file_name(size_t n);

// A cause of downtime, and its reason, in words.
struct DowntimePart {
  std::string name;
  double seconds = 0;
  std::string why;
};
// Those that are not zero, waits by reason; of many reasons the longest ones, and the sum of the others. None for
// reports that are older than the key.
std::vector<DowntimePart> downtime_parts(const JobSummary& job);
// For people: a row a job and cause; "" = there is none.
std::string downtime_table(const Summary& summary, const Screen& screen = {});
std::string cause_lines(const Summary& summary, const Screen& screen);  // of losses whose cause is known
std::string notice_lines(const Summary& summary,
                         const Screen& screen);  // what jobs do about notices, and what they lose
std::string copy_lines(const Summary& summary);  // checkpoints that were left out, and redundant copies, by job
// "35.0 min on average (4.00 min to 66.0 min) as the failure moves over 62.0 min"
std::string moment_text(const MomentSummary& moment);
bool wide_range(const MomentSummary& moment);      // the range is worth a line: more than a tenth of what is expected
std::string moment_lines(const Summary& summary);  // by job
// Of runs side by side, in words: those whose order by downtime depends on the moment of the failure; "" = none.
std::string moment_warning(const std::vector<std::string>& labels, const std::vector<Summary>& runs);
// What a loss led to: "no job used them", "gpt waits".
std::string consequence_of(const LossSummary& loss);
// Those that no reconfiguration tells of.
std::vector<LossSummary> losses_without_change(const Summary& summary);

// Values in words, as all tables have them. A moment is "0.0 s" to "599.9 s", then "10.0 min"; `unit` is that of a
// ComparisonRow.
std::string moment(double seconds);
std::string shown(double value, const std::string& unit);
// " ± 3.1 s": from the value to the further end of its interval; "" where that has no width.
std::string deviation(const std::optional<Spread>& spread, const std::string& unit);
// Of JobSummary::interval.
std::optional<Spread> wall_spread(const JobSummary& job);
std::optional<Spread> downtime_spread(const JobSummary& job);

// What several runs say about the same things. `values` has an entry a run: nothing when that run has no such job.
enum class Better : uint8_t { kNone, kHigher, kLower };
struct ComparisonRow {
  std::string job;                // "" = the whole run
  std::string metric, title;      // for programs and for people
  std::string unit;               // "s", "B", "samples/s", "h", "" (a count), or as Metric has it
  bool hidden_when_zero = false;  // in the table for people
  Better better = Better::kNone;
  std::vector<std::optional<double>> values;
  std::optional<double> ratio;  // second run / first, when there are just two
  // Of the seeds of each value; of one run the interval of the model. Empty where no value has one.
  std::vector<std::optional<Spread>> spreads;
  // The values of each run by seed; empty without seeds, or where a seed is there twice.
  std::vector<std::map<uint64_t, double>> by_seed;
};

// What a run differs from another one by on the same seeds: chance that both had is in neither. Median and interval as
// spread_of, of `pairs` differences, or of relative ones (0.1: a tenth more). Nothing with fewer than two pairs, or
// where a relative one is to 0.
struct PairedDifference {
  size_t pairs = 0;
  Spread spread;
};
std::optional<PairedDifference> paired_difference(const ComparisonRow& row, size_t run, size_t from, bool relative);

// A phase as the simulator predicted it and as the executor measured it.
struct PhasePrediction {
  const char* phase = "";  // key of phases_s
  double predicted_s = 0;
  std::optional<double> measured_s;  // nothing: workers did nothing for it, so that its time is modelled in both runs
  std::optional<double> error;       // (predicted − measured) / measured
};
struct PredictedChange {
  std::string job, from, to;
  int64_t index = 0;
  bool same_plan = false;  // only then it counts in the median
  std::vector<PhasePrediction> phases;
};
// A layout's step, which real training measured.
struct PredictedStep {
  std::string job, layout;
  int64_t steps = 0;
  double predicted_s = 0, measured_s = 0;
  double error = 0;  // (predicted − measured) / measured
};
struct Prediction {
  std::vector<PredictedStep> steps;             // none where training was emulated
  std::vector<PredictedChange> changes;         // that both runs completed
  int64_t transfers = 0;                        // of these with the same plan and bytes that move
  std::optional<double> transfer_error_median;  // of the errors' absolute values; nothing without transfers
};
// Exactly two runs of one scenario with one strategy, one simulated and one executed, in any order; else nothing.
std::optional<Prediction> prediction_of(const std::vector<Summary>& runs);
// For people: a line a phase, then the median.
std::string prediction_table(const Prediction& prediction, const Screen& screen = {});

struct Comparison {
  std::vector<std::string> labels;
  std::vector<Summary> runs;
  bool same_question = true;  // scenarios of one name, workload and seed
  bool same_scenario = true;  // of one digest, too
  bool of_many_jobs = false;  // some run is; then only its head is in `runs`, with the policy as strategy
  std::vector<ComparisonRow> rows;
  std::optional<Prediction> prediction;
  std::string depends_on_moment;  // moment_warning; of single runs, not of several seeds
  RunNotes notes;
};
// Errors: those of read_summary, with the label.
absl::StatusOr<Comparison> compare_runs(const std::vector<Alternative>& alternatives);
// Values in base units; "ratio" only for two runs, "prediction" only where there is one.
std::string comparison_json(const Comparison& comparison);

}  // namespace scalai::report
