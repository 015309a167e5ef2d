#include "labs/validation/policies/internal/sets.h"

#include "gtest/gtest.h"
#include "labs/validation/policies/internal/parcae_replay.h"
#include "ptc/base/file.h"
#include "ptc/run/policy/testing/support.h"

namespace scalai::policy::validation {
namespace {

TEST(Sets, Means) { EXPECT_EQ(mean({1, 2, 6}), 3); }

TEST(Sets, FleetsOfHosts) {
  const Fleet fleet = fleet_of({{"a", 6}, {"b", 3}}, 4);
  ASSERT_EQ(fleet.hosts.size(), 3u);
  EXPECT_EQ(fleet.hosts[1].gpus, 2);
  EXPECT_EQ(fleet.gpus(GpuType(0)), 6);
  EXPECT_EQ(fleet.gpus(GpuType(1)), 3);
}

TEST(Sets, RunAPolicyByName) {
  Workload workload;
  workload.jobs = {policy::testing::rigid_job("a", 5, 1, 20), policy::testing::rigid_job("b", 6, 1, 10)};
  const Fleet fleet = policy::testing::plain_fleet(1, 1);
  const policy::testing::PlainThroughput throughput;
  PolicyRun run;
  run.policy = "fifo";
  run.workload = &workload;
  run.fleet = &fleet;
  run.throughput = &throughput;
  const auto outcome = run_policy(run);
  ASSERT_TRUE(outcome.ok()) << outcome.status().ToString();
  EXPECT_EQ(completion_times_s(workload, *outcome), (std::vector<double>{20, 29}));
  run.policy = "fifoo";
  EXPECT_FALSE(run_policy(run).ok());
}

TEST(ParcaeReplay, ReadsDecisionsAndNamesBadLines) {
  const std::string path = ::testing::TempDir() + "/parcae_replay.jsonl";
  const std::string good =
      R"([0, "add", {"nodes": ["a", "b"], "throughput_opt_strategy": [1, 2], "liveput_truth_strategy": [2, 1]}])";
  ASSERT_TRUE(write_file(path, good + "\n").ok());
  const auto minutes = read_parcae_replay(path);
  ASSERT_TRUE(minutes.ok());
  ASSERT_EQ(minutes->size(), 1u);
  EXPECT_EQ(minutes->front().hosts.hosts, 2);
  EXPECT_EQ(minutes->front().fastest, (jobs::PipelineLayout{1, 2}));
  EXPECT_EQ(minutes->front().foresight, (jobs::PipelineLayout{2, 1}));
  ASSERT_TRUE(write_file(path, good + "\n[1, 2]\n").ok());
  EXPECT_NE(read_parcae_replay(path).status().ToString().find(":2:"), std::string::npos);
  const std::string gone =
      R"([0, "remove", {"nodes": ["a"], "throughput_opt_strategy": [1, 2], "liveput_truth_strategy": [2, 1]}])";
  ASSERT_TRUE(write_file(path, gone).ok());
  EXPECT_FALSE(read_parcae_replay(path).ok());
}

}  // namespace
}  // namespace scalai::policy::validation
