#include "ptc/run/policy/policies/goodput/packing.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ptc/base/random.h"

namespace scalai::policy {
namespace {

using Shares = std::vector<HostShare>;

HostShare on(int host, int gpus) { return {HostId(host), gpus}; }

void expect_whole(std::span<const int> capacity, std::span<const PackRequest> requests,
                  const std::vector<Shares>& shares) {
  std::vector<int> used(capacity.size(), 0);
  ASSERT_EQ(shares.size(), requests.size());
  for (size_t k = 0; k < shares.size(); ++k) {
    int gpus = 0;
    for (const HostShare& share : shares[k]) {
      EXPECT_GT(share.gpus, 0);
      used[static_cast<size_t>(share.host.value)] += share.gpus;
      gpus += share.gpus;
    }
    EXPECT_EQ(gpus, requests[k].gpus);
    EXPECT_TRUE(std::is_sorted(shares[k].begin(), shares[k].end()));
  }
  for (size_t h = 0; h < capacity.size(); ++h) EXPECT_LE(used[h], capacity[h]);
}

TEST(Pack, KeepsWhatStaysAndFillsTheTightestHost) {
  const std::vector<int> capacity = {4, 4, 4};
  const std::vector<PackRequest> requests = {{2, {on(1, 2)}}, {3, {}}, {1, {}}, {0, {on(2, 4)}}};
  const auto shares = pack(capacity, requests);
  EXPECT_EQ(shares[0], (Shares{on(1, 2)}));
  EXPECT_EQ(shares[1], (Shares{on(0, 3)}));
  EXPECT_EQ(shares[2], (Shares{on(0, 1)}));
  EXPECT_TRUE(shares[3].empty());
}

TEST(Pack, MovesAsFewAsItMustForAWholeHost) {
  const std::vector<int> capacity = {4, 4, 4};
  // One GPU on each host, and now one wants a whole host: the job on the emptiest one goes.
  const std::vector<PackRequest> requests = {{1, {on(0, 1)}}, {2, {on(1, 2)}}, {3, {on(2, 3)}}, {4, {}}};
  const auto shares = pack(capacity, requests);
  expect_whole(capacity, requests, shares);
  EXPECT_EQ(shares[3], (Shares{on(0, 4)}));
  EXPECT_EQ(shares[1], (Shares{on(1, 2)}));
  EXPECT_EQ(shares[2], (Shares{on(2, 3)}));
}

TEST(Pack, PowersOfTwoAreNeverSplit) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int host = 1 << random.below(4);
    const std::vector<int> capacity(static_cast<size_t>(random.between(1, 10)), host);
    int left = host * static_cast<int>(capacity.size());
    std::vector<PackRequest> requests;
    while (left > 0 && random.below(12) > 0) {
      const int gpus = 1 << random.below(5);
      if (gpus > left) continue;
      // They come from anywhere, also from where they cannot stay.
      PackRequest request{gpus, {}};
      if (random.below(2) == 0) {
        request.now = {on(static_cast<int>(random.below(static_cast<int64_t>(capacity.size()))), gpus)};
      }
      requests.push_back(request);
      left -= gpus;
    }
    const auto shares = pack(capacity, requests);
    expect_whole(capacity, requests, shares);
    for (size_t k = 0; k < shares.size(); ++k) {
      EXPECT_EQ(static_cast<int>(shares[k].size()), std::max(1, requests[k].gpus / host));
    }
  }
}

TEST(Pack, SplitsWhatFitsNowhereElse) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<int> capacity;
    for (int64_t h = random.between(1, 6); h > 0; --h) capacity.push_back(static_cast<int>(random.between(0, 8)));
    int left = std::accumulate(capacity.begin(), capacity.end(), 0);
    std::vector<PackRequest> requests;
    while (left > 0) {
      requests.push_back({static_cast<int>(random.between(1, left)), {}});
      left -= requests.back().gpus;
    }
    expect_whole(capacity, requests, pack(capacity, requests));
  }
}

}  // namespace
}  // namespace scalai::policy
