#include "executor/worker/foreign_step.h"

#include <gtest/gtest.h>

#include "ptc/proto/control.pb.h"

namespace scalai::executor {
namespace {

TEST(ForeignStepTest, RefusesWhatDoesNotFitThePlan) {
  const std::vector<plan::TensorInfo> planned = {{.name = "w", .shape = {2}}};
  proto::Foreign foreign;
  foreign.set_version(StateVersion::live(1).wire());
  EXPECT_FALSE(ForeignStep::make(foreign, planned).ok());
  foreign.add_tensors(0);
  EXPECT_TRUE(ForeignStep::make(foreign, planned).ok());
  foreign.add_changes()->set_tensor(1);
  EXPECT_FALSE(ForeignStep::make(foreign, planned).ok());
  foreign.mutable_changes(0)->set_tensor(0);
  foreign.mutable_changes(0)->add_lo(5);
  EXPECT_FALSE(ForeignStep::make(foreign, planned).ok());
  foreign.mutable_changes(0)->add_hi(6);
  EXPECT_TRUE(ForeignStep::make(foreign, planned).ok());
  foreign.add_changes();  // of another rank
  EXPECT_FALSE(ForeignStep::make(foreign, planned).ok());
  foreign.set_version(-77);
  EXPECT_FALSE(ForeignStep::make(foreign, planned).ok());
}

}  // namespace
}  // namespace scalai::executor
