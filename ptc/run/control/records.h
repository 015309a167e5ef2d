#pragma once
// The records of a run, one set for both runtimes: the control loop fills them, ptc/report writes them. Plain data.

#include <optional>
#include <string>
#include <vector>

#include "ptc/run/control/runtime.h"
#include "ptc/run/control/sample_ledger.h"

namespace scalai::control {

// Of a change that a failure set off: what decides how much work is done again, besides the moment of the failure.
struct FailureMoment {
  double step_s = 0;        // of the steps before it
  double cut_off_s = 0;     // of the step under way, which is lost
  int64_t every_steps = 1;  // distance of copies as the job went back to; 1: it went on from live state
  double written_s = 0;     // training from such a copy's step until it counts
};

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
  std::optional<plan::Plan> plan;
  size_t plan_index = 0;  // of `plan` in RunReport::plans
  PhaseSeconds phases;
  std::optional<FailureMoment> failed;  // nothing: no device was lost while the job trained
};

// What a job trained as, from one moment until the next entry (or an end of training).
struct ConfigurationRecord {
  double since_s = 0;
  std::string layout;
  int gpus = 0;
  int global_batch = 1;
  int micro_batch = 1;
  std::string recompute;         // name_of(Recompute): "none", "selective", "full" …
  std::optional<double> step_s;  // nothing: it stands still on a link that is down
  std::optional<double> mfu;  // model FLOPs utilisation (ptc/cost/step/step_time.h); nothing: as above, or peak unknown
  bool computed = true;       // step_s comes from a model, not from the scenario
  std::string idle;           // why it leaves GPUs idle that the job may use; "" = it does not, or it was not chosen

  bool same_but_time(const ConfigurationRecord& other) const {
    return layout == other.layout && global_batch == other.global_batch && micro_batch == other.micro_batch &&
           recompute == other.recompute && step_s == other.step_s && idle == other.idle;
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

// The redundant copies of a job that has a policy for them.
struct RedundancyRecord {
  int copies = 0;    // as asked for
  int64_t made = 0;  // times that all copies of a step arrived
  // Hosts that could be lost, any so many, without loss of the step copied: devices and copies together. The least of
  // these times; nothing: none.
  std::optional<int> survives_host_losses;
  int64_t left_out = 0;  // times that copies were due while those before them were still being made
};

// A notice: devices that a job trains on will be taken. What it does about that, as decided when the notice came, and
// again when it stopped training for it.
struct NoticeRecord {
  double at_s = 0, deadline_s = 0;
  std::vector<DeviceId> devices;
  // "leaves": a change to other devices, in time. "copies": state goes to the memory of hosts that stay,
  // "checkpoint": to storage, before the change. "goes back": nothing of that is in time, and the job goes back to an
  // earlier copy at once. "loses": nor is there such a copy; as much as possible goes to hosts that stay.
  std::string answer;
  double starts_s = 0, takes_s = 0;  // training stops; so long the devices are needed from then on
  int64_t only_there_bytes = 0;      // of state that is nowhere else
  int64_t in_time_bytes = 0;         // of these can be elsewhere by the deadline
  std::vector<std::string> lost;     // the rest, by tensor and box, many of them in short
  int64_t step = 0;                  // that the job goes on from; of "loses" the one whose state is lost
  int64_t repeated_steps = 0;
  double repeated_s = 0;  // of training
};

// A reason for which a job stood without a change under way, in words.
struct WaitRecord {
  std::string reason;
  double seconds = 0;
  bool until_end = false;  // the job still waits for it when the run ends
};

// The downtime of a job by cause, in seconds of scenario time: it is the sum of the parts.
struct DowntimeRecord {
  double reconfigurations_s = 0;  // pauses, less the steps that the job finishes before it stops
  double waiting_s = 0;
  std::vector<WaitRecord> waits;  // the same by reason
  double run_again_s = 0;         // of training_s: in whole steps done after the snapshot to which the job went back
  double cut_off_s = 0;           // in steps that a failure, or the end of the run, cut off
  double snapshots_s = 0;         // training stood still for checkpoints and redundant copies

  double total() const { return reconfigurations_s + waiting_s + run_again_s + cut_off_s + snapshots_s; }
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
  double downtime_s = 0;                   // wall_s − training_s + downtime.run_again_s
  DowntimeRecord downtime;                 // the same by cause
  int64_t lost_steps = 0;                  // steps done that had to be run again
  int64_t checkpoints_left_out = 0;        // that were due while the one before was still being written
  double goodput_samples_per_s = 0;        // samples / wall_s
  double gpu_hours = 0;                    // of allocated devices
  std::optional<double> cost_usd;          // of them, where some host has a price and the job had devices
  std::optional<ScheduleRecord> schedule;  // of a scenario with a policy, or a job that comes later
  std::optional<DatasetRecord> dataset;
  std::optional<RedundancyRecord> redundancy;
  std::vector<ConfigurationRecord> configurations;
  std::vector<ReconfigurationRecord> reconfigurations;
  std::vector<NoticeRecord> notices;  // in order of time
};

// What a loss of devices led to for a job that was on them, or on its way from or to them.
struct LossEffect {
  int job = 0;
  std::string outcome;      // "reconfigures", "waits", "fails", "stops" (the run was to end)
  int reconfiguration = 0;  // of "reconfigures": the job's k-th, from 1
};

// Devices were lost, used or not.
struct LossRecord {
  double at_s = 0, noticed_s = 0;
  std::vector<DeviceId> devices;
  std::vector<LossEffect> effects;  // none: no job used them
  std::string cause = {};           // in words; empty: not known
};

// An event of the scenario that happened.
struct ScriptRecord {
  size_t event = 0;  // index in Scenario::events
  double at_s = 0;
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
  const scenario::Scenario* scenario = nullptr;
  std::string strategy;
  std::string runtime;      // "sim" or "exec"
  double resolution_s = 0;  // of simulated flows: ends within so long of each other are one moment
  double end_s = 0;
  std::vector<JobRecord> jobs;
  std::vector<plan::Plan> plans;       // in order of making: plans/001.binpb, …
  std::vector<Event> events;           // every event, in order: enough to replay the run
  std::vector<LossRecord> losses;      // in order of notice
  std::vector<ScriptRecord> script;    // in order of time
  std::vector<std::string> unreached;  // scenario events that never happened: "events[3] (at step 500)"
  std::vector<JobSpan> spans;
  std::vector<MemorySample> memory;
  // The jobs of runs whose failure, and all that the script has after it, comes later (report::moves_to_play).
  std::vector<std::vector<JobRecord>> moved;
  Recorder recorder;
};

// "g3 g8-g11": runs of neighbouring devices.
std::string device_list(const std::vector<DeviceId>& devices);

}  // namespace scalai::control
