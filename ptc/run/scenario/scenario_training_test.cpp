#include "ptc/run/scenario/internal/scenario_training.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::scenario {
namespace scenario_training_test {

std::string scenario(const std::string& job, const std::string& more = "") {
  return fmt::format(R"(name: "x" until: "1h" {}
cluster {{ hosts {{ count: 2 gpus: 4 gpu: "a100-80g" nic: "100Gbps" }} }}
jobs {{ name: "j" model: "gpt3-760m" global_batch: 64 gpus: 8 {} }}
)",
                     more, job);
}

absl::StatusOr<Scenario> parse(const std::string& text) {
  const auto nothing = [](const std::string& path) -> absl::StatusOr<std::string> { return missing(path); };
  return parse_scenario(text, "t.textproto", nothing);
}

Scenario parsed(const std::string& text) {
  absl::StatusOr<Scenario> result = parse(text);
  SCALAI_CHECK(result.ok(), message_of(result.status()));
  return *std::move(result);
}

std::string problems_of(const std::string& text) {
  const auto result = parse(text);
  return result.ok() ? "" : message_of(result.status());
}

constexpr const char* kListed = R"(configs { layout: "tp2,pp2,dp2" })";

TEST(ScenarioTraining, FieldsBecomeRecipeAndTraining) {
  const JobSpec job = parsed(scenario(std::string(kListed) + R"(precision: "fp8" optimizer: "sgd" micro_batch: 4
      sequence: 512 schedule: "gpipe" recompute: "selective" sequence_parallel: false flash_attention: false)"))
                          .jobs[0];
  EXPECT_EQ(job.recipe.param, tensor::DType::kBF16);
  EXPECT_EQ(job.training.precision.name, "fp8");
  EXPECT_EQ(job.training.precision.optimizer_bytes, 8) << "one moment less";
  EXPECT_EQ(job.training.global_batch, 64);
  EXPECT_EQ(job.training.micro_batch, 4);
  EXPECT_EQ(job.training.sequence, 512);
  EXPECT_EQ(job.training.schedule, step::Schedule::kGPipe);
  EXPECT_EQ(job.training.recompute, step::Recompute::kSelective);
  EXPECT_FALSE(job.training.sequence_parallel);
  EXPECT_FALSE(job.training.flash_attention);
  EXPECT_TRUE(job.training.whole_batches);
  EXPECT_FALSE(job.recipe.previous);
  EXPECT_EQ(job.shape.hidden, 1536);
}

TEST(ScenarioTraining, RecomputedPartsAreReadAndWrittenOut) {
  const Scenario read = parsed(scenario(std::string(kListed) + R"(recompute: "moe_act+layernorm")"));
  EXPECT_EQ(name_of(read.jobs[0].training.recompute), "layernorm+moe_act");
  EXPECT_NE(read.resolved_text.find("recompute: \"layernorm+moe_act\""), std::string::npos) << read.resolved_text;
  const std::string problems = problems_of(scenario(std::string(kListed) + R"(recompute: "full-first-0")"));
  EXPECT_NE(problems.find("unknown recompute \"full-first-0\""), std::string::npos) << problems;
}

TEST(ScenarioTraining, DefaultsAreWrittenOut) {
  const Scenario read = parsed(scenario(kListed));
  EXPECT_EQ(read.jobs[0].training.schedule, step::Schedule::kOneFOneB);
  EXPECT_TRUE(read.jobs[0].training.sequence_parallel);
  for (const std::string text : {"precision: \"fp16\"", "schedule: \"1f1b\"", "recompute: \"none\"",
                                 "sequence_parallel: true", "flash_attention: true", "micro_batch: 1"}) {
    EXPECT_NE(read.resolved_text.find(text), std::string::npos) << text << "\n" << read.resolved_text;
  }
  EXPECT_EQ(read.resolved_text.find("parallel: choose"), std::string::npos);
  EXPECT_EQ(read.compute, Compute::kAnalytic);
}

TEST(ScenarioTraining, WhatRunsBesideTheWorkIsSaid) {
  const Scenario read = parsed(scenario(
      std::string(kListed) +
      R"(gradients: "bf16" precision: "bf16" overlap: "all" kernels: "tuned" dp_overlap: "gradients" bucket: 25000000
         framework: "scaling"
         dispatch: "once" expert_overlap: true cuda_graphs: true grouped_experts: true loss: "fused")"));
  const step::Training& training = read.jobs[0].training;
  EXPECT_EQ(training.precision.gradient_bytes, 2);
  EXPECT_EQ(training.overlap, step::Overlap::kAll);
  EXPECT_EQ(training.data_overlap, step::DataOverlap::kGradients);
  EXPECT_EQ(training.bucket, 25'000'000);
  EXPECT_EQ(training.kernels, step::Kernels::kTuned);
  EXPECT_EQ(training.framework, step::Framework::kScaling);
  EXPECT_EQ(training.dispatch, step::Dispatch::kOnce);
  EXPECT_TRUE(training.expert_overlap && training.cuda_graphs && training.grouped_experts);
  EXPECT_EQ(training.loss, step::Loss::kFused);
  EXPECT_EQ(parsed(read.resolved_text).digest, read.digest);
  const Scenario plain = parsed(scenario(kListed));
  EXPECT_EQ(plain.jobs[0].training.data_overlap, step::DataOverlap::kAll);
  EXPECT_NE(plain.resolved_text.find("dp_overlap: \"all\""), std::string::npos);
  const std::string wrong = problems_of(scenario(std::string(kListed) + R"(gradients: "fp8" overlap: "some"
      dp_overlap: "gradient" bucket: -1 framework: "jax" imbalance: 0.5 mtp: 9)"));
  for (const std::string problem : {"unknown dp_overlap", "\"bucket\" must", "\"mtp\" must be from 0 to 8", "7 errors"})
    EXPECT_NE(wrong.find(problem), std::string::npos) << wrong;
}

// Fields of the file override it, and the resolved text says both, so that it gives the same job.
TEST(ScenarioTraining, SoftwareSaysWhatIsAbsent) {
  const Scenario read =
      parsed(scenario(std::string(kListed) + R"(precision: "bf16" software: "automodel" kernels: "eager"
         grouped_experts: true expert_overlap: false)"));
  const step::Training& training = read.jobs[0].training;
  EXPECT_EQ(read.jobs[0].software, "automodel-25.11");
  EXPECT_EQ(training.overlap, step::Overlap::kNone);
  EXPECT_EQ(training.kernels, step::Kernels::kEager);
  EXPECT_TRUE(training.grouped_experts);
  EXPECT_EQ(training.precision.gradient_bytes, 2);
  EXPECT_EQ(training.precision.optimizer_bytes, 4);
  const Scenario again = parsed(read.resolved_text);
  EXPECT_EQ(again.digest, read.digest);
  EXPECT_EQ(again.jobs[0].training.precision.optimizer_bytes, 4);
  const std::string wrong = problems_of(scenario(std::string(kListed) + R"(software: "megatron-cor")"));
  EXPECT_NE(wrong.find("did you mean \"megatron-core\"?"), std::string::npos) << wrong;
}

// Where nothing is said, the job has what such GPUs run today, and the resolved text, with all settings of today, says
// that nobody chose it. Interval of its steps: of what was given.
TEST(ScenarioTraining, SoftwareIsThatOfTheGpusUnlessSettingsSayAll) {
  const auto job = [](const std::string& fields) { return parsed(scenario(kListed + fields)).jobs[0]; };
  const JobSpec guessed = job(R"(precision: "bf16")");
  EXPECT_EQ(guessed.software, step::default_software("").name());
  EXPECT_EQ(guessed.given, step::Given::kNothing);
  const Scenario again = parsed(parsed(scenario(std::string(kListed) + R"(precision: "bf16")")).resolved_text);
  EXPECT_EQ(again.jobs[0].given, step::Given::kNothing);
  EXPECT_EQ(again.jobs[0].training.kernels, guessed.training.kernels);
  EXPECT_NE(again.resolved_text.find("software: \"default\""), std::string::npos) << again.resolved_text;
  const std::string all = R"(kernels: "fused" overlap: "all" dp_overlap: "none" gradients: "fp32" loss: "separate" )";
  EXPECT_EQ(job(all).given, step::Given::kFlags);
  EXPECT_EQ(job(R"(kernels: "fused")").given, step::Given::kNothing);
  EXPECT_EQ(job(all + R"(software: "nemo")").given, step::Given::kSoftware);
  EXPECT_EQ(job(R"(precision: "fp32" software: "automodel")").training.precision.gradient_bytes, 4)
      << "recipes are of 16 bits";
}

// 26 virtual stages of 24 layers: the embedding and the head have one each. Without interleaving a stage needs a layer.
TEST(ScenarioTraining, TheEndsOfAModelMayBeStages) {
  EXPECT_EQ(problems_of(scenario(R"(configs { layout: "pp2,vpp13,dp4" })")), "");
  EXPECT_NE(problems_of(scenario(R"(configs { layout: "pp4,vpp7,dp2" })")).find("28 pipeline stages"),
            std::string::npos);
}

TEST(ScenarioTraining, TwoVersionsOfTheWeightsAreState) {
  const JobSpec job = parsed(scenario(std::string(kListed) + R"(schedule: "2bw")")).jobs[0];
  EXPECT_TRUE(job.recipe.previous);
  EXPECT_NE(problems_of(scenario(R"(configs { layout: "dp8,zero3" } schedule: "2bw")")).find("ZeRO-3 none"),
            std::string::npos);
  EXPECT_NE(problems_of(scenario(R"(configs { layout: "pp4,dp2,vpp2" } schedule: "2bw")")).find("vpp must be 1"),
            std::string::npos);
}

TEST(ScenarioTraining, AChoiceIsMadeWhenTheScenarioIsReadAndStaysOpenInItsText) {
  const Scenario read = parsed(scenario("parallel: choose"));
  const JobSpec& job = read.jobs[0];
  ASSERT_TRUE(job.choose.has_value());
  ASSERT_EQ(job.configs.size(), 1u);
  EXPECT_LE(job.configs[0].config.world(), 8);
  ASSERT_TRUE(job.configs[0].training.has_value());
  EXPECT_EQ(read.resolved_text.find("configs {"), std::string::npos);
  EXPECT_EQ(read.resolved_text.find("micro_batch: "), std::string::npos);
  EXPECT_EQ(read.resolved_text.find("recompute: "), std::string::npos);
  const Scenario again = parsed(read.resolved_text);
  EXPECT_EQ(again.resolved_text, read.resolved_text);
  EXPECT_EQ(again.digest, read.digest);
  EXPECT_EQ(again.jobs[0].configs[0], job.configs[0]);
}

TEST(ScenarioTraining, SearchFieldsAreReadAndWritten) {
  const Scenario read = parsed(
      scenario(R"(parallel: choose recompute: "full" search { objective: "pay-off" pins: "tp2-pp2" horizon: "2min" }
                  micro_batch: 2)"));
  const ChoosePolicy& policy = *read.jobs[0].choose;
  EXPECT_EQ(policy.objective, step::Objective::kPayOff);
  EXPECT_EQ(policy.horizon_s, 120);
  EXPECT_EQ(policy.pins.tp, 2);
  EXPECT_EQ(policy.pins.pp, 2);
  EXPECT_FALSE(policy.pins.dp.has_value());
  EXPECT_EQ(policy.pins.micro_batch, 2);
  EXPECT_EQ(policy.pins.recompute, step::Recompute::kFull);
  const ParallelChoice& first = read.jobs[0].configs[0];
  EXPECT_EQ(first.config.tp, 2);
  EXPECT_EQ(first.config.pp, 2);
  EXPECT_EQ(first.training->micro_batch, 2);
  EXPECT_EQ(first.training->recompute, step::Recompute::kFull);
  EXPECT_EQ(parsed(read.resolved_text).resolved_text, read.resolved_text);
  const Scenario few = parsed(scenario("parallel: choose search { micro_batches: [4, 2] }"));
  EXPECT_EQ(few.jobs[0].choose->micro_batches, (std::vector<int>{4, 2}));
  EXPECT_EQ(parsed(few.resolved_text).jobs[0].choose->micro_batches, (std::vector<int>{4, 2}));
}

TEST(ScenarioTraining, BatchToleranceIsReadAndWritten) {
  const auto with = [](const std::string& value) {
    return scenario("parallel: choose search { batch_tolerance: " + value + " }");
  };
  const Scenario read = parsed(with("0.02"));
  EXPECT_EQ(read.jobs[0].choose->batch_tolerance, 0.02);
  EXPECT_EQ(parsed(read.resolved_text).jobs[0].choose->batch_tolerance, 0.02);
  EXPECT_EQ(parsed(with("0")).resolved_text, parsed(scenario("parallel: choose")).resolved_text);
  for (const std::string wrong : {"1", "-0.02", "nan"}) EXPECT_NE(problems_of(with(wrong)), "") << wrong;
  // 63 samples go to 8 GPUs no way but as 64: 1 of 63 is 1.6 %.
  const std::string odd =
      "name: \"x\" until: \"1h\" cluster { hosts { count: 2 gpus: 4 gpu: \"a100-80g\" nic: "
      "\"100Gbps\" } } jobs { name: \"j\" model: \"gpt3-760m\" global_batch: 63 gpus: 8 parallel: "
      "choose search { pins: \"tp1,pp1,cp1\" ";
  EXPECT_EQ(parsed(odd + "} }").jobs[0].configs[0].config.dp, 7);
  const ParallelChoice tolerant = parsed(odd + "batch_tolerance: 0.02 } }").jobs[0].configs[0];
  EXPECT_EQ(tolerant.config.dp, 8);
  EXPECT_EQ(tolerant.training->global_batch, 64);
}

TEST(ScenarioTraining, AChoiceIsTheSameForNarrowerModels) {
  const Scenario whole = parsed(scenario("parallel: choose"));
  const Scenario part = parsed(scenario("parallel: choose", "scale_model: \"1/8\""));
  EXPECT_EQ(part.jobs[0].configs[0], whole.jobs[0].configs[0]);
  EXPECT_EQ(part.jobs[0].shape.hidden, 1536);
  EXPECT_EQ(part.jobs[0].model.hidden, 192);
  EXPECT_EQ(parsed(part.resolved_text).digest, part.digest);
}

TEST(ScenarioTraining, SimulatedStepsAreAskedForAndWritten) {
  const Scenario read = parsed(scenario(kListed, "compute: SIMULATED"));
  EXPECT_EQ(read.compute, Compute::kSimulated);
  EXPECT_EQ(parsed(read.resolved_text).compute, Compute::kSimulated);
  EXPECT_NE(read.digest, parsed(scenario(kListed)).digest);
}

TEST(ScenarioTraining, WhatDoesNotFitTheMemoryIsRefusedWithItsLargestTerm) {
  const std::string text = scenario(R"(configs { layout: "dp8" } micro_batch: 8 flash_attention: false)");
  EXPECT_NE(problems_of(text).find("on a GPU of stage 0, most of it activations"), std::string::npos)
      << problems_of(text);
  EXPECT_EQ(problems_of(scenario(R"(configs { layout: "dp8" step_time: "1s" } micro_batch: 8 flash_attention: false)")),
            "")
      << "a given step time: only the state counts";
}

TEST(ScenarioTraining, ADatasetDealsOutBatchesOfAnySize) {
  const JobSpec job = parsed(scenario(R"(configs { layout: "dp8" } dataset { samples: 1000 } micro_batch: 3)")).jobs[0];
  EXPECT_FALSE(job.training.whole_batches);
}

TEST(ScenarioTraining, ABatchHasALimit) {
  const std::string text = scenario(kListed);
  const auto with = [&](const std::string& batch) {
    std::string other = text;
    return problems_of(other.replace(other.find("global_batch: 64"), 16, "global_batch: " + batch));
  };
  EXPECT_EQ(with("16777216"), "");
  EXPECT_NE(with("16777217").find("a step takes at most 16777216 samples, not 16777217"), std::string::npos);
}

TEST(ScenarioTraining, PinsNameOnlyWhatTheyPin) {
  const auto with = [](const std::string& pins) {
    return scenario("parallel: choose search { pins: \"" + pins + "\" }");
  };
  const std::string problems = problems_of(with("tp2,ep8"));
  EXPECT_EQ(problems.find("error: pins:"), std::string::npos) << "ep8 alone is a good pin: " << problems;
  EXPECT_NE(problems_of(with("tp2,xp8")).find("error: pins: "), std::string::npos);
}

// What the jobs before take is not there any more.
TEST(ScenarioTraining, JobsAreGivenDevicesInTheirOrder) {
  const auto two = [](const std::string& first, const std::string& second) {
    return problems_of(fmt::format(R"(name: "x" until: "1h"
cluster {{ hosts {{ count: 1 gpus: 8 gpu: "h100-80g" nic: "100Gbps" }} hosts {{ count: 1 gpus: 8 gpu: "t4-16g" nic: "100Gbps" }} }}
jobs {{ name: "a" model: "gpt3-6.7b" precision: "bf16" global_batch: 64 {} parallel: choose }}
jobs {{ name: "b" model: "gpt3-6.7b" precision: "bf16" global_batch: 64 {} parallel: choose }}
)",
                                   first, second));
  };
  EXPECT_EQ(two("gpus: 4", "gpus: 4"), "");
  EXPECT_NE(two("gpus: 8", "gpus: 4").find("fits 4 GPUs"), std::string::npos);
}

}  // namespace scenario_training_test
}  // namespace scalai::scenario
