#include <gmock/gmock.h>

#include "ptc/sched/policies/order/testing/support.h"

namespace scalai::sched {
namespace {

TEST(OrderPolicies, AreTheOnesThatTheReadmeHas) {
  std::vector<std::string> names;
  for (const PolicyInfo& info : order_policies()) {
    names.push_back(info.name);
    EXPECT_EQ(info.family, "order");
    EXPECT_NE(order::make_order_policy(info.name), nullptr) << info.name;
  }
  EXPECT_THAT(names, ::testing::ElementsAre("fifo", "fifo-backfill", "sjf", "srtf", "srsf", "tiresias", "themis",
                                            "optimus", "afs-l", "afs-p"));
}

}  // namespace
}  // namespace scalai::sched
