// Policies by linear programs: whole traces under Gavel's policies, and single programs of growing size. The yardstick
// of the run is a Gaussian elimination of 200 x 200 numbers in plain C++: `eliminations` is how many of them a case
// takes.
//
// BM_Trace needs a checkout of github.com/stanford-futuredata/gavel, named by SCALAI_GAVEL (its traces and table of
// throughputs); results/policies/run sets it, and runs Gavel's own simulator beside it.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/shares/pop.h"
#include "ptc/run/scenario/trace/import.h"
#include "ptc/run/scenario/trace/tables.h"
#include "sim/jobs/change.h"
#include "sim/jobs/engine.h"

namespace scalai::policy {
namespace {

double seconds_of_an_elimination() {
  constexpr size_t kRows = 200;
  double best = kNever;
  for (int repeat = 0; repeat < 5; ++repeat) {
    Random random(1);
    std::vector<std::vector<double>> rows(kRows, std::vector<double>(kRows));
    for (size_t i = 0; i < kRows; ++i) {
      for (double& value : rows[i]) {
        value = random.uniform();
      }
      rows[i][i] += kRows;
    }
    const auto begin = std::chrono::steady_clock::now();
    for (size_t k = 0; k < kRows; ++k) {
      for (size_t i = k + 1; i < kRows; ++i) {
        const double factor = rows[i][k] / rows[k][k];
        for (size_t j = k; j < kRows; ++j) {
          rows[i][j] -= factor * rows[k][j];
        }
      }
    }
    benchmark::DoNotOptimize(rows[kRows - 1][kRows - 1]);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

void add_ratio(benchmark::State& state, double seconds) {
  static const double yardstick_s = seconds_of_an_elimination();
  state.counters["eliminations"] = seconds / static_cast<double>(state.iterations()) / yardstick_s;
}

struct Case {
  const char* policy;
  const char* trace;
  int times = 1;  // the trace again every 20,000 s
};
constexpr Case kTraces[] = {{"gavel-max-min", "max_min_fairness"},
                            {"gavel-max-min-agnostic", "max_min_fairness"},
                            {"gavel-finish-time", "max_min_fairness"},
                            {"gavel-makespan", "minimize_makespan"},
                            {"gavel-makespan-agnostic", "minimize_makespan"},
                            {"gandiva", "minimize_makespan"},
                            {"gavel-max-min", "max_min_fairness", 5},
                            {"gavel-max-min", "max_min_fairness", 10}};
constexpr double kApart_s = 20000;

struct World {
  Workload workload;
  Fleet fleet;
  std::unique_ptr<Throughput> throughput;
};

Workload repeated(const Workload& once, int times) {
  Workload workload{.name = once.name, .jobs = {}};
  for (int k = 0; k < times; ++k) {
    for (Job job : once.jobs) {
      job.name += fmt::format("-{}", k);
      job.submit_s += k * kApart_s;
      workload.jobs.push_back(std::move(job));
    }
  }
  std::stable_sort(workload.jobs.begin(), workload.jobs.end(),
                   [](const Job& a, const Job& b) { return a.submit_s < b.submit_s; });
  return workload;
}

absl::StatusOr<World> gavel_world(const std::string& checkout, const std::string& trace, int times) {
  World world;
  SCALAI_ASSIGN_OR_RETURN(
      trace::Imported imported,
      trace::import_trace("gavel", fmt::format("{}/scheduler/traces/physical_cluster/{}.trace", checkout, trace)));
  world.workload = repeated(imported.workload, times);
  for (const auto& [name, gpus] : {std::pair{"v100", 8}, std::pair{"p100", 16}, std::pair{"k80", 24}}) {
    const GpuType type(static_cast<int64_t>(world.fleet.types.size()));
    world.fleet.hosts.insert(world.fleet.hosts.end(), static_cast<size_t>(gpus), HostSpec{type, 1});
    world.fleet.types.push_back({name, 0});
  }
  SCALAI_ASSIGN_OR_RETURN(world.throughput,
                          table_throughput("gavel", checkout + "/scheduler/simulation_throughputs.json", world.fleet,
                                           world.workload, trace::Beyond::kRefuse));
  return world;
}

absl::StatusOr<Outcome> run_once(const World& world, const char* name) {
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<Policy> policy, make_policy(name, {}, 1));
  const std::unique_ptr<jobs::ChangeModel> changes = jobs::make_constant_changes({});
  jobs::Setup setup;
  setup.workload = &world.workload;
  setup.fleet = &world.fleet;
  setup.throughput = world.throughput.get();
  setup.policy = policy.get();
  setup.changes = changes.get();
  return run(setup);
}

void BM_Trace(benchmark::State& state) {
  const Case& one = kTraces[state.range(0)];
  state.SetLabel(fmt::format("{} {} x {}", one.policy, one.trace, one.times));
  const char* checkout = std::getenv("SCALAI_GAVEL");
  if (checkout == nullptr) {
    state.SkipWithError("SCALAI_GAVEL does not name a checkout of Gavel");
    return;
  }
  const absl::StatusOr<World> world = gavel_world(checkout, one.trace, one.times);
  if (!world.ok()) {
    state.SkipWithError(message_of(world.status()).c_str());
    return;
  }
  double seconds = 0;
  double jct_s = 0;
  double last_s = 0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    const absl::StatusOr<Outcome> outcome = run_once(*world, one.policy);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!outcome.ok()) {
      state.SkipWithError(message_of(outcome.status()).c_str());
      return;
    }
    jct_s = 0;
    last_s = 0;
    for (const JobRecord& job : outcome->jobs) {
      jct_s += job.finish_s - world->workload.jobs[static_cast<size_t>(job.job.value)].submit_s;
      last_s = std::max(last_s, job.finish_s);
    }
    jct_s /= static_cast<double>(outcome->jobs.size());
  }
  state.counters["jct_h"] = jct_s / 3600;
  state.counters["makespan_h"] = last_s / 3600;
  add_ratio(state, seconds);
}

// n jobs of 1, 2 or 4 GPUs on n/4 GPUs of each of three types.
ShareProblem random_problem(int64_t jobs, bool packing) {
  Random random(1);
  ShareProblem problem;
  problem.gpus.assign(3, static_cast<int>(jobs) / 4);
  for (int64_t m = 0; m < jobs; ++m) {
    ShareJob& job = problem.jobs.emplace_back();
    job.id = JobId(m);
    job.gpus = 1 << random.below(3);
    for (double speed : {1.0, 0.5, 0.2}) {
      job.rates.push_back(speed * (0.5 + random.uniform()));
    }
  }
  for (int64_t type = 0; packing && type < 3; ++type) {
    for (int64_t a = 0; a < jobs; ++a) {
      for (int64_t b = a + 1; b < jobs; ++b) {
        const ShareJob& first = problem.jobs[static_cast<size_t>(a)];
        const ShareJob& second = problem.jobs[static_cast<size_t>(b)];
        if (first.gpus == second.gpus) {
          const auto j = static_cast<size_t>(type);
          problem.pairs.push_back({static_cast<int>(a), static_cast<int>(b), GpuType(type),
                                   first.rates[j] * (0.4 + 0.5 * random.uniform()),
                                   second.rates[j] * (0.4 + 0.5 * random.uniform())});
        }
      }
    }
  }
  return problem;
}

void time_shares(benchmark::State& state, const ShareProblem& problem, int groups) {
  double seconds = 0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    const absl::StatusOr<PopShares> shares = pop_shares(problem, {.groups = groups}, max_min_shares);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!shares.ok()) {
      state.SkipWithError(message_of(shares.status()).c_str());
      return;
    }
    state.counters["objective"] = shares->shares.objective;
  }
  add_ratio(state, seconds);
}

void BM_MaxMin(benchmark::State& state) { time_shares(state, random_problem(state.range(0), false), 1); }

// The second number is POP's groups: the sum over them, where POP's authors give set-up plus the slowest.
void BM_MaxMinPairs(benchmark::State& state) {
  time_shares(state, random_problem(state.range(0), true), static_cast<int>(state.range(1)));
}

// One-GPU jobs of 26 types, as in POP's list of 2,048: the rates of a pair are those of its types.
ShareProblem problem_of_types(int64_t jobs) {
  constexpr int64_t kTypes = 26;
  const ShareProblem types = random_problem(kTypes, false);
  Random random(2);
  std::vector<double> factor(kTypes * kTypes);
  for (double& value : factor) value = 0.4 + 0.5 * random.uniform();
  ShareProblem problem;
  problem.gpus.assign(3, static_cast<int>(jobs) / 4);
  for (int64_t m = 0; m < jobs; ++m) {
    problem.jobs.push_back(types.jobs[static_cast<size_t>(m % kTypes)]);
    problem.jobs.back().id = JobId(m);
    problem.jobs.back().gpus = 1;
  }
  for (int64_t type = 0; type < 3; ++type) {
    for (int64_t a = 0; a < jobs; ++a) {
      for (int64_t b = a + 1; b < jobs; ++b) {
        const auto rate = [&](int64_t one, int64_t other) {
          return problem.jobs[static_cast<size_t>(one)].rates[static_cast<size_t>(type)] *
                 factor[static_cast<size_t>(one % kTypes * kTypes + other % kTypes)];
        };
        problem.pairs.push_back({static_cast<int>(a), static_cast<int>(b), GpuType(type), rate(a, b), rate(b, a)});
      }
    }
  }
  return problem;
}

void BM_MaxMinPairsOfTypes(benchmark::State& state) {
  time_shares(state, problem_of_types(state.range(0)), static_cast<int>(state.range(1)));
}

BENCHMARK(BM_Trace)->DenseRange(0, std::size(kTraces) - 1)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_MaxMin)->Arg(128)->Arg(512)->Arg(2048)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_MaxMinPairs)
    ->Args({128, 1})
    ->Args({128, 2})
    ->Args({128, 4})
    ->Args({256, 4})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_MaxMinPairsOfTypes)->Args({128, 1})->Args({2048, 1})->Args({2048, 4})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace scalai::policy

BENCHMARK_MAIN();
