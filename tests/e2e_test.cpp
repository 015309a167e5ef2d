// The programs as people run them: every scenario of the tree, reports, replay, comparison, exit codes, and the
// calibration against published times.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;

const fs::path kPrograms = fs::path(SCALAI_BINARY_DIR) / "bin";
const fs::path kScenarios = fs::path(SCALAI_SOURCE_DIR) / "scenarios";
const std::vector<std::string> kStrategies = {"reshard",       "tenplex", "central", "dp-only", "checkpoint-restart",
                                              "full-migration"};

std::string read_all(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write_all(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kScenarios)) {
    if (entry.path().extension() == ".textproto") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string scenario_file(const std::string& name) { return (kScenarios / (name + ".textproto")).string(); }

struct Outcome {
  int code = -1;
  std::string out, err;
};

class EndToEnd : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "scalai-e2e-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  // `scalai WORDS`, from a shell.
  Outcome scalai(const std::string& words) const {
    return shell(fmt::format("'{}/scalai' {}", kPrograms.string(), words));
  }
  Outcome shell(const std::string& command) const {
    const fs::path out = folder_ / "stdout", err = folder_ / "stderr";
    const int status =
        std::system(fmt::format("{{ {} ; }} >'{}' 2>'{}' </dev/null", command, out.string(), err.string()).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_all(out), read_all(err)};
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // A job of two shards on two hosts; what else happens is up to the test.
  std::string small_scenario(const std::string& more) const {
    const std::string file = path("small.textproto");
    write_all(file, R"(schema_version: 1
name: "small"
until: "100s"
cluster { name: "two" hosts { count: 2 gpus: 2 gpu: "a100-40g" nic: "100Gbps" } storage { read: "1GB/s" } }
jobs { name: "a" model: "gpt2" global_batch: 8 devices: [0, 2] configs { layout: "tp2" step_time: "1s" }
       configs { layout: "tp1" step_time: "2s" } }
)" + more);
    return file;
  }
  Json summary(const std::string& report) const { return Json::parse(read_all(folder_ / report / "summary.json")); }

  fs::path folder_;
};

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

// Restarting from checkpoints that a scenario does not write fails, and says so.
TEST_F(EndToEnd, EveryStrategyRunsOnEveryScenario) {
  for (const std::string& name : scenario_names()) {
    const std::string text = read_all(scenario_file(name));
    for (const std::string& strategy : kStrategies) {
      const Outcome run = scalai(fmt::format("sim {} --strategy={} --check", scenario_file(name), strategy));
      const bool restarts_from_nothing =
          strategy == "checkpoint-restart" && text.find("checkpoint {") == std::string::npos;
      EXPECT_EQ(run.code, restarts_from_nothing ? 5 : 0) << name << " " << strategy << "\n" << run.err;
      const bool says_so = run.err.find("none was ever completed") != std::string::npos;
      EXPECT_EQ(says_so, restarts_from_nothing) << name << " " << strategy << "\n" << run.err;
    }
  }
}

TEST_F(EndToEnd, EveryScenarioIsValid) {
  const Outcome run = scalai("validate '" + kScenarios.string() + "'/*.textproto");
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
  for (const std::string& name : scenario_names()) {
    for (const char* strategy : {"reshard", "central"}) {
      const std::string words = fmt::format("sim {} --strategy={} --format=json", scenario_file(name), strategy);
      const Outcome simgrid = scalai(words + " --network=simgrid"), maxmin = scalai(words + " --network=maxmin");
      ASSERT_EQ(simgrid.code, 0) << simgrid.err;
      ASSERT_EQ(maxmin.code, 0) << maxmin.err;
      expect_near(Json::parse(simgrid.out), Json::parse(maxmin.out), name + " ");
    }
  }
}

// ---- reports --------------------------------------------------------------------------------------------------------

std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), folder).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(EndToEnd, ReportsAreWholeAndByteIdentical) {
  const std::string words = "sim " + scenario_file("elastic-gpt3-xl") + " --strategy=reshard,tenplex,dp-only --out=";
  const Outcome first = scalai(words + path("one")), second = scalai(words + path("two"));
  ASSERT_EQ(first.code, 0) << first.err;
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(first.out, second.out);
  const std::vector<std::string> names = files_below(path("one"));
  EXPECT_EQ(names, files_below(path("two")));
  for (const std::string strategy : {"reshard", "tenplex", "dp-only"}) {
    for (const char* file : {"summary.json", "events.csv", "transfers.csv", "devices.csv", "plans/001.binpb",
                             "scenario.resolved.textproto", "trace.pftrace", "manifest.json"}) {
      EXPECT_TRUE(std::binary_search(names.begin(), names.end(), strategy + "/" + file)) << strategy << "/" << file;
    }
    EXPECT_EQ(summary("one/" + strategy).at("strategy"), strategy);
  }
  for (const std::string& name : names) {
    EXPECT_FALSE(read_all(folder_ / "one" / name).empty()) << name;
    if (name.ends_with("manifest.json")) continue;
    EXPECT_EQ(read_all(folder_ / "one" / name), read_all(folder_ / "two" / name)) << name;
  }
}

TEST_F(EndToEnd, ResolvedScenariosRunTheSame) {
  ASSERT_EQ(scalai("sim " + scenario_file("failure-gpt3-2.7b") + " --out=" + path("one")).code, 0);
  const Outcome again = scalai("sim " + path("one/scenario.resolved.textproto") + " --out=" + path("two"));
  ASSERT_EQ(again.code, 0) << again.err;
  for (const char* file : {"summary.json", "events.csv", "transfers.csv", "plans/001.binpb"}) {
    EXPECT_EQ(read_all(folder_ / "one" / file), read_all(folder_ / "two" / file)) << file;
  }
}

TEST_F(EndToEnd, ReplayFindsTheSamePlans) {
  for (const char* name : {"failure-gpt3-2.7b", "elastic-gpt3-xl"}) {
    for (const std::string& strategy : kStrategies) {
      const std::string report = path(fmt::format("{}.{}", name, strategy));
      ASSERT_EQ(scalai(fmt::format("sim {} --strategy={} --out={}", scenario_file(name), strategy, report)).code, 0);
      const Outcome replay = scalai("replay " + report);
      EXPECT_EQ(replay.code, 0) << replay.out << replay.err;
      EXPECT_THAT(replay.out, EndsWith("all digests equal\n"));
      EXPECT_THAT(replay.out, HasSubstr("same"));
    }
  }
}

class Replay : public EndToEnd {
 protected:
  void SetUp() override {
    EndToEnd::SetUp();
    ASSERT_EQ(scalai("sim " + scenario_file("elastic-gpt3-xl") + " --out=" + path("run")).code, 0);
    events_ = read_all(path("run/events.csv"));
  }
  // Replays with one piece of the event log replaced.
  Outcome with(const std::string& from, const std::string& to) {
    std::string text = events_;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    write_all(path("run/events.csv"), text.replace(at, from.size(), to));
    return scalai("replay " + path("run"));
  }
  std::string events_;
};

TEST_F(Replay, AnAlteredEventIsNoticed) {
  const Outcome replay = with("\n2100,timer_fired,,,,,1,", "\n2100,timer_fired,,,,,2,");  // resize to 4 instead of 8
  EXPECT_EQ(replay.code, 1) << replay.err;
  EXPECT_THAT(replay.out, HasSubstr("DIFFERENT"));
  EXPECT_THAT(replay.out, EndsWith("digests differ\n"));
}

TEST_F(Replay, AMissingPlanIsNoticed) {
  fs::remove(path("run/plans/015.binpb"));
  EXPECT_EQ(scalai("replay " + path("run")).code, 1);
}

TEST_F(Replay, ImpossibleEventsAreErrorsNotCrashes) {
  const std::vector<std::pair<std::string, std::string>> edits = {
      {"\n2100,timer_fired,,,,,1,", "\n2100,timer_fired,,,,,999,"},
      {"\n2100,timer_fired,,,,,1,", "\n1,timer_fired,,,,,1,"},
      {"\n0,started,", "\n0,timer_fired,"},
      {",step_reached,0,", ",step_reached,7,"},
      {",step_reached,0,200,", ",step_reached,0,-200,"},
      {"\n0,started,", "\n0,began,"},
  };
  for (const auto& [from, to] : edits) {
    const Outcome replay = with(from, to);
    EXPECT_EQ(replay.code, 3) << to << "\n" << replay.err;
    EXPECT_THAT(replay.err, HasSubstr("error:")) << to;
  }
}

TEST_F(Replay, AFolderWithoutAReportIsMissing) {
  EXPECT_EQ(scalai("replay " + path("nothing")).code, 4);
  write_all(path("run/summary.json"), "{}");
  EXPECT_EQ(scalai("replay " + path("run")).code, 3);
}

TEST_F(EndToEnd, CompareShowsRunsSideBySide) {
  const std::string file = small_scenario("events { at: \"10s\" redeploy { devices: [1, 3] } }\n");
  const std::string a = path("a"), b = path("b");
  ASSERT_EQ(scalai(fmt::format("sim {} --out={}", file, a)).code, 0);
  ASSERT_EQ(scalai(fmt::format("sim {} --strategy=tenplex --out={}", file, b)).code, 0);
  const Outcome table = scalai(fmt::format("compare {} {}/", a, b));
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("downtime"));
  const Outcome json = scalai(fmt::format("compare {} {} --format=json", a, b));
  EXPECT_EQ(Json::parse(json.out).at("runs").size(), 2u);
  EXPECT_EQ(Json::parse(json.out).at("runs")[1].at("label"), "b");
  const Outcome csv = scalai(fmt::format("compare {} {} --format=csv", a, b));
  EXPECT_GT(std::count(csv.out.begin(), csv.out.end(), '\n'), 5);
  EXPECT_EQ(scalai(fmt::format("compare {} {}", a, path("none"))).code, 4);
  write_all(path("b/summary.json"), "[]");
  EXPECT_EQ(scalai(fmt::format("compare {} {}", a, b)).code, 3);
}

TEST_F(EndToEnd, ResultsArePrintedInThreeForms) {
  const std::string file = small_scenario("");
  EXPECT_EQ(Json::parse(scalai("sim " + file + " --format=json").out).at("scenario"), "small");
  EXPECT_EQ(Json::parse(scalai("sim " + file + " --format=json --strategy=reshard,tenplex").out).at("runs").size(), 2u);
  EXPECT_THAT(scalai("sim " + file + " --format=csv").out, HasSubstr(",reshard"));
  EXPECT_THAT(scalai("sim " + file).out, HasSubstr("small"));
}

// ---- exit codes -----------------------------------------------------------------------------------------------------

TEST_F(EndToEnd, AFailedExpectationIsOne) {
  const Outcome run = scalai("sim " + small_scenario("expect { metric: \"/jobs/0/steps\" equals: 7 }\n"));
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("/jobs/0/steps is 100, expected exactly 7"));
  EXPECT_EQ(
      scalai("sim " + small_scenario("expect { metric: \"/jobs/0/steps\" equals: 7 }\n") + " --strategy=tenplex").code,
      0)
      << "it is about the scenario's own strategy";
}

TEST_F(EndToEnd, ABadCommandLineIsTwo) {
  const std::string file = scenario_file("identity");
  const std::vector<std::string> lines = {"",
                                          "sim",
                                          "simm",
                                          "replay",
                                          "compare",
                                          "sim " + file + " " + file,
                                          "sim " + file + " --strateg=reshard",
                                          "sim " + file + " --strategy=reshad",
                                          "sim " + file + " --network=tcp",
                                          "sim " + file + " --format=xml"};
  for (const std::string& words : lines) {
    const Outcome run = scalai(words);
    EXPECT_EQ(run.code, 2) << words;
    EXPECT_THAT(run.err, HasSubstr("--help")) << words;
    EXPECT_EQ(run.out, "") << words;
  }
}

TEST_F(EndToEnd, ABrokenScenarioIsThree) {
  const std::string file = small_scenario("evnts { }\n");
  const Outcome run = scalai("sim " + file);
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.err, HasSubstr("small.textproto:7:1: error:"));
  EXPECT_EQ(scalai("validate " + file).code, 3);
}

TEST_F(EndToEnd, AMissingFileIsFour) {
  EXPECT_EQ(scalai("sim " + path("none.textproto")).code, 4);
  EXPECT_EQ(scalai("validate " + path("none.textproto")).code, 4);
  EXPECT_EQ(scalai("sim " + small_scenario("") + " --cluster=" + path("none.textproto")).code, 4);
}

TEST_F(EndToEnd, AJobWithoutSurvivingStateIsFive) {
  const std::string file = small_scenario("events { at: \"10s\" fail { devices: [2] } }\n");
  const Outcome run = scalai("sim " + file + " --out=" + path("report"));
  EXPECT_EQ(run.code, 5);
  EXPECT_THAT(run.err, HasSubstr("job a: no surviving holder and no checkpoint"));
  EXPECT_THAT(run.err, HasSubstr("tensor \"embedding.word.weight\" ["));
  EXPECT_EQ(summary("report").at("jobs")[0].at("state"), "failed");
  EXPECT_EQ(scalai("sim " + file + " --strategy=reshard,tenplex").code, 5);
}

TEST_F(EndToEnd, AReportThatCannotBeWrittenIsAnError) {
  write_all(path("file"), "x");
  const Outcome run = scalai("sim " + small_scenario("") + " --out=" + path("file/report"));
  EXPECT_TRUE(run.code == 4 || run.code == 5) << run.code;
  EXPECT_THAT(run.err, HasSubstr("file"));
}

TEST_F(EndToEnd, WithoutTheSimulatorItsCommandIsFour) {
  fs::copy_file(kPrograms / "scalai", folder_ / "scalai");
  const std::string command = fmt::format("'{}' sim '{}'", path("scalai"), scenario_file("identity"));
  const Outcome alone = shell("PATH=/usr/bin:/bin " + command);
  EXPECT_EQ(alone.code, 4);
  EXPECT_THAT(alone.err, HasSubstr("scalai-sim is neither in"));
  EXPECT_THAT(alone.err, HasSubstr("hint:"));
  EXPECT_EQ(shell(fmt::format("PATH='{}':/usr/bin:/bin {}", kPrograms.string(), command)).code, 0) << "found on PATH";
}

TEST_F(EndToEnd, HelpIsHelp) {
  for (const std::string words : {"--help", "help", "sim --help", "help sim", "validate --help", "replay --help",
                                  "compare --help", "models --help", "--version"}) {
    const Outcome run = scalai(words);
    EXPECT_EQ(run.code, 0) << words;
    EXPECT_EQ(run.err, "") << words;
    EXPECT_FALSE(run.out.empty()) << words;
  }
  const std::string sim = scalai("sim --help").out;
  for (const std::string& strategy : kStrategies) EXPECT_THAT(sim, HasSubstr(strategy));
  EXPECT_EQ(sim, scalai("help sim").out);
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
  ASSERT_EQ(bars.size(), 17u);
  double sum = 0;
  std::string table;
  for (const Bar& bar : bars) {
    const std::string file = scenario_file(fmt::format("{}-gpt3-{}", bar.change, bar.model));
    const Outcome run = scalai(fmt::format("sim {} --strategy={} --format=json", file, bar.strategy));
    ASSERT_EQ(run.code, 0) << run.err;
    const Json job = Json::parse(run.out).at("jobs")[0];
    const double simulated = job.at("reconfigurations")[0].at("phases_s").at("transfer").get<double>();
    sum += std::fabs(simulated / bar.seconds - 1);
    table += fmt::format("{} {} {}: published {} s, simulated {:.2f} s\n", bar.change, bar.model, bar.strategy,
                         bar.seconds, simulated);
  }
  EXPECT_LE(sum / static_cast<double>(bars.size()), 0.20) << table;
}

}  // namespace
