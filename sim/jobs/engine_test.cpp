#include "sim/jobs/engine.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>

#include "ptc/base/status.h"
#include "ptc/run/policy/testing/support.h"

namespace scalai::jobs {
namespace engine_test {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

policy::Grant grant(int job, int gpus, std::vector<policy::HostShare> hosts = {}, int beside = -1) {
  return {.job = policy::JobId(job),
          .type = policy::GpuType(0),
          .gpus = gpus,
          .hosts = std::move(hosts),
          .beside = policy::JobId(beside)};
}

// Says what it was written to say: decisions by time, and what it was told.
class Script : public policy::Policy {
 public:
  using Act = std::function<policy::Decision(const policy::View&)>;
  explicit Script(std::map<double, Act> acts) : acts_(std::move(acts)) {}
  policy::PolicyTraits traits() const override { return {}; }
  absl::StatusOr<policy::Decision> decide(const policy::View& view, std::span<const policy::Event> events) override {
    std::string line = fmt::format("{}:", view.now_s());
    constexpr const char* kNames[] = {"submitted", "finished", "lost", "rate", "capacity", "timer"};
    for (const policy::Event& event : events) {
      line += fmt::format(" {}{}", kNames[static_cast<size_t>(event.kind)],
                          event.job.valid() ? fmt::format(" {}", event.job.value) : "");
    }
    told.push_back(line);
    const auto act = acts_.find(view.now_s());
    return act == acts_.end() ? policy::Decision{} : act->second(view);
  }
  std::vector<std::string> told;

 private:
  std::map<double, Act> acts_;
};

Script::Act give(const std::vector<policy::Grant>& grants, double wake_at_s = policy::kNever) {
  return [grants, wake_at_s](const policy::View&) {
    return policy::Decision{.grants = grants, .refused = {}, .wake_at_s = wake_at_s};
  };
}

// A cluster of two hosts of four GPUs, two jobs of 100 s on four GPUs from 0 and 10 s on.
struct Bench {
  policy::Fleet fleet = policy::testing::plain_fleet(2, 4, 3.6);
  policy::Workload workload{
      .name = "", .jobs = {policy::testing::rigid_job("a", 0, 4, 100), policy::testing::rigid_job("b", 10, 4, 100)}};
  policy::Availability availability;
  std::unique_ptr<policy::Throughput> throughput =
      std::make_unique<policy::testing::PlainThroughput>(std::vector<double>{}, 0.75);
  ConstantCost cost;
  Options options;
  Watcher watcher;

  absl::StatusOr<policy::Outcome> play(policy::Policy* policy) {
    const std::unique_ptr<ChangeModel> changes = make_constant_changes(cost);
    return run(jobs::Setup{.workload = &workload,
                           .fleet = &fleet,
                           .availability = &availability,
                           .throughput = throughput.get(),
                           .policy = policy,
                           .changes = changes.get(),
                           .options = options,
                           .watcher = watcher});
  }
  policy::Outcome good(Script script) {
    absl::StatusOr<policy::Outcome> outcome = play(&script);
    EXPECT_TRUE(outcome.ok()) << message_of(outcome.status());
    return outcome.ok() ? *std::move(outcome) : policy::Outcome{};
  }
  std::string error(Script script) { return message_of(play(&script).status()); }
};

// Until 100 s one host has 1 of 4 GPUs free, the other 2; then the third job has one host and the other is free.
TEST(EngineFragmentation, ByHand) {
  Bench bench;
  bench.workload.jobs = {policy::testing::rigid_job("a", 0, 3, 100), policy::testing::rigid_job("b", 0, 2, 100),
                         policy::testing::rigid_job("c", 20, 4, 100)};
  const policy::Outcome outcome = bench.good(
      Script({{0, give({grant(0, 3, {{HostId(0), 3}}), grant(1, 2, {{HostId(1), 2}})})}, {100, give({grant(2, 4)})}}));
  ASSERT_TRUE(outcome.free);
  EXPECT_EQ(outcome.free->gpu_s, 100 * 3 + 100 * 4);
  EXPECT_EQ(outcome.free->scattered_gpu_s, 100 * 3);
  EXPECT_EQ(outcome.free->unusable_gpu_s, 100 * (3 + 1 + 3) / 3.0) << "of use to b are the two of the second host";
  EXPECT_EQ(outcome.jobs[0].queue_free_gpu_s, 0);
  EXPECT_EQ(outcome.jobs[2].queue_free_gpu_s, 80 * 3);
  EXPECT_EQ(outcome.jobs[2].queue_unusable_gpu_s, 80 * 3);
}

// Four jobs of 100 s on all eight GPUs, one after the other; the second and the third count.
struct QueueOfFour : Bench {
  QueueOfFour() {
    workload.jobs.clear();
    for (int k = 0; k < 4; ++k)
      workload.jobs.push_back(policy::testing::rigid_job(std::string(1, "abcd"[k]), 10 * k, 8, 100));
    options.window = policy::Window{.from_job = 1, .to_job = 3, .from_s = 10};
  }
  policy::Outcome outcome() {
    return good(Script({{0, give({grant(0, 8)})},
                        {100, give({grant(1, 8)})},
                        {200, give({grant(2, 8)})},
                        {300, give({grant(3, 8)})}}));
  }
};

TEST(EngineWindow, EndsWithTheLastJobOfTheWindow) {
  QueueOfFour bench;
  const policy::Outcome outcome = bench.outcome();
  EXPECT_EQ(outcome.end_s, 300);
  EXPECT_EQ(outcome.jobs[2].finish_s, 300);
  EXPECT_EQ(outcome.jobs[3].end, policy::JobEnd::kUnfinished);
  ASSERT_TRUE(outcome.window);
  EXPECT_EQ(outcome.window->to_s, 300);
  EXPECT_EQ(outcome.up_gpu_s, 8 * (300 - 10)) << "from the submission of the first of them";
  EXPECT_EQ(outcome.training_gpu_s, 8 * (300 - 10));
  EXPECT_NEAR(outcome.cost, 8 * 290 * 0.001, 1e-12);
}

TEST(EngineWindow, RunsOnWhereItIsTold) {
  QueueOfFour bench;
  bench.options.window->run_on = true;
  const policy::Outcome outcome = bench.outcome();
  EXPECT_EQ(outcome.end_s, 400);
  EXPECT_EQ(outcome.jobs[3].end, policy::JobEnd::kFinished);
  EXPECT_EQ(outcome.window->to_s, 300);
  EXPECT_EQ(outcome.up_gpu_s, 8 * (300 - 10));
}

TEST(EngineWindow, OfTimeCountsUseInItOnly) {
  QueueOfFour bench;
  bench.options.window = policy::Window{.from_job = 1, .to_job = 3, .from_s = 150, .to_s = 250};
  policy::Outcome outcome = bench.outcome();
  EXPECT_EQ(outcome.end_s, 300) << "its jobs end";
  EXPECT_EQ(outcome.window->to_s, 250);
  EXPECT_EQ(outcome.up_gpu_s, 800);
  bench.options.window = policy::Window{.from_job = 0, .to_job = 1, .from_s = 50, .to_s = 250};
  outcome = bench.outcome();
  EXPECT_EQ(outcome.end_s, 250) << "its time is over later than its job";
  EXPECT_EQ(outcome.up_gpu_s, 1600);
  EXPECT_EQ(outcome.jobs[1].end, policy::JobEnd::kFinished);
  EXPECT_EQ(outcome.jobs[2].end, policy::JobEnd::kUnfinished);
  bench.options.until_s = 120;
  EXPECT_EQ(bench.outcome().up_gpu_s, 8 * (120 - 50)) << "the run ends before the window";
  EXPECT_EQ(bench.outcome().window->to_s, 120);
}

TEST(EngineWindow, LostWorkCountsInItOnly) {
  for (const double from_s : {40.0, 60.0}) {
    Bench bench;
    bench.workload.jobs.resize(1);
    bench.options.checkpoints.every_s = 1000;
    bench.options.window = policy::Window{.from_s = from_s};
    bench.availability.events = {{.at_s = 50, .kind = policy::FleetEvent::Kind::kFailed, .hosts = {HostId(0)}}};
    const policy::Outcome outcome = bench.good(Script({{0, give({grant(0, 4)})}, {50, give({grant(0, 4)})}}));
    EXPECT_EQ(outcome.jobs[0].lost_gpu_s, 4 * 50);
    EXPECT_EQ(outcome.lost_gpu_s, from_s < 50 ? 4 * 50 : 0);
  }
}

TEST(EngineWindow, WindowsWithoutJobsOrTimeAreRefused) {
  Bench bench;
  bench.options.window = policy::Window{.from_job = 2};
  EXPECT_THAT(bench.error(Script({})), HasSubstr("has none of 2 jobs"));
  bench.options.window = policy::Window{.from_s = 5, .to_s = 5};
  EXPECT_THAT(bench.error(Script({})), HasSubstr("the window goes from 5 s to 5 s"));
}

TEST(Engine, SkipsToWhatHappensNext) {
  Bench bench;
  Script script({{0, give({grant(0, 4)})}, {10, give({grant(1, 4)})}});
  const absl::StatusOr<policy::Outcome> outcome = bench.play(&script);
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  EXPECT_THAT(script.told, ElementsAre("0: submitted 0", "10: submitted 1", "100: finished 0", "110: finished 1"));
  EXPECT_EQ(outcome->end_s, 110);
  EXPECT_EQ(outcome->jobs[1].finish_s, 110);
  EXPECT_EQ(outcome->training_gpu_s, 800);
  EXPECT_EQ(outcome->up_gpu_s, 880);
  EXPECT_NEAR(outcome->cost, 880 * 3.6 / 3600, 1e-9);
  EXPECT_NEAR(outcome->jobs[0].cost, 400 * 3.6 / 3600, 1e-9);
}

TEST(Engine, GathersAllOfAnInstantInOrder) {
  Bench bench;
  bench.workload.jobs.push_back(policy::testing::rigid_job("c", 100, 1, 5));
  bench.availability.events = {{.at_s = 100, .kind = policy::FleetEvent::Kind::kFailed, .hosts = {HostId(1)}}};
  Script script({{0, give({grant(0, 4, {{HostId(0), 4}})})},
                 {10, give({grant(1, 4, {{HostId(1), 4}})}, 100)},
                 {100, give({grant(1, 4)})},
                 {110, give({grant(2, 1)})}});
  const absl::StatusOr<policy::Outcome> outcome = bench.play(&script);
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  EXPECT_EQ(script.told[2], "100: finished 0 lost 1 capacity submitted 2 timer");
  EXPECT_EQ(outcome->jobs[1].losses, 1);
  EXPECT_EQ(outcome->jobs[1].finish_s, 110);  // nothing was lost: no checkpoints are needed where every_s = 0
}

TEST(Engine, AChangeHoldsGpusAndDoesNotTrain) {
  Bench bench;
  bench.cost = {.change_s = 30, .start_s = 5};
  bench.workload.jobs.resize(1);
  const policy::Outcome outcome = bench.good(Script({{0, give({grant(0, 4)}, 20)}, {20, give({grant(0, 2)})}}));
  // 5 s start, 15 s at 1 a second, 30 s change, the other 85 at half speed
  EXPECT_THAT(outcome.jobs[0].finish_s, DoubleEq(20 + 30 + 85 * 2));
  EXPECT_EQ(outcome.jobs[0].restarts, 1);
  EXPECT_EQ(outcome.jobs[0].preemptions, 0);
  EXPECT_EQ(outcome.jobs[0].changing_gpu_s, 5 * 4 + 30 * 2);
  EXPECT_EQ(outcome.jobs[0].attained_gpu_s, 20 * 4 + 200 * 2);
  EXPECT_EQ(outcome.changes, 2);
}

TEST(Engine, WhatADecisionDoesNotChangeIsNotTouched) {
  Bench bench;
  bench.cost = {.change_s = 30};
  const policy::Outcome outcome = bench.good(Script(
      {{0, give({grant(0, 4)})}, {10, give({grant(0, 4), grant(1, 4)}, 50)}, {50, give({grant(0, 4), grant(1, 4)})}}));
  EXPECT_EQ(outcome.changes, 2);
  EXPECT_EQ(outcome.jobs[0].finish_s, 100);
}

TEST(Engine, APreemptedJobKeepsItsWorkAndPrefersItsHosts) {
  Bench bench;
  std::vector<std::string> log;
  bench.watcher.placed = [&](double now_s, policy::JobId job, const policy::Placement& placement, policy::JobId) {
    log.push_back(fmt::format("{} {} on {}", now_s, job.value, placement.empty() ? -1 : placement.hosts[0].host.value));
  };
  const policy::Outcome outcome = bench.good(Script({{0, give({grant(0, 4, {{HostId(1), 4}})}, 40)},
                                                     {10, give({}, 40)},
                                                     {40, give({grant(0, 0)}, 60)},
                                                     {60, give({grant(0, 4), grant(1, 4)})}}));
  EXPECT_THAT(log, ElementsAre("0 0 on 1", "40 0 on -1", "60 0 on 1", "60 1 on 0"));
  EXPECT_EQ(outcome.jobs[0].finish_s, 120);
  EXPECT_EQ(outcome.jobs[0].preemptions, 1);
}

TEST(Engine, GpusAreReleasedBeforeAnyArePlaced) {
  Bench bench;
  bench.fleet = policy::testing::plain_fleet(1, 4);
  const policy::Outcome outcome = bench.good(
      Script({{0, give({grant(0, 4)})}, {10, give({grant(1, 4), grant(0, 0)})}, {110, give({grant(0, 4)})}}));
  EXPECT_THAT(outcome.jobs[0].finish_s, DoubleEq(200));
}

// --- two jobs on the same GPUs ---------------------------------------------------------------------------------------

TEST(Sharing, BothRunAtTheSharedRateAndPayHalf) {
  Bench bench;
  bench.workload.jobs[1].submit_s = 0;
  bench.workload.jobs[1].work = 50;
  const policy::Outcome outcome = bench.good(Script({{0, give({grant(0, 4), grant(1, 4, {}, 0)})}}));
  EXPECT_THAT(outcome.jobs[1].finish_s, DoubleEq(50 / 0.75));
  EXPECT_THAT(outcome.jobs[0].finish_s, DoubleEq(50 / 0.75 + 50));  // alone for the rest
  EXPECT_NEAR(outcome.jobs[1].cost, 0.5 * 50 / 0.75 * 4 * 0.001, 1e-9);
  EXPECT_NEAR(outcome.training_gpu_s, 4 * (50 / 0.75 + 50), 1e-9);  // counted once
  EXPECT_EQ(outcome.jobs[0].restarts, 0);
}

TEST(Sharing, EitherMayLeave) {
  Bench bench;
  bench.workload.jobs[1].submit_s = 0;
  for (const int leaver : {0, 1}) {
    SCOPED_TRACE(leaver);
    const policy::Outcome outcome = bench.good(Script({{0, give({grant(0, 4), grant(1, 4, {}, 0)}, 40)},
                                                       {40, give({grant(leaver, 0)}, 60)},
                                                       {60, give({grant(leaver, 4)})}}));
    EXPECT_THAT(outcome.jobs[static_cast<size_t>(1 - leaver)].finish_s, DoubleEq(40 + 70));
    EXPECT_THAT(outcome.jobs[static_cast<size_t>(leaver)].finish_s, DoubleEq(60 + 70));
  }
}

TEST(Sharing, TwoThatAreToBeAloneArePartedAndTheRolesMaySwap) {
  Bench bench;
  bench.workload.jobs[1].submit_s = 0;
  const policy::Outcome parted =
      bench.good(Script({{0, give({grant(0, 4), grant(1, 4, {}, 0)}, 40)}, {40, give({grant(0, 4), grant(1, 4)})}}));
  EXPECT_EQ(parted.jobs[0].restarts, 0);
  EXPECT_EQ(parted.jobs[1].restarts, 1);
  EXPECT_THAT(parted.jobs[0].finish_s, DoubleEq(110));
  const policy::Outcome swapped = bench.good(
      Script({{0, give({grant(0, 4), grant(1, 4, {}, 0)}, 40)}, {40, give({grant(0, 4, {}, 1), grant(1, 4)})}}));
  EXPECT_EQ(swapped.changes, 2);
  EXPECT_THAT(swapped.jobs[0].finish_s, DoubleEq(100 / 0.75));
}

// --- rules -----------------------------------------------------------------------------------------------------------

TEST(Rules, ADecisionThatBreaksOneEndsTheRun) {
  const auto error = [](const std::vector<policy::Grant>& grants, double wake = policy::kNever) {
    Bench bench;
    return bench.error(Script({{0, give(grants, wake)}}));
  };
  EXPECT_THAT(error({grant(0, 9)}), HasSubstr("job \"a\" is to have 9 GPUs of gpu, of which 8 are free"));
  EXPECT_THAT(error({grant(1, 4)}), HasSubstr("job \"b\", which was not submitted yet"));
  EXPECT_THAT(error({grant(7, 4)}), HasSubstr("a grant to job 7, of 2"));
  EXPECT_THAT(error({grant(0, 4), grant(0, 4)}), HasSubstr("two grants to job 0"));
  EXPECT_THAT(error({grant(0, -1)}), HasSubstr("-1 GPUs"));
  EXPECT_THAT(error({grant(0, 4, {{HostId(0), 3}})}), HasSubstr("4 GPUs for job \"a\", but 3 on hosts"));
  EXPECT_THAT(error({grant(0, 5, {{HostId(0), 5}})}), HasSubstr("5 GPUs of host 0, which has 4 free"));
  EXPECT_THAT(error({grant(0, 4, {{HostId(2), 4}})}), HasSubstr("host 2"));
  EXPECT_THAT(error({grant(0, 4, {}, 1)}), HasSubstr("beside \"b\""));
  EXPECT_THAT(error({grant(0, 4, {}, 0)}), HasSubstr("beside job 0"));
  EXPECT_THAT(error({{.job = policy::JobId(0), .type = policy::GpuType(3), .gpus = 1}}), HasSubstr("GPU type 3"));
  EXPECT_THAT(error({}, 0), HasSubstr("not after now"));
}

TEST(Rules, AJobThatCannotRunWhereItWasPutIsNamed) {
  Bench bench;
  bench.throughput = std::make_unique<policy::testing::PlainThroughput>(std::vector<double>{0});
  EXPECT_THAT(bench.error(Script({{0, give({grant(0, 4)})}})), HasSubstr("job \"a\""));
}

TEST(Rules, WaitingForEverIsTheFaultOfThePolicyUnlessHostsAreGone) {
  Bench bench;
  Script idle({});
  const absl::StatusOr<policy::Outcome> outcome = bench.play(&idle);
  EXPECT_EQ(outcome.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message_of(outcome.status()), HasSubstr("2 jobs waiting for ever"));
  Script::Act again = [](const policy::View& view) {
    return policy::Decision{.grants = {}, .refused = {}, .wake_at_s = view.now_s() + 1};
  };
  std::map<double, Script::Act> acts;
  for (int k = 0; k < 2000; ++k) acts[k] = again;
  EXPECT_THAT(bench.error(Script(acts)), HasSubstr("2 jobs waiting for ever"));
  bench.availability.events = {{.at_s = 1, .kind = policy::FleetEvent::Kind::kTaken, .hosts = {HostId(0), HostId(1)}}};
  const policy::Outcome gone = bench.good(Script(acts));
  EXPECT_EQ(gone.jobs[0].end, policy::JobEnd::kUnfinished);
  EXPECT_EQ(gone.end_s, 10);
}

// Rounds without a change while all jobs run, until the time is over.
TEST(Rules, ARunThatEndsBetweenManyWakesIsNoFault) {
  Bench bench;
  bench.workload.jobs[0].work = bench.workload.jobs[1].work = 1e6;
  Script::Act again = [](const policy::View& view) {
    return policy::Decision{.grants = {}, .refused = {}, .wake_at_s = view.now_s() + 1};
  };
  std::map<double, Script::Act> acts;
  for (int k = 0; k < 2000; ++k) acts[k] = again;
  acts[bench.workload.jobs[1].submit_s] = give({grant(0, 4), grant(1, 4)}, bench.workload.jobs[1].submit_s + 1);
  bench.options.until_s = 1990;
  const policy::Outcome outcome = bench.good(Script(acts));
  ASSERT_EQ(outcome.jobs.size(), 2u);
  EXPECT_EQ(outcome.end_s, 1990);
  EXPECT_EQ(outcome.jobs[0].end, policy::JobEnd::kUnfinished);
}

TEST(Rules, BadInputIsNamedAllAtOnce) {
  Bench bench;
  bench.workload.jobs[0].gpus = 0;
  bench.workload.jobs[1].submit_s = -1;
  bench.fleet.hosts[0].gpus = 0;
  bench.availability.events = {{.at_s = 5, .kind = policy::FleetEvent::Kind::kUp, .hosts = {HostId(9)}}};
  Script idle({});
  const absl::Status status = bench.play(&idle).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part :
       {"job \"a\": 0 GPUs", "job \"b\": submitted at -1 s", "host 0: 0 GPUs", "names host 9, of 2"}) {
    EXPECT_THAT(message_of(status), HasSubstr(part));
  }
}

TEST(Rules, TooLargeAndRefusedJobsLeave) {
  Bench bench;
  bench.workload.jobs[0].gpus = 9;
  Script script({{10, [](const policy::View&) {
                    return policy::Decision{.grants = {}, .refused = {policy::JobId(1)}, .wake_at_s = policy::kNever};
                  }}});
  const absl::StatusOr<policy::Outcome> outcome = bench.play(&script);
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  EXPECT_EQ(outcome->jobs[0].end, policy::JobEnd::kTooLarge);
  EXPECT_EQ(outcome->jobs[1].end, policy::JobEnd::kRefused);
  EXPECT_THAT(script.told, ElementsAre("10: submitted 1"));
}

// --- records ---------------------------------------------------------------------------------------------------------

// Two jobs of 4 GPUs on 4: each would have half of them; the second sees two jobs for 90 of its 190 s.
TEST(Records, IsolatedTimeIsThatOnAFixedFairShare) {
  Bench bench;
  bench.fleet = policy::testing::plain_fleet(1, 4);
  const policy::Outcome outcome = bench.good(Script({{0, give({grant(0, 4)})}, {100, give({grant(1, 4)})}}));
  EXPECT_THAT(outcome.jobs[0].isolated_s, DoubleEq(100 * (10 * 1 + 90 * 2) / 100.0));
  EXPECT_THAT(outcome.jobs[1].isolated_s, DoubleEq(100 * (90 * 2 + 100 * 1) / 190.0));
}

TEST(Records, IsolatedTimeIsOverTheMeanRateOfTheTypes) {
  Bench bench;
  bench.fleet.types.push_back({.name = "fast"});
  bench.fleet.hosts[1].type = policy::GpuType(1);
  bench.throughput = std::make_unique<policy::testing::PlainThroughput>(std::vector<double>{1, 3});
  bench.workload.jobs.resize(1);
  const policy::Outcome outcome = bench.good(Script({{0, give({grant(0, 4)})}}));
  EXPECT_THAT(outcome.jobs[0].isolated_s, DoubleEq(50));
}

TEST(Records, UseIsSampledAndThinnedOut) {
  Bench bench;
  bench.options.samples = 4;
  bench.workload.jobs.clear();
  for (int k = 0; k < 30; ++k) bench.workload.jobs.push_back(policy::testing::rigid_job(fmt::format("{}", k), k, 1, 1));
  std::map<double, Script::Act> acts;
  for (int k = 0; k < 30; ++k) acts[k] = give({grant(k, 1)});
  const policy::Outcome outcome = bench.good(Script(acts));
  EXPECT_LE(outcome.use.size(), 4u);
  EXPECT_GE(outcome.use.size(), 2u);
  EXPECT_GE(outcome.use_every, 8);
  EXPECT_EQ(outcome.use[0].at_s, 0);
  EXPECT_EQ(outcome.use[0].training, 1);
  EXPECT_EQ(outcome.use[0].up, 8);
}

TEST(Records, AnEndInTimeLeavesJobsUnfinished) {
  Bench bench;
  bench.options.until_s = 50;
  const policy::Outcome outcome = bench.good(Script({{0, give({grant(0, 4)})}}));
  EXPECT_EQ(outcome.end_s, 50);
  EXPECT_EQ(outcome.jobs[0].end, policy::JobEnd::kUnfinished);
  EXPECT_EQ(outcome.jobs[0].work_done, 50);
  EXPECT_EQ(outcome.jobs[0].attained_gpu_s, 200);
}

TEST(Records, PricesMayChange) {
  Bench bench;
  bench.workload.jobs.resize(1);
  bench.availability.events = {
      {.at_s = 50, .kind = policy::FleetEvent::Kind::kPrice, .type = policy::GpuType(0), .price = 7.2}};
  const policy::Outcome outcome = bench.good(Script({{0, give({grant(0, 4)})}}));
  EXPECT_NEAR(outcome.jobs[0].cost, 4 * 50 * 0.001 + 4 * 50 * 0.002, 1e-9);
  EXPECT_NEAR(outcome.cost, 2 * outcome.jobs[0].cost, 1e-9);
}

// The rate doubles after each 10 iterations; work is exact at each step.
class Doubling : public policy::Throughput {
 public:
  policy::Rate rate(const policy::Job&, policy::GpuType, int, double work_done) const override {
    const int step = static_cast<int>(work_done / 10);
    return {.per_s = std::ldexp(1.0, step), .until_work = 10.0 * (step + 1)};
  }
  std::string description() const override { return "doubling"; }
};

TEST(Records, RatesMayChangeAsAJobTrains) {
  Bench bench;
  bench.throughput = std::make_unique<Doubling>();
  bench.workload.jobs.resize(1);
  bench.workload.jobs[0].work = 30;
  Script script({{0, give({grant(0, 4)})}});
  const absl::StatusOr<policy::Outcome> outcome = bench.play(&script);
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  EXPECT_THAT(script.told, ElementsAre("0: submitted 0", "10: rate 0", "15: rate 0", "17.5: finished 0"));
  EXPECT_THAT(outcome->jobs[0].isolated_s, DoubleEq(17.5));
}

}  // namespace engine_test
}  // namespace scalai::jobs
