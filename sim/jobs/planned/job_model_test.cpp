#include "sim/jobs/planned/job_model.h"

#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::jobs {
namespace {

using ::testing::HasSubstr;

TEST(JobModel, DefaultsAreThoseOfTheHeader) {
  const JobModel model = job_model({.model = "llama3-8b"}).value();
  EXPECT_EQ(model.training.sequence, 8192);
  EXPECT_EQ(model.training.global_batch, 128);  // 2^20 tokens / 8192
  EXPECT_EQ(model.training.precision.name, "bf16");
  EXPECT_EQ(model.recipe.param, tensor::DType::kBF16);
  EXPECT_EQ(model.recipe.optimizer, model::Optimizer::kAdam);
  EXPECT_FALSE(model.pins.micro_batch.has_value());
  EXPECT_EQ(model.shape.parameters(), model.model.parameter_count());
  EXPECT_EQ(describe(model),
            "llama3-8b: batch 128, sequence 8192, bf16, adam, 1f1b, zero 1, micro-batch chosen, recompute chosen");
}

TEST(JobModel, WhatIsGivenCounts) {
  const JobModel model = job_model({.model = "gpt3-xl",
                                    .global_batch = 48,
                                    .sequence = 1024,
                                    .precision = "fp16",
                                    .optimizer = "sgd",
                                    .schedule = "2bw",
                                    .recompute = "full",
                                    .micro_batch = 2,
                                    .pins = "tp2,zero0",
                                    .whole_batches = false})
                             .value();
  EXPECT_EQ(model.training.global_batch, 48);
  EXPECT_EQ(model.training.sequence, 1024);
  EXPECT_EQ(model.recipe.param, tensor::DType::kF16);
  EXPECT_EQ(model.recipe.optimizer, model::Optimizer::kSgdMomentum);
  EXPECT_TRUE(model.recipe.previous);  // 2BW keeps a second version
  EXPECT_EQ(model.pins.tp, 2);
  EXPECT_EQ(model.pins.zero, 0);
  EXPECT_EQ(model.pins.micro_batch, 2);
  EXPECT_EQ(model.pins.recompute, step::Recompute::kFull);
  EXPECT_FALSE(model.training.whole_batches);
}

TEST(JobModel, AllProblemsAtOnce) {
  const absl::Status status = job_model({.model = "gpt3-xxl",
                                         .precision = "fp17",
                                         .optimizer = "adamw",
                                         .schedule = "2f2b",
                                         .recompute = "some",
                                         .pins = "tq2"})
                                  .status();
  EXPECT_EQ(exit_code_of(status), 3);
  for (const char* part : {"gpt3-xxl", "fp17", "adamw", "2f2b", "some", "tq"})
    EXPECT_THAT(message_of(status), HasSubstr(part));
}

TEST(JobModel, ASequenceIsNotLongerThanTheModelTakes) {
  EXPECT_THAT(message_of(job_model({.model = "gpt3-xl", .sequence = 4096}).status()), HasSubstr("longer than gpt3-xl"));
}

TEST(JobModel, DefaultBatchIsAMebitokenAsAPowerOfTwo) {
  const model::Model gpt = model::find_model("gpt3-xl").value();
  EXPECT_EQ(default_batch(gpt, 2048), 512);
  EXPECT_EQ(default_batch(gpt, 1536), 512);  // 682.7
  EXPECT_EQ(default_batch(gpt, 1 << 21), 1);
  EXPECT_EQ(default_batch(model::find_model("resnet-50").value(), 0), 1024);
}

TEST(JobModels, ByTypeAndBatch) {
  policy::Workload workload;
  workload.jobs = {{.name = "a", .type = "gpt3-xl", .batch = 64},
                   {.name = "b", .type = "gpt3-xl"},
                   {.name = "c", .type = "mine", .batch = 8}};
  const JobModels models =
      JobModels::of(workload, {.precision = "fp16"}, {{"mine", {.model = "gpt2", .precision = "bf16"}}}).value();
  EXPECT_EQ(models.model_of(workload.jobs[0]).training.global_batch, 64);
  EXPECT_EQ(models.model_of(workload.jobs[1]).training.global_batch, 512);
  EXPECT_EQ(models.model_of(workload.jobs[1]).training.precision.name, "fp16");
  EXPECT_EQ(models.model_of(workload.jobs[2]).name, "gpt2");
  EXPECT_EQ(models.model_of(workload.jobs[2]).training.precision.name, "bf16");
  EXPECT_FALSE(models.knows({.type = "gpt2"}));
  EXPECT_THAT(models.description(), HasSubstr("gpt3-xl: batch 64"));
}

TEST(JobModels, NamesTheTypeThatIsUnknown) {
  policy::Workload workload;
  workload.jobs = {{.name = "a", .type = "ResNet-18 (batch size 128)"}, {.name = "b", .type = "gpt9"}};
  const absl::Status status = JobModels::of(workload).status();
  EXPECT_THAT(message_of(status), HasSubstr("jobs of type \"ResNet-18 (batch size 128)\""));
  EXPECT_THAT(message_of(status), HasSubstr("jobs of type \"gpt9\""));
}

}  // namespace
}  // namespace scalai::jobs
