#include "ptc/run/policy/slices.h"

#include <gtest/gtest.h>

#include <set>

namespace scalai::policy {
namespace {

TEST(Slices, ProfilesByNameAndSize) {
  for (const SliceProfile& one : slice_profiles()) {
    EXPECT_EQ(slice_profile(std::string(one.name)), &one);
    EXPECT_EQ(slice_profile(one.compute), &one);
    for (const int start : one.starts) EXPECT_LE(start + one.memory, 8) << one.name;
  }
  EXPECT_EQ(slice_profile(std::string("5g")), nullptr);
  EXPECT_EQ(slice_profile(5), nullptr);
  EXPECT_EQ(slice_bits(*slice_profile(std::string("3g")), 4), 0xF0);
  EXPECT_EQ(slice_bits(*slice_profile(std::string("7g")), 0), 0xFF);
}

TEST(Slices, SharesOfTwoDigits) {
  const auto name = [](double share) { return std::string(slice_profile_of_share(share).name); };
  EXPECT_EQ(name(0.01), "1g");
  EXPECT_EQ(name(0.14), "1g");
  EXPECT_EQ(name(0.15), "1g");
  EXPECT_EQ(name(0.25), "2g");
  EXPECT_EQ(name(0.29), "2g");
  EXPECT_EQ(name(0.43), "3g");
  EXPECT_EQ(name(0.5), "4g");
  EXPECT_EQ(name(0.57), "4g");
  EXPECT_EQ(name(0.6), "7g");
  EXPECT_EQ(name(1), "7g");
}

// All sets of profiles that fill a GPU as far as they can, by their compute slices. NVIDIA's guide lists the
// combinations of an A100: seven 1g; 4g with 2g and 1g or with 3g; two 3g; ...
TEST(Slices, WholeGpusByEnumeration) {
  std::set<std::multiset<int>> full;
  const auto fill = [&](const auto& self, uint8_t used, const std::multiset<int>& has) -> void {
    bool more = false;
    for (const SliceProfile& one : slice_profiles()) {
      for (const int start : one.starts) {
        if ((used & slice_bits(one, start)) != 0) continue;
        more = true;
        std::multiset<int> with = has;
        with.insert(one.compute);
        self(self, used | slice_bits(one, start), std::move(with));
      }
    }
    if (!more) full.insert(has);
  };
  fill(fill, 0, {});
  using Set = std::multiset<int>;
  for (const Set& known : {Set{7}, Set{4, 3}, Set{4, 2, 1}, Set{4, 1, 1, 1}, Set{3, 3}, Set{3, 2, 1}, Set{3, 1, 1, 1},
                           Set{2, 2, 2, 1}, Set{2, 2, 1, 1, 1}, Set{2, 1, 1, 1, 1, 1}, Set{1, 1, 1, 1, 1, 1, 1}}) {
    EXPECT_EQ(full.count(known), 1u) << known.size();
  }
  for (const Set& impossible : {Set{4, 4}, Set{3, 3, 1}, Set{7, 1}}) EXPECT_EQ(full.count(impossible), 0u);
  for (const Set& set : full) {
    int sum = 0;
    for (const int compute : set) sum += compute;
    EXPECT_LE(sum, 7);
  }
}

TEST(Slices, KindsByTheirChip) {
  EXPECT_TRUE(has_slices("h100-80g"));
  EXPECT_TRUE(has_slices("a100-40g"));
  EXPECT_TRUE(has_slices("h200-spot"));
  EXPECT_FALSE(has_slices("v100-16g"));
  EXPECT_FALSE(has_slices("a10-24g"));
}

}  // namespace
}  // namespace scalai::policy
