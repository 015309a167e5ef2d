#pragma once
// The state of an ExecRuntime and its handlers, spread over four sources:
//   exec_runtime.cpp         commands, executions
//   exec_runtime_clock.cpp   time, real training up to it, and the events received on the way
//   exec_runtime_copies.cpp  copies, checkpoints, and the checkpoint of a job's last step
//   exec_runtime_resume.cpp  what an earlier controller did, and going on from there

#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "executor/controller/exec_runtime.h"
#include "executor/controller/job_work.h"
#include "ptc/change/maxmin.h"
#include "ptc/control/agenda.h"
#include "ptc/control/training.h"

namespace scalai::executor {

constexpr double kLossTimeout_s = 30;  // from a failed transfer to the loss that explains it
constexpr double kPoll_s = 0.02;

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class ExecRuntime::Impl {
 public:
  Impl(const scenario::Scenario& scenario, ControllerEnd& controller, WorkerPool& pool, control::Recorder& recorder,
       ExecOptions options)
      : scenario_(scenario),
        controller_(controller),
        pool_(pool),
        recorder_(recorder),
        options_(std::move(options)),
        started_(std::chrono::steady_clock::now()),
        platform_(scenario.cluster, change::LinkRates::kReached, options_.stores),
        network_(platform_.spec()),
        agenda_(scenario.cluster, platform_, network_, modelled_) {
    replaying_ = options_.resume;
    for (size_t i = 0; i < scenario.jobs.size(); ++i)
      jobs_.push_back({.work = std::make_unique<JobWork>(static_cast<int>(i), scenario, pool, options_)});
    tell_unkept();
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
    agenda_.halt(halt.job);
    job(halt.job).training.reset();
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
  absl::Status perform(const control::Forget& forget) {
    std::erase_if(job(forget.job).copies, [&](const Copy& copy) { return copy.command.tag == forget.snapshot; });
    return job(forget.job).work->snapshots().forget(forget.snapshot);
  }
  absl::Status perform(const control::ArmTimer& timer) {
    agenda_.arm(timer);
    return absl::OkStatus();
  }
  absl::Status perform(const control::Inject& inject);
  absl::Status perform(const control::Stop& stop);

  using Agenda = control::Agenda;

  struct Execution {
    control::Execute command;
    std::future<StageOutcome> work;  // of the stages up to the current one
    size_t worked = 0;               // stages whose work is done, perhaps by an earlier controller
    control::PhaseSeconds phases;    // as measured
    std::set<DeviceId> known_dead;   // to the control loop, when it made the plan
    bool broken = false;             // a device of it is dead: nothing more comes of it
    int last_mark = -1;              // RoundDone reported last, perhaps by an earlier controller
  };
  // A checkpoint of real training whose files workers write.
  struct Copy {
    control::Background command;
    bool due = false;  // its modelled end is over
  };
  struct JobState {
    std::unique_ptr<JobWork> work;
    std::vector<Copy> copies{};
    std::set<DeviceId> gone;  // have failed since the epoch was committed: what they held of it is lost
    std::optional<Execution> execution;
    std::deque<control::Read> unread;        // what the control loop waits for
    bool new_layout = true;                  // the next Train is the first one in it
    int dp = 0;                              // of the layout that is trained; 0: none yet
    int64_t layout_step = 0;                 // at which it began
    int64_t failed_copy_step = -1;           // of the last copy that could not be made
    double copy_pause_s = 0;                 // before that is reported, if that step is tried again
    bool told_late = false;                  // that training waits for checkpoints
    std::optional<control::Train> training;  // the Train command that has not come to its end
    bool copies_state = false;               // trainers train elsewhere, and copy their state at the end of each part
    int64_t part_steps = 1;                  // of real training between two times when requests are received
    // With `training` only.
    control::Training where() const {
      return {training->start_s, training->from_step, training->until_step, training->step_s};
    }
  };

  JobState& job(int index) { return jobs_[static_cast<size_t>(index)]; }
  const scenario::JobSpec& spec(int index) const { return scenario_.jobs[static_cast<size_t>(index)]; }
  void report(control::EventBody body) { ready_.push_back({agenda_.now_s(), std::move(body)}); }

  absl::Status happen(const Agenda::TrainEnd& end);
  absl::Status happen(const Agenda::StageEnd& end);
  absl::Status happen(const Agenda::CopyEnd& end);
  absl::Status happen(const Agenda::LossKnown& loss) {
    report(control::DevicesLost{loss.devices, loss.failed_at_s});
    return absl::OkStatus();
  }
  absl::Status happen(const Agenda::TimerEnd& end) {
    report(control::TimerFired{end.timer});
    return absl::OkStatus();
  }

  // The job's live state at this step. Workers that are lost on the way, and trainers, are reported.
  absl::Status advance(int job_index, int64_t step);
  // Devices whose trainers ended amid a step, without a whole state.
  absl::Status lose(const Interruption& interruption);
  // Brings real training to where it stands in scenario time.
  absl::Status keep_up();
  // In scenario time; infinity where nothing is really trained.
  double end_of_part() const;
  // Whether trainers stand beyond where scenario time is, as an earlier controller left them.
  bool catching_up() const;
  // Gives readers outside of the run the live state of jobs that rest at a step, and takes back what they keep no more.
  absl::Status serve_live();
  void record(int job_index, const control::Train& train, const TrainerWork::Trained& trained);
  void report_losses();
  // Reports the checkpoints that are due and whose files are there.
  absl::Status collect_copies();
  bool any_due() const;
  bool any_under_way() const;  // training, or a change
  // With late_checkpoints: until those under way are there, where training comes to a step at which one is due.
  absl::Status wait_for_copies(const Agenda::TrainEnd& end);
  // The checkpoint of the step at which a job ends. Tries again until it is written, unless the job loses a device.
  absl::Status keep_last(int job_index);
  bool keeps_last(int job_index) const;
  bool has_storage() const;
  void tell_unkept() const;
  // Whether the run ends under a job whose state is in no checkpoint.
  bool is_cut_short(int job_index) const;
  bool any_cut_short() const;
  absl::Status keep_cut_short(int job_index);
  bool is_last(int job_index, int64_t step) const { return spec(job_index).steps > 0 && step >= spec(job_index).steps; }
  void pause_after_failure(JobState& state);
  absl::Status give_up(const control::Background& background, const absl::Status& why);
  // These hold nothing any more.
  void mark_gone(const std::vector<DeviceId>& devices);
  void take_up(const control::Execute& execute);  // without beginning its work
  // False where a device is dead: then the loss will be known soon.
  bool take_up(const control::Train& train);
  void tell_layout(int job_index);
  absl::Status apply(const scenario::Fail& fail, double detect_s);
  absl::Status apply(const scenario::Repair& repair);
  absl::Status begin_work(int job_index);
  const change::Stage& current_stage(int job_index) {
    return (*agenda_.stages(job_index))[agenda_.current_stage(job_index)];
  }
  absl::Status catch_up(int job_index);
  absl::Status begin_again(int job_index);
  absl::Status end_stage(int job_index, const StageOutcome& outcome);
  // The agenda's side of it; events that follow, without those that were reported before.
  std::vector<control::EventBody> end_modelled_stage(int job_index);
  absl::Status read_samples();
  absl::Status unless_lost(const absl::Status& status);
  void receive_events(double timeout_s);
  // What is written down of an earlier controller has been done, but for what its last event led to: that is done
  // again, whatever came of it.
  bool past_is_over() const { return next_past_ == options_.past.size(); }
  void note(const control::Command& command);
  void note(const control::Event& event);
  absl::Status go_live();
  absl::Status find_trainers();
  absl::Status judge_workers();
  absl::Status begin_again();
  // Brings the agenda to an event of the past. Whether the event is one of the agenda's.
  bool replay(const control::Event& event);
  enum class Verdict : uint8_t { kIsIt, kNothing, kOther };
  Verdict compare(const Agenda::Happening& happening, const control::Event& event);
  // What happens next, by the clock; nothing where an event was received first, or nothing can happen.
  absl::StatusOr<std::optional<Agenda::Happening>> await_next();
  void worker_lost(HostId host, const std::string& why);
  bool any_dead(const std::vector<DeviceId>& devices) const { return agenda_.any_dead(devices); }
  bool needs_dead(int job_index);
  bool involves_dead(const Execution& execution) const;

  const scenario::Scenario& scenario_;
  ControllerEnd& controller_;
  WorkerPool& pool_;
  control::Recorder& recorder_;
  const ExecOptions options_;
  std::chrono::steady_clock::time_point started_;  // real time of scenario time 0

  // Scenario time: the simulator's agenda, on our exact solver.
  const change::Platform platform_;
  change::MaxMinBackend network_;
  control::Recorder modelled_;  // the agenda's transfers, which nobody reads
  Agenda agenda_;
  std::deque<Agenda::Happening> pending_;  // that wait until events received before them are dealt with
  std::vector<JobState> jobs_;
  std::deque<control::Event> ready_;
  int64_t losses_ = 0;  // workers lost so far
  struct Loss {
    std::vector<DeviceId> devices;
    bool usable = false;  // as DevicesLost::usable
    std::string cause = {};
  };
  std::vector<Loss> unreported_;     // the control loop has not been told
  std::map<DeviceId, int> emptied_;  // how often trainers left a device without its state
  bool reporting_ = false;
  absl::Status trouble_;  // that came up where nobody could be told
  // Going on after an earlier controller:
  bool replaying_ = false;  // tells its events
  size_t next_past_ = 0;
  std::set<HostId> unjudged_;  // hosts that should have workers, perhaps with state
  bool to_begin_again_ = false;
};

}  // namespace scalai::executor
