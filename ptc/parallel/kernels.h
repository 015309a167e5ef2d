#pragma once
// How long one kernel takes on one GPU: a roofline of compute and memory for each, with what tiles, waves and launches
// cost.
//
//   matrix product    the longer of operands' and result's bytes / bandwidth, and
//     m × n × k       waves · tile_m · tile_n · 2(k + 64) / (peak · efficiency / multiprocessors):
//     output tiles are shared out over the multiprocessors; the last wave may be partly empty, edges are padded, and
//     starting and storing a tile costs as much as 64 steps of k. The best of a few tile shapes is taken, the smaller
//     ones being slower in their inner loop.
//   memory-bound      bytes / (bandwidth · efficiency)
//   flash attention   FLOPs (half of them when causal) over its own share of the peak (README.md, constants)
// Each kernel then leaves a gap before the next, and takes at least the time to launch one.

#include <cstdint>

#include "ptc/parallel/hardware.h"

namespace scalai::parallel {

// What a GPU reaches: peaks times efficiencies times its speed.
struct GpuRates {
  double product_flops = 0;    // large matrix products in the precision's math
  double attention_flops = 0;  // the same in 16 bits (FP8 training keeps attention there), else as products
  double bytes_per_s = 0;
  int multiprocessors = 0;  // 0 = unknown: no loss from a last wave that is not full
};
GpuRates rates_of(const StageGpu& gpu, Math math);

// count products of m × k by k × n, one after the other in one kernel (batched).
struct Product {
  double m = 0, n = 0, k = 0;
  double count = 1;
  double element_bytes = 2;  // of operands
  double result_bytes = 2;   // of an element of the result, read and written: 8 where it is added to fp32 gradients
  double flops() const { return 2 * m * n * k * count; }
};

// Sums up kernels that run one after the other.
class KernelTime {
 public:
  explicit KernelTime(const GpuRates& rates) : rates_(rates) {}

  void product(const Product& product);
  // The products of attention without a fused kernel: 16 bits whatever the math.
  void attention_product(const Product& product);
  // Fused attention: `flops` of its products (those it skips not counted), `bytes` that it reads and writes.
  void flash(double flops, double bytes, bool backward);
  void memory(double bytes);

  double matrix_s() const { return matrix_s_; }
  double memory_s() const { return memory_s_; }
  double launch_s() const { return launch_s_; }
  double seconds() const { return matrix_s_ + memory_s_ + launch_s_; }

 private:
  void add(double seconds, double& term);
  const GpuRates& rates_;
  double matrix_s_ = 0, memory_s_ = 0, launch_s_ = 0;
};

// Seconds of one matrix product alone, without its launch, at `flops_per_s` of large ones.
double product_seconds(const GpuRates& rates, double flops_per_s, const Product& product);

}  // namespace scalai::parallel
