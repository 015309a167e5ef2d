#include "apps/exec/calibration.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

double sum_of_squares(const LineFit& fit, const std::vector<Timing>& timings) {
  double sum = 0;
  for (const Timing& timing : timings) {
    const double fitted = fit.latency_s + static_cast<double>(timing.bytes) / fit.bytes_per_s;
    sum += std::pow(fitted / timing.seconds - 1, 2);
  }
  return sum;
}

TEST(FitLine, FindsTheLineThatTimingsLieOn) {
  std::vector<Timing> timings;
  for (const int64_t bytes : {1'000'000, 4'000'000, 16'000'000, 64'000'000})
    timings.push_back({bytes, 0.02 + static_cast<double>(bytes) / 2e9});
  const auto fit = fit_line(timings);
  ASSERT_TRUE(fit.ok());
  EXPECT_NEAR(fit->latency_s, 0.02, 1e-12);
  EXPECT_NEAR(fit->bytes_per_s, 2e9, 1);
  EXPECT_NEAR(fit->worst_error, 0, 1e-9);
}

TEST(FitLine, NoOtherLineHasASmallerSumOfSquares) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto noise = [&] { return 0.7 + 0.006 * static_cast<double>(random.below(100)); };
    std::vector<Timing> timings;
    for (int64_t bytes = 1'000'000; bytes < 100'000'000; bytes *= 3)
      timings.push_back(
          {bytes, (0.001 * static_cast<double>(random.below(20)) + static_cast<double>(bytes) / 1e9) * noise()});
    const auto fit = fit_line(timings);
    ASSERT_TRUE(fit.ok());
    ASSERT_GE(fit->latency_s, 0);
    const double least = sum_of_squares(*fit, timings);
    for (const double latency : {-1e-4, 0.0, 1e-4}) {
      for (const double rate : {0.99, 1.0, 1.01}) {
        const LineFit other{.latency_s = std::max(0.0, fit->latency_s + latency),
                            .bytes_per_s = fit->bytes_per_s * rate};
        EXPECT_GE(sum_of_squares(other, timings), least - 1e-12);
      }
    }
    double worst = 0;
    for (const Timing& timing : timings) worst = std::max(worst, std::sqrt(sum_of_squares(*fit, {timing})));
    EXPECT_NEAR(fit->worst_error, worst, 1e-12);
  }
}

TEST(FitLine, LatencyIsNeverNegative) {
  const auto fit = fit_line(std::vector<Timing>{{1000, 0.5}, {2000, 2}});  // the line through both begins at -1 s
  ASSERT_TRUE(fit.ok());
  EXPECT_EQ(fit->latency_s, 0);
  EXPECT_GT(fit->bytes_per_s, 1000);
  EXPECT_LT(fit->bytes_per_s, 2000);
}

TEST(FitLine, WhatHasNoSlopeIsTheRateOfTheLargestSize) {
  for (const std::vector<Timing>& timings : {std::vector<Timing>{{1000, 2}, {4000, 1}},
                                             {{1000, 1}, {4000, 1}},
                                             {{4000, 1}},
                                             {{0, 3}, {4000, 1}, {9000, 0}}}) {
    const auto fit = fit_line(timings);
    ASSERT_TRUE(fit.ok());
    EXPECT_EQ(fit->latency_s, 0);
    EXPECT_EQ(fit->bytes_per_s, 4000);
  }
}

TEST(FitLine, NothingCannotBeFitted) {
  EXPECT_FALSE(fit_line({}).ok());
  EXPECT_FALSE(fit_line(std::vector<Timing>{{0, 1}, {7, 0}}).ok());
}

TEST(MediansOf, JoinsPlansOfASizeAndKeepsSeriesApart) {
  const std::vector<Measured> measured = {{"pair", "h0 to h1", 200, {5, 1}},
                                          {"together", "all", 100, {70}},
                                          {"pair", "h1 to h0", 200, {3}},
                                          {"pair", "h0 to h1", 100, {2, 4}}};
  const std::vector<Timing> medians = medians_of(measured, "pair");
  ASSERT_EQ(medians.size(), 2U);
  EXPECT_EQ(medians[0].bytes, 100);
  EXPECT_EQ(medians[0].seconds, 3);
  EXPECT_EQ(medians[1].bytes, 200);
  EXPECT_EQ(medians[1].seconds, 3);
  EXPECT_TRUE(medians_of(measured, "read").empty());
}

// ---- the file -------------------------------------------------------------------------------------------------------

// A machine that keeps to the model: times of plans at two sizes.
void add(std::vector<Measured>& measured, const std::string& series, double latency_s, double bytes_per_s) {
  for (const int64_t bytes : {int64_t{1'000'000}, int64_t{100'000'000}})
    measured.push_back({series, "a plan", bytes, {latency_s + static_cast<double>(bytes) / bytes_per_s}});
}

std::vector<Measured> four_hosts_of_two() {
  std::vector<Measured> measured;
  add(measured, "pair", 0.010, 1.5e9);
  add(measured, "together", 0.030, 2.5e9);
  add(measured, "same host", 0.005, 4e9);
  add(measured, "same device", 0.005, 8e9);
  add(measured, "write", 0, 3e8);
  add(measured, "read", 0, 6e8);
  return measured;
}

cluster::Cluster read_back(const std::string& text) {
  const auto scenario = scenario::parse_scenario(
      "schema_version: 1\nname: \"x\"\nuntil: \"1s\"\ncluster_file: \"c\"\n"
      "jobs { name: \"a\" model: \"gpt2\" global_batch: 2 gpus: 2 configs { layout: \"dp2\" step_time: \"1s\" } }\n",
      "scenario.textproto", [&](const std::string&) { return text; });
  EXPECT_EQ(message_of(scenario.status()), "");
  return scenario.ok() ? scenario->cluster : cluster::Cluster();
}

TEST(ClusterText, ReadsBackAsTheClusterThatWasMeasured) {
  const std::vector<Measured> measured = four_hosts_of_two();
  const auto calibration = calibrate(measured);
  ASSERT_TRUE(calibration.ok());
  const std::string text = cluster_text({.hosts = 4, .gpus = 2, .memory_bytes = 24'000'000'000, .facts = {"a fact"}},
                                        *calibration, measured);
  const cluster::Cluster cluster = read_back(text);
  ASSERT_EQ(cluster.hosts.size(), 4U);
  EXPECT_EQ(cluster.device_count(), 8);
  const cluster::Host& host = cluster.hosts[3];
  EXPECT_EQ(host.gpus, 2);
  EXPECT_EQ(host.gpu.memory_bytes, 24'000'000'000);
  EXPECT_NEAR(host.nic_bytes_per_s, 1.5e9, 1e3);
  EXPECT_NEAR(host.gpu_link_bytes_per_s, 4e9 / 2, 1e3) << "each device's share of what its host has";
  EXPECT_NEAR(host.gpu.memory_bandwidth_bytes_per_s, 2 * 8e9 / 2, 1e3) << "a copy reads and writes";
  EXPECT_NEAR(host.pcie_bytes_per_s, 4e9, 1e3) << "never the narrow place";
  EXPECT_NEAR(host.copy_bytes_per_s, 4e9, 1e3) << "all that a worker does";
  EXPECT_NEAR(cluster.machine_copy_bytes_per_s, 4e9, 1e3) << "never less than one worker copies";
  EXPECT_NEAR(cluster.storage_read_bytes_per_s, 6e8, 1e3);
  EXPECT_NEAR(cluster.storage_write_bytes_per_s, 3e8, 1e3);
  EXPECT_NEAR(calibration->transfer_start_s, 0.020, 1e-9);
}

TEST(ClusterText, CommentsHaveFactsAndEveryTime) {
  std::vector<Measured> measured = four_hosts_of_two();
  measured[0].seconds = {0.25, 0.125};
  const auto calibration = calibrate(measured);
  const std::string text = cluster_text(
      {.memory_bytes = 1 << 30, .facts = {"date: today"}, .rows = {"rows over UCX", "  64"}}, *calibration, measured);
  EXPECT_THAT(text, HasSubstr("#\n# rows over UCX\n#   64\n"));
  EXPECT_THAT(text, HasSubstr("# date: today\n"));
  EXPECT_THAT(text, HasSubstr("#   pair, a plan, 1000000, 0.250000 0.125000\n"));
  EXPECT_THAT(text, HasSubstr("#   together:"));
  EXPECT_THAT(text, HasSubstr("#   costs { transfer_start: "));
}

TEST(ClusterText, OneHostHasNoNetwork) {
  std::vector<Measured> measured;
  add(measured, "same host", 0.005, 4e9);
  add(measured, "same device", 0.005, 8e9);
  const auto calibration = calibrate(measured);
  ASSERT_TRUE(calibration.ok());
  EXPECT_NEAR(calibration->transfer_start_s, 0.005, 1e-9);
  const std::string text =
      cluster_text({.hosts = 1, .gpus = 2, .memory_bytes = 24'000'000'000, .facts = {}}, *calibration, measured);
  EXPECT_THAT(text, Not(HasSubstr("nic:")));
  EXPECT_THAT(text, Not(HasSubstr("\nstorage")));
  EXPECT_NEAR(read_back(text).hosts.at(0).gpu_link_bytes_per_s, 2e9, 1e3);
}

TEST(Calibrate, NeedsTransfersBetweenOrInsideHosts) {
  std::vector<Measured> measured;
  add(measured, "same device", 0.005, 8e9);
  EXPECT_FALSE(calibrate(measured).ok());
}

TEST(CostsText, IsWhatScenariosTake) {
  EXPECT_EQ(costs_text({.pair = {}, .together = {}, .same_host = {}, .same_device = {}, .transfer_start_s = 0.0215}),
            "costs { transfer_start: \"21.500ms\" }\n");
  std::vector<Measured> measured = four_hosts_of_two();
  add(measured, "prepare", 0.1, 5e8);
  EXPECT_EQ(costs_text(*calibrate(measured)),
            "costs { transfer_start: \"20.000ms\" allocate_rate: \"500.000MB/s\" }\n");
}

}  // namespace
}  // namespace scalai::apps
