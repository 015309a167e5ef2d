#pragma once
// The report of a run: one set of records, one schema for both runtimes. Control fills RunReport; write_report() turns
// it into files; ptc/control/README.md documents every column.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/control/runtime.h"
#include "ptc/control/sample_ledger.h"

namespace scalai::control {

struct ReconfigurationRecord {
  int index = 0;         // the job's k-th, from 1
  double at_s = 0;       // when it was asked for, or the failure happened
  double resumed_s = 0;  // first step in the new configuration starts; < 0 = never (scenario ended)
  std::string cause;     // "resize to 8", "lost g12, g13", "redeploy", "preempt …", "repair"
  std::string from, to;  // layout names
  int from_gpus = 0, to_gpus = 0;
  int64_t step = 0;               // step at which the job goes on
  int64_t rolled_back_steps = 0;  // steps done before that have to be run again
  bool completed = false;         // committed (a plan whose attempt was aborted is replaced by the next attempt's)
  int aborted_attempts = 0;
  std::shared_ptr<const plan::Plan> plan;
  PhaseSeconds phases;
};

// What a job trained as, from one moment until the next entry (or an end of training).
struct ConfigurationRecord {
  double since_s = 0;
  std::string layout;
  int gpus = 0;
  int micro_batch = 1;
  std::string recompute;         // "none", "selective", "full"
  std::optional<double> step_s;  // nothing: it stands still on a link that is down
  std::optional<double> mfu;  // model FLOPs utilisation (ptc/parallel/step_time.h); nothing: as above, or peak unknown
  bool computed = true;       // step_s comes from a model, not from the scenario

  bool same_but_time(const ConfigurationRecord& other) const {
    return layout == other.layout && micro_batch == other.micro_batch && recompute == other.recompute &&
           step_s == other.step_s;
  }
};

// How a job got its GPUs, where jobs come one after another or a policy gives and takes.
struct ScheduleRecord {
  double submit_s = 0;
  std::optional<double> first_start_s;  // its first step began; nothing: it never did
  double waited_s = 0;                  // from its submission without GPUs
  int restarts = 0;                     // changes of its GPUs that were committed, its first ones not counted
  int preemptions = 0;                  // it was left without GPUs by the policy
  std::optional<double> deadline_s;
};

struct JobRecord {
  std::string name;
  // "complete", "running", "waiting", "reconfiguring", "failed", "stopped" (on request), "refused" (by the policy),
  // "pending" (not submitted yet)
  std::string state;
  std::string failure;  // why, when failed: tensors and boxes that nobody holds; when waiting: why nothing fits
  int64_t steps = 0;    // net steps done
  int64_t samples = 0;
  double wall_s = 0;                       // from its submission to completion or the end of the scenario
  double training_s = 0;                   // in steps, including those run twice
  double downtime_s = 0;                   // wall_s − training_s
  int64_t lost_steps = 0;                  // steps done that had to be run again
  double goodput_samples_per_s = 0;        // samples / wall_s
  double gpu_hours = 0;                    // of allocated devices
  std::optional<ScheduleRecord> schedule;  // of a scenario with a policy, or a job that comes later
  std::optional<DatasetRecord> dataset;
  std::vector<ConfigurationRecord> configurations;
  std::vector<ReconfigurationRecord> reconfigurations;
};

// A stretch of a job's life, for the trace: "train", "waiting" and the phases.
struct JobSpan {
  int job = 0;
  std::string what;
  double start_s = 0, end_s = 0;
  std::vector<DeviceId> devices;
};

// State bytes on a device from this moment on.
struct MemorySample {
  double at_s = 0;
  DeviceId device;
  int64_t bytes = 0;
};

struct RunReport {
  const Scenario* scenario = nullptr;
  std::string strategy;
  std::string runtime;  // "sim" or "exec"
  double end_s = 0;
  std::vector<JobRecord> jobs;
  std::vector<std::shared_ptr<const plan::Plan>> plans;  // in order of making: plans/001.binpb, …
  std::vector<Event> events;                             // every event, in order: enough to replay the run
  std::vector<std::string> unreached;  // scenario events that never happened: "events[3] (at step 500)"
  std::vector<JobSpan> spans;
  std::vector<MemorySample> memory;
  Recorder recorder;
};

// Facts that may differ between two equal runs go to manifest.json only.
struct Manifest {
  std::string command_line;
  std::string revision;
  double wall_clock_s = 0;  // how long the run took
  std::string started_at;   // RFC 3339
};

// summary.json as text, deterministic, two-space indent, keys in schema order (nlohmann::ordered_json).
std::string summary_json(const RunReport& report);

// Writes summary.json, events.csv, transfers.csv, devices.csv, plans/NNN.binpb, scenario.resolved.textproto,
// trace.pftrace and manifest.json into `folder` (created; earlier files of a report there are replaced).
absl::Status write_report(const RunReport& report, const Manifest& manifest, const std::string& folder);

// One event as a line of events.csv, without its end, and such lines back into events.
std::string event_line(const Event& event);
absl::StatusOr<std::vector<Event>> parse_event_lines(const std::vector<std::string>& lines);
// events.csv back into events.
absl::StatusOr<std::vector<Event>> parse_events(const std::string& csv);

// The table a person reads in ten seconds: per job one line, then per reconfiguration one line.
std::string summary_table(const std::string& summary_json_text);

// Several summaries side by side, one column a run; labels name the columns. `format`: "table", "csv" or "json". For a
// simulated and an executed run of one scenario, table and JSON go on with what was predicted and what was measured.
absl::StatusOr<std::string> compare_summaries(const std::vector<std::pair<std::string, std::string>>& label_and_json,
                                              const std::string& format);

// The scenario's expectations against a summary: one line for each that fails ("" = all hold).
std::string failed_expectations(const Scenario& scenario, const std::string& strategy,
                                const std::string& summary_json_text);

// Perfetto trace (TrackEvent): one track a device, a job and a link, counters for link use and state memory.
std::string perfetto_trace(const RunReport& report);

}  // namespace scalai::control
