// `scalai sweep`, `scalai breakeven` and `scalai policies` as people run them.

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/sched_end_to_end.h"

extern char** environ;

namespace scalai::testing {
namespace sweep_command_test {

using Json = nlohmann::json;
using ::testing::HasSubstr;

const std::string kAxes = " --vary=policy.name=fifo,srtf --vary=changes.seconds=0s,60s,600s";

TEST_F(SchedEndToEnd, ASweepIsTheSameWithOneOrManyWorkers) {
  const std::string file = scenario();
  for (const int jobs : {1, 4}) {
    const Outcome run = with_data(
        fmt::format("sweep {}{} --seeds=3 --jobs={} --out={}", file, kAxes, jobs, path(fmt::format("{}.csv", jobs))));
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_FALSE(fs::exists(path(fmt::format("{}.csv.part", jobs))));
  }
  const std::string table = read_all(path("1.csv"));
  EXPECT_TRUE(table == read_all(path("4.csv")));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 7);
  EXPECT_THAT(table, HasSubstr("policy.name,changes.seconds,finished,finished_low,finished_high,finished_diff,"));
  EXPECT_THAT(table, HasSubstr("\nfifo,0s,60,60,60,"));
  EXPECT_THAT(table, HasSubstr("\nsrtf,600s,60,"));
}

TEST_F(SchedEndToEnd, ARowIsWhatSimSays) {
  const std::string file = scenario();
  ASSERT_EQ(with_data(fmt::format("sweep {} --vary=policy.name=srtf --metrics=avg_jct_s,/fleet/gpus --out={}", file,
                                  path("one.csv")))
                .code,
            0);
  const Json json = Json::parse(sim(file + " --set=policy.name=srtf --format=json").out);
  EXPECT_EQ(read_all(path("one.csv")), fmt::format("policy.name,avg_jct_s,/fleet/gpus,status\nsrtf,{},16,ok\n",
                                                   json.at("metrics").at("avg_jct_s").dump()));
}

// A sweep that is killed at any moment goes on, runs nothing twice, and ends with the same table.
TEST_F(SchedEndToEnd, AKilledSweepResumes) {
  const std::string file = scenario();
  const std::string words = file + kAxes + " --seeds=4 --jobs=2 --out=";
  ASSERT_EQ(with_data("sweep " + words + path("whole.csv")).code, 0);
  const std::string program = (kPrograms / "scalai").string(), out = path("killed.csv");
  std::vector<std::string> list = {
      program,     "sweep",    file,          "--vary=policy.name=fifo,srtf", "--vary=changes.seconds=0s,60s,600s",
      "--seeds=4", "--jobs=2", "--out=" + out};
  std::vector<char*> argv;
  for (std::string& word : list) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  ASSERT_EQ(posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  const auto rows = [&] {
    const std::string text = read_all(out + ".part");
    return std::count(text.begin(), text.end(), '\n');
  };
  for (int wait = 0; wait < 2000 && rows() < 6; ++wait) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(pid, SIGKILL);
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  const auto done = rows();
  ASSERT_GE(done, 6) << "it never began";
  ASSERT_FALSE(fs::exists(out)) << "it was over before it was killed";
  std::ofstream(out + ".part", std::ios::app) << "23,3,17";  // and half a row
  const Outcome resumed = with_data("sweep " + words + out);
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr(fmt::format("{} runs are done already", done - 1)));
  EXPECT_TRUE(read_all(out) == read_all(path("whole.csv")));
}

TEST_F(SchedEndToEnd, RowsOfAnotherScenarioAreRefused) {
  const std::string file = scenario();
  write_all(path("x.csv.part"), "scalai-sweep 1 00000000000000000000000000000000\n0,0,1\n");
  const Outcome run = with_data("sweep " + file + " --set=policy.name=fifo --out=" + path("x.csv"));
  EXPECT_EQ(run.code, 3);
  EXPECT_THAT(run.err, HasSubstr("rows of another scenario"));
}

TEST_F(SchedEndToEnd, PointsThatFailAreNamedAndTheRestGoesOn) {
  const std::string file = scenario();
  const Outcome run =
      with_data("sweep " + file + " --vary=policy.name=fifo,allox --metrics=finished --out=" + path("x.csv") +
                " --vary=workload.set.jobs=20,0");
  EXPECT_EQ(run.code, 5);
  EXPECT_THAT(run.err, HasSubstr("policy.name=fifo workload.set.jobs=0: failed: exit code 3"));
  const std::string table = read_all(path("x.csv"));
  EXPECT_THAT(table, HasSubstr("\nfifo,20,20,ok\n"));
  EXPECT_THAT(table, HasSubstr("fifo,0,,"));
  EXPECT_TRUE(fs::exists(path("x.csv.part"))) << "the good points are kept for the next time";
}

TEST_F(SchedEndToEnd, ASweepThatCannotBeIsRefusedBeforeAnythingRuns) {
  const std::string file = scenario();
  EXPECT_EQ(with_data("sweep " + file + " --set=policy.name=fifo").code, 2) << "no --out";
  EXPECT_EQ(with_data("sweep " + file + " --vary=policy.name= --out=" + path("x.csv")).code, 2);
  EXPECT_EQ(with_data("sweep " + file + " --vary=seed=1,2 --seeds=2 --out=" + path("x.csv")).code, 2);
  EXPECT_EQ(with_data("sweep " + file + " --vary=seed=1 --vary=seed=2 --out=" + path("x.csv")).code, 2);
  EXPECT_EQ(with_data("sweep " + file + " --set=seed=1 --set=seed=2 --out=" + path("x.csv")).code, 3);
  EXPECT_EQ(with_data("sweep " + file + " --seeds=4611686018427387904 --out=" + path("x.csv")).code, 2);
  EXPECT_EQ(with_data("sweep " + file + " --vary=policy.nam=a,b --out=" + path("x.csv")).code, 3);
  const Outcome metric = with_data("sweep " + file + " --vary=seed=1,2 --metrics=avg_jct --out=" + path("x.csv"));
  EXPECT_EQ(metric.code, 2);
  EXPECT_THAT(metric.err, HasSubstr("did you mean \"avg_jct_s\"?"));
  EXPECT_EQ(with_data("sweep " + path("none.textproto") + " --set=seed=1 --out=" + path("x.csv")).code, 4);
  EXPECT_FALSE(fs::exists(path("x.csv")));
}

TEST_F(SchedEndToEnd, ControlScenariosSweepToo) {
  const Outcome run =
      scalai("sweep " + small_scenario("") + " --vary=until=50s,100s --metrics=/jobs/0/steps --out=" + path("x.csv"));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(read_all(path("x.csv")), "until,/jobs/0/steps,status\n50s,50,ok\n100s,100,ok\n");
}

// ---- breakeven ------------------------------------------------------------------------------------------------------

TEST_F(SchedEndToEnd, ABreakEvenIsWhereTheOrderChanges) {
  const std::string file = scenario();
  const Outcome run =
      with_data("breakeven " + file + " --policies=srtf,fifo-backfill --range=0s,12h --tolerance=1min --format=json");
  ASSERT_EQ(run.code, 0) << run.err;
  const Json json = Json::parse(run.out);
  const auto jct = [&](const std::string& policy, double cost_s) {
    const Outcome one =
        sim(fmt::format("{} --set=policy.name={} --set=changes.seconds={}s --format=json", file, policy, cost_s));
    return Json::parse(one.out).at("metrics").at("avg_jct_s").get<double>();
  };
  for (const Json& sample : json.at("samples")) {
    const double cost_s = sample.at("value");
    EXPECT_EQ(sample.at("a").get<double>(), jct("srtf", cost_s)) << cost_s;
    if (cost_s > 0) break;
  }
  ASSERT_FALSE(json.at("bracket").is_null()) << run.out;
  const double low = json.at("bracket")[0], high = json.at("bracket")[1];
  EXPECT_LE(high - low, 60);
  EXPECT_LE(jct("srtf", low), jct("fifo-backfill", low));
  EXPECT_GE(jct("srtf", high), jct("fifo-backfill", high));
}

TEST_F(SchedEndToEnd, ABreakEvenThatIsNotThereIsSaid) {
  const Outcome run = with_data("breakeven " + scenario() + " --policies=fifo,fifo-backfill --range=0s,1min");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("no crossing between 0 s and 60.0 s: fifo is better at all 9 values tried, by "));
}

// A scenario with a program as its policy, with its time, has a break-even between two others.
TEST_F(SchedEndToEnd, ABreakEvenNeedsNoneOfTheScenariosPolicy) {
  const std::string file = scenario();
  std::string text = read_all(file);
  const std::string own = "policy { name: \"fifo\" }";
  text.replace(text.find(own), own.size(), "policy { exec: \"python3 mine.py\" timeout: \"3s\" }");
  write_all(file, text);
  const Outcome run = with_data("breakeven " + file + " --policies=fifo,fifo-backfill --range=0s,1min");
  EXPECT_EQ(run.code, 0) << run.err;
}

// Parameters of --set reach both policies: one that takes none of that name complains.
TEST_F(SchedEndToEnd, BreakEvenSetsParameters) {
  const Outcome run =
      with_data("breakeven " + scenario() + " --policies=srtf,fifo-backfill --set=policy.set.nonsense=3");
  EXPECT_EQ(run.code, 3) << run.out;
  EXPECT_THAT(run.err, HasSubstr("error: --set=policy.set.nonsense=3: "));
}

TEST_F(SchedEndToEnd, BreakEvenUsage) {
  const std::string file = scenario();
  for (const std::string words :
       {"", "--policies=a", "--policies=a,a", "--policies=a,b --strategies=a,b", "--policies=srtf,fifo --range=1h,0s",
        "--policies=srtf,fifo --set=policy.name=sjf", "--policies=srtf,fifo --range=1h"}) {
    EXPECT_EQ(with_data("breakeven " + file + " " + words).code, 2) << words;
  }
  const Outcome unknown = with_data("breakeven " + file + " --policies=srtf,nobody");
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("error: --set=policy.name=nobody: unknown policy \"nobody\""));
  EXPECT_EQ(scalai("breakeven " + small_scenario("") + " --strategies=reshard,tenplex").code, 2) << "which cost?";
}

// Any field, over numbers: fifo-backfill and srtf finish the same jobs on few GPUs and on many.
TEST_F(SchedEndToEnd, BreakEvenOverWholeNumbers) {
  const Outcome run =
      with_data("breakeven " + scenario() +
                " --vary=policy.name=srtf,fifo --path=cluster.hosts[0].count --range=1,8 --format=json");
  ASSERT_EQ(run.code, 0) << run.err;
  const Json json = Json::parse(run.out);
  EXPECT_EQ(json.at("unit"), "");
  EXPECT_EQ(json.at("metric"), "avg_jct_s");
  EXPECT_EQ(json.at("compared"), "policy.name");
  for (const Json& sample : json.at("samples"))
    EXPECT_EQ(sample.at("value"), std::floor(sample.at("value").get<double>()));
  EXPECT_EQ(
      with_data("breakeven " + scenario() + " --policies=srtf,fifo --path=cluster.hosts[0].count --range=1s,8s").code,
      3);
}

// ---- alternatives ---------------------------------------------------------------------------------------------------

TEST_F(SchedEndToEnd, AlternativesOfAPolicyStandSideBySide) {
  const std::string file = scenario();
  const Outcome run = with_data(fmt::format(
      "sim {} --vary=policy.name=fifo,srtf --vary=changes.seconds=0s,10min --out={} --format=json", file, path("all")));
  ASSERT_EQ(run.code, 0) << run.err;
  const Json json = Json::parse(run.out);
  ASSERT_EQ(json.at("runs").size(), 4u);
  const Json one = Json::parse(sim(file + " --set=policy.name=srtf --set=changes.seconds=10min --format=json").out);
  EXPECT_EQ(json.at("runs")[3].at("label"), "srtf+10min");
  for (const Json& row : json.at("rows")) {
    if (row.at("metric") != "avg_jct_s") continue;
    EXPECT_EQ(row.at("values")[3], one.at("metrics").at("avg_jct_s"));
  }
  EXPECT_EQ(Json::parse(read_all(path("all/srtf+10min/summary.json"))), one);
  EXPECT_THAT(read_all(path("all/fifo+0s/manifest.json")), HasSubstr("--vary=policy.name=fifo,srtf"));
  const Outcome later = scalai("compare " + path("all") + " --format=csv");
  EXPECT_THAT(later.out, HasSubstr("job,metric,unit,fifo+0s,fifo+10min,srtf+0s,srtf+10min\n"));
}

// Notes that change the meaning of numbers are said wherever the numbers are, each once.
TEST_F(SchedEndToEnd, NotesOfRunsAreSaidOnce) {
  const std::string file =
      scenario("availability { generator: \"poisson\" set: \"host-mtbf=10h\" set: \"span=1d\" }\n");
  const std::string assumed = "note: assumed: a job whose host fails goes on from a checkpoint";
  const std::string rounds = "note: gavel-max-min: policy: ";
  const auto times = [](const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  };
  const Outcome one = sim(file + " --set=policy.name=gavel-max-min");
  EXPECT_EQ(times(one.out, assumed), 1) << one.out;
  EXPECT_THAT(one.out, HasSubstr("\nnote: policy: "));
  const std::string vary = file + " --vary=policy.name=fifo,gavel-max-min --out=";
  const Outcome varied = with_data("sim " + vary + path("all"));
  const Outcome later = scalai("compare " + path("all"));
  for (const std::string& text : {varied.out, later.out}) {
    EXPECT_EQ(times(text, assumed), 1) << text;
    EXPECT_EQ(times(text, rounds), 1) << text;
  }
  const Outcome swept = with_data("sweep " + vary + path("all.csv"));
  EXPECT_EQ(times(swept.err, "scalai sweep: " + assumed), 1) << swept.err;
  EXPECT_EQ(times(swept.err, "scalai sweep: note: policy.name=gavel-max-min: policy: "), 1) << swept.err;
}

TEST_F(SchedEndToEnd, SeedsOfAnAlternativeAreOneColumn) {
  const std::string file = scenario();
  const Outcome run =
      with_data(fmt::format("sim {} --vary=policy.name=fifo,srtf --seeds=2 --out={}", file, path("all")));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(" ± "));
  EXPECT_EQ(std::distance(fs::directory_iterator(path("all/srtf")), fs::directory_iterator()), 2);
  EXPECT_EQ(run.out, scalai("compare " + path("all")).out);
  const Outcome other =
      with_data(fmt::format("sim {} --vary=policy.name=fifo,srtf --set=seed=70 --seeds=2 --out={}", file, path("all")));
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_TRUE(fs::exists(path("all/srtf/seed-71/summary.json"))) << "seeds count from the one that is set";
  EXPECT_THAT(other.err, HasSubstr("has other reports, which compare and report will show, too: "));
}

// Nothing is written when a setting is no setting, and all of them are named; one that fails leaves the others.
TEST_F(SchedEndToEnd, AlternativesThatAreNone) {
  const std::string file = scenario();
  const Outcome typo = with_data("sim " + file + " --vary=policy.nam=fifo,srtf --out=" + path("none"));
  EXPECT_EQ(typo.code, 3);
  EXPECT_THAT(typo.err, HasSubstr("did you mean \"name\""));
  EXPECT_FALSE(fs::exists(path("none")));
  const Outcome strategies = scalai("sim " + small_scenario("") + " --vary=strategy=reshard,tenplx,nobody");
  EXPECT_EQ(strategies.code, 3);
  EXPECT_THAT(strategies.err, HasSubstr("tenplx"));
  EXPECT_THAT(strategies.err, HasSubstr("nobody"));
  const Outcome half = with_data("sim " + file + " --vary=policy.name=fifo,nobody");
  EXPECT_EQ(half.code, 3);
  EXPECT_THAT(half.err, HasSubstr("nobody: "));
  EXPECT_THAT(half.out, HasSubstr("fifo"));
  for (const std::string words :
       {"--vary=a", "--vary=seed=1,1", "--vary=seed=1,2 --seeds=2", "--seeds=0",
        "--strategy=reshard --vary=strategy=reshard,tenplex", "--vary=seed=1,2 --vary=seed=3,4", "--seeds=1001"})
    EXPECT_EQ(with_data("sim " + file + " " + words).code, 2) << words;
}

// ---- policies -------------------------------------------------------------------------------------------------------

TEST_F(SchedEndToEnd, PoliciesAreListed) {
  const Outcome all = scalai("policies");
  EXPECT_EQ(all.code, 0);
  for (const char* name : {"fifo",           "fifo-backfill",    "sjf",          "srtf",      "srsf",
                           "tiresias",       "themis",           "optimus",      "afs-l",     "gavel-max-min",
                           "gavel-makespan", "gandiva",          "allox",        "pollux",    "sia",
                           "elasticflow",    "uniform-progress", "price-chaser", "templates", "spare-swap",
                           "elasticflow"}) {
    EXPECT_THAT(all.out, HasSubstr(name));
  }
  const Json json = Json::parse(scalai("policies --format=json").out);
  for (const Json& policy : json) {
    EXPECT_FALSE(policy.at("summary").get<std::string>().empty()) << policy;
    EXPECT_FALSE(policy.at("family").get<std::string>().empty()) << policy;
  }
  EXPECT_THAT(scalai("policies fifo").out, ::testing::Not(HasSubstr("source:")));
  EXPECT_THAT(scalai("policies tiresias").out, HasSubstr("\n  source: "));
  // Emulations of published simulators are with the validation alone.
  EXPECT_THAT(all.out + scalai("policies gandiva").out + scalai("policies templates").out,
              ::testing::Not(::testing::AnyOf(HasSubstr("gavel-fifo"), HasSubstr("strict"), HasSubstr("rules"))));
  const Outcome one = scalai("policies tiresias");
  EXPECT_EQ(one.code, 0);
  EXPECT_THAT(one.out, HasSubstr("threshold"));
  EXPECT_THAT(one.out, HasSubstr("preemptive: takes GPUs away"));
  EXPECT_THAT(scalai("policies tiresias --format=csv").out, HasSubstr("parameter,default,unit"));
  const Outcome unknown = scalai("policies tiresia");
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean \"tiresias\"?"));
}

}  // namespace sweep_command_test
}  // namespace scalai::testing
