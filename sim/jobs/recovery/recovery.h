#pragma once
// Simulation of one job on hosts that come and go, under a recovery design. Virtual time, deterministic: equal setups
// give equal results, bit for bit. Pure function; any thread.
//
//   Availability (who is up when) ─┐
//   throughput by live hosts ──────┼─► simulate_recovery: design + costs + checkpoints ─► RecoveryResult
//   costs: a table's, or plans' ───┘
//
// One set of rules for every design but proactive (steady.h): a change stops training for its cost, a second change in
// that time restarts the pause, steady training is skipped to the next event. Proactive counts by intervals
// (proactive.h).

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/outcome.h"
#include "sim/jobs/recovery/liveput.h"

namespace scalai::jobs {

enum class RecoveryDesign : uint8_t {
  kCheckpointRestart,  // Varuna: any loss restarts from the last checkpoint on the remaining hosts
  kRedundancy,         // Bamboo: the neighbour in the pipeline computes for a lost host; two lost in a row are fatal
  kTemplates,          // Oobleck: pipelines are rebuilt from precomputed templates; the state lives in other replicas
  kProactive,          // Parcae: migrates before losses, to the layout that liveput favours for the forecast
  kSpareSwap,          // MegaScale: a spare host replaces the lost one; restart from the last checkpoint
  kReshard,            // ours: all live hosts work, state moves by a plan
};

// What a design does when hosts of the job are under notice, or others come.
enum class OnNotice : uint8_t {
  kWait,   // the notice is not heard: the hosts stay until they are lost
  kLeave,  // the job leaves them with all of its state: at once, or, if leave_s says how long that takes, in time
  kSave,   // it writes a checkpoint and restarts from that without them; so it does when hosts come
};
// What its publication or released code does; of a design that says nothing, what its other changes do.
OnNotice on_notice_of(RecoveryDesign design);

struct HostChange {
  int from = 0;  // hosts of the job before
  int to = 0;    // hosts of the job afterwards
  int lost = 0;  // hosts of `from` that are gone with their state (no notice)
  // Places of the lost hosts in [0, from), in the job's order of hosts; {} = unknown.
  std::vector<int> lost_places = {};
  bool resumes = false;  // from 0 hosts after earlier training: the state comes from storage
};

struct RecoveryCosts {
  // Seconds without training for a change. Required.
  std::function<double(const HostChange&)> change_s;
  // Seconds from the beginning of a change until hosts that leave have passed on what they hold; empty: not known, they
  // let the job go at once.
  std::function<double(const HostChange&)> leave_s;
  // redundancy: a restart when a host and its fallback are both gone; below 0: as change_s has it, from storage
  double fatal_s = 0;
  double host_ready_s = 0;  // seconds until a new host can be used
  double detect_s = 0;      // seconds until a loss without notice is detected
  bool step_lost = true;    // a loss repeats the step under way
  // templates, reshard: true if every part of the state is still on some host after a change; empty = always. If false,
  // training rolls back to the last checkpoint.
  std::function<bool(const HostChange&)> state_survives;
};

struct RecoveryCheckpoints {
  double every_s = 0;  // seconds of training, from 1 s; 0 = no checkpoints, a restart begins at sample 0
  double write_s = 0;  // training stops for this long for each checkpoint
};

// `availability` must live during the simulation.
struct RecoverySetup {
  RecoveryDesign design = RecoveryDesign::kReshard;
  const policy::Availability* availability = nullptr;
  int hosts = 0;       // all hosts: HostId < hosts
  double until_s = 0;  // end of the run; 0 = the last event (an error if there is none)
  int min_hosts = 1;   // with fewer the job cannot run

  std::function<double(int hosts)> samples_per_s;  // by live hosts; 0 = cannot run. Required
  std::string throughput_rule;                     // of a table, for reports: rule for hosts without a row
  double samples_per_step = 1;                     // global batch
  RecoveryCosts costs;
  RecoveryCheckpoints checkpoints;

  OnNotice on_notice = OnNotice::kWait;
  int stages = 12;                 // redundancy: pipeline depth, which defines neighbours
  double fallback_slowdown = 1.5;  // redundancy: factor of the step time while a fallback is pending
  int spares = 0;                  // spare-swap: the job runs on exactly hosts - spares
  // New hosts join if they gain more samples within this time than the pause costs.
  double join_horizon_s = 3600;
  std::shared_ptr<const Liveput> liveput;  // proactive: layouts, migration costs; replaces samples_per_s
  int look_ahead = 12;                     // proactive: intervals planned ahead
  bool foresight = false;                  // proactive: plan with the true future instead of a forecast

  int gpus_per_host = 1;
  double usd_per_host_hour = 0;
};

// "steady (one set for all designs)", or of the proactive design, which has its own, "intervals (Parcae's accounting)".
// Results under different rules do not compare.
std::string name_of_rules(const RecoverySetup& setup);

// InvalidArgument: an invalid setup (all problems), a cost or throughput that is
// negative or not a number (the message names its hosts).
absl::StatusOr<policy::RecoveryResult> simulate_recovery(const RecoverySetup& setup);

}  // namespace scalai::jobs
