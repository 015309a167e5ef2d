#include "ptc/store/naming/internal/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::store::internal {
namespace {

const std::vector<std::string> kNames = {"heads", "kv_heads", "head_dim"};
const std::vector<int64_t> kValues = {32, 8, 128};

std::string value_of(const std::string& text) {
  Expression::Problem problem;
  const auto expression = Expression::parse(text, kNames, problem);
  if (!expression)
    return std::to_string(problem.position) + "+" + std::to_string(problem.length) + ": " + problem.message;
  const auto value = expression->evaluate(kValues);
  return value.ok() ? std::to_string(*value) : message_of(value.status());
}

TEST(Expression, CountsAsOneWrites) {
  EXPECT_EQ(value_of("(heads + 2*kv_heads)*head_dim"), "6144");
  EXPECT_EQ(value_of("7"), "7");
  EXPECT_EQ(value_of(" heads / kv_heads "), "4");
  EXPECT_EQ(value_of("2+3*4"), "14");
  EXPECT_EQ(value_of("100-10-1"), "89");
  EXPECT_EQ(value_of("64/4/2"), "8");
  EXPECT_EQ(value_of("((heads))"), "32");
}

TEST(Expression, RefusesRestsAndOverflow) {
  EXPECT_EQ(value_of("heads / 5"), "\"heads / 5\": 32 is not a multiple of 5");
  EXPECT_EQ(value_of("1/0"), "\"1/0\": 1 is not a multiple of 0");
  EXPECT_EQ(value_of("1/(1-2)"), "\"1/(1-2)\": 1 is not a multiple of -1");
  EXPECT_EQ(value_of("9223372036854775807+1"), "\"9223372036854775807+1\" is beyond 64 bits");
  EXPECT_EQ(value_of("4294967296*4294967296"), "\"4294967296*4294967296\" is beyond 64 bits");
  EXPECT_EQ(value_of("0-9223372036854775807-2"), "\"0-9223372036854775807-2\" is beyond 64 bits");
}

TEST(Expression, PointsAtWhatItDoesNotUnderstand) {
  EXPECT_EQ(value_of("heads + haeds"), "9+5: unknown size \"haeds\"");
  EXPECT_EQ(value_of(""), "1+1: a number, the name of a size or \"(\" is expected here");
  EXPECT_EQ(value_of("heads *"), "8+1: a number, the name of a size or \"(\" is expected here");
  EXPECT_EQ(value_of("(heads"), "7+1: a \")\" is missing");
  EXPECT_EQ(value_of("heads)"), "6+1: \")\" is not expected here");
  EXPECT_EQ(value_of("2 heads"), "3+1: \"h\" is not expected here");
  EXPECT_EQ(value_of("99999999999999999999"), "1+20: the number is too large");
  EXPECT_EQ(value_of(std::string(40, '(')), "33+1: more than 32 brackets inside each other");
  Expression::Problem problem;
  EXPECT_FALSE(Expression::parse("haeds", kNames, problem).has_value());
  EXPECT_EQ(problem.hint, "did you mean \"heads\"?");
}

TEST(Expression, NamesWhatItUses) {
  Expression::Problem problem;
  const auto expression = Expression::parse("head_dim*(heads+head_dim)", kNames, problem);
  ASSERT_TRUE(expression.has_value());
  EXPECT_THAT(expression->names(), testing::ElementsAre(2, 0));
}

}  // namespace
}  // namespace scalai::store::internal
