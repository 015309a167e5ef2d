#include "ptc/run/scenario/chooser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/run/scenario/testing/scenarios.h"

namespace scalai::scenario {
namespace {

using collection::ParallelConfig;
using testing::device_ids;
using ::testing::HasSubstr;

// Four hosts of two A6000s, then two hosts of four V100s.
cluster::Cluster mixed() {
  cluster::Cluster cluster;
  const cluster::GpuKind fast{.name = "fast", .memory_bytes = 48, .peak_flops = 150, .memory_bandwidth_bytes_per_s = 1};
  const cluster::GpuKind slow{.name = "slow", .memory_bytes = 16, .peak_flops = 100, .memory_bandwidth_bytes_per_s = 1};
  for (int h = 0; h < 4; ++h)
    cluster.hosts.push_back(
        {.first_device = 2 * h, .gpus = 2, .gpu = fast, .gpu_link_bytes_per_s = 9, .nic_bytes_per_s = 5});
  for (int h = 0; h < 2; ++h)
    cluster.hosts.push_back({.first_device = 8 + 4 * h,
                             .gpus = 4,
                             .gpu = slow,
                             .gpu_link_bytes_per_s = 4,
                             .nics = 2,
                             .nic_bytes_per_s = 3});
  return cluster;
}

JobSpec choosing(step::Objective objective = step::Objective::kThroughput) {
  JobSpec job;
  job.name = "a";
  job.shape.name = "tiny";
  job.choose = ChoosePolicy{.objective = objective};
  return job;
}

// A search that notes what it is asked and answers with one configuration.
struct FakeSearch {
  std::vector<step::SearchSpace> asked;
  step::SearchResult answer;

  FakeSearch() {
    step::Candidate best;
    best.config.dp = 2;
    best.training.micro_batch = 4;
    answer.best = {best};
  }
  Chooser::Search function() {
    return [this](const step::ModelShape&, const step::SearchSpace& space) {
      asked.push_back(space);
      return absl::StatusOr<step::SearchResult>(answer);
    };
  }
};

const std::map<DeviceId, double> kNominal;

TEST(Chooser, AsksOnceForTheSameDevices) {
  const cluster::Cluster cluster = mixed();
  FakeSearch search;
  Chooser chooser(cluster, search.function());
  const JobSpec job = choosing();
  const auto devices = device_ids({0, 1, 2, 3});
  const auto first = chooser.best({.job = job, .devices = devices, .speed = kNominal});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->config.dp, 2);
  EXPECT_EQ(first->training->micro_batch, 4);
  EXPECT_EQ(chooser.best({.job = job, .devices = devices, .speed = kNominal})->config.dp, 2);
  EXPECT_EQ(search.asked.size(), 1u);
  const std::map<DeviceId, double> slow = {{DeviceId(1), 0.5}};
  const auto fewer = device_ids({0, 1, 2});
  EXPECT_TRUE(chooser.best({.job = job, .devices = devices, .speed = slow}).ok());
  EXPECT_TRUE(chooser.best({.job = job, .devices = fewer, .speed = kNominal}).ok());
  EXPECT_EQ(search.asked.size(), 3u);
  EXPECT_EQ(search.asked[2].gpus, 3);
  EXPECT_FALSE(search.asked[2].all_gpus);
}

TEST(Chooser, KnowsTheDevicesWhereHostsAreNotAllAlike) {
  const cluster::Cluster cluster = mixed();
  FakeSearch search;
  Chooser chooser(cluster, search.function());
  const JobSpec job = choosing();
  const auto ask = [&](const std::vector<int>& devices, const std::map<DeviceId, double>& speed) {
    const auto ids = device_ids(devices);
    EXPECT_TRUE(chooser.best({.job = job, .devices = ids, .speed = speed}).ok());
    return search.asked.back();
  };
  EXPECT_EQ(ask({2, 3, 0, 1}, kNominal).hardware, nullptr) << "whole hosts of one kind";
  EXPECT_NE(ask({0, 1, 2}, kNominal).hardware, nullptr) << "half a host";
  EXPECT_NE(ask({4, 5, 6, 7}, {{DeviceId(4), 0.9}}).hardware, nullptr) << "a slow device";
  const step::SearchSpace both = ask({0, 1, 8, 9, 10, 11}, kNominal);
  EXPECT_NE(both.hardware, nullptr) << "two kinds";
  EXPECT_EQ(both.memory_bytes, 16) << "of the smallest";
  EXPECT_EQ(both.host.gpu.name, "fast") << "for bounds: nothing does better than there";
  EXPECT_EQ(both.host.gpus, 4);
  EXPECT_EQ(both.host.gpu_link_bytes_per_s, 9);
  EXPECT_EQ(both.host.nics * both.host.nic_bytes_per_s, 6) << "the widest cards of a host";
}

TEST(Chooser, HandsOnWhatTheJobAsksFor) {
  const cluster::Cluster cluster = mixed();
  FakeSearch search;
  Chooser chooser(cluster, search.function());
  JobSpec job = choosing(step::Objective::kEnergy);
  job.choose->pins.tp = 2;
  job.choose->micro_batches = {3};
  job.training.global_batch = 96;
  const auto devices = device_ids({0, 1, 2, 3});
  EXPECT_TRUE(chooser.best({.job = job, .devices = devices, .speed = kNominal}).ok());
  EXPECT_EQ(search.asked[0].objective, step::Objective::kEnergy);
  EXPECT_EQ(search.asked[0].pins.tp, 2);
  EXPECT_EQ(search.asked[0].micro_batches, std::vector<int>{3});
  EXPECT_EQ(search.asked[0].base.global_batch, 96);
  ParallelChoice first;
  first.config = {.tp = 1, .pp = 2, .dp = 2, .vpp = 2, .zero = 2};
  EXPECT_TRUE(chooser.best({.job = job, .devices = devices, .speed = kNominal, .all_but_dp = &first}).ok());
  ASSERT_EQ(search.asked.size(), 2u);
  const step::Pins& pins = search.asked[1].pins;
  EXPECT_EQ(pins.tp, 1);
  EXPECT_EQ(pins.pp, 2);
  EXPECT_EQ(pins.vpp, 2);
  EXPECT_EQ(pins.zero, 2);
  EXPECT_EQ(search.asked[1].zero_stages, std::vector<int>{2});
  EXPECT_FALSE(pins.dp.has_value());
}

TEST(Chooser, AnAnswerThatCountsTheWayIsNotKept) {
  const cluster::Cluster cluster = mixed();
  FakeSearch search;
  search.answer.best[0].score = 4;
  Chooser chooser(cluster, search.function());
  const JobSpec job = choosing(step::Objective::kPayOff);
  const auto devices = device_ids({0, 1});
  const auto change = [](const step::Candidate&) { return std::optional(step::Change{.reconfiguration_s = 7}); };
  ParallelChoice held;
  held.config.pp = 2;
  const auto staying = [&](double step_s) {
    step::StepTime time;
    time.step_s = step_s;
    return chooser
        .best({.job = job,
               .devices = devices,
               .speed = kNominal,
               .held = &held,
               .held_time = time,
               .change = change,
               .least_change_s = 2})
        ->config.pp;
  };
  EXPECT_EQ(staying(3), 2) << "better where it is";
  EXPECT_EQ(staying(4), 2) << "no worse";
  EXPECT_EQ(staying(5), 1);
  ASSERT_EQ(search.asked.size(), 3u);
  EXPECT_EQ(search.asked[0].change({})->reconfiguration_s, 7);
  EXPECT_EQ(search.asked[0].least_change_s, 2);
  EXPECT_EQ(search.asked[0].stay_step_s, 3);
  search.answer.best.clear();
  EXPECT_EQ(staying(5), 2) << "nowhere to go";
}

// For every objective, also where the answer of the search is known already.
TEST(Chooser, KeepsWhatNothingIsStrictlyBetterThan) {
  const cluster::Cluster cluster = mixed();
  FakeSearch search;
  search.answer.best[0].score = 4;
  Chooser chooser(cluster, search.function());
  const JobSpec job = choosing();
  const auto devices = device_ids({0, 1});
  ParallelChoice held;
  held.config.pp = 2;
  const auto keeps = [&](double step_s) {
    step::StepTime time;
    time.step_s = step_s;
    return chooser.best({.job = job, .devices = devices, .speed = kNominal, .held = &held, .held_time = time})->held;
  };
  EXPECT_TRUE(keeps(3));
  EXPECT_TRUE(keeps(4));
  EXPECT_TRUE(keeps(4 * (1 + 1e-12))) << "rounding";
  EXPECT_FALSE(keeps(4.001));
  EXPECT_EQ(search.asked.size(), 1u);
}

TEST(Chooser, OnlyDataParallelismKeepsAPinnedDp) {
  const cluster::Cluster cluster = mixed();
  FakeSearch search;
  Chooser chooser(cluster, search.function());
  JobSpec job = choosing();
  job.choose->pins.dp = 8;
  const auto devices = device_ids({0, 1});
  const ParallelChoice first;
  EXPECT_TRUE(chooser.best({.job = job, .devices = devices, .speed = kNominal, .all_but_dp = &first}).ok());
  EXPECT_EQ(search.asked.at(0).pins.dp, 8);
}

TEST(Chooser, SlowDevicesAreTheLastToBeUsed) {
  const cluster::Cluster cluster = mixed();
  const auto use = [&](const std::vector<int>& free, int gpus, const std::map<DeviceId, double>& speed, bool named) {
    return step::devices_to_use(device_ids(free), gpus, named, cluster, step::Math::kBF16, speed);
  };
  EXPECT_EQ(use({8, 9, 10, 11, 0, 1}, 3, kNominal, false), device_ids({0, 1, 8})) << "its own are of the slow kind";
  EXPECT_EQ(use({2, 3, 0, 1}, 2, kNominal, false), device_ids({2, 3})) << "equally fast: its own";
  EXPECT_EQ(use({3, 2, 1, 0}, 4, kNominal, true), device_ids({3, 2, 1, 0})) << "in the order asked for";
  const std::map<DeviceId, double> slow = {{DeviceId(0), 0.3}};
  EXPECT_EQ(use({0, 1, 2, 3}, 4, slow, false), device_ids({2, 3, 1, 0})) << "whole hosts first";
  EXPECT_EQ(use({0, 1, 2, 3}, 3, slow, false), device_ids({1, 2, 3}));
  EXPECT_EQ(use({0, 8, 9}, 2, slow, false), device_ids({8, 9})) << "slower than the slow kind";
}

TEST(Chooser, SaysWhatIsTightest) {
  const cluster::Cluster cluster = mixed();
  FakeSearch search;
  search.answer = {};
  search.answer.no_fit = step::NoFit{};
  search.answer.no_fit->tightest_term = "optimizer";
  search.answer.no_fit->remedies = {"full recomputation fits"};
  search.answer.no_fit->memory.stages.push_back({});
  Chooser chooser(cluster, search.function());
  const JobSpec job = choosing();
  const auto devices = device_ids({0, 1});
  const auto nothing = chooser.best({.job = job, .devices = devices, .speed = kNominal});
  EXPECT_EQ(nothing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message_of(nothing.status()), HasSubstr("most of it optimizer; full recomputation fits"));
  const std::vector<DeviceId> none;
  EXPECT_FALSE(chooser.best({.job = job, .devices = none, .speed = kNominal}).ok());
}

TEST(Chooser, TensorParallelGroupsStayInHosts) {
  const cluster::Cluster cluster = mixed();
  const auto of = [&](const ParallelConfig& config, const std::vector<int>& usable) {
    return step::devices_for(config, device_ids(usable), cluster);
  };
  EXPECT_EQ(of({.tp = 2}, {1, 2, 3}), device_ids({2, 3}));
  EXPECT_EQ(of({.tp = 2, .dp = 2}, {8, 9, 10, 12, 13}), device_ids({8, 9, 12, 13}));
  EXPECT_EQ(of({.tp = 2, .dp = 2}, {0, 2, 4, 6}), device_ids({0, 2, 4, 6})) << "there is no other way";
  EXPECT_EQ(of({.tp = 8}, {0, 1, 2, 3, 4, 5, 6, 7, 8}), device_ids({0, 1, 2, 3, 4, 5, 6, 7})) << "larger than hosts";
  EXPECT_EQ(of({.dp = 3}, {5, 1, 4, 0}), device_ids({5, 4, 1})) << "host by host, as they come";
}

}  // namespace
}  // namespace scalai::scenario
