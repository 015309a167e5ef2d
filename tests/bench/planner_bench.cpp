// Planning time. The yardstick of the boxes case is the plain way, every old box against every new one; counters say
// how many times faster the planner is, how many operations it made and how large the plan file is.

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <chrono>
#include <optional>

#include "ptc/base/status.h"
#include "ptc/plan/lowering.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/plan_io.h"
#include "ptc/plan/planner.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::plan {
namespace {

using collection::Collection;

cluster::Cluster cluster_of(int hosts, int gpus) {
  cluster::Cluster cluster{.name = "bench"};
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

int64_t operations_of(const Plan& plan) {
  int64_t count = 0;
  for (const Instance& instance : plan.instances())
    count += static_cast<int64_t>(plan.patterns().legs(instance.pattern).size() * plan.tensors_of(instance).size());
  return count;
}

void count(benchmark::State& state, const Plan& plan) {
  state.counters["operations"] = static_cast<double>(operations_of(plan));
  state.counters["instances"] = static_cast<double>(plan.instances().size());
  state.counters["patterns"] = static_cast<double>(plan.patterns().size());
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
  const cluster::Cluster cluster = cluster_of(n / 8, 8);
  const Collection from = one_tensor(n, 1'000'003);
  Collection to = one_tensor(n, 1'000'003);
  to.tensors[0].layout.cuts[0].rule = tensor::SplitRule::kCeil;
  const collection::Residency residency;
  double planning_s = 0;
  std::optional<Plan> plan;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    plan = make_plan({.from = from, .to = to, .cluster = cluster, .residency = residency, .options = {}}).value();
    planning_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  count(state, *plan);
  state.counters["all_pairs_over_planner"] =
      all_pairs_s(from, to) / (planning_s / static_cast<double>(state.iterations()));
}
BENCHMARK(BM_Boxes)->Arg(64)->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond);

// How long patterns take alone, and with the program of every device streamed to somebody who only counts.
struct Change {
  const char* model;
  const char* from;
  const char* to;
  int gpus_per_host = 8;
  bool buckets = false;  // Megatron's distributed optimizer
  std::vector<DeviceId> lost = {};
  int spare = 0;  // devices beyond both sides
};

void plan_model(benchmark::State& state, const Change& change) {
  const model::Model model = model::find_model(change.model).value();
  const model::Recipe recipe{.param = tensor::DType::kBF16};
  const auto collection_of = [&](const char* layout) {
    const collection::ParallelConfig config = collection::parse_layout(layout).value();
    return collection::megatron_collection(model, recipe, config, first_devices(config.world()),
                                           {.distributed_optimizer_buckets = change.buckets})
        .value();
  };
  const Collection from = collection_of(change.from);
  Collection to = collection_of(change.to);
  const int devices = std::max(from.ranks(), to.ranks()) + change.spare;
  const cluster::Cluster cluster =
      cluster_of((devices + change.gpus_per_host - 1) / change.gpus_per_host, change.gpus_per_host);
  const collection::Residency residency{.lost = {change.lost.begin(), change.lost.end()}, .extra = {}};
  std::vector<DeviceId> candidates;
  for (const DeviceId device : first_devices(devices)) {
    if (!residency.lost.contains(device)) candidates.push_back(device);
  }
  const PlannerInput input{.from = from, .to = to, .cluster = cluster, .residency = residency, .options = {}};
  const auto start = std::chrono::steady_clock::now();
  to.device_of_rank.assign(candidates.begin(), candidates.begin() + to.ranks());
  to.device_of_rank = place(input, {.rule = PlacementRule::kHosts}, candidates);
  state.counters["placement_s"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::optional<Plan> plan;
  double patterns_s = 0;
  int64_t steps = 0, rounds = 0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    plan = make_plan(input).value();
    patterns_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const Lowering lowering(*plan);
    for (int device = 0; device < cluster.device_count(); ++device)
      steps += static_cast<int64_t>(lowering.program(DeviceId(device)).size());
    ++rounds;
  }
  state.counters["patterns_s"] = patterns_s / static_cast<double>(rounds);
  state.counters["program_steps"] = static_cast<double>(steps) / static_cast<double>(rounds);
  state.counters["cross_host_gb"] = static_cast<double>(plan->bytes().cross_host) / 1e9;
  state.counters["bound_gb"] = static_cast<double>(plan->lower_bound().cross_host) / 1e9;
  count(state, *plan);
}

// A pod of 64 GPUs in one stage: eight hosts.
std::vector<DeviceId> pod(int first) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < 64; ++i) devices.emplace_back(first + i);
  return devices;
}

BENCHMARK_CAPTURE(plan_model, gpt3_6_7b_8_to_16,
                  Change{.model = "gpt3-6.7b", .from = "tp4,pp2", .to = "tp4,pp2,dp2", .gpus_per_host = 4})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_model, llama3_70b_64_to_96,
                  Change{.model = "llama3-70b", .from = "tp8,pp4,dp2", .to = "tp8,pp4,dp3"})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_model, mixtral_8x22b_ep4_to_ep8,
                  Change{.model = "mixtral-8x22b", .from = "tp2,pp4,dp8,ep4", .to = "tp2,pp4,dp8,ep8"})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(
    plan_model, llama3_405b_16384_to_dp96,
    Change{.model = "llama3-405b", .from = "tp8,pp16,dp128,zero1", .to = "tp8,pp16,dp96,zero1", .buckets = true})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(
    plan_model, llama3_405b_16384_to_pp12,
    Change{.model = "llama3-405b", .from = "tp8,pp16,dp128,zero1", .to = "tp8,pp12,dp128,zero1", .buckets = true})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(plan_model, llama3_405b_16384_to_dp127,
                  Change{.model = "llama3-405b",
                         .from = "tp8,pp16,dp128,zero1",
                         .to = "tp8,pp16,dp127,zero1",
                         .buckets = true,
                         .lost = pod(4 * 1024)})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace scalai::plan

BENCHMARK_MAIN();
