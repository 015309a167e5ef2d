#include "ptc/run/scenario/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/run/scenario/testing/scenarios.h"

namespace scalai::scenario {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Strategy strategy(const std::string& name, const std::vector<CostOverride>& overrides = {}) {
  return find_strategy(name, overrides).value();
}

TEST(Strategy, TheSixInDocumentedOrder) {
  EXPECT_THAT(strategy_names(),
              ElementsAre("reshard", "tenplex", "central", "dp-only", "checkpoint-restart", "full-migration"));
  for (const Strategy& one : strategies()) {
    EXPECT_FALSE(one.summary.empty()) << one.name;
    EXPECT_GT(detect_s(one.costs), 0) << one.name;
  }
}

TEST(Strategy, PresetsDifferWhereTheyShould) {
  using plan::SourceRule;
  EXPECT_TRUE(strategy("reshard").planner.in_place);
  EXPECT_EQ(strategy("reshard").planner.sources, SourceRule::kNearest);
  EXPECT_EQ(strategy("reshard").costs.restart_s, 0);

  EXPECT_TRUE(strategy("tenplex").staged());
  EXPECT_EQ(strategy("tenplex").planner.sources, SourceRule::kFirstReplica);
  EXPECT_FALSE(strategy("tenplex").planner.hub.valid());
  EXPECT_GT(restart_s(strategy("tenplex").costs, 16), 0);

  EXPECT_EQ(strategy("central").planner.hub, HostId(0));
  EXPECT_TRUE(strategy("dp-only").data_parallel_only);
  EXPECT_FALSE(strategy("tenplex").data_parallel_only);
  EXPECT_TRUE(strategy("checkpoint-restart").from_checkpoint);
  EXPECT_EQ(strategy("checkpoint-restart").planner.sources, SourceRule::kStorage);
  EXPECT_FALSE(strategy("checkpoint-restart").staged());
  EXPECT_TRUE(strategy("full-migration").staged());
  EXPECT_EQ(strategy("full-migration").planner.sources, SourceRule::kNearest);
}

TEST(Strategy, OverridesOfAllComeBeforeThoseOfOneWhateverTheirOrder) {
  const std::vector<CostOverride> overrides = {
      {.strategy = "tenplex", .restart_s = 7}, {.plan_s = 3, .restart_s = 9}, {.strategy = "central", .plan_s = 4}};
  EXPECT_EQ(strategy("tenplex", overrides).costs.restart_s, 7);
  EXPECT_EQ(strategy("tenplex", overrides).costs.plan_s, 3);
  EXPECT_EQ(strategy("reshard", overrides).costs.restart_s, 9);
  EXPECT_EQ(strategy("central", overrides).costs.plan_s, 4);
}

TEST(Strategy, AnOverrideChangesOnlyWhatItNames) {
  const Costs preset = strategy("reshard").costs;
  const Costs changed = strategy("reshard", {{.detect_s = 1.5,
                                              .allocate_bytes_per_s = 3e9,
                                              .verify_bytes_per_s = 2e9,
                                              .communicator_s = 0,
                                              .transfer_start_s = 0.25,
                                              .compile_s = 60}})
                            .costs;
  EXPECT_EQ(changed.detect_s, 1.5);
  EXPECT_EQ(changed.allocate_bytes_per_s, 3e9);
  EXPECT_EQ(changed.verify_bytes_per_s, 2e9);
  EXPECT_EQ(changed.communicator_s, 0);
  EXPECT_EQ(changed.transfer_start_s, 0.25);
  EXPECT_EQ(changed.compile_s, 60);
  EXPECT_EQ(changed.plan_s, preset.plan_s);
  EXPECT_EQ(changed.restart_s, preset.restart_s);
}

TEST(Strategy, UnknownNamesGetAHintAndTheList) {
  const auto unknown = find_strategy("tenplx", {});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(exit_code_of(unknown.status()), 3);
  const std::string message = message_of(unknown.status());
  EXPECT_THAT(message, HasSubstr("unknown strategy \"tenplx\"; did you mean \"tenplex\"?"));
  EXPECT_THAT(message, HasSubstr("reshard, tenplex, central, dp-only, checkpoint-restart, full-migration"));
  EXPECT_THAT(message_of(find_strategy("zzzzzzzzzzzz", {}).status()), ::testing::Not(HasSubstr("did you mean")));
}

TEST(Strategy, AStackSaysWhatNoOverrideSays) {
  const change::Stack* const tuned = *change::find_stack("tuned");
  const std::vector<CostOverride> overrides = {{.stack = tuned}, {.strategy = "tenplex", .restart_s = 7}};
  EXPECT_EQ(detect_s(strategy("reshard", overrides).costs), 10);
  EXPECT_EQ(restart_s(strategy("reshard", overrides).costs, 2048), 0) << "in place";
  EXPECT_EQ(restart_s(strategy("central", overrides).costs, 2048), 45);
  EXPECT_EQ(restart_s(strategy("tenplex", overrides).costs, 2048), 7);
  EXPECT_EQ(restart_s(strategy("tenplex").costs, 2048), 445.7);
}

TEST(CommunicatorTime, AGivenNumberHoldsForAnySize) {
  EXPECT_EQ(communicator_s({.communicator_s = 0}, {.ranks = 16, .kinds = {}}), 0);
  EXPECT_EQ(communicator_s({.communicator_s = 1.25}, {.ranks = 1024, .kinds = {}}), 1.25);
}

// ---- what a scenario has to have ------------------------------------------------------------------------------------

Scenario scenario_with(const std::string& job, bool storage, const std::string& more = "") {
  std::string text = testing::kSmallCluster + ("until: \"10s\"\n" + testing::job_text("a", job) + more);
  const std::string line = "storage { read: \"1GB/s\" write: \"1GB/s\" }";
  if (!storage) text.replace(text.find(line), line.size(), "");
  absl::StatusOr<Scenario> scenario = testing::scenario_of(text);
  SCALAI_CHECK(scenario.ok(), message_of(scenario.status()));
  return *std::move(scenario);
}

TEST(StrategyNeeds, ARestartNeedsStorageAndCheckpoints) {
  const auto needs = [](const std::string& name, const Scenario& scenario) {
    std::vector<std::string> list;
    for (const UnmetNeed& need : unmet_needs(strategy(name), &scenario.cluster, scenario.jobs))
      list.push_back(fmt::format("{} {}; {}", need.job, need.problem, need.hint));
    return list;
  };
  const std::string dp2 = "gpus: 2 configs { layout: \"dp2\" step_time: \"1s\" } ";
  const Scenario bare = scenario_with(dp2, /*storage=*/false);
  EXPECT_THAT(needs("checkpoint-restart", bare),
              ElementsAre("-1 strategy \"checkpoint-restart\" needs a cluster with \"storage\"; "
                          "add storage { read: \"10GB/s\" } to the cluster",
                          "0 job \"a\" writes no checkpoints to restart from; add checkpoint { every_steps: 100 }"));
  for (const std::string name : {"reshard", "tenplex", "central", "dp-only", "full-migration"})
    EXPECT_THAT(needs(name, bare), IsEmpty()) << name << " goes by way of hosts, not of storage";
  const Scenario whole = scenario_with(dp2 + "checkpoint { every_steps: 5 }", /*storage=*/true);
  EXPECT_THAT(needs("checkpoint-restart", whole), IsEmpty());
}

TEST(StrategyWarnings, DataParallelismOfOneHasNothingToShrink) {
  const auto warned = [](const std::string& name, const std::string& configs) {
    return warnings_of(strategy(name), scenario_with("gpus: 2 " + configs, true));
  };
  const std::string tp2 = "configs { layout: \"tp2\" step_time: \"1s\" } ";
  EXPECT_THAT(
      warned("dp-only", tp2 + "configs { layout: \"tp1\" step_time: \"1s\" }"),
      ElementsAre("strategy dp-only: layout tp2 of job a has dp 1: there is nothing to shrink or grow, and a lost "
                  "GPU makes it wait"));
  EXPECT_THAT(warned("dp-only", tp2 + "configs { layout: \"tp2,dp2\" step_time: \"1s\" }"),
              ElementsAre(HasSubstr("there is nothing to shrink, and a lost GPU")));
  EXPECT_THAT(warned("dp-only", "configs { layout: \"dp2\" step_time: \"1s\" }"), IsEmpty());
  EXPECT_THAT(warned("tenplex", tp2), IsEmpty());
}

// Two hosts of two GPUs. Under zero1 each part of the optimizer is on one of them; under dp4 all state is on both.
TEST(StrategyWarnings, StateOnOneHostOnly) {
  const auto warned = [](const std::string& job, const std::string& event = "fail { hosts: 1 }") {
    const std::string events = "events { at: \"1s\" " + event + " }";
    return warnings_of(strategy("reshard"), scenario_with("gpus: 4 " + job, true, events));
  };
  const std::string zero1 = "configs { layout: \"dp4,zero1\" step_time: \"1s\" } ";
  EXPECT_THAT(warned(zero1), ElementsAre(HasSubstr("job a: the loss of one host may end it: under dp4,zero1")));
  EXPECT_THAT(warned(zero1, "preempt { hosts: 1 notice: \"1s\" }"), IsEmpty()) << "the state leaves in time";
  EXPECT_THAT(warned(zero1, "fail { links: \"h1.nic0.up\" }"), IsEmpty());
  EXPECT_THAT(warned(zero1 + "checkpoint { every_steps: 5 }"), IsEmpty());
  EXPECT_THAT(warned(zero1 + "redundancy { copies: 1 }"), IsEmpty());
  EXPECT_THAT(warned("configs { layout: \"dp4\" step_time: \"1s\" }"), IsEmpty());
  EXPECT_THAT(warned("parallel: choose search { pins: \"tp1,pp1,cp1,dp4\" }"),
              ElementsAre(HasSubstr("search { pins: \"zero0\" } keeps all state")));
}

}  // namespace
}  // namespace scalai::scenario
