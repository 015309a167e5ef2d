#include "ptc/plan/internal/sharing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ptc/plan/internal/leveling.h"
#include "ptc/plan/testing/support.h"

namespace scalai::plan::internal {
namespace {

// --- leveling --------------------------------------------------------------------------------------------------------

// max over every set of places of ⌈what only they can carry / their number⌉.
int64_t least_by_sets(const std::vector<int64_t>& loads, const std::vector<Demand>& demands, int64_t floor) {
  int64_t least = floor;
  for (uint32_t set = 1; set < 1u << loads.size(); ++set) {
    const auto inside = [&](int32_t place) { return (set >> place & 1u) != 0; };
    int64_t sum = 0, count = 0;
    for (size_t place = 0; place < loads.size(); ++place) {
      if (!inside(static_cast<int32_t>(place))) continue;
      sum += loads[place];
      ++count;
    }
    for (const Demand& demand : demands) {
      if (std::all_of(demand.places.begin(), demand.places.end(), inside)) sum += demand.bytes;
    }
    least = std::max(least, (sum + count - 1) / count);
  }
  return least;
}

TEST(Leveling, IsTheLeastOverAllSetsAndItsSharesKeepIt) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    std::vector<int64_t> loads(static_cast<size_t>(random.between(1, 8)));
    for (int64_t& load : loads) load = random.below(3) == 0 ? random.below(200) : 0;
    std::vector<Demand> demands(static_cast<size_t>(random.between(0, 12)));
    for (Demand& demand : demands) {
      demand.bytes = random.below(int64_t{1} << random.between(1, 9));
      std::set<int32_t> places;
      for (int64_t i = random.between(1, 3); i > 0; --i)
        places.insert(static_cast<int32_t>(random.below(static_cast<int64_t>(loads.size()))));
      demand.places.assign(places.begin(), places.end());
    }
    const int64_t floor = random.below(60), tolerance = random.below(3) == 0 ? random.between(2, 20) : 0;
    const Leveled leveled = level(loads, demands, floor, tolerance);
    const int64_t least = least_by_sets(loads, demands, floor);
    EXPECT_LE(leveled.least, least);
    if (tolerance == 0) {
      EXPECT_EQ(leveled.least, least);
    }
    const int64_t most = tolerance == 0 ? least : leveled.least + leveled.least / tolerance;
    for (size_t i = 0; i < demands.size(); ++i) {
      ASSERT_EQ(leveled.shares[i].size(), demands[i].places.size());
      EXPECT_EQ(std::accumulate(leveled.shares[i].begin(), leveled.shares[i].end(), int64_t{0}), demands[i].bytes);
      for (size_t k = 0; k < demands[i].places.size(); ++k) {
        EXPECT_GE(leveled.shares[i][k], 0);
        loads[static_cast<size_t>(demands[i].places[k])] += leveled.shares[i][k];
      }
    }
    for (const int64_t load : loads) EXPECT_LE(load, most);
  }
}

// --- trees -----------------------------------------------------------------------------------------------------------

TEST(EdgesOf, ChainsAndStars) {
  const Exchange exchange{.holders = {0}, .wanting = {1, 2, 3}};
  EXPECT_EQ(edges_of(exchange, {0, 1, 2}), (std::vector<Edge>{{0, 1, 0}, {1, 2, 1}, {2, 3, 2}}));
  EXPECT_EQ(edges_of(exchange, {0, 2, 2}), (std::vector<Edge>{{0, 2, 0}, {2, 1, 1}, {2, 3, 1}}));
  EXPECT_EQ(edges_of(exchange, {0, 0, 0}), (std::vector<Edge>{{0, 1, 0}, {0, 2, 0}, {0, 3, 0}}));
}

TEST(EdgesOf, EverybodyReceivesOnceFromWhoHasItAndSendsAsOftenAsSaid) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto holders = static_cast<int32_t>(random.between(1, 4)),
               all = holders + 1 + static_cast<int32_t>(random.below(6));
    Exchange exchange;
    for (int32_t place = 0; place < all; ++place)
      (place < holders ? exchange.holders : exchange.wanting).push_back(place);
    std::vector<int32_t> senders = {static_cast<int32_t>(random.below(holders))};
    while (senders.size() < exchange.wanting.size()) senders.push_back(static_cast<int32_t>(random.below(all)));
    std::map<int32_t, int> has, sent;
    for (const int32_t holder : exchange.holders) has[holder] = -1;
    for (const Edge& edge : edges_of(exchange, senders)) {
      ASSERT_TRUE(has.contains(edge.from));
      EXPECT_LT(has[edge.from], edge.hop);
      EXPECT_TRUE(has.emplace(edge.to, edge.hop).second) << "received twice";
      ++sent[edge.from];
    }
    EXPECT_EQ(has.size(), static_cast<size_t>(all));
    for (int32_t place = 0; place < all; ++place)
      EXPECT_EQ(sent[place], std::count(senders.begin(), senders.end(), place));
  }
}

// --- sharing ---------------------------------------------------------------------------------------------------------

// Random flows in boxes of random sizes: every byte goes, in whole rows, and nobody sends much more than the least.
TEST(Sharing, GivesAllBytesAndKeepsNearTheLeast) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto places = static_cast<int32_t>(random.between(2, 8));
    std::vector<int64_t> sent(static_cast<size_t>(places), 0), received = sent;
    struct Flow {
      Exchange exchange;
      std::vector<int64_t> boxes;  // in rows
      int64_t row = 1;
    };
    std::vector<Flow> flows(static_cast<size_t>(random.between(1, 10)));
    for (Flow& flow : flows) {
      flow.row = random.between(1, 16);
      for (int64_t i = random.between(1, 5); i > 0; --i) flow.boxes.push_back(random.between(500, 5000));
      for (int32_t place = 0; place < places; ++place) {
        const int64_t side = random.below(3);
        if (side < 2) (side == 0 ? flow.exchange.holders : flow.exchange.wanting).push_back(place);
      }
      if (flow.exchange.holders.empty() || flow.exchange.wanting.empty())
        flow.exchange = {.holders = {0}, .wanting = {1}};
    }
    const auto bytes_of = [](const Flow& flow) {
      return flow.row * std::accumulate(flow.boxes.begin(), flow.boxes.end(), int64_t{0});
    };
    for (const Flow& flow : flows) {
      for (const int32_t place : flow.exchange.wanting) received[static_cast<size_t>(place)] += bytes_of(flow);
    }
    Sharing sharing(sent, *std::max_element(received.begin(), received.end()));
    for (const Flow& flow : flows) sharing.add({flow.exchange}, bytes_of(flow));
    const int64_t least = sharing.solve(kShareTolerance, random.below(2) == 0);
    for (size_t i = 0; i < flows.size(); ++i) {
      for (const int64_t rows : flows[i].boxes) {
        for (int64_t left = rows * flows[i].row; left > 0;) {
          const auto [way, bytes] = sharing.next(i, left, flows[i].row);
          ASSERT_TRUE(bytes > 0 && bytes <= left && bytes % flows[i].row == 0) << bytes;
          ASSERT_EQ(way->size(), 1u);
          EXPECT_EQ(way->front().size(), flows[i].exchange.wanting.size());
          for (const Edge& edge : way->front()) sent[static_cast<size_t>(edge.from)] += bytes;
          left -= bytes;
        }
      }
    }
    for (const int64_t load : sent) EXPECT_LE(load, least + least / 10);
  }
}

TEST(Rows, AreSmallEnoughAndMakeUpTheBox) {
  const tensor::Box box({2, 0, 5}, {6, 1, 1005});
  EXPECT_EQ(rows_of(box, 16000, 16000 * kShareGrain).count, 1) << "not cut";
  const Rows first = rows_of(box, 16000, 4000 * kShareGrain);
  EXPECT_EQ(first.dim, 0);
  EXPECT_EQ(first.count, 4);
  EXPECT_EQ(first.bytes, 4000);
  const Rows last = rows_of(box, 16000, 3999 * kShareGrain);
  EXPECT_EQ(last.dim, 2);
  EXPECT_EQ(last.count, 1000);
  EXPECT_EQ(part_of(box, last, 10, 30), tensor::Box({2, 0, 15}, {6, 1, 35}));
  EXPECT_EQ(rows_of(tensor::Box({}, {}), 4, 0).count, 1) << "a scalar";
}

}  // namespace
}  // namespace scalai::plan::internal
