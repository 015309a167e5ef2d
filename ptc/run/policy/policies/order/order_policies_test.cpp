#include <gmock/gmock.h>

#include "ptc/run/policy/policies/order/testing/support.h"

namespace scalai::policy {
namespace {

TEST(OrderPolicies, AreTheOnesThatTheReadmeHas) {
  std::vector<std::string> names;
  for (const PolicyInfo& info : order_policies()) {
    names.push_back(info.name);
    EXPECT_EQ(info.family, "order");
    EXPECT_NE(order::make_order_policy(info.name), nullptr) << info.name;
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("fifo", "fifo-backfill", "sjf", "srtf", "srsf", "priority", "tiresias", "afs-l"));
}

// Jobs of 10 s that come at 5 and 15 s, asked about once a minute.
TEST(OrderPolicies, AllCanBeAskedAtIntervals) {
  for (const PolicyInfo& info : order_policies()) {
    SCOPED_TRACE(info.name);
    const Workload workload{"w", {testing::rigid_job("a", 5, 1, 10), testing::rigid_job("b", 15, 1, 10)}};
    const auto policy = order::make_order_policy(info.name, {{"interval", "60s"}});
    const Outcome outcome = order::play(policy.get(), workload, testing::plain_fleet(1, 1));
    EXPECT_THAT(order::finish_times(outcome), ::testing::ElementsAre(70, 130));
  }
}

}  // namespace
}  // namespace scalai::policy
