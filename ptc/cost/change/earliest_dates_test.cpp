#include "ptc/cost/change/earliest_dates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ptc/base/random.h"

namespace scalai::change {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(EarliestDates, TheFirstIsAtHand) {
  EarliestDates dates;
  EXPECT_EQ(dates.first(), kNever);
  for (const double date : {5.0, 3.0, 4.0, 3.0, kNever}) dates.push_back(date);
  EXPECT_EQ(dates.first(), 3);
  EXPECT_THAT(dates.until(2.9), IsEmpty());
  EXPECT_THAT(dates.until(3), ElementsAre(1, 3));
  EXPECT_THAT(dates.until(kNever), ElementsAre(0, 1, 2, 3));  // what has no date is not due
  dates.set(1, 6);
  EXPECT_THAT(dates.until(3), ElementsAre(3));
  dates.pop_back();
  dates.pop_back();
  EXPECT_EQ(dates.size(), 3u);
  EXPECT_EQ(dates.first(), 4);
}

TEST(EarliestDates, AsAListThatIsSearched) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    EarliestDates dates;
    std::vector<double> list;
    for (int turn = 0; turn < 300; ++turn) {
      const auto date = static_cast<double>(random.below(20));
      const auto what = random.below(5);
      if (what < 2 || list.empty()) {
        dates.push_back(date);
        list.push_back(date);
      } else if (what == 2) {
        dates.pop_back();
        list.pop_back();
      } else {
        const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(list.size())));
        dates.set(at, date);
        list[at] = date;
      }
      std::vector<size_t> due;
      for (size_t i = 0; i < list.size(); ++i) {
        if (list[i] <= 5) due.push_back(i);
      }
      ASSERT_EQ(dates.until(5), due) << "seed " << seed << ", turn " << turn;
      ASSERT_EQ(dates.first(), list.empty() ? kNever : *std::min_element(list.begin(), list.end()));
      ASSERT_EQ(dates.size(), list.size());
    }
  }
}

}  // namespace
}  // namespace scalai::change
