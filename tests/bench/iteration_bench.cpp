// How long one simulated training step takes: Llama-3 405B as tp8,pp16 on up to 16,384 GPUs, all alike, or with one
// slow GPU, which leaves little symmetry. Counters: classes of ranks, events/s, and `x_whole`, how many times faster
// folding by symmetry is than every rank by itself, both on 1,024 GPUs.

#include <chrono>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/cost/step/step_time.h"
#include "ptc/state/model/catalogue.h"
#include "sim/iteration.h"

namespace scalai::sim {
namespace {

constexpr int kStages = 16;
constexpr int kSmallReplicas = 8;

struct Setting {
  cluster::Cluster cluster;
  collection::ParallelConfig config;
  std::vector<step::StepParts> parts;  // of a GPU, of one at half speed
  std::vector<DeviceId> devices;
  std::vector<int> parts_of_rank;

  IterationJob job() const {
    return {.config = config, .devices = devices, .parts = parts, .parts_of_rank = parts_of_rank};
  }
};

Setting make_setting(int replicas, int micro_batches, bool one_slow) {
  Setting made;
  made.config = {.tp = 8, .pp = kStages, .dp = replicas, .zero = 1};
  for (int h = 0; h < made.config.world() / 8; ++h) {
    cluster::Host host{.first_device = 8 * h, .gpus = 8, .gpu = *cluster::find_gpu_kind("h100-80g")};
    host.gpu_link_bytes_per_s = host.gpu.link_bytes_per_s;
    host.pcie_bytes_per_s = host.gpu.pcie_bytes_per_s;
    host.nics = 8;
    host.nic_bytes_per_s = 50e9;
    made.cluster.hosts.push_back(host);
  }
  for (int rank = 0; rank < made.config.world(); ++rank) made.devices.push_back(DeviceId(rank));
  made.parts_of_rank.assign(made.devices.size(), 0);
  if (one_slow) made.parts_of_rank[made.devices.size() / 3] = 1;
  const step::ModelShape model = step::shape_of(model::find_model("llama3-405b").value());
  const step::Training training{.global_batch = replicas * micro_batches, .micro_batch = 1, .sequence = 8192};
  step::Hardware hardware = step::hardware_of(made.cluster, made.config, made.devices);
  for (const double speed : {1.0, 0.5}) {
    hardware.stages = {{.gpu = made.cluster.hosts.front().gpu, .speed = speed}};
    made.parts.push_back(step::step_parts({model, made.config, training}, hardware));
  }
  return made;
}

double seconds_of(const Setting& setting, const change::Platform& platform, bool fold) {
  const IterationJob job = setting.job();
  const auto begin = std::chrono::steady_clock::now();
  benchmark::DoNotOptimize(simulate_iterations(platform, {}, {&job, 1}, {.fold = fold}));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void simulate(benchmark::State& state, bool one_slow) {
  const int micro_batches = static_cast<int>(state.range(1));
  const Setting setting = make_setting(static_cast<int>(state.range(0)), micro_batches, one_slow);
  IterationResult result;
  for (auto _ : state) {  // links and endpoints included
    const change::Platform platform(setting.cluster);
    const IterationJob job = setting.job();
    result = simulate_iterations(platform, {}, {&job, 1});
  }
  const Setting small = make_setting(kSmallReplicas, micro_batches, one_slow);
  const change::Platform platform(small.cluster);
  state.counters["classes"] = static_cast<double>(result.units);
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(result.events), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["x_whole"] = seconds_of(small, platform, false) / seconds_of(small, platform, true);
}

void BM_AllAlike(benchmark::State& state) { simulate(state, false); }
void BM_OneSlowGpu(benchmark::State& state) { simulate(state, true); }
BENCHMARK(BM_AllAlike)->Args({8, 16})->Args({128, 16})->Args({128, 64})->Unit(benchmark::kMillisecond);
BENCHMARK(BM_OneSlowGpu)->Args({8, 16})->Args({128, 16})->Args({128, 64})->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace scalai::sim

BENCHMARK_MAIN();
