#include "labs/policies/optimus.h"

#include <gmock/gmock.h>

#include "ptc/run/policy/policies/order/testing/support.h"

namespace scalai::policy::labs {
namespace {

using order::Claim;
using order::claim;
using order::elastic_jobs;
using order::gpus_of;
using order::make_order_policy;
using order::play;
using ::testing::ElementsAre;

TEST(Optimus, TheLargestFallOfRemainingTimeFirst) {
  // a: 100 s, 50 s, 33.3 s; b: 60 s, 40 s, 36 s
  std::vector<Claim> claims = {claim(0, 100, {1, 2, 3}), claim(1, 60, {1, 1.5, 60.0 / 36})};
  EXPECT_EQ(share_optimus(3, shortest_first, &claims), 0);
  EXPECT_THAT(gpus_of(claims), ElementsAre(2, 1));
  claims = {claim(0, 100, {1, 2, 3}), claim(1, 60, {1, 1.5, 60.0 / 36})};
  EXPECT_EQ(share_optimus(4, shortest_first, &claims), 0);
  EXPECT_THAT(gpus_of(claims), ElementsAre(2, 2));  // 20 s against 16.7 s
}

TEST(Optimus, NobodyGetsAGpuThatDoesNotHelp) {
  std::vector<Claim> claims = {claim(0, 100, {1, 1, 2})};
  EXPECT_EQ(share_optimus(3, shortest_first, &claims), 2);
  EXPECT_THAT(gpus_of(claims), ElementsAre(1));
}

TEST(Optimus, WithTooFewGpusTheShortestRun) {
  std::vector<Claim> claims = {claim(0, 100, {1, 2}), claim(1, 10, {1, 2}), claim(2, 50, {1, 2})};
  EXPECT_EQ(share_optimus(2, shortest_first, &claims), 0);
  EXPECT_THAT(gpus_of(claims), ElementsAre(0, 1, 1));
  claims = {claim(0, 100, {1, 2}), claim(1, 10, {1, 2}), claim(2, 50, {1, 2})};
  EXPECT_EQ(share_optimus(
                2, [](const Claim&) { return 0.0; }, &claims),
            0);  // or the first to come
  EXPECT_THAT(gpus_of(claims), ElementsAre(1, 1, 0));
}

// Linear speed-up: all that is left goes to one of the two.
TEST(Optimus, ARunEndsAsByHand) {
  const Fleet fleet = testing::plain_fleet(1, 4);
  // Optimus: b gains 200 s with a second GPU, then 66.7 s with a third; a 50 s with its second.
  const Outcome optimus = play(make_order_policy("optimus").get(), elastic_jobs(), fleet);
  EXPECT_DOUBLE_EQ(optimus.jobs[0].finish_s, 100);
  EXPECT_DOUBLE_EQ(optimus.jobs[1].finish_s, 100 + (400 - 300) / 4.0);
}

}  // namespace
}  // namespace scalai::policy::labs
