#include "ptc/parallel/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ptc/base/status.h"

namespace scalai::parallel {
namespace {

constexpr double kGap = 2e-6;       // between kernels of one stream
constexpr double kShortest = 6e-6;  // launched by a framework one at a time

struct Tile {
  double m, n;
  double share;  // of the rate of large tiles: smaller ones load more for each product
};
constexpr std::array<Tile, 4> kTiles = {{{256, 128, 1}, {128, 256, 1}, {128, 128, 0.92}, {128, 64, 0.75}}};
constexpr double kTileOverhead = 64;  // steps of k

// Of the rate of large products: fused attention, forward and backward (docs/parallelizer.md).
constexpr double kFlashForward = 0.72, kFlashBackward = 0.6;

}  // namespace

GpuRates rates_of(const StageGpu& gpu, Math math) {
  const Efficiency efficiency = efficiency_of(gpu.gpu, math);
  GpuRates rates{.product_flops = peak_flops(gpu.gpu, math) * efficiency.matrix * gpu.speed,
                 .bytes_per_s = gpu.gpu.memory_bandwidth_bytes_per_s * efficiency.memory * gpu.speed,
                 .multiprocessors = gpu.gpu.multiprocessors};
  if (gpu.memory_bytes_per_s > 0) rates.bytes_per_s = gpu.memory_bytes_per_s;
  rates.attention_flops = rates.product_flops;
  if (math == Math::kFP8) {
    rates.attention_flops = peak_flops(gpu.gpu, Math::kBF16) * efficiency_of(gpu.gpu, Math::kBF16).matrix * gpu.speed;
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
    const double seconds = computed * tile.m * tile.n * 2 * (p.k + kTileOverhead) / (flops_per_s * tile.share);
    if (compute == 0 || seconds < compute) compute = seconds;
  }
  if (rates.bytes_per_s <= 0) return compute;
  const double bytes = p.count * (p.element_bytes * (p.m * p.k + p.k * p.n) + p.result_bytes * p.m * p.n);
  return std::max(compute, bytes / rates.bytes_per_s);
}

void KernelTime::add(double seconds, double& term) {
  term += seconds;
  launch_s_ += std::max(kGap, kShortest - seconds);
}

void KernelTime::product(const Product& product) {
  add(product_seconds(rates_, rates_.product_flops, product), matrix_s_);
}

void KernelTime::attention_product(const Product& product) {
  add(product_seconds(rates_, rates_.attention_flops, product), matrix_s_);
}

void KernelTime::flash(double flops, double bytes, bool backward) {
  const double rate = rates_.attention_flops * (backward ? kFlashBackward : kFlashForward);
  add(std::max(flops / rate, rates_.bytes_per_s > 0 ? bytes / rates_.bytes_per_s : 0), matrix_s_);
}

void KernelTime::memory(double bytes) {
  if (bytes > 0) add(rates_.bytes_per_s > 0 ? bytes / rates_.bytes_per_s : 0, memory_s_);
}

}  // namespace scalai::parallel
