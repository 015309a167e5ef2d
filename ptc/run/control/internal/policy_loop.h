#pragma once
// The scenario's policy in the control loop: it is told what happened, asked once about all of it, and its grants
// become the devices that jobs want. A job moves to them as soon as those who are on them have left. One thread.
//
//     tell … tell ──► ask ──► Answer ──► grant (wishes of jobs) ──► take_change … (jobs to look at again)
//                                  └───► refused jobs, wake-up
//
// Without a policy in the scenario there is nothing to ask, and telling does nothing.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ptc/run/control/internal/condition.h"
#include "ptc/run/control/internal/jobs.h"
#include "ptc/run/control/internal/policy_placer.h"
#include "ptc/run/control/internal/policy_view.h"
#include "ptc/run/control/internal/script.h"
#include "ptc/run/control/internal/turn.h"
#include "ptc/run/policy/policy.h"

namespace scalai::control {

class PolicyLoop {
 public:
  using Kind = policy::Event::Kind;
  struct Answer {
    policy::Decision decision;
    bool only_woken = false;  // its own wake-up was all that it had been told
  };

  // All outlive this. `given` (null: none) is asked in place of the scenario's own policy. Begins it: see status().
  PolicyLoop(const scenario::Scenario& scenario, const scenario::Strategy& strategy, Jobs& jobs,
             const Condition& condition, const Turn& turn, policy::Policy* given);

  bool active() const { return policy_ != nullptr; }
  bool is_program() const { return active() && !scenario_.policy->exec.empty(); }  // its answers stand in the log
  // Not OK once the policy has failed: the run cannot go on.
  const absl::Status& status() const { return status_; }

  // ---- what it is told before it is asked
  void tell(Kind kind, int job = -1);
  // GPUs that are gone, or to be left: jobs that were granted some of them have no grant any more.
  void take_grants(const std::set<DeviceId>& devices, const std::string& cause);
  // A user wants the job to use no more GPUs than that, whatever the policy gives.
  void limit(Job& job, int gpus);
  void leave(Job& job);
  // A timer fired; nothing unless it is the one that the policy waits for.
  void wake(int64_t timer);

  // ---- asking
  // Nothing: it was told nothing, or it failed.
  std::optional<Answer> ask();
  // Sets the jobs' wishes. False: the answer breaks a rule (ptc/run/policy/decision.h), and the policy has failed.
  bool grant(const Answer& answer);
  // Arms the timer at which it wants to be asked again.
  void arm_wake_up(const Answer& answer, Script& script, Turn& turn);

  // ---- what its answers change
  struct Change {
    int job = 0;
    std::string cause;
  };
  std::optional<Change> take_change();
  void drop_changes() { changes_.clear(); }
  void drop_change(const Job& job) { changes_.erase(job.index); }
  // It has been told something, or jobs are to be looked at.
  bool unsettled() const { return !told_.empty() || !changes_.empty(); }

 private:
  absl::Status begin(policy::Policy* given, const scenario::Strategy& strategy);
  void show();  // brings its view up to date
  Standing standing() const;
  policy::Presence presence(policy::JobId id) const;
  absl::StatusOr<std::vector<Wish>> wishes(const policy::Decision& decision) const;
  void note_wish(const Wish& wish);
  void want_granted(Job& job);

  const scenario::Scenario& scenario_;
  Jobs& jobs_;
  const Condition& condition_;
  const Turn& turn_;
  std::unique_ptr<policy::Policy> own_policy_;
  policy::Policy* policy_ = nullptr;  // null: there is none
  std::unique_ptr<PolicyView> view_;
  absl::Status status_;
  std::vector<policy::Event> told_;                    // since it was last asked
  std::map<int, std::string> changes_;                 // jobs to be looked at again, and why
  std::optional<std::pair<int64_t, double>> wake_up_;  // the timer that it waits for, and when
  int idle_wakes_ = 0;                                 // in a row, that changed nothing while nothing ran
};

}  // namespace scalai::control
