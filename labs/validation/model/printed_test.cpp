#include "labs/validation/model/internal/printed.h"

#include <gtest/gtest.h>

namespace scalai::step::validation {
namespace {

TEST(Printed, HalfOfTheLastDigit) {
  EXPECT_DOUBLE_EQ(half_digit("137"), 0.5);
  EXPECT_DOUBLE_EQ(half_digit("41.5"), 0.05);
  EXPECT_DOUBLE_EQ(half_digit("1.10"), 0.005);
}

TEST(Printed, RoundsTo) {
  EXPECT_TRUE(rounds_to(1.651, "1.7"));
  EXPECT_FALSE(rounds_to(1.649, "1.7"));
  EXPECT_FALSE(rounds_to(1.7501, "1.7"));
  EXPECT_TRUE(rounds_to(1.65, "1.7"));  // either way from the middle
  EXPECT_TRUE(rounds_to(1.65, "1.6"));
  EXPECT_TRUE(rounds_to(1007.96, "1008.0"));
  EXPECT_FALSE(rounds_to(1007.94, "1008.0"));
  EXPECT_TRUE(rounds_to(174.6, "175"));
}

TEST(Printed, CutsTo) {
  EXPECT_TRUE(cuts_to(65.2857, "65.2"));
  EXPECT_TRUE(cuts_to(65.2, "65.2"));
  EXPECT_FALSE(cuts_to(65.3, "65.2"));
  EXPECT_FALSE(cuts_to(65.199, "65.2"));
  EXPECT_TRUE(cuts_to(405.85, "405"));
}

}  // namespace
}  // namespace scalai::step::validation
