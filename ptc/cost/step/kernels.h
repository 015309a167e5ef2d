#pragma once
// Time of one kernel on one GPU: a roofline of compute and memory, with the costs of tiles, waves and launches. Pure
// functions and one accumulator; any thread may call them, a KernelTime is used by one thread at a time.
//
//   matrix product    the longer of (bytes of operands and result) / bandwidth, and
//     m × n × k       waves · tile_m · tile_n · 2(k + o) / (peak · efficiency / multiprocessors):
//     The multiprocessors share the output tiles. The last wave may be partly empty, edges are padded, and the start
//     and the store of a tile cost as much as o steps of k. The best of a few tile shapes counts; small tiles have a
//     slower inner loop.
//   memory-bound      bytes / (bandwidth · efficiency)
//   fused attention   tiles of 128 queries of a head (backward of 128 keys), each with the blocks of 128 × 128 scores
//                     that the mask leaves it, and 2 (backward 3) more for its start and end. Multiprocessors take them
//                     in order, whoever is free first, so that few or short heads leave some idle. cuDNN's kernels on
//                     an H200 follow within 2 % (results/gpu)
// Each kernel adds a gap before the next one and takes at least the time of a launch.

#include "ptc/cost/step/hardware.h"

namespace scalai::step {

// Reached rates of a GPU: peaks × efficiencies × its speed.
struct GpuRates {
  double product_flops = 0;    // large matrix products in the precision's math
  double vector_flops = 0;     // products that cannot use the tensor cores
  double attention_flops = 0;  // in FP8 training the 16-bit rate (attention stays in 16 bits), else product_flops
  double bytes_per_s = 0;
  double flash_forward = 0.826, flash_backward = 0.706;  // shares of attention_flops in the blocks of fused attention
  bool flash_tiles = true;         // false: these shares are averages, over lengths and numbers of heads
  double softmax_elements = 22;    // what an exponential of fused attention costs beside its products
  bool graphs = false;             // nothing waits for the host
  double tile_overhead = 64;       // of matrix products, in steps of k
  int multiprocessors = 0;         // 0 = unknown: a partly empty last wave then costs nothing
  double host_launch_s = 11.3e-6;  // of each kernel that is shorter
};
// CHECK: the rate of matrix products is above 0.
GpuRates rates_of(const StageGpu& gpu, Math math, Kernels kernels = Kernels::kFused);

// `count` products of m × k by k × n, one after the other in one (batched) kernel.
struct Product {
  double m = 0, n = 0, k = 0;
  double count = 1;
  double element_bytes = 2;  // of an element of the operands
  // Of an element of the result, read and written: 8 if the product adds to fp32 gradients.
  double result_bytes = 2;
  double flops() const { return 2 * m * n * k * count; }
};

// Fused attention of one kernel.
struct FusedAttention {
  double heads = 0;  // of all samples
  double queries = 0, keys = 0;
  int64_t head_size = 0;
  bool causal = true;  // then queries and keys are the same tokens
  double bytes = 0;    // read and written
  double share = 1;    // of the blocks, that windows leave
  // Of the products, without those that the mask skips.
  double flops(bool backward) const;
};

// Sum over kernels that run one after the other. Keeps a reference to `rates`, which must outlive it.
class KernelTime {
 public:
  explicit KernelTime(const GpuRates& rates) : rates_(rates) {}

  void product(const Product& product);
  // A product of unfused attention, at the rate of attention_flops. `head_size`: elements of a head, side by side in
  // memory. Tensor cores load 16 bytes at once, so that heads of other sizes are multiplied at vector_flops (cuBLAS
  // documentation, "Tensor Core Usage").
  void attention_product(const Product& product, int64_t head_size);
  // A product at the rate of attention_flops outside attention.
  void product_in_16_bits(const Product& product);
  // Many small products in one kernel, so many operations together, at a share of the rate of attention_flops.
  void small_products(double flops, double share);
  // flash_forward and flash_backward are of heads with 128 elements. A score has one exponential for two products of
  // head_size elements, five backward, so that smaller heads are slower: by (1 + s/head_size) / (1 + s/128), s =
  // softmax_elements, 2/5 of it backward.
  void flash(const FusedAttention& attention, bool backward);
  // A memory-bound kernel that reads and writes `bytes`. Nothing for 0 bytes.
  void memory(double bytes);
  // So many kernels that are shorter than what the host needs to launch each of them (11.3 µs), because it has
  // waited for the GPU before.
  void launched(double kernels);
  // Products of the same size in a kernel each, that run beside each other: as one, or as long as their launches.
  void grouped(const Product& product);
  // Memory-bound kernels that read and write so many bytes together: as long as that, or as their launches.
  void memory_of_each(double bytes, double kernels);

  double matrix_s() const { return matrix_s_; }
  double memory_s() const { return memory_s_; }
  double launch_s() const { return launch_s_; }
  double seconds() const { return matrix_s_ + memory_s_ + launch_s_; }

 private:
  void add(double seconds, double& term);
  const GpuRates& rates_;
  double matrix_s_ = 0, memory_s_ = 0, launch_s_ = 0;
};

// Seconds of one matrix product without its launch. `flops_per_s`: the rate of large products.
double product_seconds(const GpuRates& rates, double flops_per_s, const Product& product);

}  // namespace scalai::step
