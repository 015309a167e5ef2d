#pragma once
// The target of a job: the configuration and the devices that it is to have now. Of its listed configurations the
// largest that fits the devices it may use; with `parallel: choose` the parallelizer's best on them. One thread;
// changes no job.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ptc/run/control/internal/change_planner.h"
#include "ptc/run/control/internal/condition.h"
#include "ptc/run/control/internal/jobs.h"
#include "ptc/run/control/internal/turn.h"
#include "ptc/run/scenario/chooser.h"
#include "ptc/run/scenario/strategy.h"

namespace scalai::control {

class Targets {
 public:
  // All outlive this.
  Targets(const scenario::Scenario& scenario, const scenario::Strategy& strategy, const Condition& condition,
          const Jobs& jobs, const ChangePlanner& planner, const Turn& turn);

  // Nothing: the job waits.
  std::optional<Target> choose(const Job& job);
  // The job has what it wants.
  bool settled(const Job& job);
  // Devices that the job may use, as many as it wants: its own first, then free ones by number; of a job that names
  // devices those.
  std::vector<DeviceId> usable_devices(const Job& job) const;
  // Devices that a job without a target keeps while it waits.
  std::vector<DeviceId> kept_devices(const Job& job) const;
  // Of a job without a target: why nothing fits, and what would help. With `parallel: choose` as it was when it was
  // last asked. "" = something did fit, or a policy offers it nothing.
  std::string why_none(const Job& job) const;
  // Why a job waits, in few words: the reason that its downtime has in reports.
  std::string why_waits(const Job& job) const;

 private:
  struct Offer {
    int gpus = 0;                  // that it can have
    int held = 0;                  // with other jobs
    int gone = 0;                  // lost or drained
    std::vector<std::string> why;  // no more than that
  };
  Offer offer_to(const Job& job) const;
  std::vector<DeviceId> free_devices(const Job& job) const;
  std::optional<Target> largest_target(const Job& job) const;
  std::optional<Target> best_target(const Job& job);
  void add_held(const Job& job, scenario::Chooser::Question& question) const;
  bool may_stay(const Job& job) const;
  std::string why_none_listed(const Job& job) const;

  const scenario::Scenario& scenario_;
  const scenario::Strategy& strategy_;
  const Condition& condition_;
  const Jobs& jobs_;
  const ChangePlanner& planner_;
  const Turn& turn_;
  scenario::Chooser chooser_;
  // By job. Answers that count the cost of a change hold within an event: a job's target is asked for more than once.
  std::map<int, std::pair<std::string, std::optional<Target>>> weighed_;
  std::map<int, std::string> no_fit_;
};

}  // namespace scalai::control
