#include "ptc/run/policy/policies/external/external.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/external/testing/external_view.h"

namespace scalai::policy {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<Policy> program(const std::string& command, double timeout_s = 20) {
  return make_external_policy({.command = command, .folder = SCALAI_SOURCE_DIR "/scenarios", .timeout_s = timeout_s});
}

// The program of the scenarios folder: shortest first, preemptive.
TEST(External, ShortestFirst) {
  testing::PaperView view;
  const JobId a = view.add("long", 8, 4000), b = view.add("short", 8, 100), c = view.add("middle", 4, 500);
  const auto policy = program("python3 policies/shortest_first.py");
  ASSERT_EQ(policy->begin(view), absl::OkStatus());
  const auto first = policy->decide(view, {});
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->grants.size(), 2u);
  EXPECT_EQ(first->grants[0].job, b);
  EXPECT_EQ(first->grants[0].type, GpuType(0)) << "the faster one";
  EXPECT_EQ(first->grants[1].job, c);
  EXPECT_EQ(first->grants[1].type, GpuType(1));

  // "long" runs on the v100s, "short" is to have them: it goes, and takes what is left.
  view.at(a).placement = {.type = GpuType(0), .hosts = {{HostId(0), 4}, {HostId(1), 4}}};
  view.at(c).placement = {.type = GpuType(1), .hosts = {{HostId(2), 4}}};
  const auto second = policy->decide(view, {});
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_EQ(second->grants.size(), 2u) << "\"middle\" stays where it is";
  EXPECT_EQ(second->grants[0].job, b);
  EXPECT_EQ(second->grants[1].job, a);
  EXPECT_EQ(second->grants[1].gpus, 0);
  EXPECT_THAT(policy->remarks(), HasSubstr("2 answers"));
}

TEST(External, ProblemsSayWhoAndWhen) {
  testing::PaperView view;
  view.add("a", 1, 1);
  const std::string hello = "read x; echo '{\"scalai_policy\":1}'; ";
  const auto problem = [&](const std::string& more, double timeout_s = 20) {
    const auto policy = program(hello + more, timeout_s);
    EXPECT_EQ(policy->begin(view), absl::OkStatus());
    const auto decision = policy->decide(view, {});
    EXPECT_EQ(exit_code_of(decision.status()), 5);
    return message_of(decision.status());
  };
  EXPECT_THAT(problem("read x; echo '{'; read x"),
              AllOf(HasSubstr("was asked at 100 s"), HasSubstr("this is not JSON")));
  EXPECT_THAT(problem("read x; exit 4"), HasSubstr("ended with exit code 4"));
  EXPECT_THAT(problem("read x; sleep 50", 0.3), HasSubstr("no answer within 0.3 s"));
  EXPECT_THAT(problem("read x; echo '{\"grants\":[{\"job\":\"a\",\"type\":\"v100\",\"gpus\":9}]}'; read x"),
              HasSubstr("it takes 1"));
}

TEST(External, AGreetingThatFailsIsAnErrorOfBegin) {
  testing::PaperView view;
  EXPECT_THAT(message_of(program("exit 9")->begin(view)), AllOf(HasSubstr("was greeted"), HasSubstr("exit code 9")));
  EXPECT_THAT(message_of(program("read x; echo '{\"scalai_policy\":9}'; read x")->begin(view)), HasSubstr("version 9"));
}

}  // namespace
}  // namespace scalai::policy
