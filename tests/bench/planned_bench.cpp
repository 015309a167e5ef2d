// A job of 405B parameters on 16,384 GPUs for 54 days with 419 failures (the Llama 3 report's numbers), through the
// engine of many jobs, with every change planned and its bytes on the fabric. The yardstick is one plan made anew,
// measured in the same run: `anew` says how many times longer the run would take if each change were planned.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "ptc/base/random.h"
#include "ptc/cost/step/devices.h"
#include "sim/jobs/change_fabric.h"
#include "sim/jobs/engine.h"
#include "sim/jobs/planned/change_plan.h"
#include "sim/jobs/planned/model_throughput.h"
#include "sim/jobs/planned/planned.h"
#include "sim/jobs/planned/testing/support.h"

namespace scalai::policy {
namespace {

constexpr int kHosts = 2048, kGpusAHost = 8, kFailures = 419;
constexpr double kDays = 54, kDay_s = 86400, kRepair_s = 6 * 3600;

// All GPUs that are up, up to so many.
class Everything : public Policy {
 public:
  explicit Everything(int most) : most_(most) {}
  PolicyTraits traits() const override { return {.preemptive = true, .elastic = true}; }
  absl::StatusOr<Decision> decide(const View& view, std::span<const Event>) override {
    Decision decision;
    const int gpus = std::min(most_, view.capacity(GpuType(0)));
    for (const JobId job : view.active()) {
      if (view.progress(job).placement.gpus() == gpus) continue;
      decision.grants.push_back({.job = job, .type = GpuType(0), .gpus = gpus, .hosts = {}, .beside = JobId()});
    }
    return decision;
  }

 private:
  int most_;
};

cluster::Cluster cluster_with(int spares) {
  cluster::Cluster cluster = testing::cluster_of(
      {.hosts = kHosts + spares, .gpus = kGpusAHost, .nics = kGpusAHost, .nic_bytes_per_s = 50e9, .gpu = "h100-80g"});
  cluster.storage_read_bytes_per_s = cluster.storage_write_bytes_per_s = 2e12;
  return cluster;
}

// Exponential times between failures of hosts that are up; back after kRepair_s.
Availability failures(int hosts, uint64_t seed) {
  Random random(seed);
  Availability availability;
  std::vector<double> down_until(static_cast<size_t>(hosts), 0);
  double at_s = 0;
  for (int k = 0; k < kFailures; ++k) {
    at_s -= std::log(1 - random.uniform()) * kDays * kDay_s / kFailures;
    HostId host(random.below(hosts));
    while (down_until[static_cast<size_t>(host.value)] > at_s) host = HostId(random.below(hosts));
    down_until[static_cast<size_t>(host.value)] = at_s + kRepair_s;
    availability.events.push_back({.at_s = at_s, .kind = FleetEvent::Kind::kFailed, .hosts = {host}});
    availability.events.push_back({.at_s = at_s + kRepair_s, .kind = FleetEvent::Kind::kUp, .hosts = {host}});
  }
  std::stable_sort(availability.events.begin(), availability.events.end(),
                   [](const FleetEvent& a, const FleetEvent& b) { return a.at_s < b.at_s; });
  return availability;
}

// One host's state fetched by a spare, planned without the cache.
double plan_anew_s(const testing::World& world, const Job& job) {
  const jobs::Configuration& configuration = *world.configurations->best(job, GpuType(0), kHosts * kGpusAHost);
  std::vector<DeviceId> devices;
  for (int d = 0; d < world.cluster.device_count(); ++d) devices.emplace_back(d);
  const jobs::HeldState held{.model = configuration.model,
                             .config = configuration.config,
                             .devices = step::devices_for(configuration.config, devices, world.cluster)};
  const jobs::ChangePlanner planner(world.cluster, {});
  const auto start = std::chrono::steady_clock::now();
  const auto made = planner.plan_anew({.from = &held, .lost = {}, .to = &configuration, .devices = devices});
  SCALAI_CHECK(made.ok(), message_of(made.status()));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void fifty_four_days(benchmark::State& state, int spares, const std::string& pins, bool whole_batches) {
  testing::World world(cluster_with(spares), {.sequence = 8192, .pins = pins, .whole_batches = whole_batches});
  const Job job = world.add("llama3-405b", kHosts, 1e12);
  world.workload.jobs[0].gpus = world.workload.jobs[0].max_gpus = kHosts * kGpusAHost;
  const auto throughput = make_model_throughput(*world.configurations);
  const Availability availability = failures(kHosts + spares, 7);
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const auto fabric = sim::make_change_fabric(world.cluster);
    const auto changes =
        make_planned_changes(*world.configurations, *fabric, {.checkpoint_every_s = 472, .checkpoint_write_s = 10});
    Everything policy(kHosts * kGpusAHost);
    const auto outcome = run({.workload = &world.workload,
                              .fleet = &world.fleet,
                              .availability = &availability,
                              .throughput = throughput.get(),
                              .policy = &policy,
                              .changes = changes.get(),
                              .options = {.until_s = kDays * kDay_s}});
    SCALAI_CHECK(outcome.ok(), message_of(outcome.status()));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const jobs::PlannedCounts& counts = changes->counts();
    state.counters["changes"] = static_cast<double>(counts.changes);
    state.counters["plans"] = static_cast<double>(counts.plans);
    state.counters["from_storage"] = static_cast<double>(counts.from_storage);
    state.counters["anew"] = plan_anew_s(world, job) * static_cast<double>(counts.changes) / seconds;
    state.counters["changing_share"] = outcome->changing_gpu_s / outcome->up_gpu_s;
  }
}

// A spare takes the failed host's place; replicas by context parallelism hold its state.
BENCHMARK_CAPTURE(fifty_four_days, spares_16, 16, "tp8", true)->Unit(benchmark::kSecond)->Iterations(1);
// Lost shards come from storage.
BENCHMARK_CAPTURE(fifty_four_days, spares_16_sharded, 16, "tp8,pp16,cp1", true)
    ->Unit(benchmark::kSecond)
    ->Iterations(1);
// None: the job shrinks, and grows again when the host is back.
BENCHMARK_CAPTURE(fifty_four_days, elastic, 0, "tp8,pp16,cp1", false)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace scalai::policy

BENCHMARK_MAIN();
