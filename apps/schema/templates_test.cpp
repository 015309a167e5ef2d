#include "apps/schema/templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/cost/step/software.h"
#include "ptc/run/scenario/scenario.h"
#include "ptc/run/scenario/scenario_set.h"

namespace scalai::apps {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<scenario::Scenario> parsed(const TemplateRequest& request) {
  const absl::StatusOr<std::string> text = scenario_text(request);
  if (!text.ok()) return text.status();
  const scenario::FileReader no_files = [](const std::string& path) -> absl::StatusOr<std::string> {
    return missing(path);
  };
  return scenario::parse_scenario(*text, "t.textproto", no_files);
}

TEST(Templates, EachIsAScenario) {
  ASSERT_EQ(templates().size(), 5U);
  for (const Template& one : templates()) {
    SCOPED_TRACE(one.name);
    if (one.name == "many-jobs") {
      EXPECT_TRUE(scenario::head_of(*scenario_text({.name = one.name}), "t.textproto").many_jobs);
      continue;
    }
    const auto scenario = parsed({.name = one.name});
    ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
    EXPECT_GE(scenario->events.size(), 2U);
  }
}

TEST(Templates, AreFilledIn) {
  const auto scenario = parsed({.name = "failure", .model = "llama3-70b", .gpus = 96, .gpu = "dgx-h100"});
  ASSERT_TRUE(scenario.ok()) << message_of(scenario.status());
  EXPECT_EQ(scenario->cluster.hosts.size(), 12U);
  EXPECT_EQ(scenario->cluster.hosts[0].kind, "dgx-h100");
  EXPECT_EQ(scenario->jobs[0].gpus, 96);
  EXPECT_THAT(*scenario_text({.name = "failure", .model = "llama3-70b", .gpus = 96}),
              HasSubstr("fail { hosts: [11] }"));
}

TEST(Templates, SayWhichProgramTrains) {
  for (const char* gpu : {"a100-80g", "gb300-279g"}) {
    EXPECT_THAT(*scenario_text({.name = "elastic", .gpu = gpu}),
                HasSubstr("else " + step::default_software(gpu).name() + ", as such GPUs run today"));
  }
}

// A GPU kind has its host, a number that fills no such host equal ones.
TEST(Templates, HostsFollowTheGpus) {
  EXPECT_THAT(*scenario_text({.gpus = 144, .gpu = "gb200-186g"}), HasSubstr("count: 36 kind: \"gb200-nvl72\""));
  for (const int gpus : {2, 6, 8, 12, 100}) {
    for (const std::string gpu : {"a100-80g", "dgx-h100", "v100-pcie-16g"}) {
      const auto scenario = parsed({.name = "failure", .model = "gpt2", .gpus = gpus, .gpu = gpu});
      ASSERT_TRUE(scenario.ok()) << gpus << " " << gpu << "\n" << message_of(scenario.status());
      EXPECT_EQ(scenario->cluster.device_count(), gpus);
      if (gpus > 8) {
        EXPECT_GE(scenario->cluster.hosts.size(), 2U);
      }
    }
  }
}

TEST(Templates, WhatIsUnknownIsSaid) {
  EXPECT_THAT(message_of(scenario_text({.name = "none"}).status()), HasSubstr("elastic, failure, spot"));
  EXPECT_THAT(message_of(scenario_text({.gpu = "a100"}).status()), HasSubstr("did you mean"));
  EXPECT_THAT(message_of(scenario_text({.gpus = 1}).status()), HasSubstr("at least 2 GPUs"));
}

}  // namespace
}  // namespace scalai::apps
