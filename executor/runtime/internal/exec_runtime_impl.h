#pragma once
// The state of an ExecRuntime and its handlers, spread over two sources:
//   exec_runtime.cpp         commands, executions, time and what is heard
//   exec_runtime_resume.cpp  what an earlier controller did, and going on from there

#include <chrono>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "executor/runtime/exec_runtime.h"
#include "executor/runtime/job_work.h"
#include "executor/runtime/modelled.h"

namespace scalai::executor {

inline constexpr double kForever_s = 1e15;  // a step that is never reached

class ExecRuntime::Impl {
 public:
  Impl(const control::Scenario& scenario, ControllerEnd& controller, Crew& crew, control::Recorder& recorder,
       ExecOptions options)
      : scenario_(scenario),
        controller_(controller),
        crew_(crew),
        recorder_(recorder),
        options_(std::move(options)),
        started_(std::chrono::steady_clock::now()) {
    replaying_ = options_.resume;
    for (size_t i = 0; i < scenario.jobs.size(); ++i)
      jobs_.push_back({.work = std::make_unique<JobWork>(static_cast<int>(i), scenario, crew, options_)});
  }

  // Does what the command says, or takes it as done when an earlier controller has.
  absl::Status do_or_note(const control::Command& command);
  absl::StatusOr<control::Event> next_event();
  int64_t bytes_verified() const {
    int64_t bytes = 0;
    for (const JobState& job : jobs_) bytes += job.work->bytes_verified();
    return bytes;
  }

 private:
  absl::Status perform(const control::Train& train);
  absl::Status perform(const control::Halt& halt) {
    ++job(halt.job).train_generation;
    return absl::OkStatus();
  }
  absl::Status perform(const control::Read& read) {
    job(read.job).unread.push_back(read);
    return read_samples();
  }
  absl::Status perform(const control::Execute& execute);
  absl::Status perform(const control::Abort& abort);
  absl::Status perform(const control::Commit& commit);
  absl::Status perform(const control::Background& background);
  absl::Status perform(const control::Forget& forget) { return job(forget.job).work->forget_snapshot(forget.snapshot); }
  absl::Status perform(const control::ArmTimer& timer) {
    at(timer.at_s, TimerEnd{timer.timer});
    return absl::OkStatus();
  }
  absl::Status perform(const control::Inject& inject);
  absl::Status perform(const control::Stop&) { return absl::OkStatus(); }

  struct TrainEnd {
    int job;
    int64_t generation;
    int64_t step;
  };
  struct StageEnd {
    int job;
    int64_t generation;
  };
  struct BackgroundEnd {
    int job;
    int64_t tag;
  };
  struct LossKnown {
    std::vector<DeviceId> devices;
    double failed_at_s;
  };
  struct TimerEnd {
    int64_t timer;
  };
  using Action = std::variant<TrainEnd, StageEnd, BackgroundEnd, LossKnown, TimerEnd>;

  struct Execution {
    control::Execute command;
    std::vector<ModelledStage> stages;
    size_t current = 0;
    double until_s = 0;              // modelled end of the stages so far
    std::future<StageOutcome> work;  // of the current stage
    control::PhaseSeconds phases;    // as measured
    std::set<DeviceId> known_dead;   // to the control loop, when it made the plan
    bool broken = false;             // a device of it is dead: nothing more comes of it
    int last_mark = -1;              // RoundDone reported last, perhaps by an earlier controller
  };
  struct JobState {
    std::unique_ptr<JobWork> work;
    int64_t train_generation = 0;
    std::vector<DeviceId> devices;  // of the Train command
    std::set<DeviceId> gone;        // have failed since the epoch was committed: what they held of it is lost
    int64_t execution_generation = 0;
    std::optional<Execution> execution;
    std::deque<control::Read> unread;  // what the control loop waits for
    bool new_layout = true;            // the next Train is the first one in it
    int dp = 0;                        // of the layout that is trained; 0: none yet
    int64_t layout_step = 0;           // at which it began
  };

  JobState& job(int index) { return jobs_[static_cast<size_t>(index)]; }
  void at(double at_s, Action action) { agenda_[{std::max(at_s, now_s_), sequence_++}] = std::move(action); }
  void report(control::EventBody body) { ready_.push_back({now_s_, std::move(body)}); }

  absl::Status happen(const TrainEnd& end);
  absl::Status happen(const StageEnd& end);
  absl::Status happen(const BackgroundEnd& end) {
    report(control::BackgroundDone{end.job, end.tag});
    return absl::OkStatus();
  }
  absl::Status happen(const LossKnown& loss) {
    for (const DeviceId device : loss.devices) unnoticed_.erase(unnoticed_.find(device));
    report(control::DevicesLost{loss.devices, loss.failed_at_s});
    return absl::OkStatus();
  }
  absl::Status happen(const TimerEnd& end) {
    report(control::TimerFired{end.timer});
    return absl::OkStatus();
  }

  // Returns those that lived until now; their jobs' steps under way never end.
  std::vector<DeviceId> die(const std::vector<DeviceId>& devices);
  void live_again(const std::vector<DeviceId>& devices);
  void take_up(const control::Execute& execute);  // without beginning it
  // Ends with TrainEnd unless a device is dead: then the loss will be known soon.
  bool take_up(const control::Train& train);
  void take_up(const control::Background& background) {
    at(now_s_ + bulk_seconds(background.flows, scenario_.cluster), BackgroundEnd{background.job, background.tag});
  }
  void tell_layout(int job_index);
  std::vector<LossKnown> take_losses(const std::vector<DeviceId>& devices);
  absl::Status apply(const control::Fail& fail, double detect_s);
  absl::Status apply(const control::Repair& repair);
  absl::Status begin_stage(int job_index);
  absl::Status catch_up(int job_index);
  absl::Status begin_again(int job_index);
  absl::Status end_stage(int job_index, const StageOutcome& outcome);
  absl::Status read_samples();
  absl::Status explained(const absl::Status& status);
  void hear(double timeout_s);
  // What is written down of an earlier controller has been done, but for what its last event led to: that is done again,
  // whatever came of it.
  bool past_is_over() const { return next_past_ == options_.past.size(); }
  void note(const control::Command& command);
  void note(const control::Event& event);
  absl::Status go_live();
  absl::Status judge_workers();
  absl::Status begin_again();
  template <class Match>
  void disarm(Match match) {
    std::erase_if(agenda_, [&](const auto& entry) { return match(entry.second); });
  }
  void worker_lost(HostId host, const std::string& reason);
  bool any_dead(const std::vector<DeviceId>& devices) const {
    return std::any_of(devices.begin(), devices.end(), [&](DeviceId device) { return dead_.contains(device); });
  }
  // A device of the plan that has died since: the control loop gives the plan up when it hears of that.
  bool needs_dead(const Execution& execution) const;
  bool involves_dead(const Execution& execution) const {
    const std::vector<DeviceId>& sources = execution.command.plan->src_devices;
    return any_dead(execution.command.plan->dst_devices) ||
           std::any_of(sources.begin(), sources.end(), [&](DeviceId device) {
             return dead_.contains(device) && !execution.known_dead.contains(device);
           });
  }
  void wait_until(double scenario_s);

  const control::Scenario& scenario_;
  ControllerEnd& controller_;
  Crew& crew_;
  control::Recorder& recorder_;
  const ExecOptions options_;
  std::chrono::steady_clock::time_point started_;  // real time of scenario time 0

  double now_s_ = 0;
  std::vector<JobState> jobs_;
  std::map<std::pair<double, int64_t>, Action> agenda_;  // by time, then order of arming
  int64_t sequence_ = 0;
  std::deque<control::Event> ready_;
  std::set<DeviceId> dead_;
  int64_t losses_ = 0;                 // workers lost so far
  std::multiset<DeviceId> unnoticed_;  // the scenario's failures that the control loop does not know of
  // Going on after an earlier controller:
  bool replaying_ = false;  // tells its events
  size_t next_past_ = 0;
  std::set<HostId> unjudged_;  // hosts that should have workers, perhaps with state
  bool to_begin_again_ = false;
};

}  // namespace scalai::executor
