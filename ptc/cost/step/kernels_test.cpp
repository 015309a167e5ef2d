#include "ptc/cost/step/kernels.h"

#include <gtest/gtest.h>

#include "ptc/cluster/catalogue.h"

namespace scalai::step {
namespace {

// Round figures: 100 multiprocessors of 1 TFLOP/s, 1 TB/s.
constexpr GpuRates kRates = {
    .product_flops = 100e12, .attention_flops = 50e12, .bytes_per_s = 1e12, .multiprocessors = 100};
constexpr GpuRates kNoMemory = {
    .product_flops = 100e12, .attention_flops = 50e12, .bytes_per_s = 0, .multiprocessors = 100};

double seconds(const GpuRates& rates, const Product& product) {
  return product_seconds(rates, rates.product_flops, product);
}

TEST(Kernels, AProductThatFillsAllWavesTakesItsFlopsAndTheOverheadOfTiles) {
  // 10 × 10 tiles of 256 × 128: one wave. 2 · 256 · 128 · (4096 + 64) FLOPs at 1 TFLOP/s.
  const Product product{.m = 2560, .n = 1280, .k = 4096};
  EXPECT_NEAR(seconds(kNoMemory, product), 2.0 * 256 * 128 * (4096 + 64) / 1e12, 1e-12);
  EXPECT_NEAR(product.flops() / seconds(kNoMemory, product) / 100e12, 4096.0 / 4160, 1e-9);
}

TEST(Kernels, OneTileMoreIsAnotherWaveUnlessSmallerTilesFitBetter) {
  const double full = seconds(kNoMemory, {.m = 2560, .n = 1280, .k = 4096});
  const double more = seconds(kNoMemory, {.m = 2560, .n = 1281, .k = 4096});
  EXPECT_GT(more, 1.05 * full);
  EXPECT_LE(more, 2 * full);
  // 25 tiles of 256 × 128 keep a quarter of the GPU busy; 100 of 128 × 64 all of it, at 0.75 of the rate.
  const double small = seconds(kNoMemory, {.m = 640, .n = 1280, .k = 4096});
  EXPECT_NEAR(small, 2.0 * 128 * 64 * (4096 + 64) / (0.75 * 1e12), 1e-12);
}

TEST(Kernels, BatchesShareWaves) {
  const double one = seconds(kNoMemory, {.m = 256, .n = 128, .k = 1024});
  const double hundred = seconds(kNoMemory, {.m = 256, .n = 128, .k = 1024, .count = 100});
  EXPECT_LT(hundred, 10 * one);
  EXPECT_NEAR(hundred, 2.0 * 256 * 128 * (1024 + 64) / 1e12, 1e-12);
}

TEST(Kernels, ShortSumsAndPaddingCost) {
  const auto efficiency = [](double m, double k) {
    const Product product{.m = m, .n = 12800, .k = k};
    return product.flops() / seconds(kNoMemory, product) / 100e12;
  };
  EXPECT_NEAR(efficiency(2560, 64), 0.5, 1e-9);
  EXPECT_GT(efficiency(2560, 4096), efficiency(2560, 512));
  EXPECT_NEAR(efficiency(1, 4096) / efficiency(128, 4096), 1.0 / 128, 1e-9);
}

TEST(Kernels, WhatMovesMoreThanItComputesIsBoundByMemory) {
  const Product product{.m = 25600, .n = 12800, .k = 16, .element_bytes = 2, .result_bytes = 2};
  const double bytes = 2.0 * (25600 * 16 + 16 * 12800 + 25600.0 * 12800);
  EXPECT_NEAR(seconds(kRates, product), bytes / 1e12, 1e-9);
  EXPECT_GT(seconds(kRates, {.m = 25600, .n = 12800, .k = 16, .result_bytes = 8}), 3 * seconds(kRates, product));
}

TEST(Kernels, WithoutANumberOfMultiprocessorsALastWaveLosesNothing) {
  GpuRates unknown = kNoMemory;
  unknown.multiprocessors = 0;
  // One tile of 101 in a second wave: a hundredth more, not twice.
  const auto tiles = [](double count) { return Product{.m = 256, .n = 128, .k = 4096, .count = count}; };
  const double full = seconds(kNoMemory, tiles(100));
  EXPECT_NEAR(seconds(unknown, tiles(100)), full, 1e-12);
  EXPECT_NEAR(seconds(unknown, tiles(101)), 1.01 * full, 1e-12);
  EXPECT_NEAR(seconds(unknown, tiles(1)), 0.01 * full, 1e-12);
  const StageGpu gpu{.gpu = {.name = "new", .peak_flops = 1e15}};
  EXPECT_EQ(rates_of(gpu, Math::kBF16).multiprocessors, 0);
}

TEST(Kernels, NothingTakesNoTime) {
  EXPECT_EQ(seconds(kRates, {.m = 0, .n = 1, .k = 1}), 0);
  KernelTime time(kRates);
  time.memory(0);
  EXPECT_EQ(time.seconds(), 0);
}

TEST(Kernels, TermsAreKeptApart) {
  KernelTime time(kRates);
  time.memory(1e9);
  EXPECT_DOUBLE_EQ(time.memory_s(), 1e-3);
  EXPECT_DOUBLE_EQ(time.matrix_s(), 0);
  EXPECT_DOUBLE_EQ(time.launch_s(), 2e-6);
  const Product product{.m = 2560, .n = 1280, .k = 4096};
  time.product(product);
  EXPECT_DOUBLE_EQ(time.matrix_s(), seconds(kRates, product));
  time.product_in_16_bits(product);
  EXPECT_DOUBLE_EQ(time.matrix_s(), 3 * seconds(kRates, product));  // at half the rate
  EXPECT_DOUBLE_EQ(time.launch_s(), 6e-6);
  EXPECT_DOUBLE_EQ(time.seconds(), time.matrix_s() + time.memory_s() + time.launch_s());
}

// Heads of 128 and of 104 elements are 256 and 208 bytes, multiples of 16; of 108 they are 216, 150 are 300.
TEST(Kernels, HeadsThatTensorCoresCannotLoadAreMultipliedWithoutThem) {
  GpuRates rates = kRates;
  rates.vector_flops = rates.attention_flops / 16;
  const Product product{.m = 2560, .n = 1280, .k = 4096};
  for (const auto& [head, times] : {std::pair<int64_t, double>{128, 1}, {104, 1}, {108, 16}, {150, 16}}) {
    KernelTime time(rates);
    time.attention_product(product, head);
    EXPECT_DOUBLE_EQ(time.matrix_s(), times * 2 * seconds(kRates, product)) << head;
  }
  EXPECT_NEAR(rates_of({.gpu = *cluster::find_gpu_kind("a100-80g")}, Math::kF16).vector_flops, 0.76 * 19.5e12, 1e9);
}

// 0.4 and 0.3 of 312 teraFLOP/s; of H100's 989 the same shares times 0.35 / 0.615.
TEST(Kernels, EarlyFlashAttentionReachesLess) {
  const auto seconds_of = [](const char* gpu, bool backward) {
    const GpuRates rates = rates_of({.gpu = *cluster::find_gpu_kind(gpu)}, Math::kBF16, Kernels::kEarly);
    KernelTime time(rates);
    const FusedAttention attention{.heads = 1000, .queries = 8192, .keys = 8192, .head_size = 128};
    time.flash(attention, backward);
    return time.matrix_s() / attention.flops(backward);
  };
  EXPECT_NEAR(seconds_of("a100-80g", false) * 0.4 * 312e12, 1, 1e-3);
  EXPECT_NEAR(seconds_of("a100-80g", true) * 0.3 * 312e12, 1, 1e-3);
  EXPECT_NEAR(seconds_of("h100-80g", false) * 0.4 * 0.35 / 0.615 * 989.4e12, 1, 1e-3);
  EXPECT_NEAR(seconds_of("h100-80g", true) * 0.3 * 0.35 / 0.615 * 989.4e12, 1, 1e-3);
}

TEST(Kernels, GraphsLeaveOnlyGaps) {
  GpuRates rates = kRates;
  rates.graphs = true;
  KernelTime time(rates);
  time.memory(1e6);   // 1 µs
  time.launched(30);  // 11.3 µs each without
  time.grouped({.m = 1, .n = 1, .k = 1, .count = 16});
  EXPECT_DOUBLE_EQ(time.launch_s(), (1 + 30 + 1) * 2e-6);
}

TEST(Kernels, NoKernelIsShorterThanItsLaunch) {
  KernelTime time(kRates);
  time.memory(1e6);  // 1 µs
  EXPECT_DOUBLE_EQ(time.seconds(), 6e-6);
}

// Shares of the attention's own rate that its blocks leave on 132 multiprocessors.
double share_of(const FusedAttention& attention, bool backward) {
  GpuRates rates = kRates;
  rates.multiprocessors = 132;
  KernelTime time(rates);
  time.flash(attention, backward);
  return attention.flops(backward) / time.matrix_s() / rates.attention_flops /
         (backward ? rates.flash_backward : rates.flash_forward);
}

TEST(Kernels, FusedAttentionIsBoundByMemoryWhereShort) {
  KernelTime bound(kRates);
  bound.flash({.heads = 1, .queries = 1, .keys = 1, .head_size = 128, .bytes = 1e9}, false);
  EXPECT_DOUBLE_EQ(bound.matrix_s(), 1e-3);
}

TEST(Kernels, TilesOfFusedAttention) {
  // A tile for each multiprocessor, 16 blocks and 2 more: of those the mask leaves.
  EXPECT_NEAR(share_of({.heads = 132, .queries = 128, .keys = 2048, .head_size = 128, .causal = false}, false),
              16.0 / 18, 1e-9);
  EXPECT_NEAR(share_of({.heads = 66, .queries = 128, .keys = 2048, .head_size = 128, .causal = false}, false), 8.0 / 18,
              1e-9);
  EXPECT_NEAR(share_of({.heads = 133, .queries = 128, .keys = 2048, .head_size = 128, .causal = false}, false),
              133.0 / 132 * 16 / 36, 1e-9);
  // Backward a tile is of 128 keys.
  EXPECT_NEAR(share_of({.heads = 132, .queries = 2048, .keys = 128, .head_size = 128, .causal = false}, true),
              16.0 / 19, 1e-9);
  // All 128 tiles begin at once, and the last one has 32 blocks; half of them are masked in all, without the diagonal.
  EXPECT_NEAR(share_of({.heads = 4, .queries = 4096, .keys = 4096, .head_size = 128}, false),
              4 * 32 * 32 / 2.0 / 132 / 34, 1e-9);
  // Many heads of long sequences lose little, short ones and few more.
  const double best = share_of({.heads = 64, .queries = 32768, .keys = 32768, .head_size = 128}, false);
  EXPECT_GT(best, 0.97);
  EXPECT_LT(share_of({.heads = 64, .queries = 2048, .keys = 2048, .head_size = 128}, false), 0.75);
  EXPECT_LT(share_of({.heads = 8, .queries = 8192, .keys = 8192, .head_size = 128}, false), 0.75);
}

// Those before the last are an average: as if each were handed out.
TEST(Kernels, ManyHeadsOfFusedAttention) {
  double before = 0;
  for (const double heads : {60.0, 600.0, 6000.0}) {
    const double share = share_of({.heads = heads, .queries = 2048, .keys = 2048, .head_size = 128}, false);
    EXPECT_GT(share, before) << heads;
    before = share;
  }
  EXPECT_NEAR(before, 128.0 / (136 + 2 * 16), 0.002);
}

TEST(Kernels, TunedLibrariesAreFasterOnGpusWithFp8) {
  const StageGpu h100{.gpu = *cluster::find_gpu_kind("h100-80g")}, a100{.gpu = *cluster::find_gpu_kind("a100-80g")};
  const GpuRates fused = rates_of(h100, Math::kBF16), tuned = rates_of(h100, Math::kBF16, Kernels::kTuned);
  EXPECT_DOUBLE_EQ(tuned.product_flops, 1.16 * fused.product_flops);
  EXPECT_DOUBLE_EQ(tuned.attention_flops * tuned.flash_forward,
                   1.16 * 1.055 / 0.8 * fused.attention_flops * fused.flash_forward);
  const GpuRates fp8 = rates_of(h100, Math::kFP8, Kernels::kTuned);
  EXPECT_DOUBLE_EQ(fp8.product_flops, rates_of(h100, Math::kFP8).product_flops);
  EXPECT_DOUBLE_EQ(fp8.attention_flops, tuned.attention_flops);
  EXPECT_DOUBLE_EQ(rates_of(a100, Math::kBF16, Kernels::kTuned).product_flops,
                   rates_of(a100, Math::kBF16).product_flops);
  EXPECT_DOUBLE_EQ(rates_of(a100, Math::kBF16, Kernels::kTuned).flash_forward, 0.826);
}

// All ranks wait for the slowest GPU: that of more GPUs is slower.
TEST(Kernels, TheSlowestGpuCounts) {
  const StageGpu slow{.gpu = *cluster::find_gpu_kind("h100-80g"), .slowest = slowest_share(1024)};
  // The largest of 1,024 normal values is 3.24 on average; the asymptotic formula says 3.28.
  EXPECT_NEAR(slow.slowest, 1 / (1 + 0.08 / 5.4 * 3.24), 1e-3);
  EXPECT_EQ(slowest_share(1), 1);
  EXPECT_GT(slowest_share(8), slowest_share(64));
  EXPECT_NEAR(slowest_share(8), 1 / (1 + 0.08 / 5.4 * 1.42), 2e-3);
  const GpuRates rates = rates_of(slow, Math::kBF16), median = rates_of({.gpu = slow.gpu}, Math::kBF16);
  EXPECT_DOUBLE_EQ(rates.product_flops, slow.slowest * median.product_flops);
  EXPECT_DOUBLE_EQ(rates.bytes_per_s, median.bytes_per_s);  // memory has a clock of its own
}

TEST(Kernels, ExpertsAreAKernelEach) {
  KernelTime one(kRates), many(kRates), launched(kRates);
  const Product small{.m = 16, .n = 16, .k = 16, .count = 64};
  one.product(small);
  many.grouped(small);
  launched.launched(64);
  EXPECT_NEAR(launched.seconds(), 64 * 11.3e-6, 1e-12);
  EXPECT_NEAR(many.seconds(), launched.seconds(), 1e-9);  // the host is slower than the products
  EXPECT_LT(one.seconds(), 1e-5);
  KernelTime large(kRates);
  large.grouped({.m = 8192, .n = 8192, .k = 8192, .count = 4});
  EXPECT_NEAR(large.launch_s(), 2e-6, 1e-12);
}

TEST(Kernels, RatesAreSharesOfPeaks) {
  const StageGpu half{.gpu = *cluster::find_gpu_kind("h100-80g"), .speed = 0.5};
  const Efficiency bf16 = efficiency_of(half.gpu, Math::kBF16), fp8 = efficiency_of(half.gpu, Math::kFP8);
  const GpuRates rates = rates_of(half, Math::kFP8);
  EXPECT_DOUBLE_EQ(rates.product_flops, 0.5 * 1979e12 * fp8.matrix);
  EXPECT_DOUBLE_EQ(rates.attention_flops, 0.5 * 989.5e12 * bf16.matrix);
  EXPECT_DOUBLE_EQ(rates.bytes_per_s, 0.5 * 3350e9 * bf16.memory);
  EXPECT_EQ(rates.multiprocessors, 132);
  EXPECT_DOUBLE_EQ(rates_of(half, Math::kBF16).attention_flops, rates_of(half, Math::kBF16).product_flops);
  StageGpu mixed = half;
  mixed.memory_bytes_per_s = 7e11;
  EXPECT_DOUBLE_EQ(rates_of(mixed, Math::kBF16).bytes_per_s, 7e11);
}

// Shah et al. 2024, Figure 5: 322 and 369 teraFLOP/s with heads of 64 and 128 elements, cuDNN 411 and 601.
TEST(Kernels, SmallHeadsOfFusedAttentionHaveMoreExponentials) {
  const StageGpu h100{.gpu = *cluster::find_gpu_kind("h100-80g")};
  const auto slower = [&](Kernels kernels, bool backward, int64_t small) {
    const GpuRates rates = rates_of(h100, Math::kBF16, kernels);
    KernelTime few(rates), many(rates);
    const FusedAttention large{.heads = 32, .queries = 8192, .keys = 8192, .head_size = 128};
    FusedAttention other = large;
    other.head_size = small;
    few.flash(large, backward);
    many.flash(other, backward);
    return many.matrix_s() / other.flops(backward) / (few.matrix_s() / large.flops(backward));
  };
  EXPECT_NEAR(slower(Kernels::kFused, false, 64), 369.0 / 322, 0.002);
  EXPECT_NEAR(slower(Kernels::kTuned, false, 64), 601.0 / 411, 0.002);
  EXPECT_NEAR(slower(Kernels::kTuned, true, 64), (1 + 44.0 / 64) / (1 + 44.0 / 128), 1e-9);
  EXPECT_DOUBLE_EQ(slower(Kernels::kTuned, false, 256), 1);
}

TEST(Kernels, OfEachExpertTakeTheirBytesOrTheirLaunches) {
  GpuRates rates = rates_of({.gpu = *cluster::find_gpu_kind("h100-80g")}, Math::kBF16);
  KernelTime small(rates), large(rates);
  small.memory_of_each(1e3, 16);
  EXPECT_NEAR(small.seconds(), 16 * 11.3e-6, 1e-9);
  const auto launch_s = [](const char* gpu) {
    return rates_of({.gpu = *cluster::find_gpu_kind(gpu)}, Math::kBF16, Kernels::kTuned).host_launch_s;
  };
  EXPECT_NEAR(launch_s("b300-270g"), 11.3e-6, 1e-12);
  EXPECT_NEAR(launch_s("gb300-279g"), 1.7 * 11.3e-6, 1e-12) << "Grace";
  large.memory_of_each(1e10, 16);
  EXPECT_NEAR(large.seconds(), 1e10 / rates.bytes_per_s + 2e-6, 1e-9);
  rates.graphs = true;
  KernelTime graphs(rates);
  graphs.memory_of_each(1e3, 16);
  EXPECT_LT(graphs.seconds(), 3e-6);
}

}  // namespace
}  // namespace scalai::step
