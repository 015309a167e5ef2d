#include "ptc/run/policy/policies/order/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ptc/base/random.h"

namespace scalai::policy::order {
namespace {

TEST(PrefixTree, SumsAndPlacesAreThoseOfASortedList) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    PrefixTree tree;
    std::map<Rank, int> list;
    for (int step = 0; step < 300; ++step) {
      const int32_t id = static_cast<int32_t>(random.below(60));
      if (tree.contains(id)) {
        list.erase(tree.rank(id));
        tree.erase(id);
      } else {
        const Rank rank{static_cast<double>(random.below(20)), id};
        const int gpus = static_cast<int>(random.between(1, 8));
        list[rank] = gpus;
        tree.insert(rank, gpus);
      }
      const Rank at{static_cast<double>(random.below(20)), static_cast<int32_t>(random.below(60))};
      const int64_t room = random.below(200);
      int64_t sum = 0, before = 0;
      int32_t over = -1;
      std::vector<int32_t> ids;
      for (const auto& [rank, gpus] : list) {
        ids.push_back(rank.id);
        if (rank < at) before += gpus;
        sum += gpus;
        if (over < 0 && sum > room) over = rank.id;
      }
      ASSERT_EQ(tree.ids(), ids);
      ASSERT_EQ(tree.sum(), sum);
      ASSERT_EQ(tree.sum_before(at), before);
      ASSERT_EQ(tree.first_over(room), over);
    }
  }
}

}  // namespace
}  // namespace scalai::policy::order
