#include "labs/validation/model/hardware_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "labs/validation/model/testing/support.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/cost/step/collectives.h"
#include "ptc/cost/step/hardware.h"
#include "ptc/cost/step/kernels.h"
#include "ptc/cost/step/layer_work.h"

namespace scalai::step::validation {
namespace {

using ::testing::HasSubstr;

RowResult collective_of(const std::string& cells) {
  OneRow row("gpu=h100-80g nic_gbps=400 size=1GiB " + cells);
  RowReader reader = row.reader();
  RowResult result = collective_result(reader);
  EXPECT_TRUE(row.ok()) << row.said();
  return result;
}

double seconds_of(Collective operation, int ranks) {
  cluster::Host host{.gpus = 8, .gpu = *cluster::find_gpu_kind("h100-80g")};
  host.nics = 8;
  host.nic_bytes_per_s = 50e9;
  host.gpu_link_bytes_per_s = host.gpu.link_bytes_per_s;
  collection::ParallelConfig config;
  config.dp = ranks;
  const Hardware hardware = uniform_hardware(host, config);
  return collective(links_of(hardware), operation, hardware.dp, 1 << 30).seconds;
}

TEST(CollectiveRows, BusBandwidthOfAllReduce) {
  const RowResult result = collective_of("ranks=16 published=400");
  const double seconds = seconds_of(Collective::kAllReduce, 16);
  EXPECT_NEAR(result.predicted, 2 * 15.0 / 16 * (1 << 30) / seconds / 1e9, 1e-6);
  EXPECT_NEAR(result.error, 400 / result.predicted - 1, 1e-12);  // of the time
  EXPECT_FALSE(result.fitted);
  EXPECT_TRUE(collective_of("ranks=16 published=400 fitted=1").fitted);
  EXPECT_EQ(result.machine, "h100-80g collectives");
}

TEST(CollectiveRows, BusBandwidthOfTheOthers) {
  const double seconds = seconds_of(Collective::kAllGather, 8);
  EXPECT_NEAR(collective_of("ranks=8 op=all-gather published=400").predicted, 7.0 / 8 * (1 << 30) / seconds / 1e9,
              1e-6);
}

TEST(CollectiveRows, Microseconds) {
  const RowResult result = collective_of("ranks=8 published=50 unit=us");
  EXPECT_NEAR(result.predicted, 1e6 * seconds_of(Collective::kAllReduce, 8), 1e-6);
  EXPECT_NEAR(result.error, result.predicted / 50 - 1, 1e-12);
}

TEST(CollectiveRows, WithoutReductionInTheSwitch) {
  EXPECT_LT(collective_of("ranks=8 in_switch=0 published=400").predicted,
            collective_of("ranks=8 in_switch=1 published=400").predicted);
}

TEST(CollectiveRows, Problems) {
  OneRow row("gpu=h100-80g nic_gbps=400 size=8Gb op=all ranks=8 unit=s published=1");
  RowReader reader = row.reader();
  collective_result(reader);
  EXPECT_THAT(row.said(), HasSubstr("\"8Gb\" is not a size"));
  EXPECT_THAT(row.said(), HasSubstr("unknown collective \"all\""));
  EXPECT_THAT(row.said(), HasSubstr("collectives are in GB/s or us"));
  OneRow lonely("gpu=h100-80g nic_gbps=400 size=8GiB ranks=1 published=1");
  RowReader second = lonely.reader();
  collective_result(second);
  EXPECT_THAT(lonely.said(), HasSubstr("at least 2 ranks"));
}

RowResult kernel_of(const std::string& cells) {
  OneRow row("gpu=h200-141g published=100 " + cells);
  RowReader reader = row.reader();
  RowResult result = kernel_result(reader);
  EXPECT_TRUE(row.ok()) << row.said();
  return result;
}

TEST(KernelRows, Products) {
  GpuRates rates = rates_of({.gpu = *cluster::find_gpu_kind("h200-141g")}, Math::kBF16);
  const double seconds = product_seconds(rates, rates.product_flops, {.m = 4096, .n = 8192, .k = 2048, .count = 3});
  const RowResult result = kernel_of("op=product m=4096 n=8192 k=2048 count=3");
  EXPECT_NEAR(result.predicted, 1e6 * seconds + 2, 1e-6);  // the gap before the next
  EXPECT_NEAR(result.error, result.predicted / 100 - 1, 1e-12);
  EXPECT_EQ(result.group, "kernels");
  EXPECT_LT(kernel_of("op=product m=4096 n=8192 k=2048 precision=fp8").predicted,
            0.6 * kernel_of("op=product m=4096 n=8192 k=2048").predicted);
  EXPECT_LT(kernel_of("op=product m=4096 n=8192 k=2048 kernels=tuned").predicted,
            kernel_of("op=product m=4096 n=8192 k=2048").predicted);
}

TEST(KernelRows, AttentionAndMemory) {
  const double forward = kernel_of("op=attention-forward batch=1 length=8192 heads=32 head_size=128").predicted;
  const double backward = kernel_of("op=attention-backward batch=1 length=8192 heads=32 head_size=128").predicted;
  EXPECT_NEAR(backward / forward, 2.5 * 0.8 / 0.683, 0.1);  // five products to two
  EXPECT_NEAR(kernel_of("op=memory size=1GiB").predicted, (1 << 30) / (4.8e12 * 0.8) * 1e6 + 2, 1);
}

TEST(KernelRows, Problems) {
  OneRow row("gpu=h201 op=sort precision=fp64 unit=ms published=1");
  RowReader reader = row.reader();
  kernel_result(reader);
  for (const char* said : {"unknown GPU kind", "bf16 or fp8", "kernels are in us"})
    EXPECT_THAT(row.said(), HasSubstr(said));
  OneRow unknown("gpu=h200-141g op=sort published=1");
  RowReader second = unknown.reader();
  kernel_result(second);
  EXPECT_THAT(unknown.said(), HasSubstr("unknown kernel \"sort\""));
}

TEST(LayerRows, ForwardBackwardAndTotal) {
  const std::string run =
      "model=gpt-22b gpu=a100-80g nic_gbps=200 gpus=8 tp=8 batch=4 micro_batch=4 sequence=2048 "
      "recompute=full published=10 quantity=";
  double milliseconds[3];
  const char* quantities[] = {"forward", "backward", "total"};
  for (int i = 0; i < 3; ++i) {
    OneRow row(run + quantities[i]);
    RowReader reader = row.reader();
    const RowResult result = layer_result(reader, models());
    ASSERT_TRUE(row.ok()) << row.said();
    EXPECT_EQ(result.label, std::string("row ") + quantities[i]);
    EXPECT_NEAR(result.error, result.predicted / 10 - 1, 1e-12);
    milliseconds[i] = result.predicted;
  }
  EXPECT_NEAR(milliseconds[0] + milliseconds[1], milliseconds[2], 1e-9);
  EXPECT_GT(milliseconds[1], 2 * milliseconds[0]);  // twice the products, and the forward again

  OneRow row(run + "forward");
  RowReader reader = row.reader();
  const TrainingRun read = read_run(reader, models());
  const Hardware hardware = uniform_hardware(read.host, read.config);
  const LayerWork layer = layer_work(read.workload(), hardware, hardware.stage(0));
  EXPECT_NEAR(milliseconds[0], 1000 * layer.forward.seconds(), 1e-9);
}

TEST(LayerRows, Problems) {
  OneRow row("model=gpt gpu=a100-80g nic_gbps=200 gpus=8 batch=8 sequence=2048 published=1 quantity=both");
  RowReader reader = row.reader();
  layer_result(reader, models());
  EXPECT_THAT(row.said(), HasSubstr("unknown quantity \"both\""));
}

}  // namespace
}  // namespace scalai::step::validation
