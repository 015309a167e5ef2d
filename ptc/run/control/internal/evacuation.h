#pragma once
// What a job does with a notice. Of the answers that save all state before the deadline D the one that costs least;
// each begins as late as it can, so that the job trains until then. Jobs that leave a host together share its links:
// each begins as if the others went first.
//
//   leaves       a change from the live state, if it reads the devices no more after T: begins by D − 1.1 · T.
//                State that others hold, too, is read from them, so T = 0 if they hold all
//   copies       boxes that are nowhere else to the memory of hosts that stay; then the change, which reads those
//   checkpoint   all state to storage; then the change. Before `copies` for a job that nothing fits: nobody knows for
//                how long
//   goes back    none of these: at once to the latest copy that needs none of the devices, as later steps are lost
//                anyway. While a copy is on its way the job trains on, and decides again when that has arrived
//   loses        nor is there such a copy: as many bytes as arrive by D are copied, and the change is tried
//
// One thread; changes no job.

#include <optional>

#include "ptc/run/control/internal/change_planner.h"
#include "ptc/run/control/internal/jobs.h"
#include "ptc/run/control/internal/redundancy.h"
#include "ptc/run/control/internal/targets.h"
#include "ptc/run/control/internal/turn.h"

namespace scalai::control {

struct Evacuation {
  enum class Answer { kLeave, kCopy, kCheckpoint, kGoBack, kLose };
  Answer answer = Answer::kLeave;
  NoticeRecord record;  // `starts_s` is the latest time; of kGoBack the deadline while it waits for a copy
  Redundancy copies;    // kCopy, kLose
};

class Evacuator {
 public:
  // All outlive this.
  Evacuator(const scenario::Strategy& strategy, const Condition& condition, const Jobs& jobs,
            const ChangePlanner& planner, Targets& targets, const Turn& turn);

  // Nothing: the job trains on no device that will be taken at a known time.
  std::optional<Evacuation> decide(const Job& job);
  // The end of all of a job that trains, at the deadline: a checkpoint, or, where that takes too long, the one before.
  Evacuation decide_stop(const Job& job, double deadline_s) const;

 private:
  std::optional<double> seconds_to_leave(const Job& job);
  std::optional<double> seconds_to_save(const Job& job) const;
  std::optional<double> seconds_to_copy(const Redundancy& copies, int64_t bytes) const;
  Redundancy most_by(const Redundancy& copies, const std::set<HostId>& going, double within_s) const;
  void go_back(const Job& job, Evacuation& evacuation) const;
  static void go_back_to(const Holding& copy, const Job& job, NoticeRecord& record);
  plan::Plan state_without(const Job& job, const std::set<DeviceId>& leaving, const Redundancy& copies) const;
  std::set<HostId> hosts_that_go(const Job& job) const;
  double seconds_of_others(const Job& job, const std::set<DeviceId>& leaving) const;

  const scenario::Strategy& strategy_;
  const Condition& condition_;
  const Jobs& jobs_;
  const ChangePlanner& planner_;
  Targets& targets_;
  const Turn& turn_;
};

}  // namespace scalai::control
