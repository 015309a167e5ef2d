// Seeded random scenarios under every policy of the catalogue: jobs come, hosts fail and return or are taken after a
// notice, and whatever the policy says no GPU has two jobs, none trains on a GPU that is gone, every job ends, and the
// log leads to the same plans again. A scenario that breaks a rule is printed with its seed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "ptc/base/random.h"
#include "ptc/report/report.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "sim/testing/simulation.h"

namespace scalai::sim {
namespace {

namespace fs = std::filesystem;
using control::RunReport;
using control::testing::job_text;
using scenario::Scenario;

constexpr double kRounding = 1e-6;

constexpr const char* kCluster = R"(
  schema_version: 1
  name: "policies"
  cluster {
    name: "small"
    hosts { count: 2 gpus: 2 gpu: "a6000-48g" nics: 1 nic: "10MB/s" pcie: "40MB/s" gpu_link: "40MB/s" price_per_hour: 2 }
    hosts { count: 2 gpus: 4 gpu: "a6000-48g" nics: 1 nic: "10MB/s" pcie: "40MB/s" gpu_link: "40MB/s" price_per_hour: 4 }
    fabric { kind: STAR }
    storage { read: "20MB/s" write: "10MB/s" }
  }
)";
constexpr int kDevices = 12, kHosts = 4;

class Writer {
 public:
  Writer(uint64_t seed, bool weights) : random_(seed), weights_(weights) {}

  std::string scenario(const std::string& policy, bool one_gpu_jobs) {
    std::string text = kCluster + fmt::format("seed: 7\npolicy {{ name: \"{}\" }}\n", policy);
    for (int64_t job = 0, count = random_.between(2, 5); job < count; ++job)
      text += this->job(fmt::format("j{}", job), one_gpu_jobs);
    for (int64_t n = random_.below(4); n > 0; --n) text += loss();
    return text;
  }

 private:
  std::string job(const std::string& name, bool one_gpu) {
    const std::map<int, std::vector<std::string>> layouts = {{1, {"tp1"}},
                                                             {2, {"tp2", "pp2", "dp2"}},
                                                             {4, {"tp2,pp2", "pp2,dp2", "dp4,zero1"}},
                                                             {8, {"tp2,pp2,dp2", "tp4,dp2"}}};
    const std::vector<int> all = {1, 2, 4, 8};
    const auto least = static_cast<size_t>(one_gpu ? 0 : random_.below(2));
    const auto most = one_gpu ? 0 : least + static_cast<size_t>(random_.below(static_cast<int64_t>(3 - least)) + 1);
    const auto asked = least + static_cast<size_t>(random_.below(static_cast<int64_t>(most - least + 1)));
    std::string text = fmt::format("gpus: {} min_gpus: {} max_gpus: {} steps: {} submit: \"{}s\" weight: {} ",
                                   all[asked], all[least], all[most], random_.between(20, 200),
                                   random_.below(3) * random_.below(100), weights_ ? random_.between(1, 3) : 1);
    const auto step_s = static_cast<double>(random_.between(2, 8));
    for (size_t size = least; size <= most; ++size) {
      const std::vector<std::string>& choices = layouts.at(all[size]);
      text += fmt::format("configs {{ layout: \"{}\" step_time: \"{}s\" }} ",
                          choices[static_cast<size_t>(random_.below(static_cast<int64_t>(choices.size())))],
                          step_s / std::pow(all[size], 0.8));
    }
    text += fmt::format("deadline: \"{}s\" ", random_.between(2000, 9000));
    // So that nothing is lost for good.
    text += fmt::format("checkpoint {{ every_steps: {} }}", random_.between(5, 30));
    return job_text(name, text);
  }
  // Whoever goes comes back, so that jobs end.
  std::string loss() {
    const int64_t host = random_.below(kHosts), at = random_.between(1, 300), back = at + random_.between(90, 300);
    const std::string how = random_.below(2) == 0
                                ? fmt::format("fail {{ hosts: {} }}", host)
                                : fmt::format("preempt {{ hosts: {} notice: \"{}s\" }}", host, random_.between(5, 60));
    return fmt::format("events {{ at: \"{}s\" {} }}\nevents {{ at: \"{}s\" repair {{ hosts: {} }} }}\n", at, how, back,
                       host);
  }

  Random random_;
  const bool weights_;
};

struct Interval {
  double from_s = 0, to_s = 0;
};

// When each device was gone, by what the runtime reported and what the script repairs: an account of its own.
std::map<int, std::vector<Interval>> outages(const RunReport& report) {
  std::map<int, std::vector<Interval>> gone;
  for (const control::Event& event : report.events) {
    const auto* lost = std::get_if<control::DevicesLost>(&event.body);
    if (lost == nullptr) continue;
    for (const DeviceId device : lost->devices) {
      double back_s = report.end_s;
      for (const scenario::ScenarioEvent& scripted : report.scenario->events) {
        const auto* repair = std::get_if<scenario::Repair>(&scripted.what);
        const double at_s = std::get<scenario::AtTime>(scripted.when).at_s;
        const bool named = repair != nullptr &&
                           std::find(repair->devices.begin(), repair->devices.end(), device) != repair->devices.end();
        if (named && at_s >= lost->failed_at_s) back_s = std::min(back_s, at_s);
      }
      gone[device.value].push_back({lost->failed_at_s, back_s});
    }
  }
  return gone;
}

bool overlap(const Interval& a, const Interval& b) {
  return std::min(a.to_s, b.to_s) - std::max(a.from_s, b.from_s) > kRounding;
}

void expect_devices_shared_by_nobody(const RunReport& report) {
  std::map<int, std::vector<std::pair<Interval, int>>> by_device;
  for (const control::JobSpan& span : report.spans) {
    if (span.what != "train") continue;
    for (const DeviceId device : span.devices)
      by_device[device.value].push_back({{span.start_s, span.end_s}, span.job});
  }
  const auto gone = outages(report);
  for (const auto& [device, spans] : by_device) {
    ASSERT_LT(device, kDevices);
    for (size_t i = 0; i < spans.size(); ++i) {
      for (size_t j = i + 1; j < spans.size(); ++j) {
        ASSERT_FALSE(overlap(spans[i].first, spans[j].first))
            << "g" << device << ": jobs " << spans[i].second << " and " << spans[j].second << " at "
            << spans[j].first.from_s;
      }
      const auto outage = gone.find(device);
      if (outage == gone.end()) continue;
      for (const Interval& away : outage->second) {
        ASSERT_FALSE(overlap(spans[i].first, away))
            << "g" << device << ", job " << spans[i].second << ", from " << away.from_s << " to " << away.to_s;
      }
    }
  }
}

void expect_all_jobs_end(const RunReport& report, bool may_refuse) {
  for (const control::JobRecord& job : report.jobs) {
    const bool refused = may_refuse && job.state == "refused";
    EXPECT_TRUE(job.state == "complete" || refused) << job.name << " is " << job.state << ": " << job.failure;
    if (job.state != "complete") continue;
    EXPECT_NEAR(job.wall_s, job.training_s - job.downtime.run_again_s + job.downtime_s, kRounding) << job.name;
    EXPECT_NEAR(job.downtime.total(), job.downtime_s, kRounding) << job.name << ": the causes add up";
    EXPECT_GE(job.downtime_s, -kRounding);
    EXPECT_LE(job.schedule->waited_s, job.wall_s + kRounding);
    EXPECT_GE(*job.schedule->first_start_s, job.schedule->submit_s);
  }
}

void expect_replayable(const Scenario& scenario, const scenario::Strategy& strategy, const RunReport& report) {
  const step::AnalyticStepTime step_time;
  control::Control control(scenario, strategy, step_time);
  for (const control::Event& event : report.events) control.step(event);
  ASSERT_EQ(control.plans().size(), report.plans.size());
  for (size_t i = 0; i < report.plans.size(); ++i) EXPECT_EQ(control.plans()[i].digest(), report.plans[i].digest());
}

absl::StatusOr<RunReport> run(const Scenario& scenario, const scenario::Strategy& strategy, bool despite = false) {
  const change::Platform platform(scenario.cluster);
  absl::StatusOr<RunReport> report = absl::InternalError("did not run");
  const absl::Status status = with_backend(BackendKind::kMaxMin, platform.spec(), [&](change::NetworkBackend& backend) {
    control::Recorder recorder;
    SimRuntime runtime(scenario.cluster, platform, backend, recorder);
    report = control::run(scenario, strategy, runtime, {.check_plans = true, .report_when_policy_fails = despite});
    runtime.close();
  });
  if (!status.ok()) return status;
  return report;
}

// More of them: SCALAI_RANDOM_SCENARIOS=100.
int64_t scenarios_each(const std::string& policy) {
  const bool slow = policy == "pollux" || policy == "sia";  // they search
  const int64_t usual = slow ? 2 : 6;
  const char* text = std::getenv("SCALAI_RANDOM_SCENARIOS");
  return text == nullptr ? usual : std::atoll(text);
}

class EveryPolicy : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryPolicy, KeepsTheRulesInRandomScenarios) {
  const std::string& policy = GetParam();
  const std::vector<std::string> strategies = {"reshard", "tenplex", "checkpoint-restart"};
  const bool weighs = policy != "sia";  // its published objective starts no job of more than about the usual weight
  int64_t changes = 0, served = 0;
  for (int64_t seed = 1; seed <= scenarios_each(policy); ++seed) {
    const std::string& name = strategies[static_cast<size_t>(seed) % strategies.size()];
    const std::string text = Writer(static_cast<uint64_t>(seed), weighs).scenario(policy, policy == "allox");
    SCOPED_TRACE(fmt::format("seed {}, strategy {}\n{}", seed, name, text));
    const absl::StatusOr<Scenario> scenario = control::testing::scenario_of(text);
    ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
    const scenario::Strategy strategy = scenario::find_strategy(name, scenario->costs).value();
    const absl::StatusOr<RunReport> report = run(*scenario, strategy);
    if (absl::IsInvalidArgument(report.status())) {  // it says that it cannot serve such a cluster or such jobs
      EXPECT_FALSE(message_of(report.status()).empty());
      continue;
    }
    ASSERT_TRUE(report.ok()) << message_of(report.status());
    ++served;
    expect_devices_shared_by_nobody(*report);
    expect_all_jobs_end(*report, policy == "elasticflow");
    expect_replayable(*scenario, strategy, *report);
    if (seed % 3 == 0) {
      const auto again = run(*scenario, strategy);
      EXPECT_EQ(report::summary_json(*report), report::summary_json(*again));
    }
    for (const control::JobRecord& job : report->jobs) changes += static_cast<int64_t>(job.reconfigurations.size());
    if (::testing::Test::HasFailure()) return;
  }
  if (served == 0) GTEST_SKIP() << policy << " serves no such cluster";
  EXPECT_GT(changes, 0);
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const policy::PolicyInfo& info : policy::policies()) list.push_back(info.name);
  return list;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EveryPolicy, ::testing::ValuesIn(names()), [](const auto& one) {
  std::string name = one.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

// ---- a program as policy --------------------------------------------------------------------------------------------

constexpr const char* kProgram = "python3 " SCALAI_SOURCE_DIR "/scenarios/policies/shortest_first.py";

std::string three_jobs(const std::string& command) {
  const std::string eight = "gpus: 8 configs { layout: \"tp2,dp4\" step_time: \"1s\" } checkpoint { every_steps: 20 } ";
  return kCluster + fmt::format("policy {{ exec: \"{}\" timeout: \"20s\" }}\n", command) +
         job_text("long", eight + "steps: 300") + job_text("short", eight + "steps: 50 submit: \"30s\"") +
         job_text("small", "gpus: 2 steps: 90 submit: \"40s\" configs { layout: \"tp2\" step_time: \"1s\" }") +
         "events { at: \"100s\" fail { hosts: 3 } } events { at: \"200s\" repair { hosts: 3 } }\n";
}

class ProgramPolicy : public ::testing::Test {
 protected:
  ~ProgramPolicy() override { fs::remove_all(folder_); }
  const fs::path folder_ = fs::path(::testing::TempDir()) / fmt::format("policy-{}", getpid());
};

TEST_F(ProgramPolicy, DecidesAndIsNotNeededForAReplay) {
  const absl::StatusOr<Scenario> scenario = control::testing::scenario_of(three_jobs(kProgram));
  ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
  const scenario::Strategy strategy = scenario::find_strategy("reshard", {}).value();
  absl::StatusOr<RunReport> report = run(*scenario, strategy);
  ASSERT_TRUE(report.ok()) << message_of(report.status());
  report->runtime = "sim";
  expect_all_jobs_end(*report, false);
  EXPECT_EQ(report->jobs[0].schedule->preemptions, 1) << "the short one goes first";
  EXPECT_LT(report->jobs[1].schedule->waited_s, 20);
  ASSERT_TRUE(report::write_report(*report, {}, folder_.string()).ok());
  std::ofstream(folder_ / "tiny.json") << control::testing::kTinyModel;  // what the scenario names
  const auto replayed = control::replay(folder_.string());
  ASSERT_TRUE(replayed.ok()) << message_of(replayed.status());
  EXPECT_GT(replayed->size(), 3U);
  for (const control::ReplayedPlan& plan : *replayed) EXPECT_EQ(plan.recorded, plan.replayed) << plan.number;

  // Without its answers there is nothing to go by.
  std::ifstream in(folder_ / "events.csv");
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    if (line.find("policy_decided") == std::string::npos) kept += line + "\n";
  }
  std::ofstream(folder_ / "events.csv") << kept;
  const auto without = control::replay(folder_.string());
  EXPECT_THAT(message_of(without.status()), ::testing::HasSubstr("the log has no decision of the policy at 0 s"));
}

TEST_F(ProgramPolicy, ThatFailsMidwayLeavesAReport) {
  const std::string some = fmt::format("sed -u 4q | {}; exit 7", kProgram);  // three answers, then it is gone
  const absl::StatusOr<Scenario> scenario = control::testing::scenario_of(three_jobs(some));
  ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
  const scenario::Strategy strategy = scenario::find_strategy("reshard", {}).value();
  EXPECT_FALSE(run(*scenario, strategy).ok()) << "unless it is asked for";
  const absl::StatusOr<RunReport> report = run(*scenario, strategy, true);
  ASSERT_TRUE(report.ok()) << message_of(report.status());
  EXPECT_EQ(report->jobs[0].state, "failed");
  EXPECT_GT(report->jobs[0].steps, 0);
  EXPECT_THAT(report->jobs[0].failure, ::testing::HasSubstr("policy program"));
}

TEST_F(ProgramPolicy, ThatGoesWrongEndsTheRun) {
  const scenario::Strategy strategy = scenario::find_strategy("reshard", {}).value();
  for (const std::string command : {"exit 3", "echo nonsense"}) {
    const absl::StatusOr<Scenario> scenario = control::testing::scenario_of(three_jobs(command));
    ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
    const absl::StatusOr<RunReport> report = run(*scenario, strategy);
    EXPECT_EQ(exit_code_of(report.status()), 5) << message_of(report.status());
  }
}

}  // namespace
}  // namespace scalai::sim
