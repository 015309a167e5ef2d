#pragma once
// From a job's state to a target: the copies that the state can come from, the device of each rank, the plan, and the
// command that runs it. Also the costs of a change before it is decided on, for jobs that choose what pays off. One
// thread; changes nothing.

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/cost/step/step_time.h"
#include "ptc/run/control/events.h"
#include "ptc/run/control/internal/condition.h"
#include "ptc/run/control/internal/departure.h"
#include "ptc/run/control/internal/job.h"
#include "ptc/run/scenario/chooser.h"
#include "ptc/run/scenario/strategy.h"

namespace scalai::control {

// A copy of the job's state to plan from.
struct Source {
  Holding holding;
  collection::Residency residency;
  bool restore = false;             // kept state comes back from host memory
  std::set<DeviceId> leaving = {};  // that will be taken, and are read before that
};
// A plan from a source, and where it leads.
struct PlannedChange {
  std::shared_ptr<const collection::Collection> to;
  plan::Plan plan;
};

class ChangePlanner {
 public:
  // All outlive this. `check_plans`: as ControlOptions.
  ChangePlanner(const scenario::Scenario& scenario, const scenario::Strategy& strategy, const Condition& condition,
                bool check_plans);

  // ---- the change that is made
  // A planned change of a job that trains begins with a checkpoint: its strategy restarts from one, or its devices are
  // taken and it has no others (`waits`), so that their state would be lost.
  bool saves_first(const Job& job, bool waits = false) const;
  // Copies to try, of the latest step first: as few steps as possible are run again. One with devices that will be
  // taken is there twice: with them, which may take too long (in_time), and without.
  std::vector<Source> sources(const Job& job) const;
  // The device of each rank of `to`, whose devices are in rank order: the cheapest of the candidates, where the
  // strategy chooses. A configuration that was chosen stays on the devices on which it was priced, in an order that
  // makes no step longer.
  std::vector<DeviceId> place_ranks(const Job& job, const Source& source, const collection::Collection& to,
                                    const scenario::ParallelChoice& choice,
                                    const std::vector<DeviceId>& candidates) const;
  // True if plans from live state keep to a memory cap, and for it may give up old state early.
  bool caps_memory() const { return scenario_.memory_cap >= 0 && strategy_.caps_memory(); }
  // Error: no order keeps the memory cap.
  absl::StatusOr<plan::Plan> make_plan(const Source& source, const collection::Collection& to) const;
  // To `to`, whose devices are in rank order, placed as above.
  absl::StatusOr<PlannedChange> plan_to(const Job& job, const Source& source, collection::Collection to,
                                        const scenario::ParallelChoice& choice,
                                        const std::vector<DeviceId>& candidates) const;
  Execute execution(const Job& job, const Source& source, const PlannedChange& change) const;
  // Seconds from its beginning until the change reads nothing more of devices that will be taken; and whether that is
  // over in time, if it begins now.
  double seconds_to_leave(const Job& job, const Source& source, const PlannedChange& change) const;
  bool in_time(const Job& job, const Source& source, const PlannedChange& change, double now_s) const;

  // Times of what leaves devices before they are taken.
  const Departure& departure() const { return departure_; }

  // ---- its cost ahead of time
  // No change takes less.
  double least_change_s() const { return change::fixed_seconds(strategy_.costs, {}); }
  // Prices changes from the job's present state to candidates on devices out of `usable`. Both outlive the function.
  scenario::Chooser::Change pricer(const Job& job, const std::vector<DeviceId>& usable) const;
  // Of the change to this target, and of the steps that it has run again. Nothing: no copy of the state can be read.
  std::optional<double> seconds_to(const Job& job, const Target& target) const;
  // By the closed form; the devices in rank order.
  step::Hardware hardware_on(const Job& job, const scenario::ParallelChoice& choice,
                             const std::vector<DeviceId>& devices) const;

 private:
  struct Staged {
    Source source;
    std::vector<BulkFlow> flows;
    double written_s = 0;  // until the copy is there
  };
  void leave_out_of_reach(const Job& job, Source& source) const;
  std::vector<Source> with_and_without_leaving(std::vector<Source> list) const;
  std::vector<BulkFlow> staging_flows(const Source& source) const;
  double storage_seconds(const Job& job, double bytes_per_s) const;
  double reading_seconds(const Job& job, const Source& source) const;
  std::optional<step::Change> change_to(const Job& job, const std::vector<DeviceId>& usable,
                                        const std::vector<Staged>& staged, const step::Candidate& candidate,
                                        size_t& whole) const;

  const scenario::Scenario& scenario_;
  const scenario::Strategy& strategy_;
  const Condition& condition_;
  const bool check_plans_;
  const Departure departure_;
};

step::StepTime priced(const Job& job, const scenario::ParallelChoice& choice, const step::Hardware& hardware);

}  // namespace scalai::control
