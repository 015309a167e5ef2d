// The programs as people run them: every scenario of the tree, both flow solvers, the calibration against published
// times.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/end_to_end.h"

namespace scalai::testing {
namespace e2e_test {

using Json = nlohmann::json;
using ::testing::HasSubstr;

// ---- every scenario -------------------------------------------------------------------------------------------------

TEST_F(EndToEnd, EveryScenarioHoldsItsExpectations) {
  ASSERT_GE(scenario_names().size(), 13u);
  for (const std::string& name : scenario_names()) {
    const Outcome run = scalai("sim " + scenario_file(name));
    EXPECT_EQ(run.code, 0) << name << "\n" << run.err;
    EXPECT_FALSE(run.out.empty()) << name;
    EXPECT_EQ(run.err, "") << name;
  }
}

TEST_F(EndToEnd, InterruptedIsNotAnExpectationThatFailed) {
  for (const std::string network : {"simgrid", "maxmin"}) {
    Outcome run;
    for (int seconds = 1; run.err.empty() && seconds <= 16; seconds *= 2) {  // a slow start is interrupted unsaid
      run =
          shell(fmt::format("timeout --preserve-status -s INT {} '{}/scalai' sim {} --network={} --set=until=1380h "
                            "--set=cluster.storage.write=1GB/s "
                            "'--set=jobs[0].checkpoint.every_steps=1' --out='{}'",
                            seconds, kPrograms.string(), small_scenario(""), network, path("out")));
    }
    EXPECT_EQ(run.code, 130) << run.err;
    EXPECT_THAT(run.err, HasSubstr("interrupted"));
    EXPECT_FALSE(fs::exists(path("out/summary.json")));
  }
}

// Restarting from checkpoints that a scenario does not write is refused.
TEST_F(EndToEnd, EveryStrategyRunsOnEveryScenario) {
  size_t index = 0;
  for (const std::string& name : scenario_names()) {
    ++index;
    const std::string text = read_all(scenario_file(name));
    for (const std::string& strategy : kStrategies) {
      if (!in_share(index++, 3)) continue;
      const Outcome run = scalai(fmt::format("sim {} --strategy={} --check", scenario_file(name), strategy));
      const bool restarts_from_nothing =
          strategy == "checkpoint-restart" && text.find("checkpoint {") == std::string::npos;
      EXPECT_EQ(run.code, restarts_from_nothing ? 3 : 0) << name << " " << strategy << "\n" << run.err;
      const bool says_so = run.err.find("writes no checkpoints to restart from") != std::string::npos;
      EXPECT_EQ(says_so, restarts_from_nothing) << name << " " << strategy << "\n" << run.err;
    }
  }
}

TEST_F(EndToEnd, EveryScenarioIsValid) {
  std::string words = "validate";
  for (const std::string& name : scenario_names()) words += " " + scenario_file(name);
  const Outcome run = scalai(words);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), static_cast<std::ptrdiff_t>(scenario_names().size()));
}

// Numbers at every place of two reports, equal to a relative tolerance.
void expect_near(const Json& a, const Json& b, const std::string& where) {
  if (a.is_number_float() || b.is_number_float()) {
    const double x = a.get<double>(), y = b.get<double>();
    EXPECT_LE(std::fabs(x - y), 1e-6 * std::max({1.0, std::fabs(x), std::fabs(y)})) << where;
  } else if (a.is_structured()) {
    ASSERT_EQ(a.size(), b.size()) << where;
    const Json flat_a = a.flatten(), flat_b = b.flatten();
    for (const auto& [key, value] : flat_a.items()) {
      if (!value.is_structured()) expect_near(value, flat_b.at(key), where + key);
    }
  } else {
    EXPECT_EQ(a, b) << where;
  }
}

TEST_F(EndToEnd, BothFlowSolversAgree) {
  size_t index = 0;
  for (const std::string& name : scenario_names()) {
    if (!in_share(index++, 3)) continue;
    for (const char* strategy : {"reshard", "central"}) {
      const std::string words = fmt::format("sim {} --strategy={} --format=json", scenario_file(name), strategy);
      const Outcome simgrid = scalai(words + " --network=simgrid"), maxmin = scalai(words + " --network=maxmin");
      ASSERT_EQ(simgrid.code, 0) << simgrid.err;
      ASSERT_EQ(maxmin.code, 0) << maxmin.err;
      expect_near(Json::parse(simgrid.out), Json::parse(maxmin.out), name + " ");
    }
  }
}

// Two leaves of two hosts, a replica on each; leaf 0 is down from 50 to 120 s and its loss is known after 5 s. Storage
// is beyond the leaves, so the job goes on at once on the other two hosts, with nothing to move: 14 s = 5 s + costs.
TEST_F(EndToEnd, AJobLeavesHostsBehindASwitchInBothFlowSolvers) {
  write_all(path("cut.textproto"),
            "schema_version: 1 name: \"cut\" seed: 1 until: \"200s\" costs { detect: \"5s\" plan: \"1s\" communicator: "
            "\"8s\" "
            "transfer_start: \"0s\" }\n"
            "cluster { hosts { count: 4 gpus: 2 gpu: \"a6000-48g\" nic: \"1GB/s\" } fabric { kind: LEAF_SPINE "
            "leaf_hosts: 2 } "
            "storage { read: \"1GB/s\" write: \"1GB/s\" } }\n"
            "jobs { name: \"a\" model: \"gpt3-xl\" global_batch: 64 sequence: 2048 devices: [0, 2, 4, 6] "
            "configs { layout: \"dp4\" } configs { layout: \"dp2\" } }\n"
            "events { at: \"50s\" fail { switches: \"leaf0\" } }\n"
            "events { at: \"120s\" repair { switches: \"leaf0\" } }\n");
  for (const char* network : {"simgrid", "maxmin"}) {
    const Outcome run = scalai(fmt::format("sim '{}' --network={} --format=json", path("cut.textproto"), network));
    ASSERT_EQ(run.code, 0) << run.err;
    const Json job = Json::parse(run.out).at("jobs").at(0);
    ASSERT_EQ(job.at("reconfigurations").size(), 2U);
    const Json &leaves = job.at("reconfigurations").at(0), &returns = job.at("reconfigurations").at(1);
    EXPECT_EQ(leaves.at("cause"), "cut off from g0 g2");
    EXPECT_EQ(leaves.at("at_s"), 50);
    EXPECT_NEAR(leaves.at("pause_s").get<double>(), 14, 1e-6);
    EXPECT_EQ(leaves.at("bytes").at("cross_host"), 0);
    EXPECT_EQ(returns.at("from").get<std::string>() + " to " + returns.at("to").get<std::string>(), "dp2 to dp4");
    // The state crosses to two hosts, each behind a NIC of 1 GB/s that reaches 0.9.
    const double bytes = returns.at("bytes").at("cross_host").get<double>();
    EXPECT_NEAR(returns.at("phases_s").at("transfer").get<double>(), bytes / 2 / 0.9e9, 0.01 * bytes / 2 / 0.9e9);
  }
}

// ---- calibration ----------------------------------------------------------------------------------------------------

struct Bar {
  std::string change, model, strategy;
  double seconds = 0;
};

// The published bars that count (results/tenplex/README.md).
std::vector<Bar> published_bars() {
  std::ifstream csv(fs::path(SCALAI_SOURCE_DIR) / "results/tenplex/published.csv");
  std::vector<Bar> bars;
  std::string line;
  std::getline(csv, line);
  while (std::getline(csv, line)) {
    std::istringstream cells(line);
    std::string figure, seconds, counted;
    Bar bar;
    for (std::string* cell : {&figure, &bar.change, &bar.model, &bar.strategy, &seconds, &counted})
      std::getline(cells, *cell, ',');
    bar.seconds = std::stod(seconds);
    if (counted == "yes") bars.push_back(bar);
  }
  return bars;
}

TEST_F(EndToEnd, PublishedTransformationTimesAreMetOnAverage) {
  const std::vector<Bar> bars = published_bars();
  ASSERT_EQ(bars.size(), 23u);
  double sum = 0;
  std::string table;
  for (const Bar& bar : bars) {
    // Tensor parallelism doubles where the scenario of pipeline parallelism doubles that.
    const bool tensors = bar.change == "scale-out-tp";
    const std::string file = scenario_file(fmt::format("{}-gpt3-{}", tensors ? "scale-out-pp" : bar.change, bar.model));
    const Outcome run = scalai(fmt::format("sim {} --strategy={} --format=json{}", file, bar.strategy,
                                           tensors ? " --set=jobs[0].configs[1].layout=tp8,pp2,dp1" : ""));
    ASSERT_EQ(run.code, 0) << run.err;
    const Json job = Json::parse(run.out).at("jobs")[0];
    const double simulated = job.at("reconfigurations")[0].at("phases_s").at("transfer").get<double>();
    sum += std::fabs(simulated / bar.seconds - 1);
    EXPECT_NEAR(simulated / bar.seconds, 1, 0.22) << bar.change << " " << bar.model << " " << bar.strategy;
    table += fmt::format("{} {} {}: published {} s, simulated {:.2f} s\n", bar.change, bar.model, bar.strategy,
                         bar.seconds, simulated);
  }
  EXPECT_LE(sum / static_cast<double>(bars.size()), 0.11) << table;
}

}  // namespace e2e_test
}  // namespace scalai::testing
