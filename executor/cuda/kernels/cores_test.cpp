// The kernels' cores, run on the host block by block and thread by thread, against copy_box, fill_box, check_box and
// box_digest.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "executor/cuda/kernels/cast_core.h"
#include "executor/cuda/kernels/content_core.h"
#include "executor/cuda/kernels/copy_core.h"
#include "executor/cuda/kernels/digest_core.h"
#include "executor/cuda/kernels/testing/cases.h"
#include "executor/state/copy.h"
#include "executor/state/digest.h"

namespace scalai::executor::cuda::kernels {
namespace {

constexpr uint64_t kSeed = 11;

// Grids that a launch might have; also threads that do not divide anything.
struct Grid {
  uint32_t blocks;
  uint32_t threads;
};
constexpr Grid kGrids[] = {{1, 32}, {3, 256}, {7, 33}};

template <class Piece>
using Core = std::function<void(const Work<Piece>&, uint32_t, uint32_t, uint32_t, uint32_t)>;

template <class Piece>
void run(const Pieces<Piece>& batch, Grid grid, const Core<Piece>& core) {
  std::vector<std::byte> upload(upload_bytes(batch) + 16);
  std::byte* at = upload.data() + (16 - address_of(upload.data()) % 16);
  write_upload(batch, at);
  const Work<Piece> work = work_at(batch, at);
  for (uint32_t block = 0; block < grid.blocks; ++block) {
    for (uint32_t thread = 0; thread < grid.threads; ++thread) core(work, block, grid.blocks, thread, grid.threads);
  }
}

// Arrays begin at a multiple of 16.
struct Array {
  explicit Array(const std::vector<std::byte>& from) : bytes(from.size() + 16), size(from.size()) {
    data = bytes.data() + (16 - address_of(bytes.data()) % 16);
    std::copy(from.begin(), from.end(), data);
  }
  std::vector<std::byte> bytes;
  size_t size;
  std::byte* data;
};

TEST(Cores, CopyLikeCopyBox) {
  Random random(kSeed);
  for (const CopyCases& cases : copy_cases(kSeed)) {
    const Array src(bytes_for_cases(random, cases.src_bytes));
    const std::vector<std::byte> before = bytes_for_cases(random, cases.dst_bytes);
    Array expected(before);
    for (const CopyCase& one : cases.cases) {
      const state::Target dst{one.dst_box, one.dst_type, expected.data + one.dst_at};
      const std::vector<std::byte> zeros(static_cast<size_t>(state::packed_bytes(one.part, one.dst_type)));
      if (one.zero) {
        state::unpack_box(one.part, one.dst_type, zeros.data(), dst);
      } else {
        state::copy_box(one.part, {one.src_box, one.src_type, src.data + one.src_at}, dst);
      }
    }
    for (const Grid grid : kGrids) {
      const Array seen(before);
      const CopyBatch batch = make_copy_batch(copies_of(cases, src.data, seen.data), zeros_of(cases, seen.data));
      run<CopyPiece>(batch.moves, grid, copy_tiles);
      run<CopyPiece>(batch.shifts, grid, shift_tiles);
      run<CastPiece>(batch.casts, grid, cast_tiles);
      const auto wrong = std::mismatch(seen.data, seen.data + seen.size, expected.data).first - seen.data;
      for (const CopyCase& one : cases.cases) {  // names the case
        if (wrong < one.dst_at - 48 || wrong >= one.dst_at + one.dst_box.volume() * 8 + 48) continue;
        ASSERT_EQ(wrong, static_cast<int64_t>(seen.size)) << cases.name << ": " << one.str();
      }
      ASSERT_EQ(wrong, static_cast<int64_t>(seen.size)) << cases.name;
    }
  }
}

TEST(Cores, FillLikeFillBox) {
  Random random(kSeed);
  for (const ContentCases& cases : content_cases(kSeed)) {
    const std::vector<std::byte> before = bytes_for_cases(random, cases.bytes);
    const Array expected(before);
    for (const ContentCase& one : cases.cases) {
      state::fill_box(one.content, one.part, {one.box, one.dtype, expected.data + one.at});
    }
    for (const Grid grid : kGrids) {
      const Array seen(before);
      std::vector<device::BoxFill> fills;
      for (const ContentCase& one : cases.cases) {
        fills.push_back({one.content, one.part, {one.box, one.dtype, seen.data + one.at}});
      }
      run<ContentPiece>(make_fill_batch(fills), grid, fill_tiles);
      const auto wrong = std::mismatch(seen.data, seen.data + seen.size, expected.data).first - seen.data;
      for (const ContentCase& one : cases.cases) {
        if (wrong < one.at || wrong >= one.at + one.box.volume() * tensor::size_of(one.dtype)) continue;
        ASSERT_EQ(wrong, static_cast<int64_t>(seen.size)) << cases.name << ": " << one.str();
      }
      ASSERT_EQ(wrong, static_cast<int64_t>(seen.size)) << cases.name;
    }
  }
}

int64_t index_of(const tensor::Shape& shape, const state::Mismatch& mismatch) {
  int64_t index = 0;
  for (int d = 0; d < shape.rank(); ++d) index = index * shape[d] + mismatch.index[static_cast<size_t>(d)];
  return index;
}

// Elements of `part` whose bytes differ.
uint64_t count_wrong(const ContentCase& one, const std::byte* right, const std::byte* found) {
  const auto size = static_cast<size_t>(tensor::size_of(one.dtype));
  std::vector<std::byte> a(static_cast<size_t>(state::packed_bytes(one.part, one.dtype)));
  std::vector<std::byte> b(a.size());
  state::pack_box(one.part, {one.box, one.dtype, right + one.at}, one.dtype, a.data());
  state::pack_box(one.part, {one.box, one.dtype, found + one.at}, one.dtype, b.data());
  uint64_t wrong = 0;
  for (size_t i = 0; i < a.size(); i += size) wrong += std::memcmp(a.data() + i, b.data() + i, size) != 0 ? 1 : 0;
  return wrong;
}

TEST(Cores, CheckLikeCheckBox) {
  Random random(kSeed);
  for (const ContentCases& cases : content_cases(kSeed)) {
    Array right(bytes_for_cases(random, cases.bytes));
    for (const ContentCase& one : cases.cases) {
      state::fill_box(one.content, one.part, {one.box, one.dtype, right.data + one.at});
    }
    Array found(std::vector<std::byte>(right.data, right.data + right.size));
    // A few bits here and there, also in bytes that belong to no part.
    for (size_t i = 0; i < right.size / 300; ++i) found.data[random.below(right.size)] ^= std::byte{0x10};
    std::vector<device::BoxCheck> checks;
    for (const ContentCase& one : cases.cases) {
      checks.push_back({one.content, one.part, {one.box, one.dtype, found.data + one.at}});
    }
    const CheckBatch batch = make_check_batch(checks);
    ASSERT_EQ(batch.results, checks.size());
    for (const Grid grid : kGrids) {
      std::vector<CheckResult> results(batch.results);
      run<ContentPiece>(batch.pieces, grid, [&](const auto& work, auto block, auto blocks, auto thread, auto threads) {
        check_tiles(work, results.data(), block, blocks, thread, threads);
      });
      for (size_t i = 0; i < checks.size(); ++i) {
        const device::BoxCheck& check = checks[i];
        const std::optional<state::Mismatch> mismatch = state::check_box(check.content, check.part, check.src);
        ASSERT_EQ(results[i].wrong, count_wrong(cases.cases[i], right.data, found.data)) << cases.cases[i].str();
        ASSERT_EQ(results[i].wrong > 0, mismatch.has_value());
        if (!mismatch) continue;
        const auto first = static_cast<int64_t>(results[i].first);
        ASSERT_EQ(first, index_of(check.content.shape, *mismatch)) << cases.cases[i].str();
        // What a back end does with it.
        const tensor::Box element = element_box(check.content.shape, first);
        const state::Source there{element, check.src.dtype, element_address(check.src, element)};
        ASSERT_EQ(state::check_box(check.content, element, there)->str(), mismatch->str());
      }
    }
  }
}

TEST(Cores, DigestLikeBoxDigest) {
  Random random(kSeed);
  for (const CopyCases& cases : copy_cases(kSeed)) {
    const Array src(bytes_for_cases(random, cases.src_bytes));
    std::vector<device::BoxHash> boxes;
    std::vector<uint64_t> expected;
    for (const CopyCase& one : cases.cases) {
      const state::Source source{one.src_box, one.src_type, src.data + one.src_at};
      if (one.zero) continue;
      boxes.push_back({one.part, source});
      expected.push_back(state::box_digest(source, one.part));
    }
    boxes.push_back({tensor::Box({0}, {0}), {tensor::Box({0}, {4}), tensor::DType::kF32, src.data}});
    expected.push_back(state::box_digest(boxes.back().src, boxes.back().part));
    const DigestBatch batch = make_hash_batch(boxes);
    for (const Grid grid : kGrids) {
      std::vector<uint64_t> sums(batch.bytes.size());
      run<DigestPiece>(batch.pieces, grid, [&](const auto& work, auto block, auto blocks, auto thread, auto threads) {
        digest_tiles(work, sums.data(), block, blocks, thread, threads);
      });
      for (size_t i = 0; i < boxes.size(); ++i) {
        ASSERT_EQ(digest_of_sum(sums[i], batch.bytes[i]), expected[i])
            << cases.name << ": " << boxes[i].part.str() << " of " << boxes[i].src.box.str();
      }
    }
  }
}

}  // namespace
}  // namespace scalai::executor::cuda::kernels
