#include "ptc/run/policy/policies/goodput/goodput.h"

#include <gtest/gtest.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/goodput/testing/profiles.h"
#include "ptc/run/policy/testing/support.h"

namespace scalai::policy {
namespace goodput_test {

Job tiny_job(int64_t batch) {
  Job job;
  job.name = "job";
  job.type = "tiny";
  job.batch = batch;
  return job;
}

Placement on(std::vector<int> gpus) {
  Placement placement{GpuType(0), {}};
  for (size_t h = 0; h < gpus.size(); ++h) placement.hosts.push_back({HostId(static_cast<int64_t>(h)), gpus[h]});
  return placement;
}

TEST(Goodput, OfAFixedBatchIsTheGainOverTheStep) {
  const testing::TinyProfiles tiny;
  Workload workload{"w", {tiny_job(32)}};
  const auto source = pollux_throughput(tiny.folder(), testing::plain_fleet(6, 4), workload, BatchMode::kFixed);
  ASSERT_TRUE(source.ok()) << message_of(source.status());
  const Job& job = workload.jobs[0];
  // Two GPUs on two hosts, 16 samples each: 2 s; gain at scale 4 with sqr 3, var 7: 10 / (7/4 + 3).
  EXPECT_DOUBLE_EQ((*source)->placed_rate(job, on({1, 1}), 0).per_s, 10 / 4.75 / 2);
  // In the second epoch var is 8.
  EXPECT_DOUBLE_EQ((*source)->placed_rate(job, on({1, 1}), 150).per_s, 11.0 / 5 / 2);
  // One GPU: two passes of 16, the first without exchange: 4 + 3.6 s.
  EXPECT_DOUBLE_EQ((*source)->rate(job, GpuType(0), 1, 0).per_s, 10 / 4.75 / 7.6);
  EXPECT_EQ((*source)->batch(job, on({1}), 0), (BatchCut{16, 1}));
  // Nine GPUs: less than the least local batch each.
  EXPECT_EQ((*source)->rate(job, GpuType(0), 9, 0).per_s, 0);
  EXPECT_EQ((*source)->rate(job, GpuType(0), 0, 0).per_s, 0);
}

TEST(Goodput, HoldsUntilTheEpochIsOver) {
  const testing::TinyProfiles tiny;
  Workload workload{"w", {tiny_job(0)}};
  const auto source = pollux_throughput(tiny.folder(), testing::plain_fleet(6, 4), workload, BatchMode::kFixed);
  ASSERT_TRUE(source.ok());
  EXPECT_DOUBLE_EQ((*source)->rate(workload.jobs[0], GpuType(0), 1, 0).until_work, 100);
  EXPECT_EQ((*source)->rate(workload.jobs[0], GpuType(0), 1, 100).until_work, kNever);
  // What a sum of many steps makes of 100.
  EXPECT_EQ((*source)->rate(workload.jobs[0], GpuType(0), 1, 100 * (1 - 1e-15)).until_work, kNever);
  EXPECT_DOUBLE_EQ((*source)->rate(workload.jobs[0], GpuType(0), 1, 0).per_s, 0.5);  // 8 samples: 2 s, gain 1
}

TEST(Goodput, AdaptiveBatchIsTheBestOfTheCuts) {
  const testing::TinyProfiles tiny;
  Workload workload{"w", {tiny_job(8)}};
  const auto source = pollux_throughput(tiny.folder(), testing::plain_fleet(6, 4), workload, BatchMode::kAdaptive);
  ASSERT_TRUE(source.ok());
  const Profiles profiles = *Profiles::load(tiny.folder());
  const Application& app = *profiles.find("tiny");
  for (const std::vector<int>& gpus : {std::vector<int>{1}, {2}, {1, 1}, {1, 2}, {2, 2}}) {
    int replicas = 0;
    for (const int count : gpus) replicas += count;
    double best = 0;
    for (const BatchCut& cut : adaptive_cuts(app, replicas)) {
      const auto time = app.step_time(gpus, cut.local);
      ASSERT_TRUE(time.has_value());
      const int64_t batch = replicas * cut.local * (cut.accumulation + 1);
      EXPECT_GE(batch, 8);
      EXPECT_LE(batch, 32);
      const double a = static_cast<double>(cut.accumulation);
      best = std::max(best, step_gain(app.noise(batch, 0), static_cast<double>(batch) / 8) /
                                (time->step_s * (1 + a) - time->sync_s * a));
    }
    EXPECT_DOUBLE_EQ((*source)->placed_rate(workload.jobs[0], on(gpus), 0).per_s, best);
  }
  EXPECT_TRUE(adaptive_cuts(app, 9).empty());  // 9 x 4 samples are more than the largest batch
}

TEST(Goodput, SetsWorkAndBounds) {
  const testing::TinyProfiles tiny;
  Workload workload{"w", {tiny_job(16)}};
  ASSERT_TRUE(pollux_set_work(tiny.folder(), BatchMode::kFixed, &workload).ok());
  EXPECT_DOUBLE_EQ(workload.jobs[0].work, 200);
  EXPECT_EQ(workload.jobs[0].min_gpus, 1);
  EXPECT_EQ(workload.jobs[0].max_gpus, 4);  // 16 / 4
  ASSERT_TRUE(pollux_set_work(tiny.folder(), BatchMode::kAdaptive, &workload).ok());
  EXPECT_EQ(workload.jobs[0].max_gpus, 8);  // 32 / 4
}

TEST(Goodput, RefusesWhatItDoesNotKnow) {
  const testing::TinyProfiles tiny;
  Workload workload{"w", {tiny_job(16), tiny_job(16)}};
  const auto problem = [&](const Fleet& fleet) {
    return message_of(pollux_throughput(tiny.folder(), fleet, workload, BatchMode::kFixed).status());
  };
  EXPECT_NE(problem(testing::plain_fleet(2, 8)).find("at most 4 GPUs a node, the cluster has 8"), std::string::npos);
  Fleet two = testing::plain_fleet(2, 4);
  two.types.push_back({"other", 0});
  EXPECT_NE(problem(two).find("the cluster has 2"), std::string::npos);
  workload.jobs[0].type = "a";
  workload.jobs[1].type = "b";
  EXPECT_NE(problem(testing::plain_fleet(2, 4)).find("no profile for a, b: known are tiny"), std::string::npos);
  EXPECT_FALSE(pollux_set_work(tiny.folder(), BatchMode::kFixed, &workload).ok());
  EXPECT_TRUE(absl::IsNotFound(pollux_set_work(tiny.folder() + "/no", BatchMode::kFixed, &workload)));
}

TEST(Goodput, MoreGpusOnMeasuredApplicationsHelpUpToTheBatch) {
  const std::string folder = testing::data_path("pollux/profiles");
  if (folder.empty()) GTEST_SKIP() << testing::data_hint("pollux/profiles");
  Workload workload{"w", {}};
  for (const char* name : {"bert", "cifar10", "deepspeech2", "imagenet", "yolov3"}) {
    workload.jobs.push_back(tiny_job(0));
    workload.jobs.back().type = name;
  }
  const auto source = pollux_throughput(folder, testing::plain_fleet(16, 4), workload, BatchMode::kAdaptive);
  ASSERT_TRUE(source.ok()) << message_of(source.status());
  ASSERT_TRUE(pollux_set_work(folder, BatchMode::kAdaptive, &workload).ok());
  for (const Job& job : workload.jobs) {
    double before = 0;
    for (const int gpus : {1, 2, 4, 8, 16}) {
      const double now = (*source)->rate(job, GpuType(0), gpus, job.work / 2).per_s;
      EXPECT_GT(now, before) << job.type << " on " << gpus;
      before = now;
    }
  }
}

}  // namespace goodput_test
}  // namespace scalai::policy
