// One policy over the same three jobs by each of its callers: the control loop in simulation, the engine of many jobs,
// and the control loop over worker processes. Steps take the same time everywhere and changes next to none, so all
// give the same GPUs of the same hosts, decision by decision.

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "ptc/base/status.h"
#include "ptc/run/control/control.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/scenario/testing/scenarios.h"
#include "sim/jobs/scenario/engine_parts.h"
#include "sim/sim_runtime.h"
#include "sim/simgrid_backend.h"
#include "tests/exec_end_to_end.h"

namespace scalai::testing {
namespace {

using Decisions = std::vector<std::string>;

// "a 4 of type 0 on h0:2 h1:2"
std::string text_of(const std::string& job, const policy::Placement& placement) {
  std::string text = fmt::format("{} {} of type {} on", job, placement.gpus(), placement.type.value);
  for (const policy::HostShare& share : placement.hosts) text += fmt::format(" h{}:{}", share.host.value, share.gpus);
  return text;
}

// Asks a policy, and records the places of all jobs and the grants where they are others than before.
class Recorder final : public policy::Policy {
 public:
  explicit Recorder(const std::string& name) : policy_(policy::make_policy(name, {}, 1).value()) {}

  policy::PolicyTraits traits() const override { return policy_->traits(); }
  absl::Status begin(const policy::View& view) override { return policy_->begin(view); }
  absl::StatusOr<policy::Decision> decide(const policy::View& view, std::span<const policy::Event> events) override {
    std::string places = "places:";
    for (const policy::JobId id : view.active()) {
      const policy::Placement now = view.progress(id).placement;
      if (!now.empty()) places += " " + text_of(view.job(id).name, now) + ";";
    }
    if (!view.active().empty()) note(places);
    absl::StatusOr<policy::Decision> decision = policy_->decide(view, events);
    if (!decision.ok()) return decision;
    std::map<policy::JobId, std::string> grants;
    for (const policy::Grant& grant : decision->grants) {
      grants[grant.job] =
          fmt::format("grant: {} GPUs of type {} to {}", grant.gpus, grant.type.value, view.job(grant.job).name);
      EXPECT_TRUE(grant.hosts.empty()) << "the caller places";
    }
    for (const auto& [job, text] : grants) note(text);
    return decision;
  }
  const Decisions& decisions() const { return decisions_; }

 private:
  void note(std::string line) {
    if (decisions_.empty() || decisions_.back() != line) decisions_.push_back(std::move(line));
  }

  std::unique_ptr<policy::Policy> policy_;
  Decisions decisions_;
};

// Steps a second on so many GPUs: the largest configuration that fits.
double steps_per_s(int gpus) { return gpus >= 8 ? 2 : gpus >= 4 ? 1 : 0.5; }

struct ThreeJobs {
  struct One {
    const char* name;
    double submit_s;
    int gpus, min_gpus, max_gpus, steps;
  };
  // The second is shorter than the first, the third shorter than both.
  static constexpr One kAll[] = {{"a", 1, 8, 2, 8, 900}, {"b", 60.5, 4, 2, 8, 150}, {"c", 110.5, 2, 2, 4, 140}};
};

class PolicyCallers : public Exec, public ::testing::WithParamInterface<std::string> {
 protected:
  std::string head() const {
    return R"(schema_version: 1 name: "three jobs" seed: 1
cluster {
  name: "two kinds"
  hosts { count: 2 gpus: 4 gpu: "a6000-48g" nics: 1 nic: "10GB/s" pcie: "20GB/s" gpu_link: "40GB/s" }
  hosts { count: 1 gpus: 2 gpu: "v100-16g" nics: 1 nic: "10GB/s" pcie: "20GB/s" gpu_link: "40GB/s" }
}
)" + fmt::format("policy {{ name: \"{}\" }}\n", GetParam());
  }
  // In the order of the text: also the file that worker processes run.
  std::string few_jobs() const {
    std::string text = head() + "costs { detect: \"0s\" plan: \"0s\" restart: \"0s\" communicator: \"0s\" }\n";
    for (const ThreeJobs::One& job : ThreeJobs::kAll) {
      text += scenario::testing::job_text(job.name,
                                          fmt::format("gpus: {} min_gpus: {} max_gpus: {} steps: {} submit: \"{}s\" "
                                                      "configs {{ layout: \"tp2,dp4\" step_time: \"0.5s\" }} "
                                                      "configs {{ layout: \"tp2,dp2\" step_time: \"1s\" }} "
                                                      "configs {{ layout: \"tp2\" step_time: \"2s\" }}",
                                                      job.gpus, job.min_gpus, job.max_gpus, job.steps, job.submit_s));
    }
    return text;
  }
  std::string many_jobs() const {
    std::string jobs = "scalai-trace,1,jobs\nname,type,submit_s,gpus,min_gpus,max_gpus,work,duration_s\n";
    std::string rates = "type,gpu,gpus,iterations_per_s\n";
    for (const ThreeJobs::One& job : ThreeJobs::kAll)
      jobs += fmt::format("{},tiny,{},{},{},{},{},{}\n", job.name, job.submit_s, job.gpus, job.min_gpus, job.max_gpus,
                          job.steps, job.steps / steps_per_s(job.gpus));
    for (int gpus = 2; gpus <= 8; ++gpus)
      rates += fmt::format("tiny,a6000-48g,{0},{1}\ntiny,v100-16g,{0},{1}\n", gpus, steps_per_s(gpus));
    write_all(path("jobs.csv"), jobs);
    write_all(path("rates.csv"), rates);
    write_all(path("many.textproto"), head() +
                                          "workload { file: \"jobs.csv\" }\n"
                                          "throughputs { file: \"rates.csv\" }\nchanges { seconds: \"0s\" }\n");
    return path("many.textproto");
  }
};

// The control loop on modelled links, with a policy of the test.
control::RunReport simulate(const scenario::Scenario& scenario, policy::Policy& policy) {
  const scenario::Strategy strategy = scenario::find_strategy("reshard", scenario.costs).value();
  const change::Platform platform(scenario.cluster, change::LinkRates::kReached, strategy.costs.stores);
  const step::AnalyticStepTime step_time;
  control::RunReport report;
  const absl::Status status =
      sim::with_backend(sim::BackendKind::kMaxMin, platform.spec(), [&](change::NetworkBackend& network) {
        control::Recorder recorder;
        sim::SimRuntime runtime(scenario.cluster, platform, network, recorder);
        control::Control loop(scenario, strategy, step_time, {.check_plans = true, .policy = &policy});
        control::Event event{.at_s = 0, .body = control::Started{}};
        for (bool over = false; !over; event = over ? event : runtime.next_event().value()) {
          for (const control::Command& command : loop.step(event)) {
            SCALAI_CHECK(runtime.perform(command).ok());
            over = over || std::holds_alternative<control::Stop>(command);
          }
        }
        report = loop.report(event.at_s);
        runtime.close();
      });
  SCALAI_CHECK(status.ok(), message_of(status));
  return report;
}

Decisions decisions_of_engine(const std::string& file, const std::string& name) {
  scenario::EngineParts parts;
  const auto loaded = scenario::load(file, {.engine = &parts});
  SCALAI_CHECK(loaded.ok(), message_of(loaded.status()));
  const auto changes = scenario::make_changes(*loaded, parts).value();
  Recorder recorder(name);
  const auto outcome = jobs::run({.workload = &loaded->many_jobs->workload,
                                  .fleet = &loaded->many_jobs->fleet,
                                  .throughput = parts.throughput.get(),
                                  .policy = &recorder,
                                  .changes = changes.get(),
                                  .options = parts.options,
                                  .watcher = {}});
  SCALAI_CHECK(outcome.ok(), message_of(outcome.status()));
  return recorder.decisions();
}

TEST_P(PolicyCallers, GiveTheSameGpusToTheSameJobs) {
  const auto scenario = scenario::testing::scenario_of(few_jobs());
  ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
  Recorder recorder(GetParam());
  const control::RunReport simulated = simulate(*scenario, recorder);
  EXPECT_GE(recorder.decisions().size(), 8u);
  EXPECT_EQ(fmt::format("{}", fmt::join(recorder.decisions(), "\n")),
            fmt::format("{}", fmt::join(decisions_of_engine(many_jobs(), GetParam()), "\n")));

  // A plan says which device each rank is on: with equal plans worker processes have the same grants.
  write_all(path("few.textproto"), few_jobs());
  write_all(path("tiny.json"), scenario::testing::kTinyModel);
  const Outcome run = exec(path("few.textproto"), "");
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json executed = nlohmann::json::parse(summary("exec")).at("jobs");
  ASSERT_EQ(executed.size(), simulated.jobs.size());
  for (size_t job = 0; job < simulated.jobs.size(); ++job) {
    EXPECT_EQ(simulated.jobs[job].state, "complete");
    const nlohmann::json& there = executed[job].at("reconfigurations");
    const std::vector<control::ReconfigurationRecord>& here = simulated.jobs[job].reconfigurations;
    ASSERT_EQ(there.size(), here.size());
    for (size_t k = 0; k < here.size(); ++k) {
      SCOPED_TRACE(fmt::format("{}: {}", simulated.jobs[job].name, here[k].cause));
      EXPECT_EQ(there[k].at("cause"), here[k].cause);
      EXPECT_NEAR(there[k].at("at_s").get<double>(), here[k].at_s, 1e-6);
      EXPECT_EQ(there[k].at("plan_digest"), here[k].plan->digest());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, PolicyCallers, ::testing::Values("srtf", "afs-l"),
                         [](const auto& policy) { return policy.param == "afs-l" ? "afs_l" : policy.param; });

}  // namespace
}  // namespace scalai::testing
