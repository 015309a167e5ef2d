#include "ptc/store/safetensors/checksum.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ptc/base/hash.h"
#include "ptc/base/random.h"

namespace scalai::store {
namespace {

std::string crc_of(std::string_view text) { return Checksum(ChecksumKind::kCrc32).add(bytes_of(text)).hex(); }

TEST(ChecksumTest, IsThatOfOthers) {
  EXPECT_EQ(Checksum().hex(), "99aa06d3014798d86001c324468d497f");  // `xxhsum -H2` of nothing
  EXPECT_EQ(crc_of("123456789"), "cbf43926");
  EXPECT_EQ(crc_of(""), "00000000");
}

TEST(ChecksumTest, TheCrcIsThatOfAnotherProgramAtEveryLengthAndInParts) {
  Random random(7);
  std::string text;
  for (int length = 0; length < 70; ++length) {
    EXPECT_EQ(crc_of(text), fmt::format("{:08x}", crc32_of(text))) << length;
    const auto cut = text.size() / 3;
    Checksum parts(ChecksumKind::kCrc32);
    parts.add(bytes_of(std::string_view(text).substr(0, cut))).add(bytes_of(std::string_view(text).substr(cut)));
    EXPECT_EQ(parts.hex(), crc_of(text)) << length;
    text.push_back(static_cast<char>(random.next()));
  }
}

TEST(ChecksumTest, TheTextSaysTheKind) {
  for (const ChecksumKind kind : {ChecksumKind::kXxh3, ChecksumKind::kCrc32})
    EXPECT_EQ(kind_of_checksum(Checksum(kind).hex()), kind);
}

}  // namespace
}  // namespace scalai::store
