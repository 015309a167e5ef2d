#include "ptc/cost/step/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::step {
namespace {

constexpr double kGap = 2e-6;       // between kernels of one stream
constexpr double kShortest = 6e-6;  // launched by a framework one at a time

// Of kernels one at a time behind a wait for the GPU: PyTorch's smallest ones take 11.3 to 17.7 µs each on DGX H100
// (DGX Cloud benchmarking recipes, microbenchmark of the host's overhead).
constexpr double kHostLaunch = 11.3e-6;

// The same on NVIDIA's Grace, which GPUs with an NVLink of their own to the host have: its cores launch more slowly
// than those of x86. With 1.5, 1.7 and 2.0 rows to fit are off by 16, 12 and 8 % (gb300_sweep), 10.8, 11.0 and 11.6 %
// (bridge_b300).
constexpr double kGraceSlower = 1.7, kLeastOfNvlinkToHost = 200e9;

constexpr int64_t kAlignment = 16;  // bytes

struct Tile {
  double m, n;
  double share;  // of the rate of large tiles: smaller ones load more for each product
};
constexpr std::array<Tile, 4> kTiles = {{{256, 128, 1}, {128, 256, 1}, {128, 128, 0.92}, {128, 64, 0.75}}};
// What the start and the store of a tile take, in steps of k; on GPUs with FP8 as 538 products measured on an H200 have
// it (own_products_h200): with 64, those with k up to 1,024 would come out a seventh too fast beside the others.
constexpr double kTileOverhead = 64, kTileOverheadOfFp8Kinds = 200;

// Exponentials of fused attention as elements of a head: from the rates of heads with 64 and 128 elements forward on
// H100 (Shah et al. 2024, FlashAttention-3, Figure 5, 4 to 16 thousand tokens): 322 and 369 teraFLOP/s of the second
// generation, 411 and 601 of cuDNN.
constexpr double kWholeHead = 128, kTunedSoftmax = 110;

// The shares of GpuRates, where large products reach more of the peak because the start of their tiles counts for more.
constexpr double kFp8KindsFlashForward = 0.8, kFp8KindsFlashBackward = 0.683;

// With the libraries of Kernels::kTuned: 16-bit products as a share of those without, chosen with the rows to fit of
// H100 in view (results/perfmodel), and the shares of them that cuDNN's attention reaches in its blocks: 712 and 620
// teraFLOP/s on an H200 (own_attention_h200).
constexpr double kTunedFlashForward = 1.055, kTunedFlashBackward = 0.92, kTunedMatrix = 1.16;

// Flash attention of the first generation: the forward pass reaches 30 to 50 % of A100's peak, the backward pass 25 to
// 35 % (Dao 2023, FlashAttention-2, introduction); the middle of both.
constexpr double kEarlyFlashForward = 0.4, kEarlyFlashBackward = 0.3;
// Kernels written for A100 reach a smaller share of a GPU that has instructions of its own for large products: the
// second generation 50 to 73 % of A100's peak (Dao 2023, abstract) and 35 % of H100's (Shah et al. 2024,
// FlashAttention-3).
constexpr double kEarlyOnLater = 0.35 / 0.615;

// Shares of attention_flops, which is `matrix` of the peak.
void set_early_flash(const cluster::GpuKind& gpu, GpuRates& rates) {
  const double share = (gpu.peak_flops_fp8 > 0 ? kEarlyOnLater : 1) / efficiency_of(gpu, Math::kBF16).matrix;
  rates.flash_forward = kEarlyFlashForward * share;
  rates.flash_backward = kEarlyFlashBackward * share;
  rates.flash_tiles = false;
}

// Of fused attention: queries of a tile and keys of a block, and what the start and the end of a tile take, in blocks.
constexpr double kAttentionTile = 128;
constexpr double kForwardOverhead = 2, kBackwardOverhead = 3;

// Blocks that the multiprocessor with the most does one after the other: each takes the next tile when it is free.
// Where there are many heads their first ones only fill all multiprocessors alike.
double blocks_in_a_row(const FusedAttention& attention, bool backward, int multiprocessors) {
  const double along = backward ? attention.keys : attention.queries,
               across = backward ? attention.queries : attention.keys;
  const auto tiles = static_cast<int64_t>(std::ceil(along / kAttentionTile));
  const double blocks = std::ceil(across / kAttentionTile), overhead = backward ? kBackwardOverhead : kForwardOverhead;
  const auto heads = std::max<int64_t>(1, std::llround(attention.heads));
  const auto cost = [&](int64_t tile) {  // the last queries see the most keys, the first keys the most queries
    if (!attention.causal) return blocks + overhead;
    return static_cast<double>(backward ? tiles - tile : tile + 1) + overhead;
  };
  const int64_t one_by_one = std::min(heads, std::max<int64_t>(4, (int64_t{8} * multiprocessors + tiles - 1) / tiles));
  std::vector<double> ends(static_cast<size_t>(multiprocessors));  // a heap, the earliest first
  const double of_a_head = attention.causal ? static_cast<double>(tiles) * (static_cast<double>(tiles) + 1) / 2
                                            : static_cast<double>(tiles) * blocks;
  double last = 0;
  for (int64_t tile = 0; tile < one_by_one * tiles; ++tile) {
    std::pop_heap(ends.begin(), ends.end(), std::greater<>());
    ends.back() += cost(tile % tiles);
    last = std::max(last, ends.back());
    std::push_heap(ends.begin(), ends.end(), std::greater<>());
  }
  return last + static_cast<double>(heads - one_by_one) * (of_a_head + static_cast<double>(tiles) * overhead) /
                    multiprocessors;
}

// The same. A search asks for few shapes, and for each of them many times.
double known_blocks_in_a_row(const FusedAttention& attention, bool backward, int multiprocessors) {
  constexpr size_t kMostKnown = 4096;
  using Key = std::tuple<double, double, double, bool, bool, int>;
  thread_local std::map<Key, double> known;
  if (known.size() > kMostKnown) known.clear();
  const Key key(attention.queries, attention.keys, attention.heads, attention.causal, backward, multiprocessors);
  const auto [found, fresh] = known.try_emplace(key, 0.0);
  if (fresh) found->second = blocks_in_a_row(attention, backward, multiprocessors);
  return found->second;
}

}  // namespace

GpuRates rates_of(const StageGpu& gpu, Math math, Kernels kernels) {
  const Efficiency efficiency = efficiency_of(gpu.gpu, math);
  GpuRates rates{.product_flops = peak_flops(gpu.gpu, math) * efficiency.matrix * gpu.speed * gpu.slowest,
                 .vector_flops = peak_flops(gpu.gpu, Math::kF32) * efficiency.matrix * gpu.speed * gpu.slowest,
                 .bytes_per_s = gpu.gpu.memory_bandwidth_bytes_per_s * efficiency.memory * gpu.speed,
                 .tile_overhead = gpu.gpu.peak_flops_fp8 > 0 ? kTileOverheadOfFp8Kinds : kTileOverhead,
                 .multiprocessors = gpu.gpu.multiprocessors,
                 .host_launch_s = kHostLaunch * (gpu.gpu.pcie_bytes_per_s > kLeastOfNvlinkToHost ? kGraceSlower : 1)};
  if (gpu.gpu.peak_flops_fp8 > 0)
    rates.flash_forward = kFp8KindsFlashForward, rates.flash_backward = kFp8KindsFlashBackward;
  const bool tuned = kernels == Kernels::kTuned && gpu.gpu.peak_flops_fp8 > 0;
  if (tuned && !is_narrow(math)) rates.product_flops *= kTunedMatrix;
  if (tuned) rates.flash_forward = kTunedFlashForward, rates.flash_backward = kTunedFlashBackward;
  if (tuned) rates.softmax_elements = kTunedSoftmax;
  if (kernels == Kernels::kEarly) set_early_flash(gpu.gpu, rates);
  if (gpu.memory_bytes_per_s > 0) rates.bytes_per_s = gpu.memory_bytes_per_s;
  rates.attention_flops = rates.product_flops;
  if (is_narrow(math)) {
    rates.attention_flops = peak_flops(gpu.gpu, Math::kBF16) * efficiency_of(gpu.gpu, Math::kBF16).matrix * gpu.speed *
                            gpu.slowest * (tuned ? kTunedMatrix : 1);
  }
  SCALAI_CHECK(rates.product_flops > 0, gpu.gpu.name);
  return rates;
}

double product_seconds(const GpuRates& rates, double flops_per_s, const Product& p) {
  if (p.m <= 0 || p.n <= 0 || p.k <= 0) return 0;
  // Without a number of multiprocessors a part of a wave takes its part of the time.
  const double at_once = rates.multiprocessors > 0 ? rates.multiprocessors : 1;
  double compute = 0;
  for (const Tile& tile : kTiles) {
    const double tiles = std::ceil(p.m / tile.m) * std::ceil(p.n / tile.n) * p.count;
    const double computed = std::ceil(tiles / at_once) * at_once;  // a last wave is as long as a full one
    const double seconds = computed * tile.m * tile.n * 2 * (p.k + rates.tile_overhead) / (flops_per_s * tile.share);
    if (compute == 0 || seconds < compute) compute = seconds;
  }
  if (rates.bytes_per_s <= 0) return compute;
  const double bytes = p.count * (p.element_bytes * (p.m * p.k + p.k * p.n) + p.result_bytes * p.m * p.n);
  return std::max(compute, bytes / rates.bytes_per_s);
}

void KernelTime::add(double seconds, double& term) {
  term += seconds;
  launch_s_ += rates_.graphs ? kGap : std::max(kGap, kShortest - seconds);
}

void KernelTime::product(const Product& product) {
  add(product_seconds(rates_, rates_.product_flops, product), matrix_s_);
}

void KernelTime::attention_product(const Product& product, int64_t head_size) {
  const bool aligned = static_cast<int64_t>(static_cast<double>(head_size) * product.element_bytes) % kAlignment == 0;
  if (aligned) return product_in_16_bits(product);
  add(product_seconds(rates_, rates_.vector_flops, product), matrix_s_);
}

void KernelTime::product_in_16_bits(const Product& product) {
  add(product_seconds(rates_, rates_.attention_flops, product), matrix_s_);
}

void KernelTime::small_products(double flops, double share) {
  add(flops / (rates_.attention_flops * share), matrix_s_);
}

double FusedAttention::flops(bool backward) const {
  return (backward ? 2.5 : 1) * 4 * heads * queries * keys * static_cast<double>(head_size) * (causal ? 0.5 : 1) *
         share;
}

void KernelTime::flash(const FusedAttention& attention, bool backward) {
  const auto head_size = static_cast<double>(attention.head_size);
  const double softmax = rates_.softmax_elements * (backward ? 2.0 / 5 : 1);
  const double slower = std::max(1.0, (1 + softmax / head_size) / (1 + softmax / kWholeHead));
  const double rate = rates_.attention_flops * (backward ? rates_.flash_backward : rates_.flash_forward) / slower;
  double seconds = attention.flops(backward) / rate;
  if (rates_.multiprocessors > 0 && rates_.flash_tiles) {
    const double block = (backward ? 2.5 : 1) * 4 * kAttentionTile * kAttentionTile * head_size;
    seconds = attention.share * known_blocks_in_a_row(attention, backward, rates_.multiprocessors) * block *
              rates_.multiprocessors / rate;
  }
  add(std::max(seconds, rates_.bytes_per_s > 0 ? attention.bytes / rates_.bytes_per_s : 0), matrix_s_);
}

void KernelTime::launched(double kernels) { launch_s_ += kernels * (rates_.graphs ? kGap : rates_.host_launch_s); }

void KernelTime::grouped(const Product& product) {
  const double seconds = product_seconds(rates_, rates_.product_flops, product);
  matrix_s_ += seconds;
  launch_s_ += rates_.graphs ? kGap : std::max(kGap, product.count * rates_.host_launch_s - seconds);
}

void KernelTime::memory_of_each(double bytes, double kernels) {
  const double seconds = rates_.bytes_per_s > 0 ? bytes / rates_.bytes_per_s : 0;
  memory_s_ += seconds;
  launch_s_ += rates_.graphs ? kGap : std::max(kGap, kernels * rates_.host_launch_s - seconds);
}

void KernelTime::memory(double bytes) {
  if (bytes > 0) add(rates_.bytes_per_s > 0 ? bytes / rates_.bytes_per_s : 0, memory_s_);
}

}  // namespace scalai::step
