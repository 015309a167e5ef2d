#include "apps/exec/launch_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr const char* kSampler =
    R"({"data": {"schema_version": 1, "index": "", "samples": 1000, "sequence": 0, "seed": 7, "shuffle": true,
                 "drop_last": false, "global_batch": 24, "step": 0, "pass": 0, "consumed": 0}})";

TEST(LaunchScenario, AllLayoutsHaveTheAxesThatOneNames) {
  const auto layouts = launched_layouts({"tp2,pp2,dp1", "tp2"});
  ASSERT_TRUE(layouts.ok()) << layouts.status();
  EXPECT_EQ((*layouts)[0].name, "tp2,pp2");
  EXPECT_EQ((*layouts)[0].gpus, 4);
  EXPECT_THAT((*layouts)[0].axes, ElementsAre(Pair("pp", 2), Pair("dp", 1), Pair("tp", 2)));
  EXPECT_THAT((*layouts)[1].axes, ElementsAre(Pair("pp", 1), Pair("dp", 1), Pair("tp", 2)));
  EXPECT_EQ(*description_request("f", {layouts->back()}),
            R"({"folder":"f","layouts":[{"axes":[["pp",1],["dp",1],["tp",2]],"name":"tp2"}]})");
}

TEST(LaunchScenario, AProgramIsToldOfNoFolderThatItCannotFind) {
  const absl::Status refused = description_request("/tmp/caf\xE9", {}).status();
  EXPECT_TRUE(absl::IsNotFound(refused)) << refused;
  EXPECT_THAT(message_of(refused), HasSubstr("/tmp/caf?: a training program gets the name of this folder as JSON"));
}

TEST(LaunchScenario, AllProblemsOfLayoutsAreToldAtOnce) {
  EXPECT_THAT(message_of(launched_layouts({"tp2", "xx3", "dp2", "dp4,zero1"}).status()),
              AllOf(HasSubstr("--layout=xx3"), HasSubstr("--layout=dp2: tp2 has 2 GPUs, too"),
                    HasSubstr("zero is no axis of a training program's mesh")));
  EXPECT_THAT(message_of(launched_layouts({}).status()), HasSubstr("--layout=LAYOUT is needed"));
}

TEST(LaunchScenario, HasTheProgramsData) {
  const LaunchedJob job{.name = "gpt", .hosts = 2, .gpus_per_host = 2, .gpus = 4, .steps = 9, .checkpoint_every = 3};
  const auto text = launch_scenario(job, *launched_layouts({"tp2,pp2"}), kSampler);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text,
              AllOf(HasSubstr("hosts { count: 2 gpus: 2 "), HasSubstr("global_batch: 24\n"), HasSubstr("steps: 9\n"),
                    HasSubstr("configs { layout: \"tp2,pp2\" step_time: \"1s\" collection: \"tp2,pp2.textproto\" }"),
                    HasSubstr("dataset { samples: 1000 seed: 7 shuffle: true drop_last: false }"),
                    HasSubstr("checkpoint { every_steps: 3 }")));
  EXPECT_THAT(*launch_scenario({}, *launched_layouts({"tp2"}), R"({"data": null})"), HasSubstr("global_batch: 1\n"));
}

TEST(LaunchScenario, AnAnswerThatIsNone) {
  for (const char* answer : {"", "[]", "{}", R"({"data": {"samples": "x"}})", R"({"data": 3})"}) {
    const auto text = launch_scenario({}, *launched_layouts({"tp2"}), answer);
    EXPECT_TRUE(absl::IsInvalidArgument(text.status())) << answer << ": " << text.status();
  }
}

}  // namespace
}  // namespace scalai::apps
