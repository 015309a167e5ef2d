#include "labs/validation/model/training_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "labs/validation/model/testing/support.h"
#include "ptc/base/status.h"
#include "ptc/cost/step/hardware.h"
#include "ptc/cost/step/memory.h"
#include "ptc/cost/step/step_time.h"

namespace scalai::step::validation {
namespace training_run_test {

using ::testing::HasSubstr;

constexpr const char* kRun = "model=gpt gpu=a100-80g nic_gbps=200 gpus=16 batch=64 sequence=2048 ";

TrainingRun run_of(const std::string& cells) {
  OneRow row(kRun + cells);
  RowReader reader = row.reader();
  TrainingRun run = read_run(reader, models());
  EXPECT_TRUE(row.ok()) << row.said();
  return run;
}

std::string problems_of(const std::string& cells) {
  OneRow row(cells);
  RowReader reader = row.reader();
  read_run(reader, models());
  return row.said();
}

double step_of(const TrainingRun& run) {
  return step_time(run.workload(), uniform_hardware(run.host, run.config)).step_s;
}

TEST(TrainingRun, ReadsEveryColumn) {
  const TrainingRun run = run_of(
      "gpus_per_host=4 nics=2 tp=2 pp=2 cp=2 vpp=3 zero=1 micro_batch=4 precision=fp16 schedule=gpipe recompute=full "
      "sequence_parallel=0 flash=0 overlap=gradients bucket=25000000 gradients=fp32 tensor_overlap=none tokens=3e11 "
      "peak_tflops=300 framework=scaling ring_gbps=40 dispatch=once expert_overlap=1 cuda_graphs=1 grouped_experts=1 "
      "loss=fused "
      "offloaded_layers=3 "
      "memory_gib=95 optimizer_bytes=4 offloaded_modules=moe+moe_act");
  EXPECT_EQ(run.host.gpu.name, "a100-80g");
  EXPECT_EQ(run.host.gpu.memory_bytes, int64_t{95} << 30);
  EXPECT_EQ(run.host.gpus, 4);
  EXPECT_EQ(run.host.nics, 2);
  EXPECT_DOUBLE_EQ(run.host.nic_bytes_per_s, 25e9);
  EXPECT_EQ(run.host.gpu_link_bytes_per_s, run.host.gpu.link_bytes_per_s);
  EXPECT_EQ(run.config.tp, 2);
  EXPECT_EQ(run.config.pp, 2);
  EXPECT_EQ(run.config.cp, 2);
  EXPECT_EQ(run.config.dp, 2);  // what is left of 16 GPUs
  EXPECT_EQ(run.config.vpp, 3);
  EXPECT_EQ(run.config.zero, 1);
  EXPECT_EQ(run.gpus(), 16);
  EXPECT_EQ(run.training.global_batch, 64);
  EXPECT_EQ(run.training.micro_batch, 4);
  EXPECT_EQ(run.training.precision.name, "fp16");
  EXPECT_EQ(run.training.schedule, Schedule::kGPipe);
  EXPECT_EQ(run.training.recompute, Recompute::kFull);
  EXPECT_FALSE(run.training.sequence_parallel);
  EXPECT_FALSE(run.training.flash_attention);
  EXPECT_EQ(run.training.data_overlap, DataOverlap::kGradients);
  EXPECT_EQ(run.training.bucket, 25'000'000);
  EXPECT_EQ(run.training.precision.gradient_bytes, 4);
  EXPECT_EQ(run.training.precision.optimizer_bytes, 4);
  EXPECT_EQ(run.training.overlap, Overlap::kNone);
  EXPECT_EQ(run.training.framework, Framework::kScaling);
  EXPECT_DOUBLE_EQ(run.ring_bytes_per_s, 5e9);
  EXPECT_EQ(run.training.dispatch, Dispatch::kOnce);
  EXPECT_TRUE(run.training.expert_overlap);
  EXPECT_TRUE(run.training.cuda_graphs && run.training.grouped_experts);
  EXPECT_EQ(run.training.loss, Loss::kFused);
  EXPECT_EQ(run.training.offloaded_layers, 3);
  EXPECT_EQ(run.training.offloaded_modules, Recompute::kExperts | Recompute::kExpertActivation);
  EXPECT_DOUBLE_EQ(run.tokens, 3e11);
  EXPECT_DOUBLE_EQ(run.peak_flops, 3e14);
}

// 8 GPUs a host share 5 GB/s of rings to other hosts.
TEST(TrainingRun, MeasuredRingsCount) {
  const std::string cells = "zero=1 overlap=none ";
  const TrainingRun nominal = run_of(cells), measured = run_of(cells + "ring_gbps=40");
  Hardware hardware = uniform_hardware(measured.host, measured.config);
  hardware.ring_bytes_per_s = 5e9 / 8;
  EXPECT_DOUBLE_EQ(price(measured).step_s, step_time(measured.workload(), hardware).step_s);
  EXPECT_GT(price(measured).step_s, price(nominal).step_s);
}

TEST(TrainingRun, Defaults) {
  const TrainingRun run = run_of("");
  EXPECT_EQ(run.host.gpus, 8);
  EXPECT_EQ(run.host.nics, 8);  // one a GPU
  EXPECT_EQ(run.config.dp, 16);
  EXPECT_EQ(run.training.precision.name, "bf16");
  EXPECT_TRUE(run.training.sequence_parallel);
  EXPECT_TRUE(run.training.flash_attention);
  EXPECT_FALSE(run.search_micro_batch);
  EXPECT_FALSE(run.search_vpp);
}

TEST(TrainingRun, LearnedPositionsGrowWithTheSequence) {
  const TrainingRun run = run_of("");
  OneRow row("model=gpt gpu=a100-80g nic_gbps=200 gpus=16 batch=64 sequence=8192");
  RowReader reader = row.reader();
  const TrainingRun longer = read_run(reader, models());
  EXPECT_EQ(longer.model.parameters() - run.model.parameters(), (8192 - 2048) * 2304);
  EXPECT_TRUE(check_workload(longer.workload()).ok());
}

TEST(TrainingRun, AllProblemsAtOnce) {
  const std::string said = problems_of(
      "model=gpd gpu=a1000 nic_gbps=x gpus=12 tp=8 batch=64 sequence=2048 precision=fp12 schedule=1f2b recompute=ful");
  EXPECT_THAT(said, HasSubstr("unknown model \"gpd\""));
  EXPECT_THAT(said, HasSubstr("did you mean \"gpt\"?"));
  EXPECT_THAT(said, HasSubstr("unknown GPU kind \"a1000\""));
  EXPECT_THAT(said, HasSubstr("\"x\" is not a number"));
  EXPECT_THAT(said, HasSubstr("fp12"));
  EXPECT_THAT(said, HasSubstr("1f2b"));
  EXPECT_THAT(said, HasSubstr("ful"));
}

TEST(TrainingRun, GpusMustBeMadeOfReplicas) {
  EXPECT_THAT(problems_of("model=gpt gpu=a100-80g nic_gbps=200 gpus=12 tp=8 batch=64 sequence=2048"),
              HasSubstr("12 GPUs are no multiple of tp·pp·cp = 8"));
  EXPECT_THAT(problems_of("model=gpt gpu=a100-80g nic_gbps=200 nics=0 gpus=8 batch=64 sequence=2048"),
              HasSubstr("must be at least 1"));
}

TEST(TrainingRun, PriceOfWhatIsGiven) {
  const TrainingRun run = run_of("tp=2 pp=2 recompute=full");
  const PricedRun priced = price(run);
  EXPECT_DOUBLE_EQ(priced.step_s, step_of(run));
  EXPECT_EQ(priced.assumed, "");
  EXPECT_EQ(priced.problem, "");
}

TEST(TrainingRun, SearchTakesTheFastestThatFits) {
  const TrainingRun run = run_of("tp=2 pp=2 recompute=full micro_batch=search vpp=search");
  const PricedRun priced = price(run);
  ASSERT_GT(priced.step_s, 0) << priced.problem;
  for (const int micro_batch : {1, 2, 4, 8, 16}) {
    for (const int vpp : {1, 2, 3, 4, 6, 12}) {
      TrainingRun other = run;
      other.training.micro_batch = micro_batch;
      other.config.vpp = vpp;
      if (!check_workload(other.workload()).ok() || memory_bytes(other.workload()) > 80.0 * (1 << 30)) continue;
      EXPECT_GE(step_of(other), priced.step_s) << micro_batch << " " << vpp;
    }
  }
  EXPECT_DOUBLE_EQ(step_of(priced.run), priced.step_s);
  EXPECT_THAT(priced.assumed, HasSubstr("b "));
  EXPECT_THAT(priced.assumed, HasSubstr("vpp "));
}

TEST(TrainingRun, SearchLeavesOutWhatDoesNotFit) {
  // 22 billion parameters on 8 GPUs: without recomputation only small micro-batches leave room.
  OneRow row(
      "model=gpt-22b gpu=a100-80g nic_gbps=200 gpus=8 tp=8 batch=64 sequence=2048 precision=bf16 flash=0 "
      "sequence_parallel=0 micro_batch=search");
  RowReader reader = row.reader();
  const PricedRun priced = price(read_run(reader, models()));
  ASSERT_GT(priced.step_s, 0) << priced.problem;
  EXPECT_LE(memory_bytes(priced.run.workload()), 80.0 * (1 << 30));
  TrainingRun twice = priced.run;
  twice.training.micro_batch *= 2;
  EXPECT_GT(memory_bytes(twice.workload()), 80.0 * (1 << 30));
}

TEST(TrainingRun, NothingFits) {
  OneRow row("model=gpt-22b gpu=t4-16g nic_gbps=200 gpus=8 batch=64 sequence=2048 micro_batch=search");
  RowReader reader = row.reader();
  const PricedRun priced = price(read_run(reader, models()));
  EXPECT_EQ(priced.step_s, 0);
  EXPECT_THAT(priced.problem, HasSubstr("GiB of memory a GPU"));
}

TEST(TrainingRun, AGivenRunThatWouldNotFitIsPricedAndSaysSo) {
  OneRow row("model=gpt-22b gpu=t4-16g nic_gbps=200 gpus=8 batch=64 sequence=2048");
  RowReader reader = row.reader();
  const PricedRun priced = price(read_run(reader, models()));
  EXPECT_GT(priced.step_s, 0);
  EXPECT_THAT(priced.assumed, HasSubstr("our memory: "));
}

TEST(TrainingRun, WhatCannotBeIsAProblemOfTheRow) {
  const PricedRun priced = price(run_of("tp=2 pp=2 vpp=2 micro_batch=16"));  // one micro-batch
  EXPECT_EQ(priced.step_s, 0);
  EXPECT_NE(priced.problem, "");
}

}  // namespace training_run_test
}  // namespace scalai::step::validation
