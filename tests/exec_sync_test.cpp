// `scalai sync`: the weights of a running job at receivers in another layout, against what the job saves.

#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/live_end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ExecSync : public LiveEndToEnd {
 protected:
  void TearDown() override {
    if (sync_.joinable()) end_sync();
    LiveEndToEnd::TearDown();
  }
  void start_sync(const std::string& words, const std::string& folder = "/") {
    write_all(path("sync.sh"),
              fmt::format("cd '{}'\necho $$ >'{}'\nexec '{}/scalai' sync '{}' --out='{}' --format=json {}\n", folder,
                          path("sync.pid"), kPrograms.string(), path("out"), path("serving"), words));
    sync_ = std::thread([this] { synced_ = shell("sh '" + path("sync.sh") + "'"); });
  }
  Outcome end_sync() {
    const int pid = std::atoi(read_all(path("sync.pid")).c_str());
    if (pid > 0) ::kill(pid, SIGTERM);
    sync_.join();
    return synced_;
  }
  // The last one that was started.
  void kill_worker(const std::string& folder) const {
    const std::string address = read_all(path(folder + "/address"));
    EXPECT_EQ(shell("pkill -n -KILL -f 'scalai-exe[c] worker --controller=" + address + "'").code, 0);
  }
  // The step that receivers have; -1: none.
  int64_t held() const {
    const Outcome status = scalai(fmt::format("exec ctl status --run='{}' --format=json", path("serving")));
    if (status.code != 0) return -1;
    const nlohmann::json jobs = nlohmann::json::parse(status.out).at("jobs");
    return jobs.empty() ? -1 : jobs[0].at("step").get<int64_t>();
  }
  bool reaches(int64_t step) const {
    return eventually([&] { return held() >= step; });
  }
  // Steps of the mount of receivers until so many were saved by the job, too; then those against these.
  void expect_steps_as_saved(size_t wanted) {
    std::map<std::string, std::map<std::string, std::map<std::string, std::string>>> seen;
    std::set<std::string> kept;
    EXPECT_TRUE(eventually([&] {
      const std::string step = current(), folder = job() + "/" + step + "/views/";
      if (!fs::exists(job() + "/" + step) || seen.contains(step)) return false;
      if (!keep_saved(step)) return false;
      seen[step]["hf"] = bytes_of(folder + "hf");
      kept.insert(step);
      return kept.size() >= wanted;
    })) << seen.size();
    EXPECT_EQ(unmount("m").code, 0);
    for (const std::string& step : kept) expect_saved(step, seen.at(step));
  }
  std::string mount_receivers() { return mount("m", "--run=" + path("serving") + " --refresh=0s").err; }
  static std::vector<nlohmann::json> lines_of(const std::string& text) {
    std::vector<nlohmann::json> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  std::thread sync_;
  Outcome synced_;
};

// Over two changes of the job's layout.
TEST_F(ExecSync, BringsEveryStepAsTheJobSavesIt) {
  start_run(R"(events { at_step { job: "a" step: 17 } resize { job: "a" gpus: 2 } }
events { at_step { job: "a" step: 32 } resize { job: "a" gpus: 4 } }
)",
            "", "0.7s");
  start_sync(fmt::format("--to=tp2,pp2@2 --every=1 --after='echo $SCALAI_STEP $SCALAI_RUN >>\"{}\"'", path("after")));
  ASSERT_TRUE(reaches(1));
  ASSERT_EQ(mount_receivers(), "");
  expect_steps_as_saved(5);
  ASSERT_TRUE(reaches(34));
  const Outcome ended = end_sync();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, Not(HasSubstr("error")));
  std::string after;
  int64_t last = -1;
  for (const nlohmann::json& line : lines_of(ended.out)) {
    const auto step = line.at("step").get<int64_t>();
    EXPECT_GT(step, last);
    last = step;
    after += fmt::format("{} {}\n", step, path("serving"));
    EXPECT_GE(line.at("planned_bytes"), line.at("least_bytes"));
    EXPECT_LE(line.at("moved_bytes"), line.at("planned_bytes"));
  }
  const std::string said = read_all(path("after"));
  EXPECT_GT(said.size(), 0U);
  EXPECT_THAT(after, ::testing::StartsWith(said));
  EXPECT_FALSE(fs::exists(path("serving/address")));
}

// Steps of 40 ms, which the clock of the run looks at every 20 ms: some come late, and none puts off the next.
TEST_F(ExecSync, OneOfEveryFewSteps) {
  start_run("", "", "0.04s", 30'000);  // more than are waited for
  start_sync(fmt::format("--to=dp1 --every=5 --after='echo $SCALAI_STEP >>\"{}\"'", path("after")));
  ASSERT_TRUE(eventually([&] { return std::ranges::count(read_all(path("after")), '\n') >= 3; }));
  const Outcome ended = end_sync();
  EXPECT_EQ(ended.code, 0) << ended.err;
  const std::vector<nlohmann::json> lines = lines_of(ended.out);
  ASSERT_GE(lines.size(), 3U);
  const auto first = lines.front().at("step").get<int64_t>();
  int64_t due = first;
  for (const nlohmann::json& line : lines) {
    const auto step = line.at("step").get<int64_t>();
    EXPECT_GE(step, due) << "before it is due";
    due = first + 5 * ((step - first) / 5 + 1);
  }
}

// More checkpoints are due than can be written, so something is always to be done first.
TEST_F(ExecSync, ARunThatIsAlwaysBehindItsClockHasTimeForReaders) {
  start_run("", "", "0.000001s", 1'000'000);
  start_sync("--to=dp1 --every=1");
  ASSERT_TRUE(reaches(1));
  const Outcome ended = end_sync();
  EXPECT_EQ(ended.code, 0) << ended.err;
}

// Receivers have what `checkpoint reshard` makes of the same step with the same steps on the way.
class ExecSyncSteps : public ExecSync, public ::testing::WithParamInterface<const char*> {};

TEST_P(ExecSyncSteps, AreThoseOfReshard) {
  start_run("", fmt::format("--transport={}", GetParam()), "0.7s");
  std::string other;
  ASSERT_TRUE(eventually([&] {
    std::error_code none;
    for (const fs::directory_entry& entry : fs::directory_iterator(path("out/checkpoints/a"), none)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("step_") || !keep_saved("step-" + name.substr(5))) continue;
      other = path("kept-step-" + name.substr(5));
      return true;
    }
    return false;
  }));
  const std::string steps = fmt::format(
      "--transform='scale(0.3, tensors=*.weight)' --transform='average(\"{}\")' --transform='cast(fp16)' "
      "--transform='quantise(i8, tensors=layers.*.up.weight)'",
      fs::path(other).filename().string());
  // Paths are those of the caller's folder.
  start_sync(fmt::format("--to=tp2@2 --every=1 --dtype=F32 {}", steps), path(""));
  ASSERT_TRUE(reaches(1));
  const std::string problem = mount_receivers();
  if (problem.find("UCX") != std::string::npos) GTEST_SKIP() << problem;
  ASSERT_EQ(problem, "");
  std::map<std::string, std::string> seen;
  std::string step;
  ASSERT_TRUE(eventually([&] {
    step = current();
    if (!fs::exists(job() + "/" + step) || !keep_saved(step)) return false;
    seen = bytes_of(job() + "/" + step + "/views/logical");
    return !seen.empty();
  }));
  EXPECT_EQ(unmount("m").code, 0);
  const Outcome written = shell(fmt::format(
      "cd '{}' && '{}/scalai' checkpoint reshard 'kept-{}' made --to=logical --drop=optimizer --dtype=fp32 {}",
      path(""), kPrograms.string(), step, steps));
  ASSERT_EQ(written.code, 0) << written.err;
  EXPECT_EQ(seen.at("model.safetensors"), read_all(path("made/model.safetensors")));
  const Outcome ended = end_sync();
  EXPECT_EQ(ended.code, 0) << ended.err;
}

INSTANTIATE_TEST_SUITE_P(Transports, ExecSyncSteps, ::testing::Values("shared-memory", "ucx"),
                         [](const auto& one) { return std::string(one.param) == "ucx" ? "Ucx" : "SharedMemory"; });

TEST_F(ExecSync, StepsThatDoNotFitAreRefusedBeforeAnythingStarts) {
  start_run();
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"scale(2, tensors=nosuch)", "no tensor is named \"nosuch\""},
      {"lora(nowhere, alpha=2)", "nowhere"},
      {"quantise(i8, tensors=*.bias)", "which has no rows"}};
  for (const auto& [step, said] : wrong) {
    start_sync(fmt::format("--to=dp1 --transform='{}'", step));
    sync_.join();
    EXPECT_GE(synced_.code, 3) << step;
    EXPECT_THAT(synced_.err, HasSubstr(said));
    EXPECT_FALSE(fs::exists(path("serving")));
  }
}

TEST_F(ExecSync, OverUcxAsInSharedMemory) {
  start_run("", "--transport=ucx");
  start_sync("--to=dp2@2 --every=1");
  ASSERT_TRUE(reaches(1));
  if (const std::string problem = mount_receivers(); problem.find("UCX") != std::string::npos) GTEST_SKIP() << problem;
  expect_steps_as_saved(2);
}

// Of receivers and of the run: the others keep a whole step, and later ones come.
TEST_F(ExecSync, ProcessesThatAreKilledCostNoStep) {
  start_run();
  start_sync("--to=tp2,dp2@2 --every=1");
  ASSERT_TRUE(reaches(2));
  ASSERT_EQ(mount_receivers(), "");
  for (const char* folder : {"serving", "serving", "out"}) {
    const int64_t before = held();
    kill_worker(folder);
    ASSERT_TRUE(reaches(before + 4)) << folder;
  }
  expect_steps_as_saved(2);
  const Outcome ended = end_sync();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("lost receiver"));
}

// What is left has the addresses of workers that are not there any more, until a later step.
TEST_F(ExecSync, OverUcxBothRunsMayLoseAWorkerAtOnce) {
  start_run("", "--transport=ucx");
  start_sync("--to=dp2@2 --every=1");
  ASSERT_TRUE(reaches(2));
  const int64_t before = held();
  kill_worker("out");
  kill_worker("serving");
  ASSERT_TRUE(reaches(before + 4));
  EXPECT_EQ(end_sync().code, 0);
}

TEST_F(ExecSync, ASignalEndsItBeforeItHasReceivers) {
  start_run();
  start_sync("--to=dp2@2 --no-workers");
  ASSERT_TRUE(eventually([&] { return fs::exists(path("serving/address")); }));
  const Outcome ended = end_sync();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_FALSE(fs::exists(path("serving/address")));
  start_sync("--to=dp2@2 --job=nosuch");
  sync_.join();
  EXPECT_NE(synced_.code, 0);
  EXPECT_THAT(synced_.err, HasSubstr("there is no job \"nosuch\""));
  start_sync("--to=dp2@node1,node2");
  sync_.join();
  EXPECT_EQ(synced_.code, 3);
  EXPECT_THAT(synced_.err, HasSubstr("memory that only its machine sees"));
}

TEST_F(ExecSync, ReceiversOutliveTheRun) {
  start_run();
  start_sync("--to=dp1 --dtype=F32");
  ASSERT_TRUE(reaches(0));
  const int64_t step = held();
  scalai(fmt::format("exec ctl drain --run='{}'", path("out")));
  run_.join();
  ASSERT_EQ(mount_receivers(), "");
  EXPECT_FALSE(bytes_of(job() + "/" + current() + "/views/logical").empty());
  EXPECT_EQ(unmount("m").code, 0);
  EXPECT_EQ(held(), step);
  // Nothing holds on to the memory of the run's workers.
  const std::string mapped =
      "cat /proc/$(pgrep -n -f 'scalai-exe[c] worker --controller=" + read_all(path("serving/address")) +
      "')/maps | grep -o 'memfd:scalai-[gh][0-9.mem]*' | sort -u";
  EXPECT_TRUE(eventually([&] { return shell(mapped).out.find("memfd:scalai-g0") == std::string::npos; }));
  const Outcome ended = end_sync();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(lines_of(ended.out).size(), 1U);
  start_sync("--to=dp1");
  sync_.join();
  EXPECT_EQ(synced_.code, 4) << synced_.err;
  EXPECT_THAT(synced_.err, HasSubstr("no run is going on"));
}

TEST_F(ExecSync, AKilledOneIsStartedAgainInItsFolder) {
  start_run();
  start_sync("--to=dp1 --every=1 --orphan-timeout=1s");
  ASSERT_TRUE(reaches(0));
  const int pid = std::atoi(read_all(path("sync.pid")).c_str());
  ASSERT_GT(pid, 0);
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  sync_.join();
  const Outcome asked = scalai(fmt::format("exec ctl status --run='{}'", path("serving")));
  EXPECT_EQ(asked.code, 4);
  EXPECT_THAT(asked.err, HasSubstr("this scalai sync has died: start it again"));
  const Outcome resumed = scalai(fmt::format("exec --resume='{}'", path("serving")));
  EXPECT_EQ(resumed.code, 3);
  EXPECT_THAT(resumed.err, HasSubstr("of scalai sync"));
  start_sync("--to=dp1 --every=1");
  ASSERT_TRUE(reaches(2));
  EXPECT_EQ(end_sync().code, 0);
}

TEST_F(ExecSync, ALayoutThatDoesNotFitTheModelIsRefused) {
  start_run();
  start_sync("--to=tp7");
  sync_.join();
  EXPECT_NE(synced_.code, 0);
  EXPECT_THAT(synced_.err, HasSubstr("error"));
  EXPECT_FALSE(fs::exists(path("serving/address")));
}

}  // namespace
}  // namespace scalai::testing
