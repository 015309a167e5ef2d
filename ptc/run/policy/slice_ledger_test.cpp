#include "ptc/run/policy/slice_ledger.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/slices.h"
#include "ptc/run/policy/testing/support.h"

namespace scalai::policy {
namespace {

using ::testing::ElementsAre;

Fleet sliced_fleet(int hosts, int gpus) {
  Fleet fleet = testing::plain_fleet(hosts, gpus * kSlicesOfGpu, 7);
  fleet.per_gpu = kSlicesOfGpu;
  return fleet;
}

SliceLedger ledger_of(int hosts, int gpus) {
  SliceLedger ledger(sliced_fleet(hosts, gpus));
  for (int host = 0; host < hosts; ++host) ledger.open(HostId(host));
  return ledger;
}

TEST(SliceLedger, PartsGoWhereMostStaysPossible) {
  SliceLedger ledger = ledger_of(1, 2);
  EXPECT_THAT(ledger.place(1), ElementsAre(Slice{HostId(0), 0, 6, 1})) << "4g and 2g still fit beside it";
  EXPECT_THAT(ledger.place(2), ElementsAre(Slice{HostId(0), 0, 4, 2}));
  EXPECT_THAT(ledger.place(4), ElementsAre(Slice{HostId(0), 0, 0, 4})) << "7 of 7";
  EXPECT_THAT(ledger.place(3), ElementsAre(Slice{HostId(0), 1, 4, 3}));
  EXPECT_THAT(ledger.place(3), ElementsAre(Slice{HostId(0), 1, 0, 3}));
  EXPECT_FALSE(ledger.fits(1)) << "six of seven compute slices, but all of the memory";
  EXPECT_FALSE(ledger.fits(7));
}

TEST(SliceLedger, WholeGpusOnFewHosts) {
  SliceLedger ledger = ledger_of(3, 4);
  const std::vector<Slice> one = ledger.place(7);
  EXPECT_THAT(one, ElementsAre(Slice{HostId(0), 0, 0, 7}));
  EXPECT_THAT(ledger.place(21),
              ElementsAre(Slice{HostId(0), 1, 0, 7}, Slice{HostId(0), 2, 0, 7}, Slice{HostId(0), 3, 0, 7}))
      << "the fullest host that has enough";
  EXPECT_EQ(ledger.place(35).size(), 5u) << "a host, and one GPU of the next";
  EXPECT_TRUE(ledger.fits(21));
  EXPECT_FALSE(ledger.fits(28));
  ledger.give(one);
  EXPECT_TRUE(ledger.fits(28));
  ledger.close(HostId(0));
  EXPECT_FALSE(ledger.fits(28));
}

// Against masks kept by the test: every placement is allowed, and fits() says what a search over all GPUs finds.
TEST(SliceLedger, RandomPlacementsAreAllowed) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const int hosts = static_cast<int>(random.between(1, 4)), gpus = static_cast<int>(random.between(1, 4));
    SliceLedger ledger = ledger_of(hosts, gpus);
    std::vector<std::vector<uint8_t>> taken(static_cast<size_t>(hosts),
                                            std::vector<uint8_t>(static_cast<size_t>(gpus)));
    std::vector<bool> open(static_cast<size_t>(hosts), true);
    std::vector<std::vector<Slice>> placed;
    for (int step = 0; step < 300; ++step) {
      const int64_t what = random.below(10);
      if (what < 5) {
        constexpr int kSizes[] = {1, 2, 3, 4, 7, 14, 21};
        const int size = kSizes[random.below(7)];
        bool room = false;
        int whole = 0;
        for (size_t h = 0; h < taken.size(); ++h) {
          for (const uint8_t mask : taken[h]) {
            whole += open[h] && mask == 0;
            for (const SliceProfile& one : slice_profiles()) {
              for (const int start : one.starts)
                room = room || (open[h] && one.compute == size && (mask & slice_bits(one, start)) == 0);
            }
          }
        }
        if (size >= 7) room = whole >= size / 7;
        ASSERT_EQ(ledger.fits(size), room) << "step " << step << " size " << size;
        if (!room) continue;
        placed.push_back(ledger.place(size));
        int sum = 0;
        for (const Slice& slice : placed.back()) {
          const SliceProfile& profile = *slice_profile(slice.slices);
          ASSERT_TRUE(open[static_cast<size_t>(slice.host.value)]);
          ASSERT_EQ(std::count(profile.starts.begin(), profile.starts.end(), slice.start), 1);
          uint8_t& mask = taken[static_cast<size_t>(slice.host.value)].at(static_cast<size_t>(slice.gpu));
          ASSERT_EQ(mask & slice_bits(profile, slice.start), 0);
          mask |= slice_bits(profile, slice.start);
          sum += slice.slices;
        }
        ASSERT_EQ(sum, size);
      } else if (what < 9 && !placed.empty()) {
        const size_t k = static_cast<size_t>(random.below(static_cast<int64_t>(placed.size())));
        ledger.give(placed[k]);
        for (const Slice& slice : placed[k])
          taken[static_cast<size_t>(slice.host.value)][static_cast<size_t>(slice.gpu)] &=
              static_cast<uint8_t>(~slice_bits(*slice_profile(slice.slices), slice.start));
        placed.erase(placed.begin() + static_cast<std::ptrdiff_t>(k));
      } else {
        const size_t host = static_cast<size_t>(random.below(hosts));
        open[host] = !open[host];
        if (open[host])
          ledger.open(HostId(static_cast<int64_t>(host)));
        else
          ledger.close(HostId(static_cast<int64_t>(host)));
      }
    }
  }
}

}  // namespace
}  // namespace scalai::policy
