#include "ptc/run/policy/policies/order/tiresias.h"

#include <gmock/gmock.h>

#include "ptc/run/policy/policies/order/testing/support.h"

namespace scalai::policy::order {
namespace {

using ::testing::ElementsAre;

// One GPU; the first queue ends at 100 GPU-seconds.
const char* const kHundred = "0.027777777777777776";

TEST(Tiresias, ADemotedJobMakesWayForWhoHasHadLess) {
  const Workload workload{.name = "", .jobs = {testing::rigid_job("a", 0, 1, 150), testing::rigid_job("b", 10, 1, 60)}};
  const Outcome outcome =
      play(make_order_policy("tiresias", {{"threshold", kHundred}}).get(), workload, testing::plain_fleet(1, 1));
  EXPECT_THAT(finish_times(outcome), ElementsAre(210, 160));  // a until 100, b until 160, a
  EXPECT_EQ(outcome.jobs[0].preemptions, 1);
}

TEST(Tiresias, InsideAQueueSubmissionDecidesAndNobodyIsStopped) {
  const Workload workload{.name = "", .jobs = {testing::rigid_job("a", 0, 1, 90), testing::rigid_job("b", 10, 1, 6)}};
  const Outcome outcome =
      play(make_order_policy("tiresias", {{"threshold", kHundred}}).get(), workload, testing::plain_fleet(1, 1));
  EXPECT_THAT(finish_times(outcome), ElementsAre(90, 96));
}

// GPUs count: two for 50 s are 100 GPU-seconds.
TEST(Tiresias, ServiceIsGpusTimesTime) {
  const Workload workload{.name = "", .jobs = {testing::rigid_job("a", 0, 2, 150), testing::rigid_job("b", 10, 1, 60)}};
  const Outcome outcome =
      play(make_order_policy("tiresias", {{"threshold", kHundred}}).get(), workload, testing::plain_fleet(1, 2));
  EXPECT_THAT(finish_times(outcome), ElementsAre(210, 110));
}

TEST(Tiresias, PromotionEndsStarvation) {
  Workload workload{.name = "", .jobs = {testing::rigid_job("a", 0, 1, 200)}};
  for (int k = 0; k < 5; ++k) workload.jobs.push_back(testing::rigid_job("s" + std::to_string(k), 50 + k, 1, 90));
  const Fleet fleet = testing::plain_fleet(1, 1);
  const auto finish = [&](const char* promote) {
    return finish_times(
        play(make_order_policy("tiresias", {{"threshold", kHundred}, {"promote", promote}}).get(), workload, fleet));
  };
  EXPECT_EQ(finish("0")[0], 100 + 5 * 90 + 100);
  // It ran for 100 s: after 100 s of waiting it is in the first queue again, ahead of all by submission.
  EXPECT_EQ(finish("1")[0], 200 + 100);
}

TEST(Tiresias, SeveralQueues) {
  const Workload workload{.name = "",
                          .jobs = {testing::rigid_job("a", 0, 1, 400), testing::rigid_job("b", 0, 1, 150),
                                   testing::rigid_job("c", 250, 1, 50)}};
  const Outcome outcome =
      play(make_order_policy("tiresias", {{"threshold", kHundred}, {"threshold-2", "0.05555555555555555"}}).get(),
           workload, testing::plain_fleet(1, 1));
  // a to 100, b to 200 (both in queue 1), a again to 250: c; a to 350 (200 served: queue 2), b to its end at 400, a
  EXPECT_THAT(finish_times(outcome), ElementsAre(600, 400, 300));
}

TEST(Tiresias, GittinsIndexByHand) {
  const std::vector<double> finished = {10, 20, 100};
  // Of all three two end within 20 more; they are served 10, 20 and 20.
  EXPECT_DOUBLE_EQ(gittins_index(finished, 0, 20), 2.0 / 50);
  // Served 10: 20 and 100 are longer; 10 and 20 more.
  EXPECT_DOUBLE_EQ(gittins_index(finished, 10, 20), 1.0 / 30);
  EXPECT_DOUBLE_EQ(gittins_index(finished, 90, 20), 1.0 / 10);
  EXPECT_DOUBLE_EQ(gittins_index(finished, 100, 20), 0);
}

// After jobs of 10 s were seen, a job that has had less than that goes before one that has had far more.
TEST(Tiresias, GittinsPutsWhatIsLikelyToEndSoonFirst) {
  Workload workload{.name = "", .jobs = {}};
  for (int k = 0; k < 3; ++k) workload.jobs.push_back(testing::rigid_job("seen" + std::to_string(k), 10 * k, 1, 10));
  workload.jobs.push_back(testing::rigid_job("long", 40, 1, 1000));
  workload.jobs.push_back(testing::rigid_job("new", 500, 1, 10));
  const Outcome outcome = play(make_order_policy("tiresias", {{"gittins", "true"}, {"quantum", "0.01"}}).get(),
                               workload, testing::plain_fleet(1, 1));
  EXPECT_THAT(finish_times(outcome), ElementsAre(10, 20, 30, 1050, 510));
}

}  // namespace
}  // namespace scalai::policy::order
