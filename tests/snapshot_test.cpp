// Runs of many jobs that are killed at any moment and go on from their snapshot: the same report as of one that was
// not.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/sched_end_to_end.h"

namespace scalai::testing {
namespace snapshot_test {

using ::testing::HasSubstr;

// Each answer takes a while, and is noted in `asked`.
constexpr const char* kPlain = R"(import json, sys, time
def decide(question):
    time.sleep(0.004)
    open("{0}/asked", "a").write("%r\n" % question["now_s"])
    free = dict(question["capacity"])
    for job in question["jobs"]:
        if job["has"]:
            free[job["has"]["type"]] -= job["has"]["gpus"]
    grants = []
    for job in sorted((j for j in question["jobs"] if not j["has"]), key=lambda j: (j["gpus"], j["submit_s"])):
        for gpu_type in free:
            if free[gpu_type] >= job["gpus"] and job["per_s"][gpu_type] > 0:
                free[gpu_type] -= job["gpus"]
                grants.append({{"job": job["job"], "type": gpu_type, "gpus": job["gpus"]}})
                break
    return {{"grants": grants}}
for line in sys.stdin:
    question = json.loads(line)
    print(json.dumps({{"scalai_policy": 1}} if question["ask"] == "hello" else decide(question)), flush=True)
)";

// Keeps state, and something that it remembers itself: how often it started each job. Asks a question of its own now
// and then.
constexpr const char* kDelta = R"(import sys, time
sys.path.insert(0, "{1}")
from scalai_policy import grant, serve
started = {{}}
def decide(state):
    time.sleep(0.004)
    open("{0}/asked", "a").write("%r\n" % state.now_s)
    waiting = [job for job in state.jobs.values() if not job.has]
    if waiting and len(started) % 3 == 0:
        state.change_costs({{"job": waiting[0].job, "gpus": waiting[0].gpus}})
    free = dict(state.free)
    grants = []
    for job in sorted(waiting, key=lambda job: (started.get(job.job, 0), -job.gpus, job.index)):
        for gpu_type in free:
            if free[gpu_type] >= job.gpus and job.per_s[gpu_type] > 0:
                free[gpu_type] -= job.gpus
                grants.append(grant(job, job.gpus, gpu_type))
                break
    remember(state, {{"grants": grants}})
    return grants
def remember(state, answer):
    for one in answer["grants"]:
        started[one["job"]] = started.get(one["job"], 0) + 1
serve(decide, "remembers"{2})
)";

class Snapshots : public SchedEndToEnd {
 protected:
  std::map<std::string, std::string> report(const std::string& name) const {
    std::map<std::string, std::string> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / name)) {
      // A kill may leave a file that was being written, under another name.
      if (entry.path().filename() != "manifest.json" && entry.path().extension() != ".tmp")
        files[entry.path().filename()] = read_all(entry.path());
    }
    return files;
  }
  std::string words(const std::string& policy, const std::string& out) const {
    return fmt::format("sim '{}' {} --out='{}'", path("jobs.textproto"), policy, path(out));
  }
  Outcome killed_after(double seconds, const std::string& words) const {
    // Alone: not the group, with the shell that tells its end.
    return shell(fmt::format("timeout --foreground -s KILL {} '{}/scalai' {}", seconds, kPrograms.string(), words));
  }
  int64_t asked() const {
    const std::string text = read_all(folder_ / "asked");
    return std::count(text.begin(), text.end(), '\n');
  }

  // Kills it again and again; returns how often, once it has come to its end.
  int play(const std::string& policy, uint64_t seed, double most_s) {
    std::mt19937_64 random(seed);
    const std::string file = path("snapshot");
    int kills = 0;
    for (;; ++kills) {
      const std::string keep = fs::exists(file) ? "resume" : "snapshot";
      const double after_s = kills >= 12 ? 60 : 0.02 + most_s * static_cast<double>(random() % 1000) / 1000;
      const Outcome run = killed_after(after_s, fmt::format("{} --{}='{}'", words(policy, "out"), keep, file));
      // The file may end in the middle of its first line.
      if (run.code == 3 && run.err.find("it is no snapshot") != std::string::npos)
        fs::remove(file);
      else if (run.code == 0)
        break;
      else
        EXPECT_TRUE(run.code == 128 + SIGKILL || run.code == 124) << run.code << run.err;  // 124: says timeout
      if (::testing::Test::HasFailure()) break;
    }
    return kills;
  }

  void same_after_kills(const std::string& policy, double most_s, bool counts) {
    scenario();
    for (const char* left : {"snapshot", "out", "whole", "asked"}) fs::remove_all(folder_ / left);
    const uint64_t seed = std::random_device()();
    SCOPED_TRACE(fmt::format("{}, seed {}", policy, seed));
    const Outcome whole = scalai(words(policy, "whole"));
    ASSERT_EQ(whole.code, 0) << whole.err;
    const int64_t questions = asked();
    fs::remove(folder_ / "asked");
    const int kills = play(policy, seed, most_s);
    EXPECT_EQ(report("out"), report("whole"));
    if (!counts) return;
    EXPECT_GE(asked(), questions);
    EXPECT_LE(asked(), questions + kills) << "a kill costs one answer at most";
  }
};

TEST_F(Snapshots, OfAProgram) {
  write_all(path("plain.py"), fmt::format(fmt::runtime(kPlain), folder_.string()));
  same_after_kills(fmt::format("--set=policy.name= '--set=policy.exec=python3 {}'", path("plain.py")), 0.6, true);
}

TEST_F(Snapshots, OfAProgramThatRemembers) {
  write_all(path("delta.py"),
            fmt::format(fmt::runtime(kDelta), folder_.string(), (kScenarios / "policies").string(), ", past=remember"));
  same_after_kills(fmt::format("--set=policy.name= '--set=policy.exec=python3 {}'", path("delta.py")), 0.6, true);
}

TEST_F(Snapshots, OfLinearPrograms) {
  same_after_kills("--set=policy.name=gavel-max-min", 0.4, false);
  same_after_kills("--set=policy.name=gavel-finish-time --set=policy.set.round=120s", 0.4, false);
}

TEST_F(Snapshots, OfSharesWithoutRounds) {
  same_after_kills("--set=policy.name=gavel-max-min --set=policy.set.ideal=true", 0.2, false);
}

TEST_F(Snapshots, OfSearchesAndIntegerPrograms) {
  same_after_kills("--set=policy.name=pollux --set=policy.set.population=20 --set=policy.set.generations=20", 0.6,
                   false);
  same_after_kills("--set=policy.name=sia --set=policy.set.model=oracle", 0.6, false);
}

TEST_F(Snapshots, AreOfOneRun) {
  scenario();
  const std::string file = path("snapshot"), lp = "--set=policy.name=gavel-max-min";
  const auto expect = [&](const std::string& more, int code, const std::string& text) {
    const Outcome run = scalai(fmt::format("sim '{}' {}", path("jobs.textproto"), more));
    EXPECT_EQ(run.code, code) << more << run.err;
    EXPECT_THAT(run.err, HasSubstr(text));
  };
  const std::string keep = fmt::format("--snapshot='{}'", file), go_on = fmt::format("--resume='{}'", file);
  expect(keep, 3, "fifo has no answers that a snapshot could keep, and would start again");
  EXPECT_FALSE(fs::exists(file));
  expect(lp + " " + go_on, 4, "cannot go on with it: No such file");
  expect(lp + " " + keep, 0, "");
  expect(lp + " " + keep, 3, "it is there already");
  expect(lp + " " + go_on, 0, "");
  expect(lp + " --set=changes.seconds=31s " + go_on, 3, "the snapshot is of another scenario, other settings");
  expect("--set=policy.name=gavel-makespan " + go_on, 3, "the snapshot is of another scenario, other settings");
  expect(lp + " " + keep + " " + go_on, 2, "exclude each other");
  expect(fmt::format("--vary=policy.name=gavel-max-min,gavel-makespan {}", go_on), 2, "are for one run");
  std::string text = read_all(file);
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
  write_all(file, text);
  expect(lp + " " + go_on, 3, "the snapshot is damaged at byte");
  write_all(file, "name: \"x\"\n");
  expect(lp + " " + go_on, 3, "it is no snapshot");
  write_all(path("delta.py"),
            fmt::format(fmt::runtime(kDelta), folder_.string(), (kScenarios / "policies").string(), ""));
  const std::string program = fmt::format("--set=policy.name= '--set=policy.exec=python3 {}'", path("delta.py"));
  expect(fmt::format("{} --snapshot='{}'", program, path("other")), 3,
         "keeps state (\"delta\"), and does not read its past");
  EXPECT_FALSE(fs::exists(path("other")));
}

}  // namespace snapshot_test
}  // namespace scalai::testing
