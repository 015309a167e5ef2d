#include "executor/cuda/kernels/batch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "executor/cuda/kernels/content_core.h"
#include "executor/cuda/kernels/digest_core.h"
#include "executor/cuda/kernels/tiles.h"
#include "executor/state/runs.h"
#include "ptc/base/random.h"

namespace scalai::executor::cuda::kernels {

using device::BoxCopy;
using tensor::Box;
using tensor::DType;

namespace {

TEST(FastDivision, EverySmallNumber) {
  for (uint32_t divisor = 1; divisor <= 600; ++divisor) {
    const FastDivision by = FastDivision::by(divisor);
    for (uint32_t n = 0; n <= 4000; ++n) ASSERT_EQ(by.quotient(n), n / divisor) << n << " / " << divisor;
    for (uint32_t n = kMaxDividend - 2000; n <= kMaxDividend; ++n) ASSERT_EQ(by.quotient(n), n / divisor);
  }
}

TEST(FastDivision, RandomAndBorderNumbers) {
  const uint64_t seed = 1;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int i = 0; i < 300000; ++i) {
    const uint32_t divisor = 1 + static_cast<uint32_t>(random.below((uint64_t{1} << random.between(1, 31)) - 1));
    const FastDivision by = FastDivision::by(divisor);
    const uint32_t most = kMaxDividend / divisor;
    const auto times = static_cast<uint32_t>(random.below(uint64_t{most} + 1));
    ASSERT_EQ(by.quotient(times * divisor), times) << divisor;
    if (times > 0) {
      ASSERT_EQ(by.quotient(times * divisor - 1), times - 1) << divisor;
    }
    ASSERT_EQ(by.quotient(kMaxDividend), kMaxDividend / divisor) << divisor;
  }
}

// Every unit of every row is in one tile, tiles are bounded, and all but the last are nearly full.
void expect_covered(uint64_t row_units, uint32_t rows, uint32_t unit_bytes, uint32_t tile_bytes = kTileBytes) {
  const Tiling tiling = tiling_of(row_units, rows, unit_bytes, tile_bytes);
  const uint32_t most = std::min(kTileUnits, tile_bytes / unit_bytes);
  uint64_t next = 0;  // counted over all rows
  for (uint32_t tile = 0; tile < tiling.tiles; ++tile) {
    const Span span = span_of(tiling.cut, rows, tile);
    ASSERT_EQ(span.row * row_units + span.first, next) << row_units << " " << rows << " " << tile;
    ASSERT_GT(span.units, 0u);
    ASSERT_LE(span.units, most);
    ASSERT_EQ(span.rows == 1 ? span.first + span.units <= row_units : span.units == span.rows * row_units, true);
    for (const uint32_t unit : {0u, span.units / 2, span.units - 1}) {
      const uint32_t row = tiling.cut.units_per_row.quotient(unit);
      ASSERT_EQ(row, span.rows == 1 ? 0 : unit / row_units);
    }
    if (row_units > most && span.first + span.units < row_units) {
      ASSERT_GE(span.units, most / 4);
    }
    next += span.units;
  }
  ASSERT_EQ(next, row_units * rows);
}

TEST(Tiling, CoversEverySmallShape) {
  for (uint64_t units = 1; units <= 40; ++units) {
    for (uint32_t rows = 1; rows <= 3000; rows += rows < 40 ? 1 : 271) expect_covered(units, rows, 16);
  }
  for (const uint32_t bytes : {kTileBytes, kCopyTileBytes}) {
    for (const uint32_t unit : {1u, 2u, 4u, 8u, 16u, 32u}) {
      const uint64_t most = std::min(kTileUnits, bytes / unit);
      for (uint64_t units = most - 40; units <= most + 40; ++units) expect_covered(units, 5, unit, bytes);
      for (uint64_t units = most; units <= 5 * most; units += 61) expect_covered(units, 3, unit, bytes);
    }
  }
}

TEST(Tiling, PieceOfATileIsFound) {
  const uint64_t seed = 2;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int i = 0; i < 300; ++i) {
    std::vector<uint32_t> first_tile = {0};
    const auto count = static_cast<uint32_t>(random.between(1, i < 200 ? 70 : 40000));
    for (uint32_t piece = 0; piece < count; ++piece) {
      first_tile.push_back(first_tile.back() + static_cast<uint32_t>(random.between(1, 5)));
    }
    for (int probe = 0; probe < 200; ++probe) {
      const auto tile = static_cast<uint32_t>(random.below(first_tile.back()));
      const auto piece =
          static_cast<uint32_t>(std::upper_bound(first_tile.begin(), first_tile.end(), tile) - first_tile.begin() - 1);
      const auto from = static_cast<uint32_t>(random.between(0, piece));
      ASSERT_EQ(piece_of_tile(first_tile.data(), from, count, tile), piece) << count << " " << tile << " " << from;
    }
  }
}

TEST(Tiling, BlocksOfTheGridTakeEachTileOnce) {
  Pieces<CopyPiece> batch;
  for (uint32_t i = 0; i < 50; ++i) {
    batch.pieces.emplace_back().run = i;
    batch.first_tile.push_back(batch.tiles() + 1 + i % 7);
  }
  const Work<CopyPiece> work{batch.pieces.data(), batch.first_tile.data(), 50, batch.tiles()};
  for (const uint32_t blocks : {1u, 3u, 64u, 1000u}) {
    std::vector<int> taken(batch.tiles());
    for (uint32_t block = 0; block < blocks; ++block) {
      for_each_tile(work, block, blocks, [&](const CopyPiece& piece, uint32_t tile) {
        ASSERT_LT(tile, 1 + piece.run % 7);
        ++taken[batch.first_tile[piece.run] + tile];
      });
    }
    EXPECT_TRUE(std::all_of(taken.begin(), taken.end(), [](int times) { return times == 1; })) << blocks;
  }
}

TEST(Tiling, Blocks) {
  EXPECT_EQ(blocks_for(0, 132), 1u);
  EXPECT_EQ(blocks_for(7, 132), 7u);
  EXPECT_EQ(blocks_for(1000000, 132), 132u * kBlocksPerSm);
  EXPECT_EQ(blocks_for(5, 0), 4u);
  // Registers of an SM: as many threads as are resident have at most 64.
  EXPECT_LE(kThreads * kBlocksPerSm * 64, 65536u);
}

TEST(Tiling, RowsInOrder) {
  const Box src({0, 0, 0, 0, 0}, {4, 5, 3, 6, 7});
  const Box part({1, 1, 0, 2, 1}, {4, 4, 2, 5, 4});
  const BoxCopy copy{part,
                     {src, DType::kF32, reinterpret_cast<const std::byte*>(4096)},
                     {Box({0, 0, 0, 1, 0}, {4, 5, 3, 6, 9}), DType::kF32, reinterpret_cast<std::byte*>(8192)}};
  const CopyBatch batch = make_copy_batch({&copy, 1});
  ASSERT_EQ(batch.moves.pieces.size() + batch.shifts.pieces.size(), 1u);
  const CopyPiece& piece = batch.moves.empty() ? batch.shifts.pieces[0] : batch.moves.pieces[0];
  const state::internal::Runs runs = state::internal::runs_of(part, copy.src.box, copy.dst.box);
  uint32_t row = 0;
  state::internal::for_each_run(runs, [&](int64_t a, int64_t b) {
    const Offsets at = offsets_of(piece.nest, row++);
    EXPECT_EQ(address_of(piece.src + at.a), 4096u + static_cast<uint64_t>(a) * 4) << row;
    EXPECT_EQ(address_of(piece.dst + at.b), 8192u + static_cast<uint64_t>(b) * 4) << row;
    return true;
  });
  EXPECT_EQ(row, piece.nest.rows);
}

TEST(CopyBatch, MovesByAlignmentAndLength) {
  EXPECT_EQ(move_of(16, 16), Move::kUnits16);
  EXPECT_EQ(move_of(16, 1 << 20), Move::kUnits16);
  EXPECT_EQ(move_of(8, 127), Move::kUnits8);
  EXPECT_EQ(move_of(8, 128), Move::kShift);
  EXPECT_EQ(move_of(2, 30), Move::kUnits2);
  EXPECT_EQ(move_of(2, 32), Move::kShift);
  EXPECT_EQ(move_of(1, 31), Move::kUnits1);
  EXPECT_EQ(move_of(1, 32), Move::kShift);
}

// 4,098 bytes at an odd address, and as many at a multiple of 16: by shifts, and in units.
TEST(CopyBatch, UnalignedRowsAreAKernelOfTheirOwn) {
  const Box part({0, 0}, {3, 4098});
  const auto at = [](uint64_t address) { return reinterpret_cast<std::byte*>(address); };
  const std::vector<BoxCopy> copies = {
      {part, {Box({0, 0}, {3, 4099}), DType::kU8, at(4097)}, {part, DType::kU8, at(1 << 20)}},
      {Box({0, 0}, {3, 4096}), {Box({0, 0}, {3, 4096}), DType::kU8, at(4096)}, {part, DType::kU8, at(1 << 21)}},
      {Box({0, 0}, {3, 4096}),
       {Box({0, 0}, {3, 4096}), DType::kU8, at(4096)},
       {Box({0, 0}, {3, 4112}), DType::kU8, at(1 << 22)}}};
  const CopyBatch batch = make_copy_batch(copies);
  EXPECT_EQ(batch.shifts.pieces.size(), 2u);
  ASSERT_EQ(batch.moves.pieces.size(), 1u);
  EXPECT_EQ(batch.moves.pieces[0].move, Move::kUnits16);
}

std::vector<CopyPiece> pieces_of(const Box& part, const Box& src, const Box& dst, DType dtype) {
  // Addresses that are never read.
  const BoxCopy copy{part,
                     {src, dtype, reinterpret_cast<const std::byte*>(uint64_t{1} << 50)},
                     {dst, dtype, reinterpret_cast<std::byte*>(uint64_t{1} << 51)}};
  return make_copy_batch({&copy, 1}).moves.pieces;
}

// Parts with more rows than one piece may have: every row is in one piece, in order.
TEST(CopyBatch, HugePartsAreSeveralPieces) {
  constexpr int64_t kRows = (int64_t{1} << 31) + 5;
  const Box part({0, 0}, {kRows, 1});
  int64_t next = 0;
  for (const CopyPiece& piece : pieces_of(part, Box({0, 0}, {kRows, 3}), Box({0, 0}, {kRows, 2}), DType::kU8)) {
    EXPECT_LE(piece.nest.rows, kMaxRows);
    EXPECT_EQ(address_of(piece.src), (uint64_t{1} << 50) + static_cast<uint64_t>(next) * 3);
    EXPECT_EQ(address_of(piece.dst), (uint64_t{1} << 51) + static_cast<uint64_t>(next) * 2);
    next += piece.nest.rows;
  }
  EXPECT_EQ(next, kRows);
  const Box nested({0, 0, 0}, {3, kRows, 1});
  int64_t rows = 0;
  for (const CopyPiece& piece :
       pieces_of(nested, Box({0, 0, 0}, {3, kRows + 1, 3}), Box({0, 0, 0}, {3, kRows, 2}), DType::kU8)) {
    rows += piece.nest.rows;
  }
  EXPECT_EQ(rows, 3 * kRows);
}

// More than 2^32 bytes in one row, and more than 2^32 between rows.
TEST(CopyBatch, LongRowsAre64BitsWide) {
  constexpr int64_t kRun = (int64_t{1} << 36) + 16;
  const Box part({0, 0}, {2, kRun});
  const std::vector<CopyPiece> pieces = pieces_of(part, part, Box({0, 0}, {2, kRun + 16}), DType::kU8);
  ASSERT_EQ(pieces.size(), 1u);
  const CopyPiece& piece = pieces[0];
  const uint32_t tiles = piece.cut.tiles_per_row.divisor * 2;
  const Span last = span_of(piece.cut, piece.nest.rows, tiles - 1);
  EXPECT_EQ(last.row, 1u);
  EXPECT_EQ((last.first + last.units) * 16, static_cast<uint64_t>(kRun));
  EXPECT_EQ(offsets_of(piece.nest, 1).b, kRun + 16);
}

TEST(CopyBatch, EmptyPartsAndBatches) {
  EXPECT_TRUE(make_copy_batch({}).moves.empty());
  EXPECT_EQ(make_copy_batch({}).casts.tiles(), 0u);
  const BoxCopy copy{Box({1}, {1}), {Box({0}, {1}), DType::kU8, nullptr}, {Box({0}, {1}), DType::kU8, nullptr}};
  EXPECT_TRUE(make_copy_batch({&copy, 1}).moves.empty());
  EXPECT_EQ(blocks_for(make_copy_batch({}).moves.tiles(), 132), 1u);
}

TEST(CopyBatchDeathTest, RefusesWhatCopyBoxRefuses) {
  std::byte bytes[64];
  const Box box({0}, {4});
  const BoxCopy types{box, {box, DType::kI32, bytes}, {box, DType::kF32, bytes + 32}};
  EXPECT_EXIT(make_copy_batch({&types, 1}), testing::ExitedWithCode(70), "I32 to F32");
  const BoxCopy outside{Box({2}, {5}), {box, DType::kU8, bytes}, {Box({0}, {9}), DType::kU8, bytes + 32}};
  EXPECT_EXIT(make_copy_batch({&outside, 1}), testing::ExitedWithCode(70), "CHECK failed");
}

TEST(Upload, IsWhatAKernelReads) {
  std::vector<std::byte> memory(1 << 16);
  std::vector<BoxCopy> copies;
  for (int64_t i = 0; i < 5; ++i) {
    const Box box({0}, {20 + i});  // too short for shifts
    copies.push_back({box, {box, DType::kU8, memory.data()}, {box, DType::kU8, memory.data() + 1000 * (i + 1)}});
  }
  const Pieces<CopyPiece> batch = make_copy_batch(copies).moves;
  EXPECT_EQ(upload_bytes(batch) % 16, 0u);
  std::vector<std::byte> upload(upload_bytes(batch) + 16);
  std::byte* at = upload.data() + (16 - address_of(upload.data()) % 16);
  write_upload(batch, at);
  const Work<CopyPiece> work = work_at(batch, at);
  EXPECT_EQ(work.count, 5u);
  EXPECT_EQ(work.tiles, batch.tiles());
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(work.pieces[i].dst, copies[i].dst.data);
    EXPECT_EQ(work.first_tile[i + 1], batch.first_tile[i + 1]);
  }
}

// A digest of more than 2^32 bytes: leaves far behind are those of a part that begins there.
TEST(DigestBatch, PositionsAre64BitsWide) {
  constexpr int64_t kRow = 4096 + 24;
  constexpr int64_t kRows = 1200000;
  void* memory = mmap(nullptr, static_cast<size_t>(kRow * kRows), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* bytes = static_cast<std::byte*>(memory);
  const Box whole({0, 0}, {kRows, kRow});
  const Box part({0, 8}, {kRows, 8 + 4096});
  // The last 64 rows of the part are 2048 leaves.
  for (int64_t i = 0; i < 64 * kRow; ++i) bytes[(kRows - 64) * kRow + i] = static_cast<std::byte>(i * 31 >> 3);
  const device::BoxHash hash{part, {whole, DType::kU8, bytes}};
  const DigestBatch batch = make_hash_batch({&hash, 1});
  const DigestPiece& piece = batch.pieces.pieces[0];
  ASSERT_GT(piece.bytes, uint64_t{1} << 32);
  for (uint64_t leaf = piece.leaves - 2048; leaf < piece.leaves; ++leaf) {
    Reader reader(piece, leaf * 128);
    const uint64_t position = leaf * 128;
    const std::byte* expected = bytes + position / 4096 * kRow + 8 + position % 4096;
    const Quad quad = reader.next();
    ASSERT_EQ(std::memcmp(&quad, expected, 16), 0) << leaf;
  }
  munmap(memory, static_cast<size_t>(kRow * kRows));
}

TEST(Results, ElementOfAnIndex) {
  const tensor::Shape shape{3, 4, 5};
  EXPECT_EQ(element_box(shape, 33), Box({1, 2, 3}, {2, 3, 4}));
  EXPECT_EQ(element_box(tensor::Shape{}, 0), Box({}, {}));
  std::byte bytes[64];
  const state::Source src{Box({1, 2, 0}, {2, 3, 5}), DType::kF32, bytes};
  EXPECT_EQ(element_address(src, element_box(shape, 33)), bytes + 12);
}

}  // namespace
}  // namespace scalai::executor::cuda::kernels
