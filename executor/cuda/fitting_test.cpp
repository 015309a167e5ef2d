#include "executor/cuda/fitting.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace scalai::executor::cuda {
namespace {

// Items are their sizes.
struct Seen {
  std::vector<size_t> items;
  std::vector<size_t> sizes;
};
Seen run(const std::vector<size_t>& items, size_t room, size_t item_bytes) {
  Seen seen;
  const auto make = [](std::span<const size_t> some) { return std::accumulate(some.begin(), some.end(), size_t{0}); };
  const auto size = [](size_t batch) { return batch; };
  const auto put = [&](std::span<const size_t> some, size_t batch) {
    seen.items.insert(seen.items.end(), some.begin(), some.end());
    seen.sizes.push_back(batch);
    return absl::OkStatus();
  };
  EXPECT_TRUE(for_each_fitting(std::span(items), room, item_bytes, make, size, put).ok());
  return seen;
}

TEST(Fitting, EachBatchFitsAndNothingIsLost) {
  const std::vector<size_t> items = {1, 1, 1, 9, 1, 1, 10, 1, 1, 1, 1};
  const Seen seen = run(items, 10, 1);
  EXPECT_EQ(seen.items, items);
  for (const size_t size : seen.sizes) EXPECT_LE(size, 10u);
  EXPECT_LE(seen.sizes.size(), 7u);
}

TEST(Fitting, AsManyAsUsuallyFit) {
  EXPECT_EQ(run(std::vector<size_t>(10, 2), 8, 2).sizes, (std::vector<size_t>{8, 8, 4}));
  EXPECT_TRUE(run({}, 8, 2).sizes.empty());
  EXPECT_EQ(run({3, 3}, 4, 100).sizes, (std::vector<size_t>{3, 3}));
}

TEST(Fitting, StopsAtAnError) {
  const std::vector<size_t> items = {1, 1, 1};
  int calls = 0;
  const absl::Status status = for_each_fitting(
      std::span(items), 1, 1, [](std::span<const size_t> some) { return some.size(); }, [](size_t n) { return n; },
      [&](std::span<const size_t>, size_t) { return ++calls == 2 ? failed("enough") : absl::OkStatus(); });
  EXPECT_EQ(message_of(status), "enough");
  EXPECT_EQ(calls, 2);
}

TEST(FittingDeathTest, OneItemHasToFit) { EXPECT_EXIT(run({11}, 10, 1), testing::ExitedWithCode(70), "does not fit"); }

}  // namespace
}  // namespace scalai::executor::cuda
