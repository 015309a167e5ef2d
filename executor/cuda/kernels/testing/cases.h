#pragma once
// Test support: cases shared by the kernels' tests on the host and on a GPU. Each case has its own place in an array of
// bytes, between bytes that nobody may write.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "executor/cuda/kernels/batch.h"
#include "ptc/base/random.h"

namespace scalai::executor::cuda::kernels {

// Places are offsets in an array that begins at a multiple of 16. copies_of() and zeros_of() refer to the arrays.
struct CopyCase {
  tensor::Box part;
  tensor::Box src_box;
  tensor::Box dst_box;
  tensor::DType src_type = tensor::DType::kU8;
  tensor::DType dst_type = tensor::DType::kU8;
  bool zero = false;
  int64_t src_at = 0;
  int64_t dst_at = 0;
  std::string str() const;
};
struct CopyCases {
  std::string name;
  std::vector<CopyCase> cases;
  int64_t src_bytes = 0;
  int64_t dst_bytes = 0;
};
std::vector<device::BoxCopy> copies_of(const CopyCases& cases, const std::byte* src, std::byte* dst);
std::vector<BoxZero> zeros_of(const CopyCases& cases, std::byte* dst);

// Every conversion at aligned and unaligned places, every run length up to 300 bytes at every alignment, random parts
// of every rank and type, and small layouts of real jobs. Names of seeded cases contain the seed.
std::vector<CopyCases> copy_cases(uint64_t seed);

struct ContentCase {
  state::Content content;
  tensor::Box part;
  tensor::Box box;
  tensor::DType dtype = tensor::DType::kF32;
  int64_t at = 0;
  std::string str() const;
};
struct ContentCases {
  std::string name;
  std::vector<ContentCase> cases;
  int64_t bytes = 0;
};
// Every type, with and without each `via`, at every alignment; boxes of every rank; indices around and above 2^16·k.
std::vector<ContentCases> content_cases(uint64_t seed);

// Random bytes: all kinds of numbers, infinities and NaN, for every type.
std::vector<std::byte> bytes_for_cases(Random& random, int64_t count);

}  // namespace scalai::executor::cuda::kernels
