#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "sim/jobs/planned/planned.h"
#include "sim/jobs/planned/testing/support.h"

namespace scalai::jobs {
namespace {

using ::testing::HasSubstr;
using testing::Machine;
using testing::World;

class RecoveryPlansTest : public ::testing::Test {
 protected:
  explicit RecoveryPlansTest(const std::string& pins = "tp4,pp1,zero0")
      : world_(Machine{.hosts = 8}, {.pins = pins}), job_(world_.add("gpt3-xl", 64)) {
    fabric_ = make_unshared_fabric(world_.cluster);
    strategy_.costs.communicator_s = 3;
    plans_ = make_recovery_plans(*world_.configurations, *fabric_, strategy_, job_);
  }

  World world_;
  policy::Job job_;
  std::unique_ptr<Fabric> fabric_;
  ChangeStrategy strategy_;
  std::unique_ptr<RecoveryPlans> plans_;
};

TEST_F(RecoveryPlansTest, SurvivorsGoOnWhereTheyAre) {
  const RecoveryCost cost = plans_->cost({.hosts_before = 4, .hosts_after = 2, .lost = {0, 2}}).value();
  EXPECT_TRUE(cost.from_survivors);
  EXPECT_EQ(cost.bytes.cross_host, 0);
  EXPECT_NEAR(cost.seconds, 0.1 + 3, 0.01);
}

TEST_F(RecoveryPlansTest, ASpareFetchesAReplica) {
  const RecoveryCost cost = plans_->cost({.hosts_before = 4, .hosts_after = 4, .lost = {1}}).value();
  EXPECT_TRUE(cost.from_survivors);
  EXPECT_GT(cost.bytes.cross_host, 0);
  EXPECT_GT(cost.seconds, 3.1);
  // Which replica was lost makes no difference.
  for (const int place : {0, 2, 3})
    EXPECT_EQ(plans_->cost({.hosts_before = 4, .hosts_after = 4, .lost = {place}}).value().seconds, cost.seconds);
}

TEST_F(RecoveryPlansTest, GrowingAndStarting) {
  const double start_s = plans_->cost({.hosts_before = 0, .hosts_after = 4}).value().seconds;
  EXPECT_EQ(start_s, 3);
  const RecoveryCost grown = plans_->cost({.hosts_before = 2, .hosts_after = 4}).value();
  EXPECT_LT(grown.seconds, 5);
  EXPECT_GT(grown.seconds, 3.1);
}

TEST_F(RecoveryPlansTest, StepsAreThoseOfTheConfiguration) {
  EXPECT_EQ(plans_->step_s(2), world_.configurations->best(job_, policy::GpuType(0), 8)->step_s);
  EXPECT_EQ(plans_->step_s(0), 0);
  EXPECT_EQ(plans_->step_s(9), 0);
}

TEST_F(RecoveryPlansTest, RefusesWhatIsNotThere) {
  EXPECT_THAT(message_of(plans_->cost({.hosts_before = 8, .hosts_after = 8, .lost = {3}}).status()),
              HasSubstr("the cluster has 8"));
  EXPECT_THAT(message_of(plans_->cost({.hosts_before = 2, .hosts_after = 2, .lost = {2}}).status()),
              HasSubstr("host 2 of 2 is lost"));
}

TEST_F(RecoveryPlansTest, AStartFromStorageReadsIt) {
  const RecoveryCost fresh = plans_->cost({.hosts_before = 0, .hosts_after = 4}).value();
  const RecoveryCost again =
      plans_->cost({.hosts_before = 0, .hosts_after = 4, .lost = {}, .from_storage = true}).value();
  EXPECT_FALSE(again.from_survivors);
  EXPECT_GT(again.bytes.from_storage, 0);
  EXPECT_GE(again.seconds, fresh.seconds + static_cast<double>(again.bytes.from_storage) / 20e9 * 0.99);
}

// Two stages, two replicas, a host each: only hosts of the same stage are each other's copy.
class StagedRecoveryTest : public RecoveryPlansTest {
 protected:
  StagedRecoveryTest() : RecoveryPlansTest("tp4,pp2,zero0") {}
};

TEST_F(StagedRecoveryTest, WhichHostsAreLostDecides) {
  int fatal = 0;
  for (int a = 0; a < 4; ++a) {
    EXPECT_TRUE(plans_->survives({.hosts_before = 4, .hosts_after = 0, .lost = {a}}));
    for (int b = a + 1; b < 4; ++b) fatal += !plans_->survives({.hosts_before = 4, .hosts_after = 0, .lost = {a, b}});
  }
  EXPECT_EQ(fatal, 2);
  EXPECT_FALSE(plans_->survives({.hosts_before = 4, .hosts_after = 0, .lost = {0, 1, 2}}));
}

class ShardedRecoveryTest : public RecoveryPlansTest {
 protected:
  ShardedRecoveryTest() : RecoveryPlansTest("tp4,pp1,zero1") {}
};

TEST_F(ShardedRecoveryTest, ALostShardComesFromStorageWithEverythingElse) {
  const RecoveryCost cost = plans_->cost({.hosts_before = 4, .hosts_after = 4, .lost = {1}}).value();
  EXPECT_FALSE(cost.from_survivors);
  EXPECT_EQ(cost.bytes.kept, 0);
  EXPECT_GT(cost.seconds, 3.1 + static_cast<double>(cost.bytes.from_storage) / 20e9);
}

}  // namespace
}  // namespace scalai::jobs
