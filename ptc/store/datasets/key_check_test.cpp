#include "ptc/store/datasets/internal/key_check.h"

#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/store/datasets/testing/test_data.h"

namespace scalai::datasets {
namespace {

using Pairs = std::vector<std::pair<int64_t, int64_t>>;
using testing::UnorderedElementsAre;

// Two keys with one hash cannot be had; that pairs are looked at again is up to the caller, who may let them pass.
TEST(KeyCheck, FindsAllPairsAndGoesOnWhenTheyPass) {
  const test::TempFolder folder;
  auto keys = KeyCheck::create(folder.path("out")).value();
  for (int64_t i = 0; i < 200'000; ++i) {
    const int64_t key = i == 70'000 || i == 199'999 ? 5 : i == 150'000 ? 9 : i;
    ASSERT_TRUE(keys.add("key" + std::to_string(key), i).ok());
  }
  Pairs pairs;
  ASSERT_TRUE(keys.for_each_pair([&](int64_t a, int64_t b) {
                    pairs.emplace_back(a, b);
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_THAT(pairs, UnorderedElementsAre(std::pair(5, 70'000), std::pair(5, 199'999), std::pair(70'000, 199'999),
                                          std::pair(9, 150'000)));
}

TEST(KeyCheck, StopsAtTheFirstError) {
  const test::TempFolder folder;
  {
    auto keys = KeyCheck::create(folder.path("out")).value();
    for (int64_t i = 0; i < 6; ++i) ASSERT_TRUE(keys.add("same", i).ok());
    int calls = 0;
    const absl::Status status = keys.for_each_pair([&](int64_t, int64_t) {
      ++calls;
      return invalid("no");
    });
    EXPECT_EQ(message_of(status), "no");
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(folder.names().size(), 1u);
  }
  EXPECT_EQ(folder.names().size(), 0u) << "its file goes with it";
}

TEST(KeyCheck, NothingIsFine) {
  const test::TempFolder folder;
  auto keys = KeyCheck::create(folder.path("out")).value();
  EXPECT_TRUE(keys.for_each_pair([](int64_t, int64_t) { return invalid("no"); }).ok());
}

}  // namespace
}  // namespace scalai::datasets
