#include "ptc/scenario/scenario_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::scenario {
namespace scenario_set_test {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kText = R"(name: "a"
cluster { hosts { count: 2 gpus: 4 } hosts { count: 1 gpus: 8 } }
policy { name: "fifo" set: "a=1" set: "b=2" set: "a=3" }
)";

std::string with(const std::vector<std::string>& settings) {
  const auto text = with_settings(kText, "a.textproto", settings);
  return text.ok() ? *text : "error: " + message_of(text.status());
}

TEST(Settings, NoneLeaveTheTextAsItIs) { EXPECT_EQ(with({}), kText); }

TEST(Settings, FieldsByPath) {
  EXPECT_THAT(with({"policy.name=srtf"}), HasSubstr("name: \"srtf\""));
  EXPECT_THAT(with({"seed=18446744073709551615"}), HasSubstr("seed: 18446744073709551615"));
  EXPECT_THAT(with({"compute=SIMULATED"}), HasSubstr("compute: SIMULATED"));
  EXPECT_THAT(with({"cluster.fabric.oversubscription=4"}), HasSubstr("oversubscription: 4"));
  EXPECT_THAT(with({"changes.seconds=30s"}), HasSubstr("seconds: \"30s\"")) << "the message comes into being";
}

TEST(Settings, ElementsOfLists) {
  const std::string text = with({"cluster.hosts[1].count=7"});
  EXPECT_THAT(text, HasSubstr("count: 2"));
  EXPECT_THAT(text, HasSubstr("count: 7"));
  EXPECT_THAT(text, Not(HasSubstr("count: 1")));
  EXPECT_THAT(with({"cluster.hosts[2].gpus=5"}), HasSubstr("gpus: 5")) << "one more";
  EXPECT_THAT(with({"policy.set[0]=c=9"}), HasSubstr("set: \"c=9\"\n  set: \"b=2\"\n  set: \"a=3\""));
}

TEST(Settings, NamedParametersAreReplacedOrAdded) {
  EXPECT_THAT(with({"policy.set.a=5"}), HasSubstr("name: \"fifo\"\n  set: \"a=5\"\n  set: \"b=2\"\n}"));
  EXPECT_THAT(with({"policy.set.new=x=y"}), HasSubstr("set: \"new=x=y\""));
  EXPECT_THAT(with({"policy.set.model.bert=gpt3-xl"}), HasSubstr("set: \"model.bert=gpt3-xl\"")) << "a name with dots";
  EXPECT_THAT(with({"policy.set.a="}), HasSubstr("name: \"fifo\"\n  set: \"b=2\"\n}"));
}

TEST(Settings, AnEmptyValueTakesAway) {
  EXPECT_THAT(with({"policy="}), Not(HasSubstr("policy")));
  EXPECT_THAT(with({"policy.set="}), Not(HasSubstr("set")));
}

TEST(Settings, InTurn) {
  EXPECT_THAT(with({"policy=", "policy.name=afs-l"}), HasSubstr("policy {\n  name: \"afs-l\"\n}"));
}

TEST(Settings, AllProblemsAtOnce) {
  const std::string text = with({"polcy.name=x", "policy.nam=x", "cluster.hosts.count=1", "cluster.hosts[3].count=1",
                                 "cluster.hosts[0].count=many", "policy=x", "name.x=1", "name[0]=x", "seed", "a..b=1",
                                 "compute=FAST", "cluster.hosts[x].count=1", "seed=-1"});
  EXPECT_THAT(text, HasSubstr("--set=polcy.name=x: a scenario has no field \"polcy\"; did you mean \"policy\"?"));
  EXPECT_THAT(text, HasSubstr("\"policy\" has no field \"nam\"; did you mean \"name\"?"));
  EXPECT_THAT(text, HasSubstr("\"hosts\" is a list: say which element, as in hosts[0]"));
  EXPECT_THAT(text, HasSubstr("hosts[3] is beyond the list, which has 2 elements"));
  EXPECT_THAT(text, HasSubstr("\"count\" takes a whole number, found \"many\""));
  EXPECT_THAT(text, HasSubstr("\"policy\" is a message; go on with one of its fields: name, set, exec, timeout"));
  EXPECT_THAT(text, HasSubstr("\"name\" has no fields"));
  EXPECT_THAT(text, HasSubstr("\"name\" is not a list"));
  EXPECT_THAT(text, HasSubstr("--set=seed: write it like --set=policy.name=srtf"));
  EXPECT_THAT(text, HasSubstr("\"a..b\" is no path"));
  EXPECT_THAT(text, HasSubstr("\"compute\" takes one of ANALYTIC, SIMULATED, found \"FAST\""));
  EXPECT_THAT(text, HasSubstr("\"cluster.hosts[x].count\" is no path"));
  EXPECT_THAT(text, HasSubstr("\"seed\" takes a whole number, found \"-1\""));
}

TEST(Settings, ABrokenFileIsReportedWithItsPlaces) {
  const auto text = with_settings("nme: \"x\"\n", "b.textproto", {"seed=1"});
  ASSERT_FALSE(text.ok());
  EXPECT_THAT(message_of(text.status()), HasSubstr("b.textproto:1:1: error: unknown field \"nme\""));
}

TEST(Settings, WhichScenariosAreOfManyJobs) {
  EXPECT_TRUE(is_cluster_scenario("workload { file: \"x\" }", "a.textproto"));
  EXPECT_TRUE(is_cluster_scenario("recovery { design: \"x\" } nonsense: 1", "a.textproto"));
  EXPECT_FALSE(is_cluster_scenario("policy { name: \"x\" }", "a.textproto"));
  EXPECT_TRUE(is_cluster_scenario("{\"workload\": {}}", "a.json"));
}

}  // namespace scenario_set_test
}  // namespace scalai::scenario
