#include "sim/jobs/recovery/recovery.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "ptc/base/random.h"
#include "sim/jobs/recovery/testing/support.h"

namespace scalai::jobs {
namespace recovery_test {

using Kind = policy::FleetEvent::Kind;
using testing::host_event;

constexpr RecoveryDesign kSteadyDesigns[] = {RecoveryDesign::kCheckpointRestart, RecoveryDesign::kRedundancy,
                                             RecoveryDesign::kTemplates, RecoveryDesign::kSpareSwap,
                                             RecoveryDesign::kReshard};
// Hosts come and go at random times, some after a notice.
policy::Availability random_trace(Random& random, int hosts, double until_s) {
  policy::Availability trace;
  for (int host = 0; host < hosts; ++host) trace.up.push_back(random.below(3) > 0);
  std::vector<uint8_t> up = trace.up;
  for (double at_s = 0;;) {
    at_s += random.uniform() * 60;
    if (at_s > until_s) return trace;
    const int host = static_cast<int>(random.below(hosts));
    uint8_t& there = up[static_cast<size_t>(host)];
    if (there != 0 && random.below(3) == 0) trace.events.push_back(host_event(at_s, Kind::kNotice, {host}));
    const Kind gone = random.below(2) == 0 ? Kind::kFailed : Kind::kTaken;
    trace.events.push_back(host_event(at_s, there != 0 ? gone : Kind::kUp, {host}));
    there = there == 0;
  }
}

// Not always growing.
std::vector<double> random_table(Random& random, int hosts) {
  std::vector<double> rates = {0};
  for (int n = 1; n <= hosts; ++n) rates.push_back(random.below(8) == 0 ? 0 : n * (0.5 + random.uniform()));
  return rates;
}

// What no design can exceed: the fastest table entry of the hosts that are up, all the time. With redundancy a host can
// stand in for another: as if there were up to twice as many, slowed down by 1.5.
double most_samples(const policy::Availability& trace, const std::vector<double>& rates, double until_s,
                    bool doubled = false) {
  int live = static_cast<int>(std::count(trace.up.begin(), trace.up.end(), 1));
  double samples = 0, from_s = 0;
  const auto until = [&](double at_s) {
    const auto fastest = [&rates](int n) { return *std::max_element(rates.begin(), rates.begin() + n + 1); };
    const int most = std::min(2 * live, static_cast<int>(rates.size()) - 1);
    samples += (doubled ? std::max(fastest(live), fastest(most) / 1.5) : fastest(live)) * (at_s - from_s);
    from_s = at_s;
  };
  for (const policy::FleetEvent& event : trace.events) {
    until(event.at_s);
    if (event.kind != Kind::kNotice) live += event.kind == Kind::kUp ? 1 : -1;
  }
  until(until_s);
  return samples;
}

double host_hours(const policy::Availability& trace, double until_s) {
  std::vector<double> always(trace.up.size() + 1);
  for (size_t n = 0; n < always.size(); ++n) always[n] = static_cast<double>(n);
  return most_samples(trace, always, until_s) / 3600;
}

RecoverySetup setup_of(RecoveryDesign design, const policy::Availability& trace, const std::vector<double>& rates) {
  RecoverySetup setup;
  setup.design = design;
  setup.availability = &trace;
  setup.hosts = static_cast<int>(trace.up.size());
  setup.until_s = 3600;
  setup.samples_per_s = [&rates](int n) { return rates[static_cast<size_t>(n)]; };
  setup.samples_per_step = 8;
  setup.costs.change_s = [](const HostChange&) { return 0.0; };
  setup.costs.step_lost = false;
  setup.stages = 2;
  setup.spares = 1;
  return setup;
}

// Nothing comes from nothing, all GPU time is accounted for, and with free changes reshard is the bound itself.
TEST(Recovery, RandomTraces) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int hosts = static_cast<int>(random.between(3, 12));
    const policy::Availability trace = random_trace(random, hosts, 3600);
    const std::vector<double> rates = random_table(random, hosts);
    for (const RecoveryDesign design : kSteadyDesigns) {
      SCOPED_TRACE(static_cast<int>(design));
      const double bound = most_samples(trace, rates, 3600, design == RecoveryDesign::kRedundancy);
      RecoverySetup setup = setup_of(design, trace, rates);
      const auto free = simulate_recovery(setup);
      ASSERT_TRUE(free.ok()) << free.status().ToString();
      EXPECT_LE(free->samples, bound * (1 + 1e-9));
      if (design == RecoveryDesign::kReshard) {
        EXPECT_NEAR(free->samples, bound, 1e-6 * bound + 1e-6);
      }
      const double cost = random.uniform() * 30;
      setup.costs.change_s = [cost](const HostChange&) { return cost; };
      setup.costs.detect_s = random.uniform() * 5;
      setup.costs.host_ready_s = random.uniform() * 20;
      setup.costs.step_lost = true;
      setup.checkpoints = {.every_s = 50, .write_s = 2};
      const auto paid = simulate_recovery(setup);
      ASSERT_TRUE(paid.ok()) << paid.status().ToString();
      EXPECT_LE(paid->samples, bound * (1 + 1e-9));
      EXPECT_GE(paid->samples, -1e-9);
      EXPECT_GE(paid->ettr, -1e-9);
      EXPECT_LE(paid->ettr, 1 + 1e-9);
      EXPECT_NEAR(testing::all_gpu_hours(*paid), host_hours(trace, 3600), 1e-6);
      for (const double part :
           {paid->training_gpu_h, paid->lost_gpu_h, paid->changing_gpu_h, paid->checkpoint_gpu_h, paid->idle_gpu_h}) {
        EXPECT_GE(part, -1e-9);
      }
    }
  }
}

TEST(Recovery, IsTheSameTwice) {
  Random random(7);
  const policy::Availability trace = random_trace(random, 8, 3600);
  const std::vector<double> rates = random_table(random, 8);
  for (const RecoveryDesign design : kSteadyDesigns) {
    const auto first = simulate_recovery(setup_of(design, trace, rates));
    const auto second = simulate_recovery(setup_of(design, trace, rates));
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(first->samples, second->samples);
    EXPECT_EQ(first->phases.size(), second->phases.size());
  }
}

// 54 days, 2,048 hosts of 8 GPUs, 419 failures.
TEST(Recovery, FiftyFourDays) {
  Random random(3);
  std::vector<double> moments;
  for (int i = 0; i < 419; ++i) moments.push_back(random.uniform() * 54 * 86400);
  std::sort(moments.begin(), moments.end());
  policy::Availability trace;
  for (const double at_s : moments) {
    const int host = static_cast<int>(random.below(2048));
    trace.events.push_back(host_event(at_s, Kind::kFailed, {host}));
    trace.events.push_back(host_event(at_s, Kind::kUp, {host}));
  }
  RecoverySetup setup = testing::linear_setup(RecoveryDesign::kCheckpointRestart, trace, 2048, 54 * 86400);
  setup.gpus_per_host = 8;
  setup.checkpoints = {.every_s = 472, .write_s = 10};
  setup.costs.change_s = [](const HostChange& change) { return change.from == 0 ? 0.0 : 300.0; };
  const auto result = simulate_recovery(setup);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->losses, 419);
  EXPECT_NEAR(result->ettr, 0.933, 0.01);
  EXPECT_NEAR(testing::all_gpu_hours(*result), 54 * 24 * 2048 * 8.0, 1);
}

TEST(Recovery, SaysAllThatIsWrong) {
  RecoverySetup setup;
  setup.samples_per_step = 0;
  setup.spares = 4;
  setup.hosts = 3;
  const auto result = simulate_recovery(setup);
  ASSERT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string text = result.status().ToString();
  for (const char* part : {"throughput", "cost of a change", "samples", "4 spares of 3 hosts", "host trace"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

TEST(Recovery, RefusesATraceOfOtherHosts) {
  policy::Availability trace;
  trace.events = {host_event(5, Kind::kTaken, {3})};
  EXPECT_FALSE(simulate_recovery(testing::linear_setup(RecoveryDesign::kReshard, trace, 3, 10)).ok());
  trace.events = {host_event(5, Kind::kTaken, {1}), host_event(4, Kind::kUp, {1})};
  EXPECT_FALSE(simulate_recovery(testing::linear_setup(RecoveryDesign::kReshard, trace, 3, 10)).ok());
}

}  // namespace recovery_test
}  // namespace scalai::jobs
