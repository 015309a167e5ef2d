#include "ptc/state/collection/id_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ptc/base/random.h"

namespace scalai::collection {
namespace id_list_test {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> ids_of(const std::string& text) {
  std::vector<int> ids;
  const auto problem = parse_id_list(text, ids);
  EXPECT_FALSE(problem.has_value()) << text << ": " << problem->message;
  return ids;
}

// "position+length message"
std::string problem_of(const std::string& text) {
  std::vector<int> ids;
  const auto problem = parse_id_list(text, ids);
  if (!problem) return "";
  return std::to_string(problem->position) + "+" + std::to_string(problem->length) + " " + problem->message;
}

TEST(IdList, NumbersAndRangesInTheirOrder) {
  EXPECT_THAT(ids_of("3"), ElementsAre(3));
  EXPECT_THAT(ids_of("4-6,0,9-9"), ElementsAre(4, 5, 6, 0, 9));
  EXPECT_THAT(ids_of("1, 0"), ElementsAre(1, 0));
}

TEST(IdList, PointsAtWhatIsWrong) {
  EXPECT_EQ(problem_of(""), "1+1 the list is empty");
  EXPECT_EQ(problem_of("0-3,x"), "5+1 expected a number, found \"x\"");
  EXPECT_EQ(problem_of("0,"), "3+1 expected a number, found the end");
  EXPECT_EQ(problem_of("0 1"), "2+1 expected \",\", found \" \"");
  EXPECT_EQ(problem_of("0,7-5"), "3+3 the range falls");
  EXPECT_EQ(problem_of("0-3,2-5"), "5+3 2 is in the list twice");
  EXPECT_EQ(problem_of("é"), "1+1 expected a number, found \"é\"");
  EXPECT_EQ(problem_of("16777216"), "1+8 16777216 is too large");
  EXPECT_THAT(problem_of("99999999999999999999"), HasSubstr("too large"));
  EXPECT_EQ(problem_of("0-262143"), "");
  EXPECT_EQ(problem_of("0-262144"), "1+8 the list has more than 262144 numbers");
}

TEST(IdList, WritesRunsAsRanges) {
  EXPECT_EQ(id_list_of({}), "");
  EXPECT_EQ(id_list_of({7}), "7");
  EXPECT_EQ(id_list_of({0, 1, 2, 5, 4, 3, 8, 9}), "0-2,5,4,3,8-9");
}

TEST(IdList, RandomListsComeBack) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    std::vector<int> ids(static_cast<size_t>(random.between(1, 40)));
    std::iota(ids.begin(), ids.end(), static_cast<int>(random.below(100)));
    for (int64_t swaps = random.below(6); swaps > 0; --swaps) {
      const auto count = static_cast<int64_t>(ids.size());
      std::swap(ids[static_cast<size_t>(random.below(count))], ids[static_cast<size_t>(random.below(count))]);
    }
    EXPECT_EQ(ids_of(id_list_of(ids)), ids) << "seed " << seed;
  }
}

}  // namespace id_list_test
}  // namespace scalai::collection
