// Scenarios of many jobs as people run them: every one of the tree whose public traces are there, what a run leaves,
// programs as policies. cases/jobs.case and cases/policy_programs.case have other values and what is refused.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/sched_end_to_end.h"

namespace scalai::testing {
namespace sched_scenarios_test {

using Json = nlohmann::json;
using ::testing::HasSubstr;

// Folders of public data that a scenario names.
std::set<std::string> data_folders(const std::string& text) {
  std::set<std::string> folders;
  const std::string mark = "${SCALAI_DATA}/";
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const size_t from = at + mark.size();
    folders.insert(text.substr(from, text.find('/', from) - from));
  }
  return folders;
}

class ClusterScenario : public SchedEndToEnd, public ::testing::WithParamInterface<std::string> {};

TEST_P(ClusterScenario, HoldsItsExpectations) {
  for (const std::string& folder : data_folders(read_all(scenario_file(GetParam())))) {
    if (!fs::exists(kData / folder)) GTEST_SKIP() << "needs the public trace " << (kData / folder);
  }
  const std::set<std::string> long_ones = {"failure-rate-sweep", "llama3-54-days", "llm-cluster-kalos"};
  if (long_ones.contains(GetParam()) && !soaking()) GTEST_SKIP() << "takes half a minute: ./dev soak plays it";
  const Outcome run = sim(scenario_file(GetParam()));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_FALSE(run.out.empty());
  EXPECT_EQ(with_data("validate " + scenario_file(GetParam())).code, 0);
}

INSTANTIATE_TEST_SUITE_P(All, ClusterScenario, ::testing::ValuesIn(scenario_names(true)), [](const auto& param) {
  std::string name = param.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

TEST(ClusterScenarios, ThereAreAtLeastTwelve) { EXPECT_GE(scenario_names(true).size(), 12u); }

// ---- what a run leaves ----------------------------------------------------------------------------------------------

TEST_F(SchedEndToEnd, ARunLeavesItsReport) {
  const std::string file = scenario();
  ASSERT_EQ(sim(file + " --out=" + path("a")).code, 0);
  ASSERT_EQ(sim(file + " --out=" + path("b")).code, 0);
  for (const char* name : {"summary.json", "jobs.csv", "utilization.csv", "jct_cdf.csv", "ftf_cdf.csv", "costs.csv",
                           "trace.pftrace", "scenario.resolved.textproto"}) {
    const std::string text = read_all(folder_ / "a" / name);
    EXPECT_FALSE(text.empty()) << name;
    EXPECT_TRUE(text == read_all(folder_ / "b" / name)) << name << " differs from run to run";
  }
  EXPECT_TRUE(fs::exists(folder_ / "a/manifest.json"));
  EXPECT_FALSE(fs::exists(folder_ / "a/partial.json"));
  const Json json = Json::parse(summary("a"));
  EXPECT_EQ(json.at("metrics").at("jobs"), 60);
  const std::string jobs = read_all(folder_ / "a/jobs.csv");
  EXPECT_EQ(std::count(jobs.begin(), jobs.end(), '\n'), 61);
}

TEST_F(SchedEndToEnd, ATerminalIsToldHowToOpenTheTrace) {
  if (shell("command -v script").code != 0) GTEST_SKIP() << "needs script(1), which gives a program a terminal";
  for (const std::string& file : {scenario(), small_scenario("")}) {
    const auto on_terminal = [&](const std::string& words) {
      return shell(fmt::format("script -qec \"'{}/scalai-sim' {}{}\" /dev/null", kPrograms.string(), file, words)).out;
    };
    EXPECT_THAT(on_terminal(" --out=" + path("seen")),
                HasSubstr("https://ui.perfetto.dev and drag " + path("seen/trace.pftrace")));
    EXPECT_TRUE(fs::exists(folder_ / "seen/trace.pftrace"));
    EXPECT_THAT(on_terminal(""), ::testing::Not(HasSubstr("perfetto")));
    EXPECT_EQ(sim(file + " --out=" + path("seen")).err, "");
  }
}

// ---- programs as policies -------------------------------------------------------------------------------------------

TEST_F(SchedEndToEnd, AProgramIsAPolicy) {
  fs::create_directory(folder_ / "policies");
  for (const char* name : {"shortest_first.py", "scalai_policy.py"}) {
    fs::copy_file(kScenarios / "policies" / name, folder_ / "policies" / name);
  }
  const std::string file = scenario();
  const Outcome program =
      sim(file + " --set=policy.name= '--set=policy.exec=python3 policies/shortest_first.py' --format=json");
  ASSERT_EQ(program.code, 0) << program.err;
  const Outcome built_in = sim(file + " --set=policy.name=srtf --format=json");
  const Json ours = Json::parse(built_in.out).at("metrics"), theirs = Json::parse(program.out).at("metrics");
  EXPECT_EQ(theirs.at("finished"), 60);
  EXPECT_NEAR(theirs.at("avg_jct_s").get<double>(), ours.at("avg_jct_s").get<double>(),
              0.01 * ours.at("avg_jct_s").get<double>());
}

// The files that a scenario names count from its folder, wherever its report lies.
TEST_F(SchedEndToEnd, ResolvedScenariosRunFromTheirReports) {
  fs::create_directories(folder_ / "there/files");
  for (const char* name : {"shortest_first.py", "scalai_policy.py"}) {
    fs::copy_file(kScenarios / "policies" / name, folder_ / "there/files" / name);
  }
  const Outcome made =
      scalai("import --generate=philly-like --set=jobs=20 --seed=3 --out=" + path("there/files/jobs.csv"));
  ASSERT_EQ(made.code, 0) << made.err;
  write_all(path("there/hosts.csv"), "0,add,n1\n0,add,n2\n0,add,n3\n5000,remove,n2\n");
  write_all(path("there/jobs.textproto"), R"(schema_version: 1
name: "jobs"
seed: 7
cluster { hosts { count: 4 gpus: 8 gpu: "v100-16g" nic: "10Gbps" } }
workload { file: "files/jobs.csv" }
availability { file: "hosts.csv" format: "bamboo" }
policy { exec: "python3 files/shortest_first.py" timeout: "60s" }
)");
  const Outcome first = sim(path("there/jobs.textproto") + " --out=" + path("deep/down/one"));
  ASSERT_EQ(first.code, 0) << first.err;
  const Outcome second = sim(path("deep/down/one/scenario.resolved.textproto") + " --out=" + path("two"));
  ASSERT_EQ(second.code, 0) << second.err;
  for (const char* file : {"summary.json", "jobs.csv"})
    EXPECT_EQ(read_all(folder_ / "deep/down/one" / file), read_all(folder_ / "two" / file)) << file;
  EXPECT_THAT(read_all(folder_ / "deep/down/one/scenario.resolved.textproto"),
              HasSubstr("\nfolder: \"../../../there\"\n"));
  EXPECT_THAT(read_all(folder_ / "two/scenario.resolved.textproto"), HasSubstr("\nfolder: \"../there\"\n"));
  const Outcome inside =
      shell(fmt::format("cd '{}' && '{}/scalai' sim jobs.textproto --out=run && '{}/scalai' sim "
                        "run/scenario.resolved.textproto --out=again",
                        path("there"), kPrograms.string(), kPrograms.string()));
  ASSERT_EQ(inside.code, 0) << inside.err;
  EXPECT_EQ(summary("there/again"), summary("two"));
}

}  // namespace sched_scenarios_test
}  // namespace scalai::testing
