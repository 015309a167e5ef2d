#include "ptc/run/policy/policies/catalogue.h"

#include <gmock/gmock.h>

#include <set>

#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string problem(const std::string& name, std::vector<std::string> set) {
  const absl::Status status = make_policy(name, set, 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return message_of(status);
}

TEST(Catalogue, EveryPolicyIsDescribedAndItsDefaultsAreValid) {
  std::set<std::string> names;
  for (const PolicyInfo& info : policies()) {
    SCOPED_TRACE(info.name);
    EXPECT_TRUE(names.insert(info.name).second) << "twice";
    EXPECT_FALSE(info.summary.empty() || info.family.empty());
    std::vector<std::string> set;
    for (const ParameterInfo& parameter : info.parameters) {
      EXPECT_FALSE(parameter.help.empty() || parameter.unit.empty()) << parameter.name;
      set.push_back(parameter.name + "=" + parameter.default_value);
    }
    const auto policy = make_policy(info.name, set, 1);
    ASSERT_TRUE(policy.ok()) << message_of(policy.status());
    EXPECT_EQ((*policy)->traits().preemptive, info.traits.preemptive);
    EXPECT_EQ((*policy)->traits().work_conserving, info.traits.work_conserving);
  }
  EXPECT_TRUE(make_policy("srtf", {}, 1).ok());
}

TEST(Catalogue, NamesWithTyposGetTheClosest) {
  EXPECT_THAT(problem("sttf", {}), HasSubstr("there is no policy \"sttf\"; did you mean \"srtf\"?"));
  EXPECT_THAT(problem("something-else-altogether", {}), HasSubstr("fifo-backfill"));
  EXPECT_THAT(problem("tiresias", {"treshold=3"}), HasSubstr("did you mean \"threshold\"?"));
  EXPECT_THAT(problem("afs-l", {"x=3"}), HasSubstr("it has interval"));
}

// The quirks of published simulators are with the validation.
TEST(Catalogue, HasNoEmulations) {
  EXPECT_THAT(problem("gavel-fifo", {}), HasSubstr("there is no policy \"gavel-fifo\""));
}

TEST(Catalogue, APolicyOfLabsIsThereOrSaidToBeLeftOut) {
  EXPECT_EQ(left_out("srtf"), "");
  EXPECT_EQ(left_out("sttf"), "");
  if (make_policy("gandiva", {}, 1).ok()) {
    EXPECT_EQ(left_out("gandiva"), "");
  } else {
    EXPECT_EQ(problem("gandiva", {}),
              "policy \"gandiva\" is in labs/policies; this build has no labs (SCALAI_LABS=OFF)");
    EXPECT_EQ(left_out("gandiva"), problem("gandiva", {}));
  }
}

TEST(Catalogue, AllProblemsAreTold) {
  EXPECT_THAT(problem("tiresias", {"threshold=-1", "gittins=yes", "types=fastet", "promote", "quantum=x"}),
              AllOf(HasSubstr("\"-1\" is negative"), HasSubstr("\"yes\" is neither true nor false"),
                    HasSubstr("\"fastet\" is not one of fleet, fastest; did you mean \"fastest\"?"),
                    HasSubstr("\"promote\" is no parameter"), HasSubstr("\"x\" is not a number")));
  EXPECT_THAT(problem("afs-l", {"interval=20"}), HasSubstr("interval"));
}

TEST(Catalogue, ParametersAreReadByUnit) {
  const Parameters parameters(
      {{"round", "6min"}, {"ratio", "-0.5"}, {"groups", "4"}, {"packing", "true"}, {"text", "a b"}});
  EXPECT_EQ(parameters.seconds("round"), 360);
  EXPECT_EQ(parameters.number("ratio"), -0.5);
  EXPECT_EQ(parameters.count("groups"), 4);
  EXPECT_TRUE(parameters.flag("packing"));
  EXPECT_EQ(parameters.text("text"), "a b");
}

}  // namespace
}  // namespace scalai::policy
