#include "ptc/plan/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ptc/collection/megatron.h"
#include "ptc/model/catalogue.h"
#include "ptc/plan/bounds.h"
#include "ptc/plan/test_support.h"

namespace scalai::plan {
namespace {

using collection::Collection;

int64_t benefit_of(const std::vector<std::vector<int64_t>>& benefit, const std::vector<int>& columns) {
  int64_t sum = 0;
  for (size_t row = 0; row < columns.size(); ++row) sum += benefit[row][static_cast<size_t>(columns[row])];
  return sum;
}

TEST(BestAssignment, EqualsTheBestOfAllPermutations) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto rows = static_cast<size_t>(random.between(1, 5));
    const auto columns = rows + static_cast<size_t>(random.below(3));
    std::vector<std::vector<int64_t>> benefit(rows, std::vector<int64_t>(columns));
    for (auto& row : benefit) {
      for (int64_t& value : row) value = random.below(20);
    }
    std::vector<int> order(columns);
    std::iota(order.begin(), order.end(), 0);
    int64_t best = -1;
    do {
      best =
          std::max(best, benefit_of(benefit, std::vector<int>(order.begin(), order.begin() + static_cast<long>(rows))));
    } while (std::next_permutation(order.begin(), order.end()));
    const std::vector<int> found = best_assignment(benefit);
    EXPECT_EQ(benefit_of(benefit, found), best);
    const std::set<int> distinct(found.begin(), found.end());
    EXPECT_EQ(distinct.size(), rows);
  }
}

ClassBytes bound_of(const Case& job) { return lower_bounds(job.input()).given_placement; }

// Column-parallel W[1024, 8], four ranks to two on one host: devices 0 and 2 keep most.
TEST(Place, KnownAnswers) {
  Case job{.from = one_tensor({1024, 8}, cut_over("tp", 0), first_devices(4)),
           .to = one_tensor({1024, 8}, cut_over("tp", 0), first_devices(2))};
  EXPECT_EQ(bound_of(job).moved(), 768 * 8 * 4);
  job.to.device_of_rank = place(job.input(), first_devices(4));
  EXPECT_EQ(bound_of(job).moved(), 512 * 8 * 4);

  Case reversed{.from = one_tensor({64}, cut_over("tp", 0), first_devices(4)),
                .to = one_tensor({64}, cut_over("tp", 0), devices({3, 2, 1, 0}))};
  reversed.to.device_of_rank = place(reversed.input(), first_devices(4));
  EXPECT_EQ(bound_of(reversed), (ClassBytes{.kept = 256}));
}

Collection gpt(std::string_view name, std::string_view layout, std::vector<DeviceId> devices) {
  return collection::megatron_collection(model::find_model(name).value(), model::Recipe{},
                                         collection::parse_layout(layout).value(), std::move(devices))
      .value();
}

// Tenplex's table: cross-host gigabytes with the best host order, for 1.3B / 2.7B / 6.7B.
TEST(Place, CrossesHostsNoMoreThanTenplexsBestHostOrder) {
  const struct {
    const char *model, *from, *to;
    double best_gb;
  } kRows[] = {
      {"tenplex-gpt-1.3b", "tp4,pp2", "tp4,pp2,dp2", 20.2}, {"tenplex-gpt-2.7b", "tp4,pp2", "tp4,pp2,dp2", 39.0},
      {"tenplex-gpt-6.7b", "tp4,pp2", "tp4,pp2,dp2", 96.3}, {"tenplex-gpt-1.3b", "tp4,pp2", "tp4,pp4", 8.6},
      {"tenplex-gpt-2.7b", "tp4,pp2", "tp4,pp4", 17.6},     {"tenplex-gpt-6.7b", "tp4,pp2", "tp4,pp4", 45.1},
      {"tenplex-gpt-1.3b", "tp2,pp4", "tp2,pp4,dp2", 8.6}};
  for (const auto& row : kRows) {
    SCOPED_TRACE(std::string(row.model) + " " + row.from + " to " + row.to);
    Case job{.from = gpt(row.model, row.from, first_devices(8)), .to = gpt(row.model, row.to, first_devices(16))};
    job.cluster = cluster_of(4, 4);
    job.to.device_of_rank = place(job.input(), first_devices(16));
    const Plan plan = job.plan();
    EXPECT_LE(static_cast<double>(plan.bytes.cross_host), row.best_gb * 1e9 * 1.005);
    EXPECT_TRUE(interpret(plan, {job.from, job.to, job.cluster, job.residency}).ok());
  }
}

TEST(Place, ChoosesTheSurvivorsThatHoldTheState) {
  // (4, 2, 2) on four hosts loses host 3: host 2 has the other copy of stage 1.
  Case job{.from = gpt("tenplex-gpt-1.3b", "tp4,pp2,dp2", first_devices(16)),
           .to = gpt("tenplex-gpt-1.3b", "tp4,pp2", first_devices(8))};
  job.cluster = cluster_of(4, 4);
  for (int i = 12; i < 16; ++i) job.residency.lost.insert(DeviceId(i));
  EXPECT_GT(bound_of(job).cross_host, 0);
  job.to.device_of_rank = place(job.input(), first_devices(12));
  EXPECT_EQ(bound_of(job).moved(), 0);
}

TEST(Place, KeepsRankOrderWhereBlocksDoNotFit) {
  Case job{.from = one_tensor({60}, cut_over("tp", 0), first_devices(5)),
           .to = one_tensor({60}, cut_over("tp", 0), first_devices(6))};
  EXPECT_EQ(place(job.input(), first_devices(6)), first_devices(6)) << "6 ranks do not fill hosts of 4 evenly";
}

TEST(Place, IsNeverWorseThanRankOrderAndUsesEachCandidateOnce) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Sizes from = random_sizes(random, 16), to = random_sizes(random, 16);
    const std::vector<DeviceId> candidates =
        random_devices(random, static_cast<int>(random.between(to.world(), 16)), 16);
    Case job{.from = grid_collection(from, random_devices(random, from.world(), 16)),
             .to = grid_collection(to, std::vector<DeviceId>(candidates.begin(), candidates.begin() + to.world()))};
    const ClassBytes before = bound_of(job);
    const std::vector<DeviceId> placed = place(job.input(), candidates);
    EXPECT_EQ(placed, place(job.input(), candidates));
    ASSERT_EQ(placed.size(), static_cast<size_t>(to.world()));
    for (const DeviceId device : placed) {
      EXPECT_EQ(std::count(placed.begin(), placed.end(), device), 1);
      EXPECT_EQ(std::count(candidates.begin(), candidates.end(), device), 1);
    }
    job.to.device_of_rank = placed;
    const ClassBytes after = bound_of(job);
    EXPECT_LE(std::tuple(after.cross_host, after.moved()), std::tuple(before.cross_host, before.moved()));
  }
}

}  // namespace
}  // namespace scalai::plan
