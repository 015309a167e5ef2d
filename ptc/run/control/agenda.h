#pragma once
// What happens when, in scenario time: training ends, the stages of changes under way, background copies, losses that
// are not known yet, timers. Both runtimes go by one agenda, so their scenario time is the same: the simulator turns
// each happening into an event at once, the executor when the real work behind it is done.
//
//   Command ──► Agenda ◄──► NetworkBackend (flows that share links)
//                  │
//                  └──► next(): Happening ──► runtime ──► Event
//
// One thread; with SimGrid, inside its actor. Deterministic: the same calls give the same happenings.

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ptc/cost/change/network.h"
#include "ptc/cost/change/platform.h"
#include "ptc/cost/change/stages.h"
#include "ptc/run/control/events.h"
#include "ptc/run/control/runtime.h"

namespace scalai::control {

// The stages' input; refers to the command.
change::Change change_of(const Execute& execute, const cluster::Cluster& cluster);

class Agenda {
 public:
  struct TrainEnd {
    int job = 0;
    int64_t generation = 0;
    int64_t step = 0;
  };
  // A stage of a change is over; the next one begins with end_stage().
  struct StageEnd {
    int job = 0;
    int64_t generation = 0;
  };
  struct CopyEnd {  // of a Background command
    int job = 0;
    int64_t tag = 0;
  };
  struct LossKnown {
    std::vector<DeviceId> devices;
    double failed_at_s = 0;
  };
  struct TimerEnd {
    int64_t timer = 0;
  };
  using Happening = std::variant<TrainEnd, StageEnd, CopyEnd, LossKnown, TimerEnd>;

  // All outlive the agenda. Fills recorder.links at once, then writes transfers and link rates.
  Agenda(const cluster::Cluster& cluster, const change::Platform& platform, change::NetworkBackend& network,
         Recorder& recorder);

  double now_s() const { return network_.now_s(); }

  // ---- commands ----
  // Ends with TrainEnd, but where a device is dead: then its loss will be known soon.
  void train(const Train& train);
  void halt(int job) { ++jobs_[job].train_generation; }
  void execute(const Execute& execute);
  void abort(int job);
  void background(const Background& background);
  void drop_copy(int64_t tag);  // of a background command that came to nothing, or that nobody waits for
  void arm(const ArmTimer& timer) { at(timer.at_s, TimerEnd{timer.timer}); }
  // Devices die and links go down now; LossKnown follows after detect_s. Returns the devices that lived until now.
  std::vector<DeviceId> fail(const scenario::Fail& fail, double detect_s);
  // The same for devices whose loss the caller reports itself.
  std::vector<DeviceId> lose(const std::vector<DeviceId>& devices);
  // Devices and links are back. Returns losses that were not known yet, which are now: the caller reports them.
  std::vector<LossKnown> repair(const scenario::Repair& repair);
  void degrade(const scenario::Degrade& degrade);

  // ---- time ----
  // Lets time pass until something happens, or until `until_s`, which may be infinite: nothing then means that nothing
  // can happen any more.
  std::optional<Happening> next(double until_s);
  // Whether it still counts: its job has not been told otherwise meanwhile.
  bool counts(const TrainEnd& end) { return jobs_[end.job].train_generation == end.generation; }
  bool counts(const StageEnd& end) {
    const JobState& state = jobs_[end.job];
    return state.execution && state.execution_generation == end.generation;
  }
  // After a StageEnd that counts. The events that follow from it: RoundDone where the stage has a mark, ExecutionDone
  // after the last one, unless a device of the new epoch is dead: then its loss will be known soon.
  std::vector<EventBody> end_stage(int job);
  // The change under way of a job, or null; and the number of its current stage.
  const std::vector<change::Stage>* stages(int job);
  size_t current_stage(int job) { return jobs_[job].execution->current; }

  bool dead(DeviceId device) const { return dead_.contains(device); }
  bool dead(plan::Location place) const;  // the memory of a host is when all its devices are
  bool any_dead(const std::vector<DeviceId>& devices) const;
  // Losses that are not known yet.
  bool unnoticed(DeviceId device) const { return unnoticed_.contains(device); }
  const std::set<DeviceId>& dead_devices() const { return dead_; }

  // Nothing is under way: next() could only wait.
  bool idle() const { return ready_.empty() && actions_.empty() && flows_.empty(); }
  // Whether something has happened that next() has not told yet: at this moment.
  bool pending() const { return !ready_.empty(); }
  // Ends the record: flows still under way are written as "aborted".
  void close();

 private:
  struct WaitEnd {  // of a stage: its flows begin
    int job = 0;
    int64_t generation = 0;
  };
  using Action = std::variant<TrainEnd, WaitEnd, LossKnown, TimerEnd>;
  struct Execution {
    Execute command;
    std::vector<change::Stage> stages;
    size_t current = 0;
    double stage_started_s = 0;
    int64_t flows_left = 0;
    PhaseSeconds phases;
  };
  struct JobState {
    int64_t train_generation = 0;
    std::vector<DeviceId> devices;     // of the Train command
    int64_t execution_generation = 0;  // stale waits are told apart by it
    std::optional<Execution> execution;
  };
  struct ActiveFlow {
    TransferRecord record;
    int64_t execution = -1;  // generation it belongs to, or
    int64_t tag = -1;        // the Background command
    change::FlowRequest request;
  };

  void at(double at_s, Action action) { actions_[{std::max(at_s, now_s()), sequence_++}] = std::move(action); }
  void happen(const TrainEnd& end) {
    if (counts(end)) ready_.push_back(end);
  }
  void happen(const WaitEnd& end);
  void happen(const LossKnown& loss);
  void happen(const TimerEnd& end) { ready_.push_back(end); }

  int link(const std::string& name) const;
  void set_bandwidth(int index, double factor);
  void begin_stage(int job);
  void start_flow(ActiveFlow flow);
  void flow_ended(const change::FlowEnd& end);
  void drop_flows(const std::function<bool(const ActiveFlow&)>& doomed);
  void sample_links();

  const cluster::Cluster& cluster_;
  const change::Platform& platform_;
  change::NetworkBackend& network_;
  Recorder& recorder_;

  std::map<int, JobState> jobs_;
  std::map<std::pair<double, int64_t>, Action> actions_;  // by time, then order of arming
  int64_t sequence_ = 0;
  std::deque<Happening> ready_;
  absl::flat_hash_map<change::FlowId, ActiveFlow> flows_;
  std::vector<ActiveFlow> stalled_;             // on a link that is down; start again when it is repaired
  std::map<int64_t, int64_t> background_left_;  // flows by tag
  std::set<DeviceId> dead_;
  std::multiset<DeviceId> unnoticed_;  // lost, whether repaired since or not, and the loss not yet known
  std::set<int> down_;                 // links
  std::vector<double> nominal_;        // bandwidths
  bool rates_changed_ = false;
};

}  // namespace scalai::control
