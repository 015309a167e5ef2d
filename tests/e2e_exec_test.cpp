// `scalai exec` as people run it: the same plans as `scalai sim` on real bytes in real processes, which end with the
// run.

#include <nlohmann/json.hpp>
#include <thread>

#include "tests/exec_end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::HasSubstr;

// ---- the same plans as the simulator --------------------------------------------------------------------------------

void expect_same_plans(const std::map<std::string, std::string>& executed,
                       const std::map<std::string, std::string>& simulated) {
  EXPECT_FALSE(executed.empty());
  EXPECT_TRUE(executed == simulated);
}

TEST_F(Exec, MakesThePlansOfTheSimulatorAndVerifiesEveryByte) {
  std::vector<std::pair<std::string, std::string>> cases = {
      {"redeploy-gpt3-1.3b", "tenplex"}, {"redeploy-gpt3-1.3b", "central"}, {"redeploy-gpt3-1.3b", "full-migration"}};
  for (const std::string& name : scenario_names()) cases.emplace_back(name, "reshard");
  size_t index = 0;
  for (const auto& [scenario, strategy] : cases) {
    if (!in_share(index++, 5)) continue;
    SCOPED_TRACE(scenario + " " + strategy);
    const std::string words = fmt::format("--scale-model=1/32 --strategy={}", strategy);
    const Outcome simulated = scalai(fmt::format("sim {} {} --out='{}'", scenario_file(scenario), words, path("sim")));
    ASSERT_EQ(simulated.code, 0) << simulated.err;
    const Outcome run = exec(scenario_file(scenario), words);
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.err, HasSubstr("verified "));
    EXPECT_THAT(run.err, ::testing::Not(HasSubstr("verified 0 B ")));
    EXPECT_EQ(nlohmann::json::parse(summary("exec")).at("runtime"), "exec");
    expect_same_plans(files_of(folder_ / "exec/plans"), files_of(folder_ / "sim/plans"));
    expect_replayable();
    fs::remove_all(path("sim"));
    fs::remove_all(path("exec"));
  }
}

// Phases of each completed reconfiguration, and when it was over: in scenario time both runtimes say the same.
void expect_same_times(const std::string& executed, const std::string& simulated) {
  const nlohmann::json exec = nlohmann::json::parse(executed), sim = nlohmann::json::parse(simulated);
  ASSERT_EQ(exec.at("jobs").size(), sim.at("jobs").size());
  const auto expect_near = [](const nlohmann::json& a, const nlohmann::json& b, const std::string& what) {
    if (a.is_null() || b.is_null()) {
      EXPECT_EQ(a, b) << what;
      return;
    }
    EXPECT_NEAR(a.get<double>(), b.get<double>(), 1e-9 * std::max(1.0, std::abs(b.get<double>()))) << what;
  };
  for (size_t job = 0; job < exec.at("jobs").size(); ++job) {
    const nlohmann::json &ours = exec["jobs"][job]["reconfigurations"], &theirs = sim["jobs"][job]["reconfigurations"];
    ASSERT_EQ(ours.size(), theirs.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      const std::string where = fmt::format("jobs/{}/reconfigurations/{}/", job, i);
      expect_near(ours[i]["resumed_s"], theirs[i]["resumed_s"], where + "resumed_s");
      if (!theirs[i]["completed"].get<bool>()) continue;
      ASSERT_TRUE(ours[i].contains("scenario_phases_s")) << where;
      for (const auto& [phase, seconds] : theirs[i]["phases_s"].items())
        expect_near(ours[i]["scenario_phases_s"][phase], seconds, where + phase);
    }
  }
}

TEST_F(Exec, MakesTheSamePlansAtTheSameTimesWithoutWorkers) {
  size_t index = 0;
  for (const std::string& scenario : scenario_names()) {
    for (const std::string& strategy : kStrategies) {
      if (strategy != "reshard" && !in_share(++index, 8)) continue;
      SCOPED_TRACE(scenario + " " + strategy);
      const std::string words = fmt::format("--strategy={}", strategy);
      const Outcome simulated =
          scalai(fmt::format("sim {} {} --network=maxmin --out='{}'", scenario_file(scenario), words, path("sim")));
      const Outcome planned = exec(scenario_file(scenario), words + " --plan-only");
      EXPECT_EQ(planned.code, simulated.code == 1 ? 0 : simulated.code) << planned.err << simulated.err;
      if (planned.code == 0) {
        if (strategy == "reshard") expect_same_plans(files_of(folder_ / "exec/plans"), files_of(folder_ / "sim/plans"));
        expect_same_times(summary("exec"), read_all(folder_ / "sim/summary.json"));
      }
      fs::remove_all(path("sim"));
      fs::remove_all(path("exec"));
    }
  }
}

// ---- workers from outside, and death --------------------------------------------------------------------------------

TEST_F(Exec, SurvivesAWorkerKilledFromOutside) {
  Outcome run;
  std::thread controller([&] { run = exec(replicated_scenario(), "--scale-model=1/16 --time-scale=50ms"); });
  const pid_t victim = worker(1);
  EXPECT_TRUE(eventually([&] { return fs::exists(folder_ / "exec/checkpoints"); })) << "training has begun";
  if (victim > 0) kill(victim, SIGKILL);
  controller.join();
  EXPECT_EQ(run.code, 0) << run.err;
  const std::string cause = fmt::format("killed by signal 9 (Killed); {} is empty", path("exec/workers/worker-1.log"));
  EXPECT_THAT(run.err, HasSubstr("lost the worker of h1: connection closed: " + cause));
  EXPECT_THAT(run.out, HasSubstr("the worker of h1"));
  EXPECT_THAT(read_all(path("exec/events.csv")), HasSubstr(cause));
  const nlohmann::json report = nlohmann::json::parse(summary("exec"));
  EXPECT_THAT(report.at("losses")[0].at("cause").get<std::string>(), HasSubstr(cause));
  EXPECT_THAT(report.at("jobs")[0].at("reconfigurations")[0].at("cause").get<std::string>(), HasSubstr("lost g2"));
  expect_replayable();
}

TEST_F(Exec, WorkersMayBeStartedByOthers) {
  Outcome run;
  std::thread controller([&] { run = exec(scenario_file("identity"), "--scale-model=1/32 --no-workers"); });
  EXPECT_TRUE(eventually([&] { return !read_all(folder_ / "exec/address").empty(); }));
  const std::string words =
      fmt::format("'{}/scalai' exec worker --controller={}", kPrograms.string(), read_all(folder_ / "exec/address"));
  const auto run_here = [&](const std::string& command) { return WEXITSTATUS(std::system(command.c_str())); };
  write_all(path("wrong"), "not-the-token-of-this-run");
  fs::permissions(path("wrong"), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(run_here(fmt::format("{} --token-file='{}' 2>'{}'", words, path("wrong"), path("refused"))), 4);
  EXPECT_EQ(run_here(fmt::format("'{}/scalai' exec worker 2>/dev/null", kPrograms.string())), 2);
  const std::string refused = read_all(path("refused"));
  EXPECT_THAT(refused, HasSubstr("token"));
  EXPECT_EQ(std::count(refused.begin(), refused.end(), '\n'), 1) << refused;
  EXPECT_EQ(run_here(fmt::format("for i in 1 2 3 4; do {} --token-file='{}' 2>>'{}' & done; wait", words,
                                 path("exec/token"), path("workers"))),
            0);
  controller.join();
  EXPECT_EQ(run.code, 0) << run.err << read_all(path("workers"));
  EXPECT_THAT(run.err, HasSubstr("waiting for 4 workers"));
  EXPECT_EQ(read_all(path("workers")), "");
  expect_replayable();
}

// State that no model describes: with uneven parts, a moment cut otherwise than its weight, and a checkpoint of it all.
TEST_F(Exec, CollectionsOfNoModelAreExecutedAsSimulated) {
  const auto state = [](int ranks, const std::string& axis) {
    return fmt::format(R"(schema_version: 1 devices: "0-{}" meshes {{ axes {{ name: "{}" size: {} }} }}
tensors {{ name: "weight" dtype: "F32" shape: [250, 64] cuts {{ axis: "{}" dim: 0 rule: CEIL }} }}
tensors {{ name: "weight.exp_avg" dtype: "F32" shape: [250, 64] kind: EXP_AVG cuts {{ axis: "{}" flat: true rule: CEIL }} }}
tensors {{ name: "step" dtype: "F32" kind: SCALAR }}
)",
                       ranks - 1, axis, ranks, axis, axis);
  };
  write_all(path("four.textproto"), state(4, "tp"));
  write_all(path("three.textproto"), state(3, "dp"));
  write_all(path("mine.textproto"), R"(schema_version: 1 name: "mine" until: "10min"
cluster { hosts { count: 2 gpus: 2 gpu: "a100-80g" nic: "25Gbps" } storage { read: "1GB/s" write: "1GB/s" } }
jobs {
  name: "gpt" global_batch: 12 gpus: 4 steps: 400 checkpoint { every_steps: 20 }
  configs { layout: "tp4" step_time: "1s" collection: "four.textproto" }
  configs { layout: "dp3" step_time: "1500ms" collection: "three.textproto" }
}
events { at: "1min" resize { job: "gpt" gpus: 3 } }
events { at: "3min" fail { devices: 2 } }
events { at: "5min" repair { devices: 2 } }
events { at: "6min" resize { job: "gpt" gpus: 4 } }
)");
  const Outcome run = exec(path("mine.textproto"), "");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("verified"));
  expect_replayable();
  ASSERT_EQ(scalai(fmt::format("sim '{}' --out='{}'", path("mine.textproto"), path("sim"))).code, 0);
  const auto executed = files_of(folder_ / "exec/plans");
  EXPECT_EQ(executed.size(), 3);
  EXPECT_EQ(executed, files_of(folder_ / "sim/plans"));
}

// ---- bad input ------------------------------------------------------------------------------------------------------

TEST_F(Exec, AnAddressThatCannotBeListenedOnIsNamed) {
  const std::string small = small_scenario("");
  expect_one_line(exec(small, "--scale-model=1/16 --listen=nowhere"), 3, "'nowhere' is not HOST:PORT");
  Outcome first;
  std::thread other([&] { first = exec(scenario_file("identity"), "--scale-model=1/32 --no-workers"); });
  EXPECT_TRUE(eventually([&] { return !read_all(folder_ / "exec/address").empty(); }));
  const std::string address = read_all(folder_ / "exec/address");
  const std::string command = fmt::format("'{}/scalai' exec '{}' --scale-model=1/16 --listen={} --out='{}' 2>'{}'",
                                          kPrograms.string(), small, address, path("second"), path("second.err"));
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 4);
  EXPECT_THAT(read_all(path("second.err")), HasSubstr("cannot listen on " + address));
  const std::string workers = fmt::format(
      "for i in 1 2 3 4; do '{}/scalai' exec worker --controller={} --token-file='{}' 2>/dev/null & done; wait",
      kPrograms.string(), address, path("exec/token"));
  EXPECT_EQ(std::system(workers.c_str()), 0);
  other.join();
  EXPECT_EQ(first.code, 0) << first.err;
}

}  // namespace
}  // namespace scalai::testing
