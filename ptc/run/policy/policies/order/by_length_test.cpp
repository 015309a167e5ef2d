#include "ptc/run/policy/policies/order/by_length.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "ptc/base/random.h"
#include "ptc/run/policy/policies/order/testing/support.h"

namespace scalai::policy::order {
namespace {

using ::testing::ElementsAre;

Workload three_jobs() {
  return {.name = "three",
          .jobs = {testing::rigid_job("a", 0, 3, 100), testing::rigid_job("b", 1, 4, 50),
                   testing::rigid_job("c", 2, 1, 200)}};
}

TEST(ByLength, StrictFifoLetsNobodyPassTheHeadOfTheLine) {
  const Outcome outcome = play(make_order_policy("fifo").get(), three_jobs(), testing::plain_fleet(4, 1));
  EXPECT_THAT(finish_times(outcome), ElementsAre(100, 150, 350));
}

TEST(ByLength, BackfillStartsWhateverFits) {
  const Outcome outcome = play(make_order_policy("fifo-backfill").get(), three_jobs(), testing::plain_fleet(4, 1));
  EXPECT_THAT(finish_times(outcome), ElementsAre(100, 252, 202));
}

TEST(ByLength, SrtfStopsTheLongerJobAndSjfDoesNot) {
  const Workload workload{.name = "",
                          .jobs = {testing::rigid_job("long", 0, 2, 100), testing::rigid_job("short", 10, 2, 20)}};
  const Fleet fleet = testing::plain_fleet(1, 2);
  EXPECT_THAT(finish_times(play(make_order_policy("sjf").get(), workload, fleet)), ElementsAre(100, 120));
  const Outcome srtf = play(make_order_policy("srtf").get(), workload, fleet);
  EXPECT_THAT(finish_times(srtf), ElementsAre(120, 30));
  EXPECT_EQ(srtf.jobs[0].preemptions, 1);
  EXPECT_EQ(srtf.jobs[0].restarts, 1);
}

// 4 GPUs x 30 s is more than 1 GPU x 100 s; in time alone it is less.
TEST(ByLength, SrsfWeighsGpus) {
  const Workload workload{.name = "",
                          .jobs = {testing::rigid_job("wide", 0, 4, 30), testing::rigid_job("narrow", 5, 1, 80)}};
  const Fleet fleet = testing::plain_fleet(1, 4);
  EXPECT_THAT(finish_times(play(make_order_policy("srtf").get(), workload, fleet)), ElementsAre(30, 110));
  EXPECT_THAT(finish_times(play(make_order_policy("srsf").get(), workload, fleet)), ElementsAre(110, 85));
}

// A job that was stopped while it still changed has all its work left, and stands further back than its clock says.
TEST(ByLength, TimeInChangesIsNotTimeLeft) {
  const Workload workload{.name = "",
                          .jobs = {testing::rigid_job("a", 0, 1, 100), testing::rigid_job("b", 10, 1, 20),
                                   testing::rigid_job("c", 35, 1, 90), testing::rigid_job("d", 50, 1, 10)}};
  const Outcome outcome =
      play(make_order_policy("srtf").get(), workload, testing::plain_fleet(1, 1), nullptr, nullptr, 30);
  // a: 10 s, stopped by b until 30; changes until 60 but is stopped by d at 50 with 90 s left: as many as c, which came
  // later.
  EXPECT_THAT(finish_times(outcome), ElementsAre(60 + 30 + 90, 30, 180 + 90, 60));
}

// a resumes at 600 and trains from 900 on: at 890 it has 500 s left, not 210, and c has 300.
TEST(ByLength, ARunningJobThatChangesKeepsWhatItHasLeft) {
  const Workload workload{.name = "",
                          .jobs = {testing::rigid_job("a", 0, 1, 1000), testing::rigid_job("b", 500, 1, 100),
                                   testing::rigid_job("c", 890, 1, 300)}};
  for (const char* name : {"srtf", "srsf"}) {
    for (const char* elastic : {"false", "true"}) {
      SCOPED_TRACE(fmt::format("{} elastic={}", name, elastic));
      const Outcome outcome = play(make_order_policy(name, {{"elastic", elastic}}).get(), workload,
                                   testing::plain_fleet(1, 1), nullptr, nullptr, 300);
      EXPECT_THAT(finish_times(outcome), ElementsAre(1190 + 300 + 500, 600, 1190));
    }
  }
}

// Job by job kept up to date is the same as filled from scratch (`elastic`, with jobs that are not): with changes,
// checkpoints that are written, and hosts that fail.
TEST(ByLength, KeptUpToDateIsFilledFromScratch) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    Workload workload;
    double at_s = 0;
    for (int k = 0; k < 60; ++k) {
      at_s += random.uniform() * 60;
      const int gpus = 1 << static_cast<int>(random.uniform() * 3);
      workload.jobs.push_back(testing::rigid_job(std::to_string(k), at_s, gpus, 20 + random.uniform() * 400));
    }
    Availability availability;
    availability.events = {{.at_s = 700.5, .kind = FleetEvent::Kind::kFailed, .hosts = {HostId(1)}},
                           {.at_s = 900.5, .kind = FleetEvent::Kind::kUp, .hosts = {HostId(1)}}};
    const Fleet fleet = testing::plain_fleet(2, 4);
    const testing::PlainThroughput plain;
    for (const char* name : {"srtf", "srsf"}) {
      std::vector<double> finish[2];
      for (int whole = 0; whole < 2; ++whole) {
        const auto policy = make_order_policy(name, {{"elastic", whole == 1 ? "true" : "false"}});
        const auto changes = jobs::make_constant_changes({.change_s = 50, .start_s = 7});
        const auto outcome =
            jobs::run(jobs::Setup{.workload = &workload,
                                  .fleet = &fleet,
                                  .availability = &availability,
                                  .throughput = &plain,
                                  .policy = policy.get(),
                                  .changes = changes.get(),
                                  .options = {.checkpoints = {.every_s = 30, .write_s = seed % 2 == 0 ? 20.0 : 0}},
                                  .watcher = {}});
        ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
        finish[whole] = finish_times(*outcome);
      }
      EXPECT_THAT(finish[0], ::testing::Pointwise(::testing::DoubleNear(1e-6), finish[1])) << name;
    }
  }
}

TEST(ByLength, ElasticJobsTakeWhatIsLeft) {
  Workload workload{.name = "", .jobs = {testing::rigid_job("a", 0, 2, 100), testing::rigid_job("b", 0, 2, 200)}};
  for (Job& job : workload.jobs) {
    job.min_gpus = 1;
    job.max_gpus = 3;
  }
  const Outcome outcome =
      play(make_order_policy("srtf", {{"elastic", "true"}}).get(), workload, testing::plain_fleet(1, 4));
  // a on 3 GPUs at 1.5 a second; b on 1 at 0.5, then on 3
  EXPECT_NEAR(outcome.jobs[0].finish_s, 100 / 1.5, 1e-9);
  EXPECT_NEAR(outcome.jobs[1].finish_s, 100 / 1.5 + (200 - 50 / 1.5) / 1.5, 1e-9);
}

TEST(ByLength, OfSeveralTypesTheFirstOrTheFastest) {
  Fleet fleet;
  fleet.types = {{.name = "slow"}, {.name = "fast"}};
  fleet.hosts = {{GpuType(0), 1}, {GpuType(1), 1}};
  const testing::PlainThroughput throughput({1, 2});
  const Workload workload{.name = "", .jobs = {testing::rigid_job("a", 0, 1, 100)}};
  EXPECT_THAT(finish_times(play(make_order_policy("fifo").get(), workload, fleet, nullptr, &throughput)),
              ElementsAre(100));
  EXPECT_THAT(finish_times(
                  play(make_order_policy("fifo", {{"types", "fastest"}}).get(), workload, fleet, nullptr, &throughput)),
              ElementsAre(50));
}

// Two keep 0.8 of their rate each: 1.6 in sum.
TEST(ByLength, PackingSharesGpusFromAThresholdOn) {
  const Workload workload{.name = "", .jobs = {testing::rigid_job("a", 0, 1, 80), testing::rigid_job("b", 0, 1, 160)}};
  const testing::PlainThroughput throughput({}, 0.8);
  const Fleet fleet = testing::plain_fleet(1, 1);
  const auto finish = [&](const char* at) {
    return finish_times(
        play(make_order_policy("fifo-backfill", {{"packing", at}}).get(), workload, fleet, nullptr, &throughput));
  };
  EXPECT_THAT(finish("1.5"), ElementsAre(100, 180));
  EXPECT_THAT(finish("1.7"), ElementsAre(80, 240));
  EXPECT_THAT(finish("0"), ElementsAre(80, 240));
}

// A job on a host under notice moves to free GPUs; where there are none it stays until it loses them.
TEST(ByLength, HostsUnderNoticeAreLeftInTime) {
  const Workload workload{.name = "", .jobs = {testing::rigid_job("a", 0, 2, 100)}};
  Availability availability;
  availability.events = {{.at_s = 50, .kind = FleetEvent::Kind::kNotice, .hosts = {HostId(0)}, .until_s = 60},
                         {.at_s = 60, .kind = FleetEvent::Kind::kTaken, .hosts = {HostId(0)}}};
  for (const char* name : {"fifo", "fifo-backfill", "srtf", "tiresias"}) {
    SCOPED_TRACE(name);
    const Outcome outcome =
        play(make_order_policy(name).get(), workload, testing::plain_fleet(2, 2), &availability, nullptr, 5);
    EXPECT_EQ(outcome.jobs[0].losses, 0);
    EXPECT_EQ(outcome.jobs[0].finish_s, 105);
  }
  Workload two = workload;
  two.jobs.push_back(testing::rigid_job("b", 0, 2, 70));
  const Outcome full =
      play(make_order_policy("fifo-backfill").get(), two, testing::plain_fleet(2, 2), &availability, nullptr, 5);
  EXPECT_EQ(full.jobs[0].losses, 1);
  EXPECT_EQ(full.jobs[0].finish_s, 70 + 5 + 40);
}

// --- Philly ----------------------------------------------------------------------------------------------------------

struct Figures {
  double average = 0, median = 0, p99 = 0, makespan = 0;
  int64_t preemptions = 0;
};

Figures figures_of(const Workload& workload, const Outcome& outcome) {
  std::vector<double> jct;
  Figures figures{.makespan = outcome.end_s};
  for (const JobRecord& record : outcome.jobs) {
    jct.push_back(record.finish_s - workload.jobs[static_cast<size_t>(record.job.value)].submit_s);
    figures.average += jct.back() / static_cast<double>(outcome.jobs.size());
    figures.preemptions += record.preemptions;
  }
  std::sort(jct.begin(), jct.end());
  figures.median = jct[jct.size() / 2];
  figures.p99 = jct[static_cast<size_t>(0.99 * static_cast<double>(jct.size()))];
  return figures;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, ',');) fields.push_back(field);
  return fields;
}

// Jobs of one virtual cluster that fit, the clock starting with the first.
Workload philly(const std::string& path, const std::string& vc, int gpus) {
  Workload workload;
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  double first_s = -1;
  while (std::getline(in, line)) {
    const std::vector<std::string> row = fields_of(line);
    if (row[3] != vc) continue;
    if (first_s < 0) first_s = std::stod(row[0]);
    if (std::stoi(row[2]) > gpus) continue;
    workload.jobs.push_back(
        testing::rigid_job(row[0], std::stod(row[0]) - first_s, std::stoi(row[2]), std::stod(row[1])));
  }
  return workload;
}

// vc,gpus,jobs,policy,avg_jct_s,median_jct_s,p99_jct_s,makespan_s,preemptions: exact to the digits given.
TEST(ByLength, PhillyIsAsAnIndependentSimulatorHasIt) {
  const std::string jobs = testing::data_path("philly/philly_jobs.csv");
  const std::string reference = testing::data_path("philly/reference_simple_policies.csv");
  if (jobs.empty() || reference.empty()) GTEST_SKIP() << testing::data_hint("philly");
  std::ifstream in(reference);
  std::string line;
  std::getline(in, line);
  int rows = 0;
  for (; std::getline(in, line); ++rows) {
    SCOPED_TRACE(line);
    const std::vector<std::string> row = fields_of(line);
    const int gpus = std::stoi(row[1]);
    const Workload workload = philly(jobs, row[0], gpus);
    std::string name = row[3] == "las2" ? "tiresias" : row[3];
    std::replace(name.begin(), name.end(), '_', '-');
    const Outcome outcome = play(make_order_policy(name).get(), workload, testing::plain_fleet(gpus, 1));
    ASSERT_EQ(std::to_string(outcome.jobs.size()), row[2]);
    const Figures figures = figures_of(workload, outcome);
    EXPECT_NEAR(figures.average, std::stod(row[4]), 0.001);
    EXPECT_NEAR(figures.median, std::stod(row[5]), 0.001);
    EXPECT_NEAR(figures.p99, std::stod(row[6]), 0.001);
    EXPECT_NEAR(figures.makespan, std::stod(row[7]), 0.001);
    EXPECT_EQ(figures.preemptions, std::stol(row[8]));
  }
  EXPECT_EQ(rows, 5);
}

}  // namespace
}  // namespace scalai::policy::order
