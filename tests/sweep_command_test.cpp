// `scalai sweep`, `scalai breakeven` and alternatives of `scalai sim`, held against single runs. cases/sweep.case has
// what is refused.

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

// ---- breakeven ------------------------------------------------------------------------------------------------------

TEST_F(SchedEndToEnd, ABreakEvenIsWhereTheOrderChanges) {
  const std::string file = scenario();
  const Outcome run = with_data("breakeven " + file + " --policies=srtf,fifo-backfill --range=0s,12h --format=json");
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

}  // namespace sweep_command_test
}  // namespace scalai::testing
