#pragma once
// The control loop's state and its handlers, spread over sources by what they decide:
//   control.cpp      events, the scenario's script
//   pace.cpp         training: how long steps take, where it goes on
//   choose.cpp       which configuration a job takes
//   policy_loop.cpp  asking the scenario's policy, and doing what it says
//   reconfigure.cpp  where a job goes, where its state comes from, attempts and commits
//   snapshots.cpp    copies of a job's state
//   bookkeeping.cpp  records for the report, the dataset's books

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ptc/control/control.h"
#include "ptc/control/internal/chooser.h"
#include "ptc/control/internal/job.h"
#include "ptc/control/internal/policy_placer.h"

namespace scalai::control {

class Control::Impl {
 public:
  Impl(const Scenario& scenario, Strategy strategy, const parallel::StepTimeModel& step_time,
       const ControlOptions& options);

  std::vector<Command> step(const Event& event);
  RunReport report(double at_s) const;
  std::vector<JobStatus> status(double at_s) const;
  const std::vector<std::shared_ptr<const plan::Plan>>& plans() const { return plans_; }
  const absl::Status& policy_status() const { return policy_status_; }

 private:
  // ---- control.cpp: events --------------------------------------------------------------------------------------
  void on(const Started&);
  void on(const StepReached& event);
  void on(const RoundDone& event);
  void on(const ExecutionDone& event);
  void on(const BackgroundDone& event);
  void on(const TimerFired& event);
  void on(const DevicesLost& event);
  void on(const UserResize& event);
  void on(const UserDrain& event);
  void on(const UserStop& event);
  void on(const SamplesRead& event);
  void on(const PolicyDecided&) {}  // of a log; nobody gives it to the control loop

  void arm(double at_s, int event);   // event index, or one of the constants below
  void fire(size_t event);            // the scenario's event of this index happens now
  void fire_reached(const Job& job);  // its at_step events that are due
  void apply(const Resize& what);
  void apply(const Redeploy& what);
  void apply(const Fail& what);
  void apply(const Repair& what);
  void apply(const Degrade& what);
  void apply(const Preempt& what);
  void leave_devices(const std::vector<DeviceId>& devices, const std::string& cause);

  // Where the job stands may no longer be what it wants: finds out, and stops it at the next step boundary if so.
  void retarget(Job& job, const std::string& cause, bool forced = false);
  void lose_devices(Job& job, const std::set<DeviceId>& lost, double failed_at_s, const std::string& cause);
  bool lost_since(DeviceId device, double made_s) const;
  void stop(Job& job);
  void complete(Job& job);
  void submit(Job& job);
  void start_at_once(Job& job);  // at the beginning of the scenario
  void stop_if_over();
  void end();  // the run is over as soon as all that was done is accounted for

  // ---- pace.cpp ---------------------------------------------------------------------------------------------------
  void start_training(Job& job, double stall_s = 0);
  void train(const Job& job);  // the Train command of where it stands
  void stop_at_boundary(Job& job);
  double step_seconds(const Job& job);  // of a job that trains, beside all others that do
  void update_paces();                  // after who trains, a device's speed or a link has changed
  // Jobs whose steps now take another time end the one under way as it began and go on at the new pace.
  void keep_pace();
  void note_configuration(Job& job);

  // ---- snapshots.cpp --------------------------------------------------------------------------------------------
  int64_t next_milestone(const Job& job) const;
  double start_snapshots(Job& job);  // due ones; returns how long training stalls for them
  int64_t start_snapshot(Job& job, bool is_checkpoint);
  void start_last_copy(Job& job);
  std::set<HostId> hosts_down() const;
  void drop_in_flight(Job& job, const std::function<bool(const Holding&)>& worthless);

  // ---- choose.cpp -------------------------------------------------------------------------------------------------
  // Nothing: the job waits.
  std::optional<Target> choose_target(const Job& job);
  std::shared_ptr<const ParallelChoice> listed_configuration(const Job& job, int gpus) const;
  std::optional<Target> best_target(const Job& job);
  void add_held(const Job& job, Chooser::Question& question) const;
  // By the closed form; the devices in rank order.
  parallel::Hardware hardware_on(const Job& job, const ParallelChoice& choice,
                                 const std::vector<DeviceId>& devices) const;
  parallel::StepTime priced(const Job& job, const ParallelChoice& choice, const parallel::Hardware& hardware) const;
  struct Source;
  std::optional<parallel::Change> change_to(const Job& job, const std::vector<DeviceId>& usable,
                                            const std::vector<std::pair<Source, std::vector<BulkFlow>>>& staged,
                                            const parallel::Candidate& candidate, size_t& whole) const;
  double reading_seconds(const Job& job, const Source& source) const;
  std::vector<BulkFlow> staging_flows(const Source& source) const;
  double least_change_s() const;
  bool settled(const Job& job);  // it has what it wants

  // ---- policy_loop.cpp ----------------------------------------------------------------------------------------
  void begin_policy(sched::Policy* given);
  void tell_policy(sched::Event::Kind kind, int job = -1);  // before the next consult()
  // Asks it if it was told anything, and notes what its answer changes; nothing is done about that here.
  void consult();
  void follow();  // the jobs whose devices the policy has changed
  // GPUs that are gone, or to be left: it is told who had them.
  void take_grants(const std::set<DeviceId>& devices, const std::string& cause);
  void leave_policy(Job& job);  // the job is over
  void refuse(const std::vector<sched::JobId>& jobs);
  void note_wish(const Wish& wish);
  void want_granted(Job& job);
  void wake_policy(double at_s);
  void show_policy();  // brings its view up to date
  Standing standing() const;
  void policy_failed(const absl::Status& status);
  // Another job is still on devices that the policy gives this one.
  bool blocked(const Job& job) const;
  bool gives_way(const Job& job) const;  // jobs that wait for each other in a circle: the first of them goes first
  bool may_stay(const Job& job) const;
  std::set<int> waits_for(int job) const;
  std::set<int> in_the_way(const Job& job) const;

  // ---- reconfigure.cpp ------------------------------------------------------------------------------------------
  // A complete copy of the job's state to plan from.
  struct Source {
    Holding holding;
    collection::Residency residency;
    bool restore = false;  // kept state comes back from host memory
  };
  std::vector<DeviceId> free_devices(const Job& job) const;    // all it might be given, those it has first
  std::vector<DeviceId> usable_devices(const Job& job) const;  // of these as many as it wants
  std::vector<Source> sources(const Job& job) const;
  void begin_reconfiguration(Job& job);
  void begin_attempt(Job& job);
  std::vector<DeviceId> place_ranks(const Job& job, const Source& source, const collection::Collection& to,
                                    const ParallelChoice& choice) const;
  // Error: no order keeps the memory cap.
  absl::StatusOr<std::shared_ptr<const plan::Plan>> make_plan(const Source& source,
                                                              const collection::Collection& to) const;
  Execute execution(const Job& job, const Source& source, std::shared_ptr<const plan::Plan> plan) const;
  void commit(Job& job, const PhaseSeconds& phases);
  void wait(Job& job);
  void fail(Job& job, std::string why);

  // ---- bookkeeping.cpp ------------------------------------------------------------------------------------------
  void allocate(Job& job, std::vector<DeviceId> devices);  // closes the books on the old ones
  void credit_training(Job& job, int64_t steps_done);      // steps of the running Train command
  void end_span(Job& job, const std::string& what, double end_s);
  void record_phase_spans(const Job& job, const PhaseSeconds& phases, const std::vector<DeviceId>& devices);
  void sample_memory(const Job& job);
  void misread(Job& job, std::string what);  // what was read does not fit: the job has failed

  const Scenario& scenario_;
  const Strategy strategy_;
  const parallel::StepTimeModel& step_time_;
  const ControlOptions options_;

  double now_s_ = 0;
  std::vector<Command> commands_;  // answer to the event at hand
  std::vector<Job> jobs_;
  std::vector<int> arrivals_;  // jobs in order of submission: who comes first is asked first
  std::set<DeviceId> dead_, draining_;
  std::map<DeviceId, double> repaired_at_s_;
  std::map<DeviceId, double> speed_;     // of degraded devices, share of nominal
  std::map<std::string, double> links_;  // of degraded links, share of nominal; 0 = down
  std::string paced_;                    // who trains, where and how fast, when paces_ were computed
  std::map<int, double> paces_;          // seconds a step, by job
  Chooser chooser_;
  // Answers that count the way there hold within an event: a job's is asked for more than once.
  std::map<int, std::pair<std::string, std::optional<Target>>> weighed_;
  std::map<int, std::string>
      no_fit_;               // by job that chooses: why nothing fitted when it was last asked; "" = something did
  std::vector<bool> fired_;  // by scenario event
  static constexpr int kUntil = -1, kArrival = -2, kWake = -3;
  std::vector<std::pair<int, bool>> timers_;  // by timer id: scenario event (or one of these), deadline of a preemption

  // The scenario's policy; null without one.
  sched::Policy* policy_ = nullptr;
  std::unique_ptr<sched::Policy> own_policy_;
  std::unique_ptr<PolicyView> policy_view_;
  absl::Status policy_status_;
  std::vector<sched::Event> policy_events_;            // since it was last asked
  std::map<int, std::string> policy_changes_;          // jobs to be looked at again, and why
  std::map<int, int> limits_;                          // GPUs, by job, that a user has asked for
  std::optional<std::pair<int64_t, double>> wake_up_;  // the timer that it waits for, and when
  int idle_wakes_ = 0;                                 // in a row, that changed nothing while nothing ran
  int64_t next_tag_ = 1;
  bool ending_ = false;  // only accounts of samples are waited for
  bool over_ = false;
  bool stopping_ = false;  // UserStop came
  std::string freed_by_;   // a job that has left devices during this event; "" = none

  std::vector<std::shared_ptr<const plan::Plan>> plans_;
  std::vector<Event> events_;
  std::vector<JobSpan> spans_;
  std::vector<MemorySample> memory_;
};

// The state that a job begins with, as a checkpoint.
inline Holding initial(Holding state) {
  state.snapshot = kInitialState;
  return state;
}

// "g3 g8-g11": runs of neighbouring devices.
std::string device_list(const std::vector<DeviceId>& devices);

}  // namespace scalai::control
