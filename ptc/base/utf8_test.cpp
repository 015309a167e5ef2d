#include "ptc/base/utf8.h"

#include <gtest/gtest.h>

#include "ptc/base/random.h"

namespace scalai {
namespace {

using Parts = std::vector<std::string_view>;

TEST(Escaped, SteersNoTerminal) {
  EXPECT_EQ(escaped("a\tb\nc \xC3\xBC …"), "a\tb\nc \xC3\xBC …");
  EXPECT_EQ(escaped("\x1b[31mred\x1b]0;title\x07\r\x7f"), "\\x1b[31mred\\x1b]0;title\\x07\\x0d\\x7f");
  EXPECT_EQ(escaped("\xC2\x9B"
                    "1A \xE9\xFF"),
            "\\xc2\\x9b1A \\xe9\\xff");
  EXPECT_EQ(escaped(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(escaped(""), "");
}

TEST(Utf8, SplitsIntoCharacters) {
  EXPECT_EQ(characters(""), Parts{});
  EXPECT_EQ(characters("aé…😀"), (Parts{"a", "é", "…", "😀"}));
}

TEST(Utf8, TakesBrokenBytesOneByOne) {
  EXPECT_EQ(columns_of("\x80"), 1u);              // no lead byte
  EXPECT_EQ(columns_of("\xc3"), 1u);              // cut off
  EXPECT_EQ(columns_of("\xe2\x80"), 2u);          // cut off
  EXPECT_EQ(columns_of("\xc0\xaf"), 2u);          // overlong
  EXPECT_EQ(columns_of("\xe0\x80\xaf"), 3u);      // overlong
  EXPECT_EQ(columns_of("\xed\xa0\x80"), 3u);      // surrogate
  EXPECT_EQ(columns_of("\xf4\x90\x80\x80"), 4u);  // beyond U+10FFFF
  EXPECT_EQ(columns_of("\xf4\x8f\xbf\xbf"), 1u);  // U+10FFFF
}

TEST(Utf8, MakesTextPrintable) { EXPECT_EQ(printable_text("a\tb\x1b[\x7f\xc2\x9b\xff é"), "a b?[??? é"); }

TEST(Utf8, ClipsBetweenCharacters) {
  EXPECT_EQ(clipped("größe", 5), "größe");
  EXPECT_EQ(clipped("größer", 5), "größ…");
  EXPECT_EQ(clipped("größer", 1), "…");
  EXPECT_EQ(clipped("größer", 0), "");
}

TEST(Utf8, CharactersOfRandomBytesAddUpToThem) {
  const uint64_t seed = 5;
  Random random(seed);
  for (int i = 0; i < 2'000; ++i) {
    std::string bytes;
    for (int64_t n = random.below(12); n > 0; --n) bytes += static_cast<char>(random.between(0x70, 0xFF));
    std::string joined;
    for (const std::string_view part : characters(bytes)) joined += part;
    EXPECT_EQ(joined, bytes) << "seed " << seed;
    EXPECT_EQ(columns_of(printable_text(bytes)), columns_of(bytes)) << "seed " << seed;
  }
}

TEST(ClippedMiddle, KeepsBothEnds) {
  EXPECT_EQ(clipped_middle("tp8,pp4,dp2", 11), "tp8,pp4,dp2");
  EXPECT_EQ(clipped_middle("tp8,pp4,dp2", 8), "tp8,…dp2");
  EXPECT_EQ(clipped_middle("größer als", 5), "gr…ls");
  EXPECT_EQ(clipped_middle("abc", 1), "…");
  EXPECT_EQ(clipped_middle("abc", 0), "");
  EXPECT_EQ(clipped_middle("a\x1b"
                           "cdef",
                           5),
            "a?…ef");
}

TEST(Wrapped, BreaksAtBlanksAndInWordsThatAreTooLong) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(wrapped("", 5), Lines{""});
  EXPECT_EQ(wrapped("one two three", 7), (Lines{"one two", "three"}));
  EXPECT_EQ(wrapped("one  two\nthree", 0), Lines{"one two three"});
  EXPECT_EQ(wrapped("abcdefgh ij", 3), (Lines{"abc", "def", "gh", "ij"}));
  EXPECT_EQ(wrapped("größe\x1b", 5), (Lines{"größe", "?"}));
}

}  // namespace
}  // namespace scalai
