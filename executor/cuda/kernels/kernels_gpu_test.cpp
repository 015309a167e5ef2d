// The kernels on a GPU, with the cases that cores_test.cpp runs on the host; skipped, with the reason, where no GPU is.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "executor/cuda/kernels/kernels.h"
#include "executor/cuda/kernels/testing/cases.h"
#include "executor/cuda/kernels/testing/kernels_on_gpu.h"
#include "executor/state/copy.h"
#include "executor/state/digest.h"

namespace scalai::executor::cuda::kernels {
namespace kernels_gpu_test {

constexpr uint64_t kSeed = 11;

TEST_F(KernelsOnGpu, CopyLikeCopyBox) {
  Random random(kSeed);
  for (const CopyCases& cases : copy_cases(kSeed)) {
    const std::vector<std::byte> src = bytes_for_cases(random, cases.src_bytes);
    std::vector<std::byte> expected = bytes_for_cases(random, cases.dst_bytes);
    const DeviceArray src_there(src);
    const DeviceArray dst_there(expected);
    for (const CopyCase& one : cases.cases) {
      const state::Target dst{one.dst_box, one.dst_type, expected.data() + one.dst_at};
      const std::vector<std::byte> zeros(static_cast<size_t>(state::packed_bytes(one.part, one.dst_type)));
      if (one.zero) {
        state::unpack_box(one.part, one.dst_type, zeros.data(), dst);
      } else {
        state::copy_box(one.part, {one.src_box, one.src_type, src.data() + one.src_at}, dst);
      }
    }
    const CopyBatch batch =
        make_copy_batch(copies_of(cases, src_there.data(), dst_there.data()), zeros_of(cases, dst_there.data()));
    run(batch.moves, [](const auto& work, uint32_t) { return launch_copy(work, work.tiles, nullptr); });
    run(batch.shifts, [](const auto& work, uint32_t) { return launch_shift(work, work.tiles, nullptr); });
    run(batch.casts, [](const auto& work, uint32_t blocks) { return launch_cast(work, blocks, nullptr); });
    const std::vector<std::byte> seen = downloaded(dst_there, expected.size());
    const auto wrong = std::mismatch(seen.begin(), seen.end(), expected.begin()).first - seen.begin();
    for (const CopyCase& one : cases.cases) {  // names the case
      if (wrong < one.dst_at - 48 || wrong >= one.dst_at + one.dst_box.volume() * 8 + 48) continue;
      ASSERT_EQ(wrong, static_cast<int64_t>(seen.size())) << cases.name << ": " << one.str();
    }
    ASSERT_EQ(wrong, static_cast<int64_t>(seen.size())) << cases.name;
  }
}

TEST_F(KernelsOnGpu, FillAndCheckLikeTheHost) {
  Random random(kSeed);
  for (const ContentCases& cases : content_cases(kSeed)) {
    std::vector<std::byte> expected = bytes_for_cases(random, cases.bytes);
    const DeviceArray there(expected);
    std::vector<device::BoxFill> fills;
    for (const ContentCase& one : cases.cases) {
      state::fill_box(one.content, one.part, {one.box, one.dtype, expected.data() + one.at});
      fills.push_back({one.content, one.part, {one.box, one.dtype, there.data() + one.at}});
    }
    run(make_fill_batch(fills), [](const auto& work, uint32_t blocks) { return launch_fill(work, blocks, nullptr); });
    ASSERT_TRUE(downloaded(there, expected.size()) == expected) << cases.name;

    for (size_t i = 0; i < expected.size() / 300; ++i) expected[random.below(expected.size())] ^= std::byte{0x10};
    ASSERT_CUDA(cudaMemcpy(there.data(), expected.data(), expected.size(), cudaMemcpyDefault));
    std::vector<device::BoxCheck> checks;
    for (const device::BoxFill& fill : fills) checks.push_back({fill.content, fill.part, fill.dst.source()});
    const CheckBatch batch = make_check_batch(checks);
    std::vector<CheckResult> results(batch.results);
    const DeviceArray results_there(results.size() * sizeof(CheckResult));
    ASSERT_CUDA(
        cudaMemcpy(results_there.data(), results.data(), results.size() * sizeof(CheckResult), cudaMemcpyDefault));
    run(batch.pieces, [&](const auto& work, uint32_t blocks) {
      return launch_check(work, reinterpret_cast<CheckResult*>(results_there.data()), blocks, nullptr);
    });
    ASSERT_CUDA(
        cudaMemcpy(results.data(), results_there.data(), results.size() * sizeof(CheckResult), cudaMemcpyDefault));
    for (size_t i = 0; i < checks.size(); ++i) {
      const ContentCase& one = cases.cases[i];
      const state::Source here{one.box, one.dtype, expected.data() + one.at};
      const std::optional<state::Mismatch> mismatch = state::check_box(one.content, one.part, here);
      ASSERT_EQ(results[i].wrong > 0, mismatch.has_value()) << one.str();
      if (!mismatch) continue;
      const tensor::Box element = element_box(one.content.shape, static_cast<int64_t>(results[i].first));
      ASSERT_EQ(state::check_box(one.content, element, {element, one.dtype, element_address(here, element)})->str(),
                mismatch->str());
    }
  }
}

TEST_F(KernelsOnGpu, DigestLikeBoxDigest) {
  Random random(kSeed);
  for (const CopyCases& cases : copy_cases(kSeed)) {
    const std::vector<std::byte> src = bytes_for_cases(random, cases.src_bytes);
    const DeviceArray there(src);
    std::vector<device::BoxHash> boxes;
    std::vector<uint64_t> expected;
    for (const CopyCase& one : cases.cases) {
      if (one.zero) continue;
      boxes.push_back({one.part, {one.src_box, one.src_type, there.data() + one.src_at}});
      expected.push_back(state::box_digest({one.src_box, one.src_type, src.data() + one.src_at}, one.part));
    }
    const DigestBatch batch = make_hash_batch(boxes);
    std::vector<uint64_t> sums(batch.bytes.size());
    const DeviceArray sums_there(sums.size() * 8);
    ASSERT_CUDA(cudaMemset(sums_there.data(), 0, sums.size() * 8));
    run(batch.pieces, [&](const auto& work, uint32_t blocks) {
      return launch_digest(work, reinterpret_cast<uint64_t*>(sums_there.data()), blocks, nullptr);
    });
    ASSERT_CUDA(cudaMemcpy(sums.data(), sums_there.data(), sums.size() * 8, cudaMemcpyDefault));
    for (size_t i = 0; i < boxes.size(); ++i) {
      ASSERT_EQ(digest_of_sum(sums[i], batch.bytes[i]), expected[i]) << cases.name << ": " << boxes[i].part.str();
    }
  }
}

}  // namespace kernels_gpu_test
}  // namespace scalai::executor::cuda::kernels
