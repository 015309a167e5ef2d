#include "executor/state/directory.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <string>

#include "executor/state/testing/support.h"

namespace scalai::executor::state {
namespace {
constexpr int64_t kCapacity = int64_t{1} << 30;

Piece piece(const Box& part, const Box& box, uint64_t offset) { return {part, box, offset, DType::kBF16}; }

const VersionKey kEpoch5{0, StateVersion::epoch(5)};

Directory example() {
  Directory directory;
  directory.edit(kEpoch5)[TensorId(3)] = {piece(Box({0, 0}, {4, 8}), Box({0, 0}, {4, 8}), 4096),
                                          piece(Box({4, 2}, {6, 8}), Box({4, 0}, {8, 8}), 8192)};
  directory.edit(kEpoch5)[TensorId(9)] = {piece(Box(), Box(), 12288)};
  directory.edit({1, StateVersion::staged()})[TensorId(0)] = {
      piece(Box({0, 0, 0, 0, 0}, {1, 2, 1, 2, 1}), Box({0, 0, 0, 0, 0}, {2, 2, 2, 2, 2}), 0)};
  return directory;
}

// The checksum lies before byte 32 and covers all from there on.
void sign(std::vector<std::byte>& bytes) {
  const uint64_t checksum = XXH3_64bits(bytes.data() + 32, bytes.size() - 32);
  std::memcpy(bytes.data() + 24, &checksum, 8);
}

TEST(Directory, ComesBackFromItsBytes) {
  const Directory directory = example();
  const std::vector<std::byte> bytes = directory.encode();
  const Directory read = value_or_die(Directory::parse(bytes, kCapacity));
  EXPECT_TRUE(read.versions() == directory.versions());
  EXPECT_EQ(value_or_die(Directory::parse({}, kCapacity)).versions().size(), 0u);
  EXPECT_EQ(value_or_die(Directory::parse(Directory().encode(), kCapacity)).versions().size(), 0u);
}

TEST(Directory, FindsWhatOverlaps) {
  const Directory directory = example();
  const std::vector<Piece> found = directory.find(kEpoch5, TensorId(3), Box({2, 0}, {5, 4}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].part, Box({2, 0}, {4, 4}));
  EXPECT_EQ(found[0].box, Box({0, 0}, {4, 8}));
  EXPECT_EQ(found[1].part, Box({4, 2}, {5, 4}));
  EXPECT_FALSE(cover(found, Box({2, 0}, {5, 4})));
  EXPECT_TRUE(cover(directory.find(kEpoch5, TensorId(3), Box({1, 0}, {4, 4})), Box({1, 0}, {4, 4})));
  EXPECT_TRUE(cover(directory.find(kEpoch5, TensorId(9), Box()), Box()));
  EXPECT_EQ(directory.find(kEpoch5, TensorId(3), Box({0, 0}, {0, 0})).size(), 0u);
  EXPECT_EQ(directory.find(kEpoch5, TensorId(3), Box({2}, {5})).size(), 0u) << "another rank";
  EXPECT_EQ(directory.find(kEpoch5, TensorId(4), Box({2, 0}, {5, 4})).size(), 0u);
  EXPECT_EQ(directory.find({0, StateVersion::epoch(6)}, TensorId(3), Box({2, 0}, {5, 4})).size(), 0u);
}

TEST(Directory, EveryCutIsAnError) {
  const std::vector<std::byte> bytes = example().encode();
  for (size_t size = 1; size < bytes.size(); ++size) {
    std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_EQ(Directory::parse(cut, kCapacity).status().code(), absl::StatusCode::kInvalidArgument) << size;
    if (size < 32) continue;
    sign(cut);  // also where the checksum was made for it
    EXPECT_EQ(Directory::parse(cut, kCapacity).status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
  std::vector<std::byte> longer = bytes;
  longer.resize(bytes.size() + 8);
  sign(longer);
  EXPECT_EQ(Directory::parse(longer, kCapacity).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Directory, EveryFlippedBitIsAnError) {
  std::vector<std::byte> bytes = example().encode();
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(Directory::parse(bytes, kCapacity).ok()) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

// Damage that has a right checksum: what is accepted all the same lies within the segment.
TEST(Directory, SignedNonsenseNeverPointsOutside) {
  const uint64_t seed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const std::vector<std::byte> bytes = example().encode();
  int64_t accepted = 0;
  for (int i = 0; i < 200000; ++i) {
    std::vector<std::byte> damaged = bytes;
    for (int64_t n = random.between(1, 3); n > 0; --n) {
      const auto word = static_cast<size_t>(random.below(static_cast<int64_t>(bytes.size() / 4))) * 4;
      const auto value =
          random.below(2) == 0 ? static_cast<uint32_t>(random.next()) : static_cast<uint32_t>(random.below(9));
      std::memcpy(damaged.data() + word, &value, 4);
    }
    sign(damaged);
    const absl::StatusOr<Directory> read = Directory::parse(damaged, 16384);
    if (!read.ok()) continue;
    ++accepted;
    for (const auto& [key, tensors] : read->versions()) {
      for (const auto& [tensor, pieces] : tensors) {
        for (const Piece& p : pieces) {
          ASSERT_TRUE(p.box.contains(p.part) && !p.part.empty()) << p.box.str();
          ASSERT_LE(p.offset + static_cast<uint64_t>(p.box.volume() * tensor::size_of(p.dtype)), 16384u);
        }
      }
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 199000);
}

TEST(Directory, RefusesAVersionThatIsNone) {
  std::vector<std::byte> bytes = example().encode();
  const int64_t none = -1;
  std::memcpy(bytes.data() + 32 + 8, &none, 8);  // in the first entry, behind job and tensor
  sign(bytes);
  const absl::Status status = Directory::parse(bytes, kCapacity).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(message_of(status).find("-1 is no state version"), std::string::npos) << status;
}

TEST(Directory, NamesAnotherVersionOfTheFormat) {
  std::vector<std::byte> bytes = example().encode();
  bytes[8] = std::byte{9};
  const std::string message = message_of(Directory::parse(bytes, kCapacity).status());
  EXPECT_NE(message.find("version 9"), std::string::npos) << message;
  EXPECT_NE(message.find("version 1"), std::string::npos) << message;
}

}  // namespace
}  // namespace scalai::executor::state
