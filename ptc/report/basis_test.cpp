#include "ptc/report/internal/basis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "ptc/base/utf8.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/report/testing/example_report.h"

namespace scalai::report {
namespace basis_test {

using ::testing::HasSubstr;
using ::testing::Not;

const Basis* line(const std::vector<Basis>& all, const std::string& of) {
  for (const Basis& one : all) {
    if (one.of == of) return &one;
  }
  return nullptr;
}

// Of its changes one stops, restarts and transfers, one detects.
TEST(Basis, IsToldOfWhatTookTime) {
  scenario::Scenario scenario = testing::example_scenario();
  control::RunReport report = testing::example_report(scenario);
  report.strategy = "tenplex";  // restarts by its stack
  const std::vector<Basis> all = basis_of(report);
  ASSERT_EQ(all.size(), 5u);  // and the step
  EXPECT_EQ(line(all, "step")->basis, "given");
  EXPECT_EQ(line(all, "stop")->basis, "modelled");
  EXPECT_EQ(line(all, "transfer")->basis, "modelled");
  const Basis detect = *line(all, "detect"), restart = *line(all, "restart");
  EXPECT_EQ(detect.basis + " " + detect.from, "assumed stack stock-2025");
  EXPECT_EQ(detect.low, 2);
  EXPECT_EQ(detect.high, 60);
  EXPECT_EQ(restart.basis, "assumed");
  EXPECT_EQ(restart.high, 1380);
  EXPECT_EQ(line(all, "resume"), nullptr);
  EXPECT_THAT(basis_text(all), HasSubstr("assumed   stack stock-2025; published: 2.00 s to 60.0 s"));
}

TEST(Basis, WhatTheScenarioSaysIsGiven) {
  scenario::Scenario scenario = testing::example_scenario();
  scenario.costs = {{.stack = *change::find_stack("tuned"), .detect_s = 15}, {.strategy = "reshard", .restart_s = 3}};
  const control::RunReport report = testing::example_report(scenario);
  const std::vector<Basis> all = basis_of(report);
  EXPECT_EQ(line(all, "detect")->basis, "given");
  EXPECT_FALSE(line(all, "detect")->low.has_value());
  EXPECT_EQ(line(all, "restart")->basis, "given");
  EXPECT_THAT(basis_text(all), Not(HasSubstr("assumed")));
}

TEST(Basis, SaysHowFineTransfersAre) {
  const scenario::Scenario scenario = testing::example_scenario();
  control::RunReport report = testing::example_report(scenario);
  EXPECT_EQ(line(basis_of(report), "transfer")->from, "links of the cluster");
  report.resolution_s = 100e-6;
  EXPECT_EQ(line(basis_of(report), "transfer")->from, "links of the cluster, ends within 100 us together");
}

// On hosts with GPUs of the catalogue, with what boxes and peers cost by the preset. It is no error of the run.
TEST(Basis, TransfersHaveWhatWasPublished) {
  scenario::Scenario scenario = testing::example_scenario();
  for (cluster::Host& host : scenario.cluster.hosts) host.gpu.name.clear();
  EXPECT_FALSE(line(basis_of(testing::example_report(scenario)), "transfer")->low.has_value()) << "rates as measured";
  for (cluster::Host& host : scenario.cluster.hosts) host.gpu = *cluster::find_gpu_kind("a100-40g");
  const std::vector<Basis> all = basis_of(testing::example_report(scenario));
  EXPECT_EQ(line(all, "transfer")->low, 0.94);
  EXPECT_EQ(line(all, "transfer")->high, 9.8);
  EXPECT_THAT(basis_text(all),
              HasSubstr("links of the cluster; published of other software: 0.94 to 9.8 times as long"));
  scenario.costs = {{.strategy = "reshard", .peer_s = 5e-3}};
  EXPECT_FALSE(line(basis_of(testing::example_report(scenario)), "transfer")->low.has_value());
}

TEST(Basis, AHangHasAWatchdog) {
  scenario::Scenario scenario = testing::example_scenario();
  scenario.events = {{.when = {}, .what = scenario::Fail{.devices = {DeviceId(2)}, .links = {}, .hangs = true}}};
  EXPECT_EQ(line(basis_of(testing::example_report(scenario)), "detect")->high, 3600);
}

TEST(Basis, WhatWasMeasuredIsSaid) {
  scenario::Scenario scenario = testing::example_scenario();
  control::RunReport report = testing::example_report(scenario);
  report.recorder.executions = {{0, 1, {.transfer = 1}, {.transfer = 2}}};
  report.recorder.trained = {{.job = 0, .layout = "dp2"}};
  const std::vector<Basis> all = basis_of(report);
  EXPECT_EQ(line(all, "transfer")->basis, "measured");
  EXPECT_EQ(line(all, "step")->basis, "measured");
  EXPECT_EQ(line(all, "stop")->basis, "modelled");
}

// The first GPUs are A100 in the catalogue's spelling; V100 were never calibrated.
TEST(Basis, ComputedStepsHaveAnInterval) {
  scenario::Scenario scenario = testing::example_scenario();
  for (cluster::Host& host : scenario.cluster.hosts) host.gpu = *cluster::find_gpu_kind("a100-40g");
  control::RunReport report = testing::example_report(scenario);
  report.jobs[0].configurations = {{.since_s = 0, .layout = "dp2"}};
  const Basis known = *line(basis_of(report), "step");
  EXPECT_EQ(known.basis, "modelled");
  EXPECT_THAT(known.from, HasSubstr("dense A100 16-bit"));
  scenario.cluster.hosts[1].gpu.name = "v100-32g";
  const Basis unknown = *line(basis_of(report), "step");
  EXPECT_THAT(unknown.from, HasSubstr("not calibrated for v100-32g"));
  EXPECT_LE(*unknown.low, *known.low);
  EXPECT_GE(*unknown.high, *known.high);
}

// Quotients of two columns, `above` and `below`, counted from the end of the line: cells before them may be quoted.
std::vector<double> quotients(const std::string& file, size_t above, size_t below) {
  std::ifstream in(std::string(SCALAI_SOURCE_DIR) + "/results/" + file);
  std::vector<double> all;
  for (std::string row; std::getline(in, row);) {
    const std::vector<std::string> cells = absl::StrSplit(row, ',');
    double a = 0, b = 0;
    if (cells.size() >= std::max(above, below) && absl::SimpleAtod(cells[cells.size() - above], &a) &&
        absl::SimpleAtod(cells[cells.size() - below], &b))
      all.push_back(a / b);
  }
  std::sort(all.begin(), all.end());
  return all;
}

TEST(Basis, IntervalsOfTransfersAreThoseOfTheResults) {
  scenario::Scenario scenario = testing::example_scenario();
  control::RunReport report = testing::example_report(scenario);
  EXPECT_EQ(line(basis_of(report), "transfer")->unit, "times, others")
      << "nobody measured such links with our executor";
  report.strategy = "tenplex";
  const Basis staged = *line(basis_of(report), "transfer");
  const std::vector<double> published = quotients("tenplex/simulated.csv", 8, 7);
  ASSERT_EQ(published.size(), 24U);
  EXPECT_NEAR(*staged.low, published.front(), 0.01);
  EXPECT_NEAR(*staged.high, published.back(), 0.01);
  report.strategy = "reshard";
  for (cluster::Host& host : scenario.cluster.hosts) host.copy_bytes_per_s = 1e9;
  const Basis calibrated = *line(basis_of(report), "transfer");
  const std::vector<double> measured = quotients("calibration/errors.csv", 3, 4);
  ASSERT_EQ(measured.size(), 204U);
  EXPECT_NEAR(*calibrated.low, measured[10], 0.01);
  EXPECT_NEAR(*calibrated.high, measured[192], 0.01);
  EXPECT_THAT(basis_text({calibrated}), HasSubstr("; measured: 0.77 to 1.63 times as long"));
  std::istringstream narrow(basis_text({calibrated}, {.columns = 60}));
  for (std::string line; std::getline(narrow, line);) EXPECT_LE(columns_of(line), 60u) << line;
}

}  // namespace basis_test
}  // namespace scalai::report
