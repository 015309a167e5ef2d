// Planning time. The yardstick of the boxes case is the plain way, every old box against every new one; counters say how
// many times faster the planner is, how many operations it made and how large the plan file is.

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <chrono>

#include "ptc/base/status.h"
#include "ptc/collection/megatron.h"
#include "ptc/model/catalogue.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/plan_io.h"
#include "ptc/plan/planner.h"

namespace scalai::plan {
namespace {

using collection::Collection;

Cluster cluster_of(int hosts, int gpus) {
  Cluster cluster{.name = "bench"};
  for (int i = 0; i < hosts; ++i) cluster.hosts.push_back({.first_device = i * gpus, .gpus = gpus});
  return cluster;
}

std::vector<DeviceId> first_devices(int count) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < count; ++i) devices.emplace_back(i);
  return devices;
}

double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void count(benchmark::State& state, const Plan& plan) {
  state.counters["operations"] = static_cast<double>(plan.operations.size());
  state.counters["plan_bytes"] = static_cast<double>(serialize(plan).size());
  state.counters["peak_rss_mib"] = peak_rss_mib();
}

Collection one_tensor(int ranks, int64_t rows) {
  collection::LogicalTensor tensor{.name = "w", .shape = tensor::Shape({rows, 8})};
  tensor.layout.cuts.push_back({.axis = "tp", .dim = 0, .rule = tensor::SplitRule::kBalanced});
  return {.name = "bench",
          .meshes = {collection::Mesh({{"tp", ranks}})},
          .tensors = {tensor},
          .device_of_rank = first_devices(ranks)};
}

// Seconds of looking at every pair of boxes once.
double all_pairs_s(const Collection& from, const Collection& to) {
  const auto start = std::chrono::steady_clock::now();
  int64_t overlapping = 0;
  std::vector<tensor::Box> old, wanted;
  for (int r = 0; r < from.ranks(); ++r) old.push_back(from.pieces(TensorId(0), LogicalRank(r)).pieces.front().box);
  for (int r = 0; r < to.ranks(); ++r) wanted.push_back(to.pieces(TensorId(0), LogicalRank(r)).pieces.front().box);
  for (const tensor::Box& a : wanted) {
    for (const tensor::Box& b : old) overlapping += tensor::intersect(a, b).has_value() ? 1 : 0;
  }
  benchmark::DoNotOptimize(overlapping);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One tensor in n boxes onto n others with different bounds.
void BM_Boxes(benchmark::State& state) {
  const int n = static_cast<int>(state.range(0));
  const Cluster cluster = cluster_of(n / 8, 8);
  const Collection from = one_tensor(n, 1'000'003);
  Collection to = one_tensor(n, 1'000'003);
  to.tensors[0].layout.cuts[0].rule = tensor::SplitRule::kCeil;
  const collection::Residency residency;
  double planning_s = 0;
  Plan plan;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    plan = make_plan({.from = from, .to = to, .cluster = cluster, .residency = residency, .options = {}}).value();
    planning_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  count(state, plan);
  state.counters["all_pairs_over_planner"] =
      all_pairs_s(from, to) / (planning_s / static_cast<double>(state.iterations()));
}
BENCHMARK(BM_Boxes)->Arg(64)->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond);

void plan_model(benchmark::State& state, const char* model_name, const char* from_layout, const char* to_layout,
                int gpus) {
  const model::Model model = model::find_model(model_name).value();
  const model::Recipe recipe{.param = tensor::DType::kBF16};
  const auto collection_of = [&](const char* layout) {
    const collection::ParallelConfig config = collection::parse_layout(layout).value();
    return collection::megatron_collection(model, recipe, config, first_devices(config.world())).value();
  };
  const Collection from = collection_of(from_layout);
  Collection to = collection_of(to_layout);
  const Cluster cluster = cluster_of((std::max(from.ranks(), to.ranks()) + gpus - 1) / gpus, gpus);
  const collection::Residency residency;
  Plan plan;
  for (auto _ : state) {
    const PlannerInput input{.from = from, .to = to, .cluster = cluster, .residency = residency, .options = {}};
    to.device_of_rank = place(input, first_devices(to.ranks()));
    plan = make_plan(input).value();
  }
  count(state, plan);
}
BENCHMARK_CAPTURE(plan_model, gpt3_6_7b_8_to_16, "gpt3-6.7b", "tp4,pp2", "tp4,pp2,dp2", 4)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_model, llama3_70b_64_to_96, "llama3-70b", "tp8,pp4,dp2", "tp8,pp4,dp3", 8)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_model, llama3_405b_2048_to_1536, "llama3-405b", "tp8,pp16,dp16", "tp8,pp16,dp12", 8)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace scalai::plan

BENCHMARK_MAIN();
