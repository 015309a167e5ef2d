#include "ptc/store/datasets/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/store/datasets/testing/test_data.h"

namespace scalai::datasets {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// The check value of the catalogue of parametrised CRC algorithms, and RFC 3720 B.4.
TEST(Crc32c, KnownVectors) {
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) {
    rising += static_cast<char>(i);
    falling += static_cast<char>(31 - i);
  }
  const std::vector<std::pair<std::string, uint32_t>> vectors = {{"", 0},
                                                                 {"123456789", 0xE3069283u},
                                                                 {std::string(32, '\0'), 0x8A9136AAu},
                                                                 {std::string(32, '\xff'), 0x62A8AB43u},
                                                                 {rising, 0x46DD794Eu},
                                                                 {falling, 0x113FDB5Cu}};
  for (const auto& [text, crc] : vectors) {
    EXPECT_EQ(crc32c(bytes_of(text)), crc);
    EXPECT_EQ(crc32c_portable(bytes_of(text)), crc);
  }
}

TEST(Crc32c, BothWaysAgreeWithTheSlowOneOnAnythingInAnyParts) {
  Random random(1);
  for (int size = 0; size < 100; ++size) {
    std::string text;
    for (int i = 0; i < size; ++i) text += static_cast<char>(random.next());
    const auto bytes = bytes_of(text);
    const auto cut = static_cast<size_t>(random.below(size + 1));
    EXPECT_EQ(masked(crc32c(bytes)), test::slow_masked_crc(text));
    EXPECT_EQ(crc32c_portable(bytes), crc32c(bytes));
    EXPECT_EQ(crc32c(bytes.subspan(cut), crc32c(bytes.first(cut))), crc32c(bytes));
    EXPECT_EQ(crc32c_portable(bytes.subspan(cut), crc32c_portable(bytes.first(cut))), crc32c(bytes));
  }
}

}  // namespace
}  // namespace scalai::datasets
