#include "ptc/plan/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "ptc/plan/bounds.h"
#include "ptc/plan/internal/placement_change.h"
#include "ptc/plan/internal/placement_search.h"
#include "ptc/plan/testing/support.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::plan {
namespace {

using collection::Collection;

// As placements count: every device reads from storage for itself.
ClassBytes bound_of(const Case& job) { return lower_bounds(job.input(), StorageReads::kEachDevice).given_placement; }

std::vector<DeviceId> placed(Case& job, const std::vector<DeviceId>& candidates,
                             PlacementRule rule = PlacementRule::kHosts) {
  job.placement.rule = rule;
  return place(job.input(), job.placement, candidates);
}

cluster::Cluster cluster_of_sizes(const std::vector<int>& gpus) {
  cluster::Cluster cluster{.name = "uneven"};
  int first = 0;
  for (const int count : gpus) {
    cluster.hosts.push_back({.first_device = first, .gpus = count});
    first += count;
  }
  return cluster;
}

// Column-parallel W[1024, 8], four ranks to two on one host: devices 0 and 2 keep most.
TEST(Place, KnownAnswers) {
  Case job{.from = one_tensor({1024, 8}, cut_over("tp", 0), first_devices(4)),
           .to = one_tensor({1024, 8}, cut_over("tp", 0), first_devices(2))};
  EXPECT_EQ(bound_of(job).moved(), 768 * 8 * 4);
  job.to.device_of_rank = placed(job, first_devices(4));
  EXPECT_EQ(bound_of(job).moved(), 512 * 8 * 4);

  Case reversed{.from = one_tensor({64}, cut_over("tp", 0), first_devices(4)),
                .to = one_tensor({64}, cut_over("tp", 0), devices({3, 2, 1, 0}))};
  reversed.to.device_of_rank = placed(reversed, first_devices(4));
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
    job.to.device_of_rank = placed(job, first_devices(16));
    const Plan plan = job.plan();
    EXPECT_LE(static_cast<double>(plan.bytes().cross_host), row.best_gb * 1e9 * 1.005);
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
  job.to.device_of_rank = placed(job, first_devices(12));
  EXPECT_EQ(bound_of(job).moved(), 0);
}

TEST(Place, LeavesRankOrderAloneWhenAskedTo) {
  Case job{.from = one_tensor({64}, cut_over("tp", 0), first_devices(4)),
           .to = one_tensor({64}, cut_over("tp", 0), devices({3, 2, 1, 0}))};
  EXPECT_EQ(placed(job, first_devices(4), PlacementRule::kIdentity), devices({3, 2, 1, 0}));
}

// The whole machine the other way round: whatever tensor-parallel groups and hosts there are, everything stays.
TEST(Place, FindsEveryRankOfAReversedJob) {
  Case job{.from = grid_collection({.tp = 3, .pp = 2, .dp = 2}, first_devices(12)),
           .to = grid_collection({.tp = 3, .pp = 2, .dp = 2}, first_devices(12))};
  std::reverse(job.to.device_of_rank.begin(), job.to.device_of_rank.end());
  EXPECT_GT(bound_of(job).cross_host, 0);
  job.to.device_of_rank = placed(job, job.to.device_of_rank, PlacementRule::kFree);
  EXPECT_EQ(bound_of(job).moved(), 0);
}

// Eight shards on two hosts become four: two on either host have all they need there, four on one lack half.
TEST(Place, AShrinkingJobMayStayOnAPartOfEachHost) {
  Case job{.from = one_tensor({64}, cut_over("tp", 0), first_devices(8)),
           .to = one_tensor({64}, cut_over("tp", 0), first_devices(4))};
  job.cluster = cluster_of(2, 4);
  EXPECT_EQ(bound_of(job).cross_host, 128);
  job.to.device_of_rank = placed(job, first_devices(8));
  EXPECT_EQ(bound_of(job).cross_host, 0);
  EXPECT_EQ(bound_of(job).moved(), 128) << "each keeps one of its two halves";
}

// Hosts with four and three devices left, six that give four and two: the last run of ranks is shorter.
TEST(Place, FillsHostsUnevenly) {
  for (const int ranks : {7, 6}) {
    SCOPED_TRACE(testing::Message() << ranks << " ranks");
    Case job{.from = one_tensor({84}, cut_over("tp", 0), first_devices(ranks)),
             .to = one_tensor({84}, cut_over("tp", 0), first_devices(ranks))};
    job.cluster = cluster_of_sizes({4, 3});
    std::reverse(job.to.device_of_rank.begin(), job.to.device_of_rank.end());
    EXPECT_GT(bound_of(job).cross_host, 0);
    job.to.device_of_rank = placed(job, job.to.device_of_rank);
    EXPECT_EQ(bound_of(job).moved(), 0);
  }
}

// Hosts of three and pairs: rank order cuts every second pair, but a host that takes whole groups takes one.
TEST(Place, KeepsTensorParallelGroupsOnOneHost) {
  const Sizes sizes{.tp = 2, .pp = 1, .dp = 3};
  Case job{.from = grid_collection(sizes, devices({0, 1, 3, 4, 6, 7})), .to = grid_collection(sizes, first_devices(6))};
  job.cluster = cluster_of(3, 3);
  EXPECT_GT(bound_of(job).moved(), 0);
  EXPECT_EQ(placed(job, first_devices(9)), devices({0, 1, 3, 4, 6, 7}));
}

// Any change whatever: residency with lost devices and copies, masters to derive from, other types on either side.
Case random_change(Random& random, int hosts, int gpus, std::optional<Sizes> target = std::nullopt) {
  const int all = hosts * gpus;
  const Sizes from = random_sizes(random, all), to = target ? *target : random_sizes(random, all);
  Case job{.from = grid_collection(from, random_devices(random, from.world(), all)),
           .to = grid_collection(to, random_devices(random, to.world(), all))};
  job.cluster = cluster_of(hosts, gpus);
  const auto add_master = [](Collection& collection, const std::string& axis) {
    for (size_t i = 0; i < 4; ++i) {
      collection::LogicalTensor& param = collection.tensors[i];
      param.dtype = tensor::DType::kBF16;
      param.kind = model::StateKind::kParam;
      collection::LogicalTensor master = param;
      master.name += ".master";
      master.dtype = tensor::DType::kF32;
      master.kind = model::StateKind::kMaster;
      master.layout.cuts = {cut_over(axis, 0)};
      collection.tensors.push_back(master);
    }
  };
  if (random.below(2) == 0) {
    add_master(job.from, "dp");
    add_master(job.to, random.below(2) == 0 ? "dp" : "tp");
    job.options.derive_params = true;
  }
  if (random.below(2) == 0) job.to.tensors[5].dtype = tensor::DType::kBF16;
  for (int i = 0; i < 3; ++i) {
    const TensorId tensor(random.below(static_cast<int64_t>(job.to.tensors.size())));
    tensor::Box box = tensor::Box::whole(job.to.tensors[static_cast<size_t>(tensor.value)].shape);
    if (box.rank > 0 && random.below(2) == 0) box.hi[0] = std::max<int64_t>(1, box.hi[0] / 2);
    job.residency.extra.push_back({tensor, box, HostId(random.below(hosts))});
  }
  if (random.below(2) == 0) job.residency.lost.insert(job.from.device_of_rank[0]);
  job.residency.storage = true;
  return job;
}

TEST(PlacementCost, EqualsTheLowerBounds) {
  int64_t derived = 0, stored = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    Case job = random_change(random, 4, 4);
    const RankedChange change(job.input());
    for (int i = 0; i < 3; ++i) {
      job.to.device_of_rank = random_devices(random, job.to.ranks(), 16);
      const ClassBytes bound = bound_of(job);
      const PlacementCost cost = change.cost(job.to.device_of_rank);
      EXPECT_EQ(cost.cross_host, bound.cross_host);
      EXPECT_EQ(cost.moved, bound.moved() + bound.from_storage);
      EXPECT_EQ(cost.same_device, bound.same_device);
      EXPECT_EQ(cost.in_one_domain, 0);
      derived += bound.derived;
      stored += bound.from_storage;
    }
  }
  EXPECT_GT(derived, 0);
  EXPECT_GT(stored, 0);
}

TEST(WaysToPlace, CountsTheRanksOfEachHost) {
  const auto ways = [](int32_t ranks, const std::vector<int>& rooms, int64_t limit = 1000) {
    std::vector<Site> sites;
    for (const int room : rooms) sites.push_back({{HostId(0)}, first_devices(room)});
    return ways_to_place(ranks, sites, limit);
  };
  EXPECT_EQ(ways(0, {2}), 1);
  EXPECT_EQ(ways(2, {2}), 1);
  EXPECT_EQ(ways(3, {2}), 0) << "no room";
  EXPECT_EQ(ways(2, {2, 2}), 4);
  EXPECT_EQ(ways(3, {2, 2}), 6) << "two and one, or one and two";
  EXPECT_EQ(ways(6, {2, 2, 2}), 90) << "6! / (2! 2! 2!)";
  EXPECT_EQ(ways(6, {2, 2, 2}, 50), 51) << "the limit, and one more";
}

using Key = std::tuple<int64_t, int64_t, int64_t>;
Key key_of(const ClassBytes& bound) {
  return {bound.cross_host, bound.moved() + bound.from_storage, bound.same_device};
}

// Every way to give the ranks to different candidates.
template <class Visit>
void for_each_placement(const std::vector<DeviceId>& candidates, size_t ranks, std::vector<DeviceId>& chosen,
                        Visit visit) {
  if (chosen.size() == ranks) return visit(chosen);
  for (const DeviceId device : candidates) {
    if (std::find(chosen.begin(), chosen.end(), device) != chosen.end()) continue;
    chosen.push_back(device);
    for_each_placement(candidates, ranks, chosen, visit);
    chosen.pop_back();
  }
}

// One round of jobs as large as there are devices, the rest small.
TEST(PlaceFree, IsTheBestOfAllPlacements) {
  const std::vector<std::vector<int>> kShapes = {
      {8}, {4, 4}, {2, 2, 2, 2}, {3, 3, 2}, {5, 1, 2}, {7, 1}, {1, 1, 1, 1, 1, 1, 1, 1}};
  int better_than_hosts = 0;
  size_t most_ranks = 0;
  for (uint64_t seed = 1; seed <= 140; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const std::vector<int>& shape = kShapes[seed % kShapes.size()];
    const bool large = seed <= kShapes.size();
    Case job = large ? random_change(random, 2, 4, Sizes{.tp = 2, .pp = 2, .dp = 2}) : random_change(random, 2, 3);
    job.cluster = cluster_of_sizes(shape);
    for (auto& extra : job.residency.extra) extra.host = HostId(extra.host.value % static_cast<int>(shape.size()));
    const std::vector<DeviceId> candidates = random_devices(random, std::min(8, job.to.ranks() + 1), 8);
    const auto ranks = static_cast<size_t>(job.to.ranks());
    job.to.device_of_rank.assign(candidates.begin(), candidates.begin() + job.to.ranks());
    most_ranks = std::max(most_ranks, ranks);
    const RankedChange change(job.input());
    PlacementCost best = change.cost(job.to.device_of_rank);
    std::vector<DeviceId> chosen;
    for_each_placement(candidates, ranks, chosen,
                       [&](const std::vector<DeviceId>& devices) { best = std::min(best, change.cost(devices)); });
    EXPECT_EQ(change.cost(placed(job, candidates, PlacementRule::kFree)), best);
    if (change.cost(placed(job, candidates, PlacementRule::kHosts)) != best) ++better_than_hosts;
  }
  EXPECT_EQ(most_ranks, 8U);
  EXPECT_GT(better_than_hosts, 0);
}

TEST(Place, FreeIsNoWorseThanHostsAndHostsThanRankOrder) {
  int better[2] = {0, 0};
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    Case job = random_change(random, 4, 4);
    if (seed % 3 == 0) job.cluster = cluster_of_sizes({1, 6, 4, 5});
    const std::vector<DeviceId> candidates =
        random_devices(random, static_cast<int>(random.between(job.to.ranks(), 16)), 16);
    job.to.device_of_rank.assign(candidates.begin(), candidates.begin() + job.to.ranks());
    std::vector<Key> keys;
    for (const PlacementRule rule : {PlacementRule::kIdentity, PlacementRule::kHosts, PlacementRule::kFree}) {
      Case one = job;
      const std::vector<DeviceId> chosen = placed(one, candidates, rule);
      EXPECT_EQ(chosen, placed(one, candidates, rule));
      ASSERT_EQ(chosen.size(), static_cast<size_t>(job.to.ranks()));
      for (const DeviceId device : chosen) {
        EXPECT_EQ(std::count(chosen.begin(), chosen.end(), device), 1);
        EXPECT_EQ(std::count(candidates.begin(), candidates.end(), device), 1);
      }
      one.to.device_of_rank = chosen;
      keys.push_back(key_of(bound_of(one)));
    }
    EXPECT_LE(keys[1], keys[0]);
    EXPECT_LE(keys[2], keys[1]);
    better[0] += keys[1] < keys[0] ? 1 : 0;
    better[1] += keys[2] < keys[1] ? 1 : 0;
  }
  EXPECT_GT(better[0], 100);
  EXPECT_GT(better[1], 20);
}

// Many hosts, each with one stage: what is lost of one stage is made up for by few hosts of others.
TEST(Place, MovesOnlyTheBlocksThatLostTheirHosts) {
  Case job{.from = gpt("tenplex-gpt-1.3b", "tp4,pp4,dp40", first_devices(640)),
           .to = gpt("tenplex-gpt-1.3b", "tp4,pp4,dp38", first_devices(608))};
  job.cluster = cluster_of(160, 4);
  std::vector<DeviceId> candidates;
  for (const DeviceId device : job.from.device_of_rank) {
    // Five hosts of stage 1 are lost: 35 of the 38 that stage 1 needs are left, the other stages have two to spare
    // each.
    if (device.value >= 180 && device.value < 200) {
      job.residency.lost.insert(device);
    } else {
      candidates.push_back(device);
    }
  }
  job.to.device_of_rank.assign(candidates.begin(), candidates.begin() + 608);
  const std::vector<DeviceId> chosen = placed(job, candidates);
  int elsewhere = 0;
  for (int rank = 0; rank < 608; ++rank)
    elsewhere += chosen[static_cast<size_t>(rank)].value / 160 != rank / 152 ? 1 : 0;
  EXPECT_EQ(elsewhere, 3 * 4);
}

}  // namespace
}  // namespace scalai::plan
