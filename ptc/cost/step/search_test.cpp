#include "ptc/cost/step/search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/cost/step/devices.h"
#include "ptc/cost/step/internal/search_space.h"
#include "ptc/cost/step/testing/search.h"

namespace scalai::step {
namespace {

using namespace testing;
using collection::ParallelConfig;
using internal::goes_first;

// A configuration with its choices, as text.
std::string name_of_point(const Candidate& c) {
  return fmt::format("{} b{} {}", canonical(c.config), c.training.micro_batch, name_of(c.training.recompute));
}

// --- the plain loop --------------------------------------------------------------------------------------------------

// Of as many samples as the space's batch has.
double for_as_many_s(const Candidate& c, const SearchSpace& space) {
  return c.time.step_s * (static_cast<double>(space.base.global_batch) / c.training.global_batch);
}

// The order of search.h.
auto rank(const Candidate& c) {
  const ParallelConfig& p = c.config;
  const double sample_s = c.time.step_s / c.training.global_batch;
  return std::make_tuple(c.score, sample_s, p.world(), p.tp, p.pp, p.cp, p.ep, p.vpp, p.zero, -c.training.micro_batch,
                         c.training.recompute);
}

// Everything there is to know of a space: each point that the rules of search.h and check_workload leave, priced one by
// one.
class PlainLoop {
 public:
  PlainLoop(const ModelShape& model, const SearchSpace& space) : model_(model), space_(space) {
    for (int tp = 1; tp <= space.host.gpus; ++tp)
      for (int pp = 1; pp <= std::max(1, model.layers); ++pp)
        for (int cp = 1; cp <= space.gpus; ++cp)
          for (int dp = 1; dp <= space.gpus; ++dp) {
            const int world = tp * pp * cp * dp;
            if (world > space.gpus || (space.all_gpus && world != space.gpus)) continue;
            for (int ep = 1; ep <= std::max(1, model.experts); ++ep)
              for (int vpp = 1; vpp <= std::max(1, model.layers); ++vpp)
                with_choices({.tp = tp, .pp = pp, .dp = dp, .cp = cp, .ep = ep, .vpp = vpp});
          }
    std::sort(fitting.begin(), fitting.end(), [](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
  }

  std::vector<Candidate> fitting;
  int64_t points = 0;
  double least_bytes = 0;

 private:
  void with_choices(ParallelConfig config) {
    const bool halves = config.cp == 1 || space_.base.sequence % (2 * config.cp) == 0;
    const bool even = config.vpp == 1 || model_.layers % (config.pp * config.vpp) == 0;
    if (!halves || !even) return;
    for (const int zero : std::set<int>(space_.zero_stages.begin(), space_.zero_stages.end()))
      for (const int micro_batch : std::set<int>(space_.micro_batches.begin(), space_.micro_batches.end()))
        for (const Recompute recompute : space_.recomputes) {
          config.zero = zero;
          Candidate c;
          c.config = config;
          c.training = space_.base;
          c.training.micro_batch = micro_batch;
          c.training.recompute = recompute;
          price(c);
        }
  }

  // The nearest batch that may be had and divides, the smaller one first.
  int batch_for(Candidate c) const {
    const int wanted = space_.base.global_batch;
    for (int change = 0; change == 0 || change < space_.batch_tolerance * wanted; ++change) {
      for (const int batch : {wanted - change, wanted + change}) {
        c.training.global_batch = batch;
        if (batch > 0 && check_workload({model_, c.config, c.training}).ok()) return batch;
      }
    }
    return wanted;
  }

  void price(Candidate& c) {
    c.training.global_batch = batch_for(c);
    const Workload workload{model_, c.config, c.training};
    const bool one_holder = c.config.dp * c.config.cp == 1 && (model_.experts == 0 || c.config.edp() == 1);
    const auto least_zero = std::min_element(space_.zero_stages.begin(), space_.zero_stages.end());
    if (one_holder && c.config.zero != *least_zero) return;
    if (c.training.flash_attention && c.training.recompute == Recompute::kSelective) return;
    if (!check_workload(workload).ok()) return;
    if (c.config.dp * c.training.micro_batch > c.training.global_batch) return;
    const bool flushes = c.training.schedule != Schedule::kTwoBW;
    if (!flushes && c.training.micro_batches(c.config.dp) < c.config.pp) return;
    ++points;
    c.memory_bytes = memory_bytes(workload);
    if (least_bytes == 0 || c.memory_bytes < least_bytes) least_bytes = c.memory_bytes;
    const int64_t limit = space_.memory_bytes > 0 ? space_.memory_bytes : space_.host.gpu.memory_bytes;
    if (c.memory_bytes > static_cast<double>(limit)) return;
    const Hardware on = space_.hardware ? space_.hardware(c.config) : uniform_hardware(space_.host, c.config);
    c.time = step_time(workload, on);
    c.score = score_of(space_, c, on);
    if (space_.objective == Objective::kPayOff) {
      c.change = space_.change(c);
      if (!c.change) return;
      const double left_s = space_.horizon_s - c.change->reconfiguration_s;
      c.score = left_s > 0 ? for_as_many_s(c, space_) * space_.horizon_s / left_s : INFINITY;
    }
    fitting.push_back(c);
  }

  const ModelShape& model_;
  const SearchSpace& space_;
};

class Dice {
 public:
  explicit Dice(int seed) : random_(static_cast<unsigned>(seed)) {}
  int to(int most) { return 1 + static_cast<int>(random_() % static_cast<unsigned>(most)); }
  bool one_in(int n) { return to(n) == 1; }
  template <class T>
  T of(const std::vector<T>& list) {
    return list[static_cast<size_t>(to(static_cast<int>(list.size())) - 1)];
  }

 private:
  std::mt19937 random_;
};

ModelShape random_model(Dice& dice) {
  ModelShape sizes{.name = "random",
                   .layers = dice.to(12),
                   .hidden = 512 * dice.to(8),
                   .heads = 4 * dice.to(4),
                   .gated = dice.one_in(2),
                   .vocab = 1000 * dice.to(60),
                   .sequence = 4096,
                   .tied = dice.one_in(2)};
  sizes.kv_heads = dice.one_in(2) ? sizes.heads : sizes.heads / 4;
  if (dice.one_in(4)) {
    sizes.experts = dice.of<int>({2, 4, 6});
    sizes.experts_per_token = 2;
  }
  return transformer_shape(sizes);
}

SearchSpace random_space(Dice& dice) {
  SearchSpace space = space_of(dice.to(24), 4 * dice.to(16), dice.of<int>({512, 600, 1000, 1024, 2048}));
  space.host = host_of(dice.of<int>({1, 2, 4, 6, 8}), dice.of<std::string>({"h100-80g", "v100-16g", "a100-40g"}));
  space.host.price_per_hour = dice.one_in(2) ? 30 : 0;
  space.all_gpus = dice.one_in(2);
  space.micro_batches = dice.of<std::vector<int>>({{1, 2, 4}, {2}, {4, 1, 1}});
  space.recomputes = dice.of<std::vector<Recompute>>({{Recompute::kFull, Recompute::kNone, Recompute::kSelective},
                                                      {Recompute::kNone, Recompute::kFull},
                                                      {Recompute::kNone}});
  space.zero_stages = dice.of<std::vector<int>>({{1}, {0, 1, 2, 3}, {3, 0}});
  space.objective = dice.of<Objective>({Objective::kThroughput, Objective::kCost, Objective::kEnergy});
  space.base.schedule = dice.of<Schedule>({Schedule::kOneFOneB, Schedule::kGPipe, Schedule::kTwoBW});
  space.base.precision = find_precision(dice.of<std::string>({"bf16", "fp32", "fp8"})).value();
  space.base.flash_attention = dice.one_in(2);
  space.base.whole_batches = !dice.one_in(4);
  if (space.base.whole_batches && dice.one_in(3)) space.batch_tolerance = dice.of<double>({0.02, 0.1, 0.5});
  space.memory_bytes = dice.one_in(3) ? kGiB * dice.to(12) : 0;
  space.keep = dice.of<int>({1, 3, 50});
  return space;
}

void expect_same(const PlainLoop& plain, const SearchResult& found, const SearchSpace& space) {
  EXPECT_EQ(found.points, plain.points);
  EXPECT_EQ(found.points, found.priced + found.too_large + found.bounded_away);
  const size_t kept = std::min(plain.fitting.size(), static_cast<size_t>(space.keep));
  ASSERT_EQ(found.best.size(), kept);
  for (size_t i = 0; i < kept; ++i) {
    EXPECT_EQ(name_of_point(found.best[i]), name_of_point(plain.fitting[i])) << i;
    EXPECT_EQ(found.best[i].score, plain.fitting[i].score) << i;
    EXPECT_EQ(found.best[i].time.step_s, plain.fitting[i].time.step_s) << i;
    EXPECT_EQ(found.best[i].memory_bytes, plain.fitting[i].memory_bytes) << i;
  }
}

constexpr int kRandomSpaces = 120;

TEST(Search, FindsWhatAPlainLoopFinds) {
  int bounded = 0, nothing_fits = 0, empty = 0;
  for (int seed = 1; seed <= kRandomSpaces; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Dice dice(seed);
    const ModelShape model = random_model(dice);
    const SearchSpace space = random_space(dice);
    const PlainLoop plain(model, space);
    const auto found = search(model, space);
    if (plain.points == 0) {
      EXPECT_FALSE(found.ok());
      ++empty;
      continue;
    }
    ASSERT_TRUE(found.ok()) << found.status();
    expect_same(plain, *found, space);
    EXPECT_EQ(found->no_fit.has_value(), plain.fitting.empty());
    if (found->no_fit) {
      EXPECT_EQ(found->no_fit->nearest.memory_bytes, plain.least_bytes);
    }
    bounded += found->bounded_away > 0 ? 1 : 0;
    nothing_fits += found->no_fit ? 1 : 0;
  }
  // The dice show every case.
  EXPECT_GT(bounded, kRandomSpaces / 5);
  EXPECT_GT(nothing_fits, 2);
  EXPECT_GT(empty, 0);
}

// Hosts of two kinds with prices of their own; the fastest in one precision need not be so in another.
cluster::Cluster random_cluster(Dice& dice, int gpus) {
  const std::vector<std::string> kinds = {"v100-16g", "a10g-24g", "a100-40g", "l40s-48g", "h100-80g"};
  cluster::Cluster cluster;
  const std::vector<std::string> two = {dice.of(kinds), dice.of(kinds)};
  while (cluster.device_count() < gpus) {
    cluster::Host host = host_of(4, dice.of(two));
    host.first_device = static_cast<int>(cluster.hosts.size()) * 4;
    host.price_per_hour = dice.one_in(8) ? 0 : dice.to(40);
    cluster.hosts.push_back(host);
  }
  return cluster;
}

TEST(Search, FindsWhatAPlainLoopFindsOnGpusThatDiffer) {
  int bounded = 0, differ = 0;
  for (int seed = 1; seed <= kRandomSpaces; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Dice dice(seed);
    const ModelShape model = random_model(dice);
    SearchSpace space = random_space(dice);
    space.memory_bytes = 24 * kGiB;
    const cluster::Cluster cluster = random_cluster(dice, space.gpus);
    std::vector<DeviceId> devices;
    for (int i = 0; i < space.gpus; ++i) devices.emplace_back(i);
    space.host_kinds = kinds_of_hosts(devices, cluster);
    space.host = space.host_kinds.front();
    space.hardware = [&](const ParallelConfig& config) {
      const Math math = space.base.precision.math;
      return hardware_of(cluster, config, devices_for(config, devices, cluster, math), {}, math);
    };
    const PlainLoop plain(model, space);
    const auto found = search(model, space);
    if (plain.points == 0) continue;
    ASSERT_TRUE(found.ok()) << found.status();
    expect_same(plain, *found, space);
    bounded += found->bounded_away > 0 ? 1 : 0;
    differ += space.host_kinds.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(bounded, kRandomSpaces / 6);
  EXPECT_GT(differ, kRandomSpaces / 4);
}

TEST(Search, HeadroomStaysFree) {
  const ModelShape model = named("gpt3-xl");
  SearchSpace space = space_of(8, 64, 1024);
  space.keep = 1000;
  const auto all = search(model, space);
  ASSERT_TRUE(all.ok() && !all->best.empty());
  double most = 0;
  for (const Candidate& one : all->best) most = std::max(most, one.memory_bytes);
  space.memory_bytes = static_cast<int64_t>(std::ceil(most));
  EXPECT_EQ(search(model, space)->best.size(), all->best.size());
  space.headroom = kHeadroom;
  const auto some = search(model, space);
  ASSERT_TRUE(some.ok());
  EXPECT_LT(some->best.size(), all->best.size());
  for (const Candidate& one : some->best) EXPECT_LE(one.memory_bytes, 0.96 * most + 1);
}

// Some axes pinned, whether they go together or not.
Pins random_pins(Dice& dice, const ModelShape& model) {
  Pins pins;
  const auto pin = [&](std::optional<int>& axis, const std::vector<int>& sizes) {
    if (dice.one_in(3)) axis = dice.of(sizes);
  };
  pin(pins.tp, {1, 2, 3, 4, 8});
  pin(pins.pp, {1, 2, 3, 4});
  pin(pins.dp, {1, 2, 4});
  pin(pins.cp, {1, 2});
  pin(pins.ep, {1, 2, 4});
  pin(pins.etp, {1, 2});
  pin(pins.vpp, {1, 2, 3});
  pin(pins.zero, {0, 1, 2, 3});
  pin(pins.micro_batch, {0, 1, 2, 3});
  if (dice.one_in(4)) pins.recompute = dice.of<Recompute>({Recompute::kNone, Recompute::kSelective, Recompute::kFull});
  if (dice.one_in(6) && model.layers > 1) pins.stages = {1, model.layers - 1};
  if (dice.one_in(6))
    pins.order = dice.of<std::vector<std::string>>({{"pp", "tp", "cp", "dp"}, {"tp", "pp", "cp", "dp"}});
  return pins;
}

TEST(Search, EveryPointCanBePricedWhateverIsPinned) {
  int points = 0, refused = 0;
  for (int seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Dice dice(seed);
    const ModelShape model = dice.one_in(10) ? named("resnet-50") : random_model(dice);
    SearchSpace space = random_space(dice);
    space.pins = random_pins(dice, model);
    if (!check_space(model, space).ok()) {
      ++refused;
      EXPECT_FALSE(search(model, space).ok());
      continue;
    }
    internal::for_each_point(model, space, [&](const internal::Point& point) {
      const absl::Status fits = check_workload({model, config_of(point, space), training_of(point, space)});
      ASSERT_TRUE(fits.ok()) << canonical(config_of(point, space)) << ": " << fits;
      ++points;
    });
  }
  EXPECT_GT(points, 1000);
  EXPECT_GT(refused, 100);
}

TEST(Search, NoPricedStepIsShorterThanItsBound) {
  for (int seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Dice dice(seed);
    const ModelShape model = random_model(dice);
    const SearchSpace space = random_space(dice);
    const internal::Bound bound(model, space);
    internal::for_each_point(model, space, [&](const internal::Point& point) {
      const ParallelConfig config = config_of(point, space);
      const Training training = training_of(point, space);
      const StepTime time = step_time({model, config, training}, uniform_hardware(space.host, config));
      EXPECT_GE(time.step_s, bound.of(point).step_s()) << canonical(config);
    });
  }
}

// Each field decides when all before it are equal, whatever those after it say.
TEST(Search, TiesAreDecidedInOrder) {
  const internal::Point least{.zero = 1, .micro_batch = 4, .recompute = Recompute::kSelective};
  std::vector<internal::Point> rising(10, least);
  rising[1].recompute = Recompute::kFull;
  rising[2].micro_batch = 2;
  rising[3].zero = 2;
  rising[4].vpp = 2;
  rising[5].etp = 2;
  rising[6].ep = 2;
  rising[7] = {.cp = 2, .zero = 0, .micro_batch = 16};
  rising[8] = {.pp = 2, .zero = 0, .micro_batch = 16};
  rising[9] = {.tp = 2, .zero = 0, .micro_batch = 16};
  for (size_t i = 0; i < rising.size(); ++i) {
    for (size_t k = 0; k < rising.size(); ++k) EXPECT_EQ(goes_first(rising[i], rising[k]), i < k) << i << " " << k;
  }
  EXPECT_TRUE(goes_first({.tp = 8}, {.dp = 16}));  // fewer GPUs
}

// --- pay-off ---------------------------------------------------------------------------------------------------------

// A cost that follows from the configuration alone; some cannot be reached.
std::optional<Change> change_to(const ParallelConfig& config) {
  if (config.pp == 3) return std::nullopt;
  const int moved = 7 * config.tp + 5 * config.pp + 3 * config.cp + config.zero;
  return Change{.reconfiguration_s = moved % 13 * 0.5, .bytes_moved = moved};
}

TEST(Search, PayOffWeighsTheChangeAndAsksNoMoreThanItMust) {
  int lazy = 0;
  for (int seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Dice dice(seed);
    const ModelShape model = random_model(dice);
    SearchSpace space = random_space(dice);
    space.objective = Objective::kPayOff;
    space.horizon_s = dice.of<double>({3, 20, 1000});
    std::map<std::string, int> asked;
    space.change = [](const Candidate& c) { return change_to(c.config); };
    const PlainLoop plain(model, space);
    double last_s = 0;
    space.change = [&](const Candidate& c) {
      const double even_s = for_as_many_s(c, space);
      EXPECT_GE(even_s, last_s);
      last_s = even_s;
      EXPECT_EQ(++asked[canonical(c.config)], 1);
      return change_to(c.config);
    };
    const auto found = search(model, space);
    if (!found.ok()) continue;
    if (plain.points > 0) expect_same(plain, *found, space);
    std::set<std::string> configs;
    for (const Candidate& c : plain.fitting) configs.insert(canonical(c.config));
    lazy += asked.size() < configs.size() / 2 ? 1 : 0;
  }
  EXPECT_GT(lazy, 5);
}

TEST(Search, PayOffStaysWhereMovingCostsMore) {
  const ModelShape model = named("llama3-8b");
  SearchSpace space = space_of(16, 128, 4096);
  const Candidate fastest = search(model, space)->best.front();
  const ParallelConfig old{.tp = 8, .dp = 2, .zero = 1};
  space.objective = Objective::kPayOff;
  space.change = [&](const Candidate& c) { return Change{.reconfiguration_s = c.config == old ? 0.0 : 60}; };
  space.stay_step_s = 1.5 * fastest.time.step_s;
  space.horizon_s = 30;
  EXPECT_EQ(search(model, space)->best.front().config, old);  // all others take longer than the horizon
  space.horizon_s = 1e6;
  const Candidate moved = search(model, space)->best.front();
  EXPECT_EQ(moved.config, fastest.config);
  EXPECT_DOUBLE_EQ(*moved.pay_off_steps, 60 / (0.5 * fastest.time.step_s));
  EXPECT_DOUBLE_EQ(moved.score, moved.time.step_s * 1e6 / (1e6 - 60));
}

TEST(Search, NothingIsReachable) {
  SearchSpace space = space_of(8, 16, 2048);
  space.objective = Objective::kPayOff;
  space.change = [](const Candidate&) { return std::nullopt; };
  const auto found = search(named("llama3-8b"), space);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->best.empty());
  EXPECT_FALSE(found->no_fit);
  EXPECT_GT(found->unreachable, 0);
  EXPECT_EQ(found->unreachable, found->priced);
}

// --- hardware --------------------------------------------------------------------------------------------------------

TEST(Search, AsksForHardwareOnceAConfiguration) {
  SearchSpace space = space_of(16, 64, 4096);
  std::set<std::string> asked;
  space.hardware = [&](const ParallelConfig& config) {
    const std::string groups = fmt::format("{} {} {} {}", config.tp, config.cp, config.dp, config.pp);
    EXPECT_TRUE(asked.insert(groups).second) << groups;
    Hardware hardware = uniform_hardware(space.host, config);
    // A slow GPU somewhere: in a pipeline it delays all stages, and so it does without one.
    for (StageGpu& stage : hardware.stages) stage.speed = 0.5;
    return hardware;
  };
  const ModelShape model = named("llama3-8b");
  const auto slow = search(model, space);
  space.hardware = nullptr;
  const auto fast = search(model, space);
  EXPECT_GT(asked.size(), 3u);
  EXPECT_GT(slow->best.front().time.step_s, 1.3 * fast->best.front().time.step_s);
}

// --- scale -----------------------------------------------------------------------------------------------------------

TEST(Search, SixteenThousandGpusAreFewPricedPoints) {
  const auto found = search(named("llama3-405b"), space_of(16384, 2048, 8192));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->best.front().config.world(), 16384);
  EXPECT_GT(found->points, 1000);
  EXPECT_LT(found->priced, found->points / 2);
}

}  // namespace
}  // namespace scalai::step
