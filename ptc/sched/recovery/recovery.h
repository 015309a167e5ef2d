#pragma once
// One job on hosts that come and go: what a recovery design makes of it. Virtual time, one thread, deterministic: same
// setup, same result, bit by bit.
//
//   Availability (who is up when) ─┐
//   throughput by live hosts ──────┼─► simulate_recovery: design + costs + checkpoints ─► RecoveryResult
//   costs: published, or plans' ───┘
//
// Two sets of rules:
//   kPublished  the step-by-step simulators of Varuna, Bamboo and Oobleck that the Oobleck artifact ships (replay.h),
//               quirks included, so that its published numbers come out;
//   kSteady     ours, the same for every design (steady.h): a change stops training for its cost, a second one
//               meanwhile starts the pause anew, steady training is skipped to the next event.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/sched/fleet.h"
#include "ptc/sched/recovery/liveput.h"

namespace scalai::sched {

enum class RecoveryDesign : uint8_t {
  kCheckpointRestart,  // Varuna: any loss restarts from the last checkpoint, on what is left
  kRedundancy,         // Bamboo: the neighbour in the pipeline computes for a lost host; two in a row are fatal
  kTemplates,          // Oobleck: pipelines are rebuilt from precomputed templates; the state lives in other replicas
  kProactive,          // Parcae: migrates before losses, to the layout that the forecast favours (liveput)
  kSpareSwap,          // MegaScale: a spare host takes the place of the lost one; restart from the last checkpoint
  kReshard,            // ours: all live hosts work, state moves by a plan
};

enum class RecoveryRules : uint8_t { kPublished, kSteady };

struct HostChange {
  int from = 0;  // hosts the job ran on before
  int to = 0;    // hosts it is to run on
  int lost = 0;  // of `from`, gone with their state (no notice)
  // kSteady: places of the lost in [0, from), in the order in which the job holds its hosts; {} = not known.
  std::vector<int> lost_places = {};
  bool resumes = false;  // from 0 hosts, after it trained before: its state comes from storage
};

struct RecoveryCosts {
  // Seconds without training for a change. Must be set.
  std::function<double(const HostChange&)> change_s;
  double fatal_s = 0;       // redundancy: a restart when a host and its fallback are both gone
  double host_ready_s = 0;  // from a host's coming until it can be used
  double detect_s = 0;      // kSteady: until a loss without notice is noticed
  bool step_lost = true;    // kSteady: the step under way when a host is lost is run again
  // templates, reshard: whether every part of the state is still on some host after a change; none = always. If not,
  // training goes back to the last checkpoint.
  std::function<bool(const HostChange&)> state_survives;
};

struct RecoveryCheckpoints {
  int64_t every_steps = 0;  // kPublished
  double every_s = 0;       // kSteady: of training, from 1 s; 0 = none, a restart begins at sample 0
  double write_s = 0;       // training stands still so long for each
  bool rolls_back = true;   // kPublished: false = as the artifact treats its three small models, losses cost no samples
};

struct RecoverySetup {
  RecoveryDesign design = RecoveryDesign::kReshard;
  RecoveryRules rules = RecoveryRules::kSteady;
  const Availability* availability = nullptr;
  int hosts = 0;       // in all: HostId < hosts
  double until_s = 0;  // end of the run; 0 = the last event (steady rules: an error if there is none)
  int min_hosts = 1;   // fewer cannot run the job

  std::function<double(int hosts)> samples_per_s;  // by live hosts; 0 = cannot run. Must be set
  std::string throughput_rule;                     // a table's, for reports: hosts it has no row for
  double samples_per_step = 1;                     // global batch
  RecoveryCosts costs;
  RecoveryCheckpoints checkpoints;

  int stages = 12;                 // redundancy: pipeline depth, who is whose neighbour
  double fallback_slowdown = 1.5;  // redundancy: a step takes so much longer while a fallback is pending
  int spares = 0;                  // spare-swap: the job runs on hosts - spares, no more and no fewer
  // kSteady: hosts that came are taken in when that gains more samples within so long than the pause costs.
  double join_horizon_s = 3600;
  std::shared_ptr<const Liveput> liveput;  // proactive: layouts, migration costs; samples_per_s is not used
  int look_ahead = 12;                     // proactive: intervals planned ahead
  bool foresight = false;                  // proactive: plan on what will happen, instead of a forecast

  int gpus_per_host = 1;
  double usd_per_host_hour = 0;
};

// What the job did from `from_s` to the next phase's start (or the end).
struct RecoveryPhase {
  double from_s = 0;
  int live = 0;              // hosts up
  int used = 0;              // of those, by the job
  double samples_per_s = 0;  // while training; 0 = stands still
};

struct RecoveryResult {
  double from_s = 0, to_s = 0;  // from the first moment it trains to the end of the run (kPublished: of the last step)
  double samples = 0;           // that count at the end
  double samples_per_s = 0;     // their average from from_s to to_s
  int64_t steps = 0;
  double mean_hosts = 0;    // up, over time
  int losses = 0;           // hosts lost
  int restarts = 0;         // changes of hosts that stopped training and went on; the first start is none
  int fatal = 0;            // losses with a loss of state (back to a checkpoint), or a rendezvous of all
  double lost_samples = 0;  // run, and lost
  double ettr = 0;          // kept training time / (to_s - from_s)
  // GPU-hours from the start to to_s: of hosts up. They add up to the hosts' time. kPublished: a step that ends during a
  // rendezvous is training; of one that is cut off, what ran before the rendezvous is lost, the rest the change's.
  double training_gpu_h = 0, lost_gpu_h = 0, changing_gpu_h = 0, checkpoint_gpu_h = 0, idle_gpu_h = 0;
  double usd = 0;                     // of all hosts up
  std::vector<RecoveryPhase> phases;  // at most 65,536, then every second one is dropped
};

// Errors: InvalidArgument for a setup that makes no sense (all problems), a design without published rules, a cost or
// throughput that is negative or not a number (named with its hosts).
absl::StatusOr<RecoveryResult> simulate_recovery(const RecoverySetup& setup);

}  // namespace scalai::sched
