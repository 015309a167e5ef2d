#include "ptc/run/control/internal/run_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/control/testing/parts_fixture.h"

namespace scalai::control {
namespace {

using testing::device_ids;
using ::testing::ElementsAre;
using testing::Parts;
using testing::sized_job;
using ::testing::SizeIs;

TEST(DeviceList, NeighboursAreARun) {
  EXPECT_EQ(device_list({}), "");
  EXPECT_EQ(device_list(device_ids({3})), "g3");
  EXPECT_EQ(device_list(device_ids({9, 3, 8, 5, 10})), "g3 g5 g8-g10");
}

class RunRecordsTest : public ::testing::Test {
 protected:
  RunReport report(double at_s) const { return records_.report("reshard", {"events[0] (at step 5)"}, at_s); }

  // Device and bytes of the samples from this one on.
  std::vector<std::pair<int, int64_t>> sampled(size_t first) const {
    std::vector<std::pair<int, int64_t>> list;
    const std::vector<MemorySample> memory = report(10).memory;
    for (size_t i = first; i < memory.size(); ++i) list.emplace_back(memory[i].device.value, memory[i].bytes);
    return list;
  }

  Parts parts_{"until: \"100s\"\n" + sized_job("a") + sized_job("b", "submit: \"50s\"")};
  RunRecords records_{parts_.scenario, parts_.jobs};
};

TEST_F(RunRecordsTest, SpansFollowOneAnother) {
  Job& job = parts_.train(0, 1, {0, 1});
  records_.end_span(job, "train", 10);
  records_.end_span(job, "train", 10);  // of no length
  records_.add_phases(job, {.plan = 2, .transfer = 3}, device_ids({2, 3}), 15);
  job.accounts.span_since_s = 15;
  const std::vector<JobSpan> spans = report(20).spans;
  ASSERT_THAT(spans, SizeIs(4));
  EXPECT_EQ(spans[1].what, "plan");
  EXPECT_EQ(spans[1].start_s, 10);
  EXPECT_EQ(spans[2].what, "transfer");
  EXPECT_EQ(spans[2].start_s, 12);
  EXPECT_EQ(spans[2].end_s, 15);
  EXPECT_EQ(spans[3].what, "train") << "what is not over ends with the report";
  EXPECT_EQ(spans[3].end_s, 20);
}

TEST_F(RunRecordsTest, MemoryIsThatOfOldAndNewStateUntilTheCommit) {
  Job& job = parts_.train(0, 1, {0, 1});
  const std::vector<int64_t> bytes = state_bytes_of_ranks(*job.state.collection);
  records_.sample_memory(job, 0);
  records_.sample_memory(job, 5);
  EXPECT_EQ(sampled(0), (std::vector<std::pair<int, int64_t>>{{0, bytes[0]}, {1, bytes[1]}}));
  job.underway = Underway{};
  job.underway->collection = job.state.collection;
  records_.sample_memory(job, 6);
  EXPECT_EQ(sampled(2), (std::vector<std::pair<int, int64_t>>{{0, 2 * bytes[0]}, {1, 2 * bytes[1]}}));
  job.underway.reset();
  parts_.train(0, 1, {4, 5});
  records_.sample_memory(job, 7);
  EXPECT_EQ(sampled(4), (std::vector<std::pair<int, int64_t>>{{0, 0}, {1, 0}, {4, bytes[0]}, {5, bytes[1]}}));
}

TEST_F(RunRecordsTest, TheReportCreditsStepsUnderWay) {
  Job& job = parts_.train(0, 1, {0, 1});
  job.training = {.start_s = 0, .from_step = 0, .until_step = 1000, .step_s = 2};
  EXPECT_EQ(records_.log({0, Started{}}), 1u);
  const RunReport run = report(9);
  EXPECT_EQ(run.strategy, "reshard");
  EXPECT_THAT(run.unreached, ElementsAre("events[0] (at step 5)"));
  EXPECT_THAT(run.events, SizeIs(1));
  EXPECT_EQ(run.jobs[0].state, "running");
  EXPECT_EQ(run.jobs[0].steps, 4);
  EXPECT_EQ(run.jobs[0].samples, 32);
  EXPECT_EQ(run.jobs[0].training_s, 8);
  EXPECT_EQ(run.jobs[0].wall_s, 9);
  EXPECT_EQ(run.jobs[0].gpu_hours, 2 * 9 / 3600.0);
  EXPECT_EQ(run.jobs[1].state, "pending");
  EXPECT_TRUE(run.jobs[1].schedule.has_value()) << "jobs come one after another";
  EXPECT_EQ(job.accounts.record.training_s, 0) << "the job goes on";
}

TEST_F(RunRecordsTest, StatusIsShort) {
  Job& job = parts_.train(0, 1, {0, 1}, 5);
  job.mode = Mode::kReconfiguring;
  const std::vector<JobStatus> status = records_.status(9);
  ASSERT_THAT(status, SizeIs(2));
  EXPECT_EQ(status[0].state, "reconfiguring");
  EXPECT_EQ(status[0].step, 5);
  EXPECT_EQ(status[0].layout, "tp2");
  EXPECT_EQ(status[0].gpus, 2);
  EXPECT_EQ(status[1].layout, "");
}

}  // namespace
}  // namespace scalai::control
