// How fast the exact max-min back end is: N flows between random pairs of a star of 1,024 hosts, sizes all different,
// so that every end is an event of its own. Counters: flows/s to the end of all flows, and `x_naive`, how many times
// faster the first events are than with a solver that works out all rates from scratch after each of them.

#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/cost/change/network.h"
#include "sim/simgrid_backend.h"

namespace scalai::sim {
namespace {

using change::NetworkBackend;
using change::NetworkSpec;

constexpr int kHosts = 1024;
constexpr double kBytesPerSecond = 50e9;
constexpr uint64_t kSeed = 1;
constexpr int kNaiveEvents = 100;
constexpr double kForever = std::numeric_limits<double>::infinity();

struct Flow {
  int src = 0;
  int dst = 0;
  double bytes = 0;
};

NetworkSpec make_star() {
  NetworkSpec network;
  for (int host = 0; host < kHosts; ++host) {
    network.links.push_back({fmt::format("h{}.up", host), kBytesPerSecond});
    network.links.push_back({fmt::format("h{}.down", host), kBytesPerSecond});
    network.endpoints.push_back({fmt::format("h{}", host), {2 * host}, {2 * host + 1}});
  }
  return network;
}

std::vector<Flow> make_flows(int64_t count) {
  std::mt19937_64 random(kSeed);
  std::uniform_int_distribution<int> host(0, kHosts - 1);
  std::uniform_real_distribution<double> bytes(1e6, 1e9);
  std::vector<Flow> flows(count);
  for (Flow& flow : flows) flow = {.src = host(random), .dst = host(random), .bytes = bytes(random)};
  return flows;
}

// Runs until `ends` flows have ended; returns the virtual time of the last one.
double run_backend(const NetworkSpec& network, const std::vector<Flow>& flows, size_t ends) {
  double end_s = 0;
  const absl::Status status = with_backend(BackendKind::kMaxMin, network, [&](NetworkBackend& backend) {
    for (const Flow& flow : flows) backend.start(flow.src, flow.dst, flow.bytes);
    for (size_t ended = 0; ended < ends;) ended += backend.advance_to(kForever).size();
    end_s = backend.now_s();
  });
  SCALAI_CHECK(status.ok(), message_of(status));
  return end_s;
}

// Textbook water-filling: find the tightest link, freeze its flows, repeat.
std::vector<double> naive_rates(const std::vector<Flow>& flows) {
  std::vector<double> rates(flows.size(), 0);
  std::vector<double> left(2 * kHosts, kBytesPerSecond);
  std::vector<std::vector<size_t>> users(2 * kHosts);
  std::vector<int> rising(2 * kHosts, 0);
  for (size_t i = 0; i < flows.size(); ++i) {
    for (int link : {2 * flows[i].src, 2 * flows[i].dst + 1}) users[link].push_back(i), ++rising[link];
  }
  while (true) {
    int tightest = -1;
    for (int link = 0; link < 2 * kHosts; ++link) {
      if (rising[link] == 0) continue;
      if (tightest < 0 || left[link] / rising[link] < left[tightest] / rising[tightest]) tightest = link;
    }
    if (tightest < 0) return rates;
    const double share = left[tightest] / rising[tightest];
    for (size_t i : users[tightest]) {
      if (rates[i] > 0) continue;
      rates[i] = share;
      for (int link : {2 * flows[i].src, 2 * flows[i].dst + 1}) left[link] -= share, --rising[link];
    }
  }
}

double run_naive(std::vector<Flow> flows, size_t ends) {
  double now_s = 0;
  for (size_t ended = 0; ended < ends; ++ended) {
    const std::vector<double> rates = naive_rates(flows);
    size_t first = 0;
    for (size_t i = 1; i < flows.size(); ++i) {
      if (flows[i].bytes / rates[i] < flows[first].bytes / rates[first]) first = i;
    }
    const double step_s = flows[first].bytes / rates[first];
    for (size_t i = 0; i < flows.size(); ++i) flows[i].bytes -= rates[i] * step_s;
    flows.erase(flows.begin() + static_cast<std::ptrdiff_t>(first));
    now_s += step_s;
  }
  return now_s;
}

template <class Run>
double seconds_of(Run run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The two solvers over the same first events; the run with no event is what setting up costs.
double times_naive(const NetworkSpec& network, const std::vector<Flow>& flows) {
  double naive_end_s = 0;
  double end_s = 0;
  const double naive_s = seconds_of([&] { naive_end_s = run_naive(flows, kNaiveEvents); });
  const double setup_s = seconds_of([&] { run_backend(network, flows, 0); });
  const double ours_s = seconds_of([&] { end_s = run_backend(network, flows, kNaiveEvents); });
  SCALAI_CHECK(std::abs(end_s - naive_end_s) <= 1e-9 * naive_end_s, fmt::format("{} and {}", end_s, naive_end_s));
  return naive_s / (ours_s - setup_s);
}

void BM_StarOfRandomFlows(benchmark::State& state) {
  const NetworkSpec network = make_star();
  const std::vector<Flow> flows = make_flows(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(run_backend(network, flows, flows.size()));
  state.counters["flows/s"] =
      benchmark::Counter(static_cast<double>(flows.size()), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["x_naive"] = times_naive(network, flows);
}
BENCHMARK(BM_StarOfRandomFlows)->Arg(1000)->Arg(5000)->Arg(10000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace scalai::sim

BENCHMARK_MAIN();
