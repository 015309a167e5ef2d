// Cost of an event of the order policies, on workloads that look like Philly's: how it grows with the number of jobs
// (against 1,000 of them), and against the yardstick, a binary heap of times into which as many events are pushed and
// popped.

#include <benchmark/benchmark.h>

#include <cmath>
#include <ctime>
#include <queue>
#include <string>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::policy {
namespace {

constexpr int kGpus = 2490;

// Nine in ten jobs ask for one GPU, run times spread over five decades (median some 20 min); the load is a little more
// than the cluster has, so that a line forms and grows with the number of jobs.
Workload philly_like(int64_t jobs) {
  Random random(1);
  Workload workload{.name = "bench", .jobs = {}};
  double at_s = 0;
  for (int64_t k = 0; k < jobs; ++k) {
    at_s += static_cast<double>(random.below(24));
    const int gpus = random.below(10) > 0 ? 1 : 1 << random.between(1, 5);
    const double seconds = std::floor(std::pow(10.0, 1 + 4.5 * random.uniform() * random.uniform() + random.uniform()));
    workload.jobs.push_back(policy::testing::rigid_job(std::to_string(k), at_s, gpus, 1 + seconds));
  }
  return workload;
}

// Of the processor: other programs may run beside this one.
double seconds_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / static_cast<double>(CLOCKS_PER_SEC);
}

// Seconds an event under a policy; counts events.
double seconds_an_event(const std::string& name, const Workload& workload, int64_t* events) {
  const Fleet fleet = policy::testing::plain_fleet(kGpus, 1);
  const policy::testing::PlainThroughput throughput;
  const auto changes = make_constant_changes({});
  const auto policy = make_policy(name, {}, 1);
  SCALAI_CHECK(policy.ok());
  const std::clock_t start = std::clock();
  const absl::StatusOr<Outcome> outcome = run(jobs::Setup{.workload = &workload,
                                                          .fleet = &fleet,
                                                          .throughput = &throughput,
                                                          .policy = policy->get(),
                                                          .changes = changes.get()});
  SCALAI_CHECK(outcome.ok(), message_of(outcome.status()));
  *events = outcome->events;
  return seconds_since(start) / static_cast<double>(outcome->events);
}

// The same number of times through a heap that holds as many as there are jobs.
double seconds_a_heap_event(const Workload& workload, int64_t events) {
  const std::clock_t start = std::clock();
  std::priority_queue<std::pair<double, int64_t>> heap;
  Random random(2);
  for (size_t k = 0; k < workload.jobs.size(); ++k) heap.emplace(random.uniform(), static_cast<int64_t>(k));
  for (int64_t k = 0; k < events; ++k) {
    const int64_t id = heap.top().second;
    heap.pop();
    heap.emplace(random.uniform(), id);
  }
  benchmark::DoNotOptimize(heap.top());
  return seconds_since(start) / static_cast<double>(events);
}

void order_policy(benchmark::State& state, const std::string& name) {
  const Workload workload = philly_like(state.range(0));
  const Workload thousand = philly_like(1000);
  double an_event = 0, yardstick = 0;
  int64_t events = 0;
  for (auto unused : state) {
    an_event += seconds_an_event(name, workload, &events);
    yardstick += seconds_a_heap_event(workload, events);
  }
  int64_t few = 0;
  double small = 0;
  constexpr int kRepeats = 20;  // short runs
  for (int k = 0; k < kRepeats; ++k) small += seconds_an_event(name, thousand, &few) / kRepeats;
  const double rounds = static_cast<double>(state.iterations());
  state.counters["events"] = static_cast<double>(events);
  state.counters["events_per_s"] = rounds / an_event;
  state.counters["cost_to_1000_jobs"] = an_event / rounds / small;
  state.counters["cost_to_heap"] = an_event / yardstick;
}

BENCHMARK_CAPTURE(order_policy, fifo_backfill, "fifo-backfill")
    ->Arg(1000)
    ->Arg(10000)
    ->Arg(80000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(order_policy, srtf, "srtf")->Arg(1000)->Arg(10000)->Arg(80000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(order_policy, tiresias, "tiresias")->Arg(1000)->Arg(10000)->Arg(80000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace scalai::policy

BENCHMARK_MAIN();
