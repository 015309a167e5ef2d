#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::policy {
namespace {

// "ok", or what the policy says of its parameters when a run begins.
std::string try_with(const std::string& name, const std::vector<std::string>& set) {
  auto policy = make_policy(name, set, 1);
  if (!policy.ok()) return message_of(policy.status());
  const Fleet fleet = testing::plain_fleet(1, 4);
  const Workload workload{"w", {testing::rigid_job("a", 0, 1, 100)}};
  const testing::PlainThroughput throughput;
  const auto changes = jobs::make_constant_changes({});
  const auto outcome = jobs::run({.workload = &workload,
                                  .fleet = &fleet,
                                  .availability = nullptr,
                                  .throughput = &throughput,
                                  .policy = policy->get(),
                                  .changes = changes.get(),
                                  .options = {},
                                  .watcher = {}});
  return outcome.ok() ? "ok" : message_of(outcome.status());
}

TEST(GoodputPolicies, RunWithTheirDefaults) {
  ASSERT_EQ(goodput_policies().size(), 3U);
  for (const PolicyInfo& info : goodput_policies()) EXPECT_EQ(try_with(info.name, {}), "ok") << info.name;
}

// Each parameter reaches its policy: a value that makes no sense is refused by the policy itself.
TEST(GoodputPolicies, TakeTheirParameters) {
  for (const char* name : {"pollux", "sia"}) {
    EXPECT_NE(try_with(name, {"interval=0"}).find("interval"), std::string::npos);
    EXPECT_NE(try_with(name, {"p=0"}).find("p must not be 0"), std::string::npos);
    EXPECT_NE(try_with(name, {"model=fited"}), "ok");
    EXPECT_EQ(try_with(name, {"model=oracle", "most-gpus=1"}), "ok");
  }
  EXPECT_NE(try_with("pollux", {"population=1"}).find("population"), std::string::npos);
  EXPECT_EQ(try_with("pollux", {"generations=2", "avoid-interference=false"}), "ok");
  EXPECT_NE(try_with("sia", {"lambda=0.5"}).find("lambda"), std::string::npos);
  EXPECT_NE(try_with("elasticflow", {"slot=0"}).find("slot"), std::string::npos);
  EXPECT_EQ(try_with("elasticflow", {"slot=2min", "admission=false"}), "ok");
}

}  // namespace
}  // namespace scalai::policy
