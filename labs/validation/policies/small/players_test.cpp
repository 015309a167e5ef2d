#include "labs/validation/policies/small/players.h"

#include "gtest/gtest.h"

namespace scalai::policy::small {
namespace {

// Four GPUs. At 0 the first takes all; at 2 it has 32 GPU seconds left, the second 3, the third 8 and no room beside
// both.
TEST(Players, SrsfByHand) {
  const std::vector<RigidJob> jobs = {{0, 4, 10}, {2, 1, 3}, {2, 4, 2}};
  EXPECT_EQ(play_srsf(jobs, 4), (std::vector<int>{15, 5, 7}));
}

// The second stops the first at 2; the third does not fit beside it, and is of the weight of the first.
TEST(Players, PriorityByHand) {
  const std::vector<RigidJob> jobs = {{0, 4, 10, 1}, {2, 1, 3, 2}, {2, 4, 2, 1}};
  EXPECT_EQ(play_priority(jobs, 4), (std::vector<int>{13, 5, 15}));
}

// One GPU, leases of 5 s, two jobs of 10 s. At 0 the first goes; at 5 the second has waited, rho 15/20 against 10/20.
TEST(Players, ThemisByHand) {
  const std::vector<RigidJob> jobs = {{0, 1, 10}, {0, 1, 10}};
  EXPECT_EQ(play_themis(jobs, 1, 5), (std::vector<int>{15, 20}));
  EXPECT_EQ(play_themis(jobs, 1, 10), (std::vector<int>{10, 20}));
}

// Two GPUs; speed does not grow with the second GPU of the first job: the long job gets it.
TEST(Players, AfsGivesTheGpuWhereItHelps) {
  const std::vector<ElasticJob> jobs = {{0, 100, {1, 1}}, {0, 300, {1, 2}}};
  EXPECT_EQ(play_afs_l(jobs, 3), (std::vector<double>{100, 150}));
}

// Two equal jobs on one GPU: the first for an epoch, then the second, which has run for none.
TEST(Players, AfsByEpochs) {
  const std::vector<ElasticJob> jobs = {{0, 20, {1}}, {0, 20, {1}}};
  EXPECT_EQ(play_afs_p(jobs, 1, 10), (std::vector<double>{30, 40}));
  EXPECT_EQ(play_afs_l(jobs, 1), (std::vector<double>{20, 40}));
}

// A GPU that is three times as slow is worth less than to wait, one that is less than twice as slow is not.
TEST(Players, AlloxByHand) {
  EXPECT_EQ(play_allox({{0, {10, 31}}, {0, {11, 31}}}), (std::vector<int>{10, 21}));
  EXPECT_EQ(play_allox({{0, {10, 19}}, {0, {11, 19}}}), (std::vector<int>{10, 19}));
  EXPECT_EQ(play_allox({{0, {50}}, {1, {9}}, {2, {5}}}),
            (std::vector<int>{50, 64, 55}));  // shortest first when it is free
}

}  // namespace
}  // namespace scalai::policy::small
