#pragma once
// For tests of the control loop's parts one by one: a scenario, and the state that the parts share.

#include <string>
#include <utility>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/run/control/internal/condition.h"
#include "ptc/run/control/internal/jobs.h"
#include "ptc/run/control/internal/turn.h"
#include "ptc/run/control/testing/control_fixture.h"
#include "ptc/run/scenario/job_state.h"

namespace scalai::control::testing {

inline scenario::Scenario checked_scenario(const std::string& text) {
  absl::StatusOr<scenario::Scenario> scenario = scenario_of(kSmallCluster + text);
  SCALAI_CHECK(scenario.ok(), message_of(scenario.status()));
  return *std::move(scenario);
}

struct Parts {
  explicit Parts(const std::string& text, bool reads_samples = false)
      : scenario(checked_scenario(text)), jobs(scenario, reads_samples), condition(scenario.cluster) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  // The job trains at `step` in the configuration of this number in its list, on these devices.
  Job& train(int index, size_t config, const std::vector<int>& devices, int64_t step = 0) {
    Job& job = jobs[index];
    const scenario::ParallelChoice& choice = job.spec->configs.at(config);
    job.submitted = true;
    job.mode = Mode::kTraining;
    job.choice = std::make_shared<const scenario::ParallelChoice>(choice);
    job.devices = device_ids(devices);
    auto built = scenario::collection_of(*job.spec, choice.config, job.devices);
    SCALAI_CHECK(built.ok(), message_of(built.status()));
    job.state = {.step = step, .collection = std::make_shared<collection::Collection>(*std::move(built)), .gone = {}};
    return job;
  }
  // The devices are lost, at a failure at this time.
  void lose(const std::vector<int>& devices, double failed_at_s = 0) {
    const std::vector<DeviceId> ids = device_ids(devices);
    condition.lose({ids.begin(), ids.end()}, failed_at_s);
  }

  // The commands of one type since the last call of clear().
  template <class C>
  std::vector<C> all() const {
    return all_of<C>(turn.commands);
  }
  void clear() { turn.commands.clear(); }

  const scenario::Scenario scenario;
  Turn turn;
  Jobs jobs;
  Condition condition;
};

// A job with steps of 4 s on one GPU, 2 s on two, 1 s on four.
inline std::string sized_job(const std::string& name, const std::string& more = "", int gpus = 4) {
  return job_text(name, fmt::format("gpus: {} configs {{ layout: \"tp2,dp2\" step_time: \"1s\" }} "
                                    "configs {{ layout: \"tp2,dp1\" step_time: \"2s\" }} "
                                    "configs {{ layout: \"tp1\" step_time: \"4s\" }} {}",
                                    gpus, more));
}

}  // namespace scalai::control::testing
