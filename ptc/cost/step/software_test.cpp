#include "ptc/cost/step/software.h"

#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/cluster/catalogue.h"

namespace scalai::step {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Software software(std::string_view name) {
  const auto found = find_software(name);
  EXPECT_TRUE(found.ok()) << message_of(found.status());
  return found.value_or(Software{});
}

TEST(Software, ANameFindsTheNewestVersionThatIsNotLater) {
  EXPECT_EQ(software("megatron-core").name(), "megatron-core-0.16");
  EXPECT_EQ(software("megatron-core-0.16").name(), "megatron-core-0.16");
  EXPECT_EQ(software("megatron-core-0.15.2").name(), "megatron-core-0.13");
  EXPECT_EQ(software("megatron-core-0.9").name(), "megatron-core-0.8") << "9 is before 10";
  EXPECT_EQ(software("megatron-core-1.0").name(), "megatron-core-0.16");
  EXPECT_EQ(software("megatron-lm").program, "megatron-lm");
}

TEST(Software, WhatIsUnknownIsNamedWithTheNearest) {
  EXPECT_THAT(message_of(find_software("megatron-cor").status()), HasSubstr("did you mean \"megatron-core\"?"));
  EXPECT_THAT(message_of(find_software("megatron-core-0.7").status()), HasSubstr("older than all"));
  EXPECT_THAT(message_of(find_software("megatron-core-new").status()), HasSubstr("unknown software"));
  EXPECT_THAT(message_of(find_software("").status()), HasSubstr("unknown software"));
}

TEST(Software, EveryNameIsFoundAndEveryGpuHasADefault) {
  const std::vector<std::string> names = software_names();
  EXPECT_THAT(names, Contains("megatron-bridge"));
  for (const std::string& name : names) {
    const Software found = software(name);
    EXPECT_TRUE(found.name() == name || found.program == name) << name;
    EXPECT_FALSE(found.title.empty()) << name;
  }
  for (const std::string& kind : cluster::gpu_kind_names())
    EXPECT_FALSE(default_software(kind).version.empty()) << kind;
  EXPECT_EQ(default_software("a100-80g").program, "megatron-core");
  EXPECT_EQ(default_software("gb200-186g").program, "megatron-bridge");
  EXPECT_EQ(default_software("gb200-186g", 3).program, "torchtitan");
  EXPECT_EQ(default_software("tpu-v6e", 3).program, default_software("tpu-v6e").program);
}

constexpr const char* kFile = R"(name: "mine"
title: "My loop"
sources: "me"
versions { version: "1" settings { kernels: "fused" overlap: "none" zero: 3 } }
versions {
  version: "2.1"
  settings { overlap: "all" }
  cases { experts: true settings { dispatch: "once" } }
  cases { experts: true gpus: ["h1", "h2"] fp8: true settings { dispatch: "all-to-all" bucket: 7 } }
  cases { gpus: "a" settings { gradients: "bf16" optimizer_bytes: 10 } }
}
versions { version: "2.2" settings { cuda_graphs: true } }
)";

// Later versions keep what they do not change; cases come after all settings, in their order.
TEST(Software, VersionsAndCasesAreAppliedInTheirOrder) {
  const auto all = parse_software(kFile, "mine.textproto");
  ASSERT_TRUE(all.ok()) << message_of(all.status());
  ASSERT_THAT(*all, SizeIs(3));
  const auto settings = [&](size_t i, const SoftwareUse& use, Math math) { return settings_of((*all)[i], use, math); };

  const SoftwareSettings first = settings(0, {.gpu_kind = "h100-80g", .experts = true}, Math::kFP8);
  EXPECT_EQ(first.overlap, Overlap::kNone);
  EXPECT_FALSE(first.dispatch) << "the case is of a later version";
  const SoftwareSettings dense = settings(2, {.gpu_kind = "h100-80g"}, Math::kBF16);
  EXPECT_EQ(dense.kernels, Kernels::kFused);
  EXPECT_EQ(dense.overlap, Overlap::kAll);
  EXPECT_EQ(dense.cuda_graphs, true);
  EXPECT_FALSE(dense.dispatch);
  EXPECT_EQ(dense.zero, std::vector<int>{3});
  EXPECT_EQ(settings(2, {.gpu_kind = "h100-80g", .experts = true}, Math::kBF16).dispatch, Dispatch::kOnce);
  EXPECT_EQ(settings(2, {.gpu_kind = "b200-180g", .experts = true}, Math::kFP8).dispatch, Dispatch::kOnce);
  EXPECT_EQ(settings(2, {.gpu_kind = "h200-141g", .experts = true}, Math::kFP8).dispatch, Dispatch::kAllToAll);
  EXPECT_EQ(settings(2, {.gpu_kind = "a100"}, Math::kBF16).optimizer_bytes, 10);
}

TEST(Software, OnlyWhatIsSaidIsSet) {
  const auto all = parse_software(kFile, "mine.textproto");
  ASSERT_TRUE(all.ok());
  Training training;
  training.micro_batch = 3;
  training.dispatch = Dispatch::kOnce;
  apply(settings_of(all->back(), {.gpu_kind = "a100"}, Math::kBF16), training);
  EXPECT_EQ(training.micro_batch, 3);
  EXPECT_EQ(training.dispatch, Dispatch::kOnce);
  EXPECT_EQ(training.overlap, Overlap::kAll);
  EXPECT_TRUE(training.cuda_graphs);
  EXPECT_EQ(training.precision.gradient_bytes, 2);
  EXPECT_EQ(training.precision.optimizer_bytes, 10);
}

TEST(Software, AFileSaysAllItsMistakes) {
  const auto found = parse_software(R"(name: "mine"
versions { version: "2" settings { kernels: "quick" zero: 4 } }
versions { version: "1.x" settings { } }
versions { version: "1" cases { settings { dispatch: "twice" } } }
)",
                                    "mine.textproto");
  const std::string message = message_of(found.status());
  for (const char* part : {"sources", "mine.textproto:2:45: error: there is no choice of kernels \"quick\"",
                           "stages 0 to 3, not 4", "\"1.x\" is no version", "no dispatch of tokens \"twice\""})
    EXPECT_THAT(message, HasSubstr(part));
}

}  // namespace
}  // namespace scalai::step
