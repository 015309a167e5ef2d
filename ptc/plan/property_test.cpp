// Properties of all plans: right by the interpreters, and as cheap as an independent count of elements says.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ptc/base/testing/share.h"
#include "ptc/plan/bounds.h"
#include "ptc/plan/plan_draft.h"
#include "ptc/plan/testing/support.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::plan {
namespace {

using collection::Collection;
using tensor::Box;

// For every element of every tensor, the set of devices (at most 32) that have it.
using DeviceSets = std::vector<std::vector<uint32_t>>;

DeviceSets device_sets(const Collection& collection, const std::set<DeviceId>& lost = {}) {
  DeviceSets sets;
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    const tensor::Shape& shape = collection.tensors[i].shape;
    std::vector<uint32_t>& elements = sets.emplace_back(static_cast<size_t>(shape.elements()), 0u);
    for (int rank = 0; rank < collection.ranks(); ++rank) {
      const DeviceId device = collection.device_of_rank[static_cast<size_t>(rank)];
      if (lost.count(device) != 0) continue;
      for (const auto& piece : collection.pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces) {
        for (size_t element = 0; element < elements.size(); ++element) {
          Box single = Box::whole(shape);
          int64_t rest = static_cast<int64_t>(element);
          for (int dim = 0; dim < shape.rank(); ++dim) {
            const auto d = static_cast<size_t>(dim);
            single.lo[d] = rest / shape.strides()[d];
            single.hi[d] = single.lo[d] + 1;
            rest %= shape.strides()[d];
          }
          if (piece.box.contains(single)) elements[element] |= 1u << device.value;
        }
      }
    }
  }
  return sets;
}

// Σ over devices | needed \ held |, in bytes, of what somebody holds.
int64_t bytes_to_move(const Collection& collection, const DeviceSets& held, const DeviceSets& needed) {
  int64_t bytes = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    int64_t elements = 0;
    for (size_t element = 0; element < held[i].size(); ++element) {
      if (held[i][element] != 0) elements += std::popcount(needed[i][element] & ~held[i][element]);
    }
    bytes += elements * tensor::size_of(collection.tensors[i].dtype);
  }
  return bytes;
}

void expect_bounds(const Plan& plan) {
  EXPECT_EQ(plan.bytes().kept, plan.lower_bound().kept);
  EXPECT_EQ(plan.bytes().same_device, plan.lower_bound().same_device);
  EXPECT_EQ(plan.bytes().moved(), plan.lower_bound().moved());
  EXPECT_GE(plan.bytes().cross_host, plan.lower_bound().cross_host);
  EXPECT_GE(plan.lower_bound().cross_host, plan.lower_bound_any_placement_cross_host());
  EXPECT_EQ(plan.digest(), seal(plan.draft()).digest());
}

std::vector<Sizes> factorizations(int most) {
  std::vector<Sizes> all;
  for (int tp = 1; tp <= most; ++tp) {
    for (int pp = 1; tp * pp <= most; ++pp) {
      for (int dp = 1; tp * pp * dp <= most; ++dp) all.push_back({tp, pp, dp});
    }
  }
  return all;
}

TEST(PlanProperty, EveryFactorizationOntoEveryOther) {
  const std::vector<Sizes> sizes = factorizations(16);
  std::vector<Collection> collections;
  std::vector<DeviceSets> sets;
  for (const Sizes& size : sizes) {
    collections.push_back(grid_collection(size, first_devices(size.world())));
    ASSERT_EQ(message_of(validate(collections.back())), "") << size.str();
    sets.push_back(device_sets(collections.back()));
  }
  constexpr uint64_t kSeed = 20240607;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Random random(kSeed);
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (size_t j = 0; j < sizes.size(); ++j) {
      if (i != j && !in_share(i + j, 17)) continue;
      SCOPED_TRACE(sizes[i].str() + " -> " + sizes[j].str());
      const Case job{.from = collections[i], .to = collections[j]};
      const Plan plan = make_plan(job.input()).value();
      ASSERT_EQ(message_of(interpret(plan, job.oracle())), "");
      if (random.below(10) == 0) {
        ASSERT_EQ(message_of(interpret_elements(plan, job.oracle())), "");
        ASSERT_EQ(make_plan(job.input()).value().digest(), plan.digest());
      }
      ASSERT_TRUE(plan.feasible());
      ASSERT_EQ(plan.bytes().moved(), bytes_to_move(job.to, sets[i], sets[j]));
      expect_bounds(plan);
      if (i == j) {
        ASSERT_EQ(plan.bytes().moved() + plan.bytes().same_device, 0) << "everything is kept";
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Lost devices, redundant copies in host memory, storage or none, rounds, and each source rule.
Case random_failure(Random& random) {
  const Sizes from = random_sizes(random, 16), to = random_sizes(random, 16);
  Case job{.from = grid_collection(from, random_devices(random, from.world(), 16)),
           .to = grid_collection(to, random_devices(random, to.world(), 24))};
  job.cluster = cluster_of(6, 4);
  for (const DeviceId device : job.from.device_of_rank) {
    if (random.below(3) == 0) job.residency.lost.insert(device);
  }
  job.residency.storage = random.below(2) == 0;
  for (int64_t copies = random.below(30); copies > 0; --copies) {
    const TensorId id(random.below(static_cast<int64_t>(job.to.tensors.size())));
    Box box = Box::whole(job.to.tensors[static_cast<size_t>(id.value)].shape);
    for (size_t dim = 0; dim < static_cast<size_t>(box.rank); ++dim) {
      box.lo[dim] = random.below(box.hi[dim]);
      box.hi[dim] = random.between(box.lo[dim] + 1, box.hi[dim]);
    }
    job.residency.extra.push_back({id, box, HostId(random.below(6))});
  }
  if (random.below(2) == 0) job.options.round_bytes = random.between(1, 400);
  switch (random.below(4)) {
    case 0: job.options.sources = SourceRule::kFirstReplica; break;
    case 1: job.options.in_place = false; break;
    case 2:
      job.options.in_place = false;
      job.options.hub = HostId(random.below(6));
      job.options.name = "central";
      break;
    default: job.options.relay = random.below(3) > 0; break;
  }
  return job;
}

// Rates at which one read of a box, one a host or one a device may be fastest.
void draw_rates(Random& random, cluster::Cluster& cluster) {
  const auto rate = [&] { return std::pow(10.0, static_cast<double>(random.between(2, 9))); };
  cluster.storage_read_bytes_per_s = rate();
  for (cluster::Host& host : cluster.hosts) {
    host.nic_bytes_per_s = rate();
    host.gpu_link_bytes_per_s = rate();
  }
}

TEST(PlanProperty, FailuresCopiesAndStorage) {
  int infeasible = 0;
  std::set<bool> passed_on;
  const int seeds = soaking() ? 600 : 150;
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(static_cast<uint64_t>(seed));
    Case job = random_failure(random);
    if (random.below(2) == 0) draw_rates(random, job.cluster);
    const Plan plan = job.plan();
    EXPECT_EQ(make_plan(job.input()).value().digest(), plan.digest());
    infeasible += plan.feasible() ? 0 : 1;
    if (job.residency.storage) {
      EXPECT_TRUE(plan.feasible());
    }
    if (job.options.in_place) expect_bounds(plan);
    if (plan.feasible()) {
      EXPECT_EQ(plan.bytes().from_storage, plan.lower_bound().from_storage);
    }
    if (job.cluster.storage_read_bytes_per_s > 0 && plan.bytes().from_storage > 0) {
      const ClassBytes once = lower_bounds(job.input(), StorageReads::kOnce).given_placement;
      passed_on.insert(plan.bytes().from_storage == once.from_storage);
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(infeasible, seeds / 12);
  EXPECT_EQ(passed_on.size(), 2U) << "some plans pass on, some read more";
}

// What is missing, counted by single elements.
TEST(PlanProperty, MissingAgreesWithTheCount) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    Case job = random_failure(random);
    job.residency.storage = false;
    job.residency.extra.clear();
    const DeviceSets held = device_sets(job.from, job.residency.lost);
    const DeviceSets needed = device_sets(job.to);
    int64_t expected = 0;
    for (size_t i = 0; i < held.size(); ++i) {
      for (size_t e = 0; e < held[i].size(); ++e) expected += held[i][e] == 0 && needed[i][e] != 0 ? 1 : 0;
    }
    const Plan plan = job.plan();
    int64_t missing = 0;
    for (const Missing& entry : plan.missing()) missing += entry.box.volume();
    EXPECT_EQ(missing, expected);
    if (job.options.in_place) {
      EXPECT_EQ(plan.bytes().moved(), bytes_to_move(job.to, held, needed));
    }
  }
}

// Megatron's layouts: ZeRO, experts, context and interleaved pipeline parallelism, uneven stages, other orders.
model::Model tiny_model(int experts) {
  using model::Param;
  using model::TpRule;
  model::Model model{.name = "tiny", .family = "gpt", .layers = 8, .hidden = 4, .heads = 4, .kv_heads = 4, .ffn = 8};
  model.experts = experts;
  model.params.push_back({.name = "embedding", .shape = {130, 2}, .rule = TpRule::kVocab, .layer = Param::kBothEnds});
  for (int layer = 0; layer < model.layers; ++layer) {
    const std::string name = "layers." + std::to_string(layer);
    model.params.push_back({.name = name + ".up", .shape = {8, 3}, .rule = TpRule::kColumn, .layer = layer});
    model.params.push_back({.name = name + ".down", .shape = {3, 8}, .rule = TpRule::kRow, .layer = layer});
    model.params.push_back({.name = name + ".norm", .shape = {5}, .layer = layer});
    for (int expert = 0; expert < experts; ++expert) {
      model.params.push_back({.name = name + ".expert" + std::to_string(expert),
                              .shape = {4, 2},
                              .rule = TpRule::kColumn,
                              .layer = layer,
                              .expert = expert});
    }
  }
  return model;
}

collection::ParallelConfig random_config(Random& random, const model::Model& model) {
  const auto pick = [&](std::initializer_list<int> values) {
    return values.begin()[random.below(static_cast<int64_t>(values.size()))];
  };
  while (true) {
    collection::ParallelConfig config{.tp = pick({1, 2, 4}),
                                      .pp = pick({1, 2, 3, 4}),
                                      .dp = pick({1, 2, 3, 4}),
                                      .cp = pick({1, 2}),
                                      .ep = pick({1, 2, 4}),
                                      .etp = pick({1, 2}),
                                      .vpp = pick({1, 2}),
                                      .zero = pick({0, 1, 3})};
    if (random.below(3) == 0) config.order = {"pp", "dp", "tp", "cp"};
    const int expert_ranks = config.ep * config.etp;
    const bool fits =
        (config.tp * config.cp * config.dp) % expert_ranks == 0 && (model.experts > 0 || expert_ranks == 1);
    if (config.world() <= 24 && fits && check_fit(model, config).ok()) return config;
  }
}

TEST(PlanProperty, MegatronLayouts) {
  const uint64_t seeds = soaking() ? 150 : 30;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    Random random(seed);
    const model::Model model = tiny_model(random.below(2) == 0 ? 0 : 4);
    const auto side = [&](int bound) {
      const collection::ParallelConfig config = random_config(random, model);
      return collection::megatron_collection(model, {.param = tensor::DType::kBF16}, config,
                                             random_devices(random, config.world(), bound))
          .value();
    };
    const Case job{.from = side(28), .to = side(32), .cluster = cluster_of(8, 4)};
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << job.from.name << " -> " << job.to.name);
    ASSERT_EQ(message_of(validate(job.from)), "");
    const Plan plan = make_plan(job.input()).value();
    EXPECT_EQ(message_of(interpret(plan, job.oracle())), "");
    if (in_share(seed, 5)) {
      EXPECT_EQ(message_of(interpret_elements(plan, job.oracle())), "");
    }
    expect_bounds(plan);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace scalai::plan
