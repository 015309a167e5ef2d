// Scenarios of many jobs as people run them: every one of the tree whose public traces are there, what a run leaves,
// other values from the command line, programs as policies.

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

TEST_F(SchedEndToEnd, ThePrintedFormsAgree) {
  const std::string file = scenario();
  const Json json = Json::parse(sim(file + " --format=json").out);
  const std::string csv = sim(file + " --format=csv").out;
  EXPECT_THAT(csv, HasSubstr(fmt::format("\nfinished,{},jobs\n", json.at("metrics").at("finished").get<int>())));
  EXPECT_THAT(sim(file).out, HasSubstr("JCT, mean"));
}

TEST_F(SchedEndToEnd, ExpectationsAreChecked) {
  const Outcome run = sim(scenario("expect { metric: \"/metrics/finished\" equals: 7 }\n"));
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("/metrics/finished is 60, expected exactly 7"));
  EXPECT_EQ(sim(scenario("expect { metric: \"/metrics/finished\" equals: 7 }\n") + " --set=policy.name=srtf").code, 0)
      << "they are about the scenario as it is written";
}

// ---- other values ---------------------------------------------------------------------------------------------------

TEST_F(SchedEndToEnd, ValuesFromTheCommandLine) {
  const std::string file = scenario();
  const auto metric = [&](const std::string& words, const char* name) {
    const Outcome run = sim(file + " --format=json " + words);
    EXPECT_EQ(run.code, 0) << run.err;
    return Json::parse(run.out).at("metrics").at(name);
  };
  EXPECT_NE(metric("", "avg_jct_s"), metric("--set=policy.name=srtf", "avg_jct_s"));
  EXPECT_NE(metric("", "avg_jct_s"), metric("--seed=8", "avg_jct_s"));
  EXPECT_EQ(metric("--seed=8", "avg_jct_s"), metric("--set=seed=8", "avg_jct_s"));
  EXPECT_EQ(metric("--set=workload.set.jobs=30", "jobs"), 30);
  EXPECT_EQ(metric("--set=workload.set[0]=jobs=20 --set=cluster.hosts[0].count=8", "jobs"), 20);
}

TEST_F(SchedEndToEnd, RefusedValuesSayWhy) {
  const std::string file = scenario();
  const Outcome unknown = sim(file + " --set=policy.nam=srtf");
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean \"name\"?"));
  const Outcome policy = sim(file + " --set=policy.name=srft");
  EXPECT_EQ(policy.code, 3);
  EXPECT_THAT(policy.err, HasSubstr("did you mean \"srtf\"?"));
  EXPECT_EQ(sim(file + " --strategy=reshard").code, 2);
  EXPECT_EQ(sim(file + " --scale-model=1/8").code, 2);
  EXPECT_EQ(sim(file + " --set=").code, 2);
  for (const char* metric : {"x=", "=mean(ftf)", "x", "x= "}) {
    for (const std::string& command : {"sim " + file, "sweep " + file + " --out=" + path("x.csv")}) {
      const Outcome run = with_data(fmt::format("{} '--metric={}'", command, metric));
      EXPECT_EQ(run.code, 2) << command << metric;
      EXPECT_THAT(run.err, HasSubstr(fmt::format("--metric={} defines no metric", metric)));
    }
  }
  const Outcome gap = sim(file + " --set=policy.name=sia --set=policy.set.gap=-1");
  EXPECT_EQ(gap.code, 3);
  EXPECT_THAT(gap.err, HasSubstr("gap must not be below 0; it is -1"));
}

TEST_F(SchedEndToEnd, AScenarioOfTheControlLoopTakesValuesToo) {
  const Outcome run = scalai("sim " + small_scenario("") + " --set=until=50s --format=json");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(Json::parse(run.out).at("end_s"), 50.0);
  EXPECT_EQ(Json::parse(scalai("sim " + small_scenario("") + " --seed=9 --format=json").out).at("seed"), 9);
}

// ---- broken input ---------------------------------------------------------------------------------------------------

TEST_F(SchedEndToEnd, AllProblemsAtOnceWithTheirPlaces) {
  const std::string file = path("broken.textproto");
  write_all(file, R"(name: "broken"
cluster { hosts { count: 2 gpus: 4 gpu: "v100-16g" nic: "10Gbps" } }
workload { generator: "philly-like" set: "jobs=5" }
throughputs { source: "guess" }
policy { name: "tiresias" set: "treshold=3" }
changes { preset: "polux" seconds: "3s" }
events { at: "1s" }
)");
  for (const std::string command : {"sim ", "validate "}) {
    const Outcome run = scalai(command + file);
    EXPECT_EQ(run.code, 3);
    for (const char* text :
         {":4:23: error: unknown source of throughputs \"guess\"", ":5:32: error:", "did you mean", "treshold",
          ":6:19: error: unknown preset \"polux\"", "\"preset\" and \"seconds\" exclude each other",
          ":7:1: error: \"events\" has no meaning with \"workload\""}) {
      EXPECT_THAT(run.err, HasSubstr(text));
    }
  }
}

TEST_F(SchedEndToEnd, MissingPublicTracesAreFour) {
  const Outcome run = shell(
      fmt::format("SCALAI_DATA='{}' '{}/scalai' sim {}", path("none"), kPrograms.string(), scenario_file("busy-vc")));
  EXPECT_EQ(run.code, 4);
  EXPECT_THAT(run.err, HasSubstr("busy-vc.textproto"));
  EXPECT_THAT(run.err, HasSubstr("philly_jobs.csv: no such file or folder"));
  EXPECT_THAT(run.err, HasSubstr("github.com/msr-fiddle/philly-traces"));
}

TEST_F(SchedEndToEnd, HostsOfATraceBeyondTheClusterAreNamed) {
  write_all(path("hosts.csv"), "0,add,node1\n0,add,node2\n0,add,node3\n5000,remove,node2\n");
  const std::string more = "availability { file: \"hosts.csv\" format: \"bamboo\" }\n";
  const Outcome run = sim(scenario(more) + " --set=cluster.hosts[0].count=2");
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.err, HasSubstr("the trace has 3 hosts, the cluster 2"));
  EXPECT_THAT(run.err, HasSubstr("would be host 2"));
  EXPECT_EQ(sim(scenario(more)).code, 0);
}

// ---- programs as policies -------------------------------------------------------------------------------------------

// A quiet end does not count; a reader who does not know it takes the rates for those of the whole hour.
TEST_F(SchedEndToEnd, ARunThatEndsBeforeItsHostTraceSaysSo) {
  write_all(path("hosts.csv"),
            "scalai-trace,1,hosts,,3600\nrecord,at_s,what,hosts\nhost,0,up,0\nhost,0,up,1\nevent,600,failed,1\n"
            "event,3120,up,1\n");
  write_all(path("rate.csv"), "hosts,samples_per_s\n1,1\n2,2\n");
  write_all(path("costs.csv"), "cost,seconds\nchange,10\n");
  write_all(path("few.textproto"), R"(schema_version: 1
name: "few"
cluster { hosts { count: 2 gpus: 1 gpu: "v100-16g" nic: "10Gbps" } }
availability { file: "hosts.csv" }
recovery { design: "reshard" throughputs: "rate.csv" costs: "costs.csv" set: "batch=8" }
)");
  const Outcome run = sim(path("few.textproto"));
  EXPECT_EQ(run.code, 0) << run.err;
  const std::string note =
      "note: the run ends at 52.0 min, with the last change of hosts, although the host trace goes on "
      "until 1 h 0 min: until: \"3600s\" plays all of it\n";
  EXPECT_THAT(run.out, HasSubstr(note));
  const Outcome whole = sim(path("few.textproto") + " --set=until=3600s");
  EXPECT_THAT(whole.out, ::testing::Not(HasSubstr("note: the run ends")));
  EXPECT_THAT(whole.out, HasSubstr("59.8 min"));
}

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

TEST_F(SchedEndToEnd, AProgramThatDiesEndsTheRunCleanly) {
  // Jobs run as they come, until the program has had enough.
  write_all(path("tired.py"), R"(import json, sys
asked = 0
for line in sys.stdin:
    q = json.loads(line)
    if q["ask"] == "hello":
        print(json.dumps({"scalai_policy": 1}), flush=True)
        continue
    asked += 1
    if asked > 40:
        sys.exit("enough")
    free = dict(q["capacity"])
    for job in q["jobs"]:
        if job["has"]:
            free[job["has"]["type"]] -= job["gpus"]
    grants = []
    for job in q["jobs"]:
        for t in free:
            if not job["has"] and free[t] >= job["gpus"]:
                free[t] -= job["gpus"]
                grants.append({"job": job["job"], "type": t, "gpus": job["gpus"]})
                break
    print(json.dumps({"grants": grants}), flush=True)
)");
  const Outcome run = sim(scenario() + " --set=policy.name= '--set=policy.exec=python3 tired.py' --out=" + path("out"));
  EXPECT_EQ(run.code, 5);
  EXPECT_THAT(run.err, HasSubstr("ended with exit code 1"));
  EXPECT_THAT(run.err, HasSubstr("enough"));
  EXPECT_FALSE(fs::exists(folder_ / "out/summary.json"));
  const std::string jobs = read_all(folder_ / "out/jobs.csv");
  EXPECT_GT(std::count(jobs.begin(), jobs.end(), '\n'), 5) << "jobs that had ended by then";
  EXPECT_THAT(read_all(folder_ / "out/partial.json"), HasSubstr("exit code 1"));
}

TEST_F(SchedEndToEnd, BadAnswersAreShown) {
  const auto run = [&](const std::string& answer) {
    write_all(path("bad.sh"),
              fmt::format("read x; echo '{{\"scalai_policy\":1}}'; read x; echo '{}'; read x\n", answer));
    return sim(scenario() + " --set=policy.name= '--set=policy.exec=sh bad.sh'");
  };
  const Outcome malformed = run("{\"grants\":[}");
  EXPECT_EQ(malformed.code, 5);
  EXPECT_THAT(malformed.err, HasSubstr("column 12: this is not JSON"));
  const Outcome unknown = run("{\"grants\":[{\"job\":\"nobody\",\"gpus\":1}]}");
  EXPECT_EQ(unknown.code, 5);
  EXPECT_THAT(unknown.err, HasSubstr("\"nobody\", which is no job"));
  const Outcome slow = sim(scenario() + " --set=policy.name= '--set=policy.exec=sleep 60' --set=policy.timeout=300ms");
  EXPECT_EQ(slow.code, 5);
  EXPECT_THAT(slow.err, HasSubstr("no answer within 0.3 s"));
}

}  // namespace sched_scenarios_test
}  // namespace scalai::testing
