#include "ptc/run/scenario/scenario_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/run/scenario/scenario.h"

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

// Fields that exclude each other: a choice takes the file's other one out, unless a setting gives that, too.
TEST(Settings, AChoiceTakesOutWhatExcludesIt) {
  const auto changed = [](const std::string& text, const std::vector<std::string>& settings) {
    return with_settings(text, "a.textproto", settings).value();
  };
  const std::string program = "policy { exec: \"mine\" timeout: \"1s\" }";
  EXPECT_EQ(changed(program, {"policy.name=srtf"}), "policy {\n  name: \"srtf\"\n}\n");
  EXPECT_THAT(changed(program, {"policy.name=srtf", "policy.exec=other"}), HasSubstr("exec: \"other\""));
  EXPECT_EQ(changed(kText, {"policy.exec=mine", "cluster=", "name="}), "policy {\n  exec: \"mine\"\n}\n");
  EXPECT_EQ(changed("changes { preset: \"x\" set: \"start=1s\" }", {"changes.seconds=3s"}),
            "changes {\n  seconds: \"3s\"\n  set: \"start=1s\"\n}\n");
  EXPECT_THAT(changed("changes { preset: \"x\" seconds: \"1s\" }", {"changes.preset="}), HasSubstr("seconds"));
}

TEST(Settings, APathIsSetOnce) {
  EXPECT_THAT(with({"seed=2", "seed=3"}), HasSubstr("--set=seed=3: --set=seed=2 sets the same field"));
}

// Places of what the file says are the file's; what a setting says has the setting's name instead.
TEST(Settings, ProblemsHavePlacesThatOneCanSee) {
  const auto message = [](const std::vector<std::string>& settings) {
    const FileReader none = [](const std::string& name) -> absl::StatusOr<std::string> { return missing(name); };
    return message_of(parse_scenario(kText + "until: \"5mn\"\n", "a.textproto", none, {.settings = settings}).status());
  };
  EXPECT_THAT(message({"seed=1"}), HasSubstr("a.textproto:4:8: error: \"5mn\" is not a duration"));
  const std::string text = message({"until=6mn"});
  EXPECT_THAT(text, HasSubstr("a.textproto: error: --set=until=6mn: \"6mn\" is not a duration"));
  EXPECT_THAT(text, Not(HasSubstr("5mn")));
}

TEST(Settings, InTurn) {
  EXPECT_THAT(with({"policy=", "policy.name=afs-l"}), HasSubstr("policy {\n  name: \"afs-l\"\n}"));
}

TEST(Settings, AllProblemsAtOnce) {
  const std::string text = with({"polcy.name=x", "policy.nam=x", "cluster.hosts.count=1", "cluster.hosts[3].count=1",
                                 "cluster.hosts[0].count=many", "policy=x", "name.x=1", "name[0]=x", "until", "a..b=1",
                                 "compute=FAST", "cluster.hosts[x].count=1", "seed=-1"});
  EXPECT_THAT(text, HasSubstr("--set=polcy.name=x: a scenario has no field \"polcy\"; did you mean \"policy\"?"));
  EXPECT_THAT(text, HasSubstr("\"policy\" has no field \"nam\"; did you mean \"name\"?"));
  EXPECT_THAT(text, HasSubstr("\"hosts\" is a list: say which element, as in hosts[0]"));
  EXPECT_THAT(text, HasSubstr("hosts[3] is beyond the list, which has 2 elements"));
  EXPECT_THAT(text, HasSubstr("\"count\" takes a whole number, found \"many\""));
  EXPECT_THAT(text, HasSubstr("\"policy\" is a message; go on with one of its fields: name, set, exec, timeout"));
  EXPECT_THAT(text, HasSubstr("\"name\" has no fields"));
  EXPECT_THAT(text, HasSubstr("\"name\" is not a list"));
  EXPECT_THAT(text, HasSubstr("--set=until: write it like --set=policy.name=srtf"));
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
  EXPECT_TRUE(head_of("workload { file: \"x\" }", "a.textproto").many_jobs);
  EXPECT_TRUE(head_of("recovery { design: \"x\" } nonsense: 1", "a.textproto").many_jobs);
  EXPECT_FALSE(head_of("policy { name: \"x\" }", "a.textproto").many_jobs);
  EXPECT_TRUE(head_of("{\"workload\": {}}", "a.json").many_jobs);
}

}  // namespace scenario_set_test
}  // namespace scalai::scenario
