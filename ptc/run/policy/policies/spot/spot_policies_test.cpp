#include <set>

#include "gtest/gtest.h"
#include "ptc/run/policy/policies/catalogue.h"

namespace scalai::policy {
namespace {

TEST(SpotPolicies, AreInTheCatalogue) {
  std::set<std::string> names;
  for (const PolicyInfo& info : spot_policies()) {
    EXPECT_EQ(info.family, "spot") << info.name;
    EXPECT_FALSE(info.summary.empty() || info.source.empty()) << info.name;
    names.insert(info.name);
    std::vector<std::pair<std::string, std::string>> values;
    for (const ParameterInfo& parameter : info.parameters) values.emplace_back(parameter.name, parameter.default_value);
    const std::unique_ptr<Policy> policy = info.make(Parameters(values), 1);
    ASSERT_NE(policy, nullptr);
    EXPECT_EQ(policy->traits().needs_durations, info.traits.needs_durations) << info.name;
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"on-demand-only", "spot-only", "greedy-spot", "uniform-progress", "price-chaser"}));
}

}  // namespace
}  // namespace scalai::policy
