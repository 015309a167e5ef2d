// The kernels of steps on a GPU, against their cores on the host; skipped, with the reason, where no GPU is.

#include "executor/cuda/kernels/steps.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "executor/cuda/kernels/testing/kernels_on_gpu.h"
#include "ptc/state/transform/testing/device_cases.h"

namespace scalai::executor::cuda::kernels {

using tensor::DType;

namespace steps_gpu_test {

using transform::kFloats;
using transform::random_elements;
using transform::step_core::Elements;
using transform::step_core::LowRank;
using transform::step_core::RowCodes;
using transform::step_core::RowPeaks;

constexpr uint64_t kSeed = 12;

class StepsOnGpu : public KernelsOnGpu {
 protected:
  // What is left in `out`, which begins with these bytes, by the core and by kernels in grids of one block and of the
  // usual number. The works differ in their addresses only.
  template <class Step>
  void compare(Step on_host, Step on_gpu, std::byte* Step::*out, const std::vector<std::byte>& begin,
               const std::string& what) const {
    std::vector<std::byte> expected = begin;
    on_host.*out = expected.data();
    transform::step_core::run(on_host, 0, 1);
    for (const uint32_t blocks : {1U, step_blocks(transform::step_core::size_of(on_host), multiprocessors_)}) {
      const DeviceArray there(begin);
      on_gpu.*out = there.data();
      ASSERT_CUDA(launch_step(on_gpu, blocks, nullptr));
      ASSERT_CUDA(cudaDeviceSynchronize());
      ASSERT_TRUE(downloaded(there, expected.size()) == expected)
          << "seed " << kSeed << ": " << what << ", " << blocks << " blocks";
    }
  }
};

TEST_F(StepsOnGpu, ElementsLikeTheHost) {
  constexpr int64_t kCount = 100'003;
  Random random(kSeed);
  const std::vector<std::byte> sums = random_elements(random, DType::kF64, kCount, false);
  for (const DType from : kFloats) {
    const std::vector<std::byte> in = random_elements(random, from, kCount, false);
    const DeviceArray in_there(in);
    for (const DType to : kFloats) {
      const std::vector<std::byte> zeros(static_cast<size_t>(kCount * tensor::size_of(to)));
      for (const auto what : {Elements::What::kCast, Elements::What::kScale, Elements::What::kDivide}) {
        if (what == Elements::What::kCast && from == to) continue;
        Elements work{.what = what, .from = from, .to = to, .count = kCount, .number = 0.3, .in = in.data()};
        Elements there = work;
        there.in = in_there.data();
        compare(work, there, &Elements::out, zeros,
                fmt::format("{} of {} to {}", static_cast<int>(what), name_of(from), name_of(to)));
      }
    }
    Elements work{.what = Elements::What::kAdd, .from = from, .to = DType::kF64, .count = kCount, .in = in.data()};
    Elements there = work;
    there.in = in_there.data();
    compare(work, there, &Elements::out, sums, fmt::format("sums of {}", name_of(from)));
  }
}

// Part of a tensor, which is a part of a matrix, transposed.
TEST_F(StepsOnGpu, LowRankLikeTheHost) {
  constexpr int64_t kRows = 70, kColumns = 90, kRank = 9;
  Random random(kSeed);
  for (const bool finite : {true, false}) {
    const std::vector<std::byte> values = random_elements(random, DType::kF64, 60 * 50, finite);
    const std::vector<std::byte> a = random_elements(random, DType::kF32, kRank * kColumns, finite);
    const std::vector<std::byte> b = random_elements(random, DType::kBF16, kRows * kRank, finite);
    const DeviceArray a_there(a), b_there(b);
    LowRank work{.count = 40 * 30,
                 .dims = 2,
                 .extent = {40, 30},
                 .at_step = {50, 1},
                 .place_step = {1, kColumns},
                 .at = 5 * 50 + 7,
                 .place = 3 * kColumns + 11,
                 .columns = kColumns,
                 .first_row = 2,
                 .rank = kRank,
                 .factor = 1.7,
                 .a_type = DType::kF32,
                 .b_type = DType::kBF16,
                 .a = a.data(),
                 .b = b.data()};
    LowRank there = work;
    there.a = a_there.data();
    there.b = b_there.data();
    compare(work, there, &LowRank::values, values, finite ? "finite" : "of any bits");
  }
}

TEST_F(StepsOnGpu, RowsLikeTheHost) {
  Random random(kSeed);
  for (const int64_t columns : {1, 7, 1000, 40'000}) {
    for (const DType dtype : kFloats) {
      const int64_t rows = 1 + 100'000 / columns;
      const std::vector<std::byte> in = random_elements(random, dtype, rows * columns, columns == 7);
      const DeviceArray in_there(in);
      const std::string what = fmt::format("rows of {} {}", columns, name_of(dtype));
      std::vector<std::byte> peaks(static_cast<size_t>(rows * 8));
      compare(RowPeaks{dtype, rows, columns, in.data()}, RowPeaks{dtype, rows, columns, in_there.data()},
              &RowPeaks::peaks, peaks, what);
      transform::step_core::run(RowPeaks{dtype, rows, columns, in.data(), peaks.data()}, 0, 1);
      const DeviceArray peaks_there(peaks);
      for (const bool factors : {false, true}) {
        const int64_t first = columns / 3, last = columns - columns / 4;
        RowCodes work{dtype, factors, rows, columns, first, last, in.data(), peaks.data()};
        RowCodes there = work;
        there.in = in_there.data();
        there.peaks = peaks_there.data();
        const int64_t bytes = transform::step_core::size_of(work) * (factors ? 4 : 1);
        compare(work, there, &RowCodes::out, std::vector<std::byte>(static_cast<size_t>(bytes)), what);
      }
    }
  }
}

}  // namespace steps_gpu_test
}  // namespace scalai::executor::cuda::kernels
