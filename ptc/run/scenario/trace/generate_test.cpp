#include "ptc/run/scenario/trace/generate.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "ptc/run/policy/testing/support.h"
#include "ptc/run/scenario/trace/internal/generators.h"
#include "ptc/run/scenario/trace/testing/test_files.h"

namespace scalai::trace {
namespace generate_test {

using policy::testing::data_hint;
using policy::testing::data_path;
using testing::has;
using Kind = policy::FleetEvent::Kind;

using Generate = testing::TraceFiles;

constexpr const char* kTwoHosts =
    "scalai-trace,1,hosts,two,1000000\nrecord,at_s,what,hosts\nhost,,up,0\nhost,,up,1\n"
    "event,1000,failed,0\nevent,5000,up,0\n";

Imported made(const std::string& name, const std::vector<std::string>& set, uint64_t seed = 1, int hosts = 0,
              int gpus = 1) {
  const absl::StatusOr<Imported> result = generate(name, set, seed, hosts, gpus);
  EXPECT_TRUE(result.ok()) << message_of(result.status());
  return result.ok() ? *result : Imported();
}
std::string refused(const std::string& name, const std::vector<std::string>& set, int hosts = 8) {
  const absl::StatusOr<Imported> result = generate(name, set, 1, hosts, 8);
  EXPECT_FALSE(result.ok());
  return message_of(result.status());
}

std::vector<double> times(const Imported& trace, Kind kind) {
  std::vector<double> result;
  for (const policy::FleetEvent& event : trace.hosts.availability.events) {
    if (event.kind == kind) result.push_back(event.at_s);
  }
  return result;
}

TEST_F(Generate, TheSameSeedGivesTheSameTrace) {
  for (const GeneratorInfo& info : generators()) {
    std::vector<std::string> set;
    if (info.content == TraceContent::kHosts) set = {"mtbf=10h"};
    if (info.name == "resampled") set = {"format=scalai", "file=" + file(kTwoHosts)};
    if (info.name == "causes") set.push_back("file=" + file("component,category,count\nA,x,3\nB,y,1\n"));
    const Imported a = made(info.name, set, 1, 16, 8), b = made(info.name, set, 1, 16, 8),
                   c = made(info.name, set, 2, 16, 8);
    EXPECT_EQ(a.summary.checksum, b.summary.checksum) << info.name;
    EXPECT_NE(a.summary.checksum, c.summary.checksum) << info.name;
    EXPECT_EQ(a.summary.notes.at(0), "seed 1") << info.name;
    EXPECT_GT(a.summary.rows, 0) << info.name;
  }
}

// What the generators make today they make tomorrow, and on any machine.
TEST_F(Generate, ChecksumsStay) {
  EXPECT_EQ(made("gavel-continuous", {}).summary.checksum, "9dc241230bd0c8fd3e1e43755573beb3");
  EXPECT_EQ(made("philly-like", {"jobs=500"}).summary.checksum, "e5c7d005e97d29245a39152fa5e040c9");
  EXPECT_EQ(made("poisson", {"mtbf=3h"}, 1, 64, 8).summary.checksum, "8304ed915711f1df10e23395b4f804e6");
  EXPECT_EQ(made("weibull", {"mtbf=3h"}, 1, 64, 8).summary.checksum, "4b1ea23945dea79cd8299c71bd78ce21");
}

// 20,000 jobs: a share p is met within 4 deviations, sqrt(p (1 - p) / 20,000) each.
TEST_F(Generate, GavelContinuousKeepsTheProtocol) {
  constexpr int kJobs = 20000;
  const Imported trace = made("gavel-continuous", {"jobs=20000", "slo=true", "priorities=true"}, 5);
  ASSERT_EQ(trace.workload.jobs.size(), static_cast<size_t>(kJobs));
  std::map<std::string, int> types;
  int long_ones = 0, heavy = 0, tight = 0;
  for (const policy::Job& job : trace.workload.jobs) {
    ++types[job.type];
    long_ones += job.duration_s >= 60000 ? 1 : 0;
    heavy += job.weight == 5 ? 1 : 0;
    tight += std::abs((job.deadline_s - job.submit_s) / job.duration_s - 1.2) < 1e-6 ? 1 : 0;
    EXPECT_TRUE(job.duration_s >= 1897 && job.duration_s <= 600000) << job.duration_s;
    EXPECT_TRUE(job.gpus == 1 || (job.type != "A3C" && !has(job.type, "Recommendation")));
  }
  const auto expect_share = [&](int count, double share) {
    EXPECT_NEAR(count / static_cast<double>(kJobs), share, 4 * std::sqrt(share * (1 - share) / kJobs));
  };
  EXPECT_EQ(types.size(), 26U);
  const auto sizes = trace.summary.sizes;
  expect_share(static_cast<int>(sizes.at(1)), .70);
  expect_share(static_cast<int>(sizes.at(2)), .10);
  expect_share(static_cast<int>(sizes.at(4)), .15);
  expect_share(static_cast<int>(sizes.at(8)), .05);
  expect_share(long_ones, .2);
  expect_share(heavy, .2);
  expect_share(tight, 1.0 / 3);
  EXPECT_NEAR(trace.summary.span_s / (kJobs - 1), 562.5, 562.5 * 4 / std::sqrt(kJobs));
}

TEST_F(Generate, GavelWorkIsInIterationsOfATable) {
  const std::string table =
      file(R"j({"v100": {"('LM (batch size 20)', 1)": {"null": 2.5}, "('A3C', 1)": {"null": 0.0}}})j", "t.json");
  const Imported trace =
      made("gavel-continuous", {"jobs=50", "multi-gpu=false", "interval=0s", "throughputs=" + table});
  for (const policy::Job& job : trace.workload.jobs) {
    EXPECT_EQ(job.type, "LM (batch size 20)");
    EXPECT_EQ(job.work, std::floor(job.duration_s * 2.5));
    EXPECT_EQ(job.submit_s, 0);
  }
  EXPECT_TRUE(has(refused("gavel-continuous", {"throughputs=" + table, "reference=h100"}), "no worker type \"h100\""));
  EXPECT_TRUE(has(refused("gavel-continuous", {"throughputs=" + table}), "no job type of so many GPUs"));
}

TEST_F(Generate, GavelTypesAreThoseOfThePublicTable) {
  const std::string path = policy::testing::data_path("gavel/simulation_throughputs.json");
  if (path.empty()) GTEST_SKIP() << policy::testing::data_hint("gavel");
  const Imported trace = made("gavel-continuous", {"jobs=2000", "throughputs=" + path}, 3);
  std::set<std::string> types;
  for (const policy::Job& job : trace.workload.jobs) types.insert(job.type);
  EXPECT_EQ(types.size(), 26U);
}

TEST_F(Generate, PhillyLikeHasPhillysShape) {
  const Imported trace = made("philly-like", {"jobs=40000"}, 5);
  std::vector<double> seconds;
  double sum = 0;
  for (const policy::Job& job : trace.workload.jobs) {
    seconds.push_back(job.duration_s);
    sum += job.duration_s;
  }
  std::nth_element(seconds.begin(), seconds.begin() + 20000, seconds.end());
  EXPECT_NEAR(seconds[20000], 1144, 60);  // median; one deviation is 14
  EXPECT_NEAR(sum / 40000, 13136, 2500);  // heavy tail, cut at 53.6 days
  EXPECT_NEAR(static_cast<double>(trace.summary.sizes.at(1)) / 40000, .9388, .005);
}

TEST_F(Generate, PoissonFailuresHaveTheirRateAndNoMemory) {
  // 16,384 GPUs, one failure in 3.093 h for 540 days: 4,190 failures, deviation 65.
  const Imported trace = made("poisson", {"mtbf=3.093h", "span=540d", "repair=0s"}, 3, 2048, 8);
  const std::vector<double> at = times(trace, Kind::kFailed);
  EXPECT_NEAR(static_cast<double>(at.size()), 540 * 24 / 3.093, 4 * 65);
  // Dispersion of counts in 540 windows of a day: variance / mean is 1 within 4 sqrt(2 / 540).
  std::vector<double> days(540, 0);
  for (const double time : at) ++days[static_cast<size_t>(time / 86400)];
  double mean = 0, squares = 0;
  for (const double count : days) {
    mean += count / 540;
    squares += count * count / 540;
  }
  EXPECT_NEAR((squares - mean * mean) / mean, 1, 4 * std::sqrt(2.0 / 540));
  EXPECT_EQ(trace.summary.span_s, 540 * 86400.0);
  EXPECT_EQ(trace.hosts.hosts.size(), 2048U);
}

TEST_F(Generate, DomainsAddUp) {
  // 64 hosts of 8 GPUs in 8 racks, a year: GPUs 512 x 1/365 d, hosts 64 x 1/73 d, racks 8 x 1/365 d.
  const Imported trace =
      made("poisson", {"gpu-mtbf=365d", "host-mtbf=73d", "rack-mtbf=365d", "span=365d", "repair=1s"}, 7, 64, 8);
  std::map<std::string, int> causes;
  for (const policy::FleetEvent& event : trace.hosts.availability.events) {
    if (event.kind != Kind::kFailed) continue;
    ++causes[event.cause];
    if (event.cause != "failure of a rack") continue;
    ASSERT_EQ(event.hosts.size(), 8U);
    EXPECT_EQ(event.hosts.front().value % 8, 0);
  }
  EXPECT_NEAR(causes["failure of a GPU"], 512, 4 * std::sqrt(512.0));
  EXPECT_NEAR(causes["failure of a host"], 320, 4 * std::sqrt(320.0));
  EXPECT_NEAR(causes["failure of a rack"], 8, 4 * std::sqrt(8.0));
}

TEST_F(Generate, HostsComeBackRepairedAndDoNotFailMeanwhile) {
  const Imported trace = made("poisson", {"host-mtbf=1d", "repair=12h", "span=100d"}, 9, 10, 1);
  std::vector<double> down_since(10, -1);
  double down_s = 0;
  for (const policy::FleetEvent& event : trace.hosts.availability.events) {
    for (const HostId host : event.hosts) {
      double& since = down_since[static_cast<size_t>(host.value)];
      if (event.kind == Kind::kFailed) {
        EXPECT_LT(since, 0);
        since = event.at_s;
      } else {
        EXPECT_NEAR(event.at_s - since, 12 * 3600, 1e-6);
        down_s += event.at_s - since;
        since = -1;
      }
    }
  }
  // Up for a day, down for half of one: a third of the time down.
  EXPECT_NEAR(down_s / (10 * 100 * 86400.0), 1.0 / 3, .05);
  EXPECT_GT(trace.summary.dropped.at("hit what was down already"), 0);
}

TEST_F(Generate, WeibullFailuresComeInBurstsBelowShapeOne) {
  for (const double shape : {0.7, 1.0, 3.0}) {
    const Imported trace =
        made("weibull", {"mtbf=1h", "repair=0s", "span=10000h", "shape=" + std::to_string(shape)}, 3, 64, 8);
    const std::vector<double> at = times(trace, Kind::kFailed);
    const auto count = static_cast<double>(at.size());
    const double g1 = std::tgamma(1 + 1 / shape), spread = std::sqrt(std::tgamma(1 + 2 / shape) / (g1 * g1) - 1);
    EXPECT_NEAR(count, 10000, 4 * 100 * spread) << shape;
    double squares = 0;
    for (size_t i = 1; i < at.size(); ++i) squares += (at[i] - at[i - 1]) * (at[i] - at[i - 1]);
    EXPECT_NEAR(std::sqrt(squares / count - 3600.0 * 3600) / 3600, spread, .1) << shape;  // coefficient of variation
  }
}

TEST_F(Generate, WeibullUnitsAreRenewedByTheirRepair) {
  const Imported trace = made("weibull", {"host-mtbf=10h", "repair=10h", "span=1000h", "shape=5"}, 3, 100, 8);
  EXPECT_NEAR(static_cast<double>(times(trace, Kind::kFailed).size()), 100 * 1000 / 20.0, 150);
}

TEST_F(Generate, CausesHaveTheirShares) {
  const std::string path = policy::testing::data_path("failures/llama3_405b_interruptions.csv");
  if (path.empty()) GTEST_SKIP() << policy::testing::data_hint("failures");
  const Imported trace = made("causes",
                              {"file=" + path, "mtbf=3.093h", "span=540d", "repair=1s", "scopes=Network:rack+GPU:gpu",
                               "repairs=Network:60s", "rack-hosts=16"},
                              11, 2048, 8);
  std::map<std::string, double> causes;
  double total = 0;
  for (const policy::FleetEvent& event : trace.hosts.availability.events) {
    if (event.kind != Kind::kFailed) continue;
    ++causes[event.cause];
    ++total;
    EXPECT_EQ(event.hosts.size(), event.cause == "Network Switch/Cable" ? 16U : 1U) << event.cause;
  }
  EXPECT_EQ(causes.size(), 18U);
  EXPECT_NEAR(total, 4190, 4 * 65);
  for (const auto& [cause, count] :
       {std::pair{"Faulty GPU", 148}, {"Network Switch/Cable", 35}, {"System Memory", 2}}) {
    const double expected = total * count / 419;
    EXPECT_NEAR(causes[cause], expected, 4 * std::sqrt(expected)) << cause;
  }
}

TEST_F(Generate, CausesReadScopeAndRepairFromTheTable) {
  const std::string table = file("component,category,count,scope,repair_s\nSwitch,net,1,rack,100\nDisk,host,0,,\n");
  const Imported trace = made("causes", {"file=" + table, "mtbf=1h", "span=10h", "rack-hosts=4"}, 1, 8, 1);
  const auto& events = trace.hosts.availability.events;
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events[0].cause, "Switch");
  EXPECT_EQ(events[0].hosts.size(), 4U);
  const auto back =
      std::find_if(events.begin(), events.end(), [](const auto& event) { return event.kind == Kind::kUp; });
  ASSERT_NE(back, events.end());
  EXPECT_NEAR(back->at_s - events[0].at_s, 100, 1e-6);
}

TEST_F(Generate, WhatCannotBeMade) {
  EXPECT_TRUE(has(refused("poison", {}), "did you mean poisson?"));
  EXPECT_TRUE(has(refused("poisson", {"mtbf=1h"}, 0), "say how many hosts there are"));
  EXPECT_TRUE(has(refused("poisson", {}), "needs a mean time between failures"));
  EXPECT_TRUE(has(refused("poisson", {"mtbf=0s"}), "mtbf: is too short"));
  EXPECT_TRUE(has(refused("poisson", {"mtbf=1ms", "span=365d"}), "more than 2000000 failures"));
  EXPECT_TRUE(has(refused("poisson", {"mtbf=1h", "span="}), "span: is no time span"));
  EXPECT_TRUE(has(refused("weibull", {"mtbf=1h", "shape=0"}), "shape: \"0\" is not a number within 0.1 to 20"));
  EXPECT_TRUE(has(refused("causes", {}), "mtbf: is needed"));
  const std::string table = file("component,category,count\nA,x,0\n");
  EXPECT_TRUE(has(refused("causes", {"mtbf=1h", "file=" + table}), "count: adds up to nothing"));
  const std::string good = file("component,category,count\nA,x,1\n");
  EXPECT_TRUE(has(refused("causes", {"mtbf=1h", "file=" + good, "scopes=y:rack"}), "no cause is of category \"y\""));
  EXPECT_TRUE(has(refused("causes", {"mtbf=1h", "file=" + good, "scopes=x:room"}), "\"room\" is none of gpu"));
  EXPECT_TRUE(has(refused("causes", {"mtbf=1h", "file=" + good, "repairs=x"}), "repairs: \"x\" is no CATEGORY:VALUE"));
}

}  // namespace generate_test
}  // namespace scalai::trace
