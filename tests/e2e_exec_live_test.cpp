// A run that goes on: people steer it, disks fill up, checkpoints rot.

#include <sys/mount.h>

#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "tests/exec_end_to_end.h"

namespace scalai::testing {
namespace {

using ::testing::HasSubstr;

// The local addresses at which a process listens, as /proc/net/tcp writes them, without ports.
std::vector<std::string> listens_at(pid_t pid) {
  std::set<std::string> own;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), ignored)) {
    std::error_code gone;
    own.insert(fs::read_symlink(entry.path(), gone).string());
  }
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(read_all(table));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::vector<std::string> cells;
      for (std::string word; words >> word;) cells.push_back(word);
      if (cells.size() > 9 && cells[3] == "0A" && own.contains("socket:[" + cells[9] + "]"))
        found.push_back(cells[1].substr(0, cells[1].find(':')));
    }
  }
  return found;
}

class ExecLive : public Exec {
 protected:
  Outcome ctl(const std::string& words) const {
    return scalai(fmt::format("exec ctl {} --run='{}'", words, path("exec")));
  }
  nlohmann::json status() const {
    const Outcome answer = ctl("status --format=json");
    return answer.code == 0 ? nlohmann::json::parse(answer.out).at("jobs") : nlohmann::json::array();
  }
  // Every shard on one host only; one checkpoint, then the second host fails.
  std::string restored_scenario() const {
    const std::string file = path("restored.textproto");
    write_all(file, R"(schema_version: 1
name: "restored"
until: "130s"
cluster { name: "three" hosts { count: 3 gpus: 1 gpu: "a100-40g" nic: "100Gbps" } storage { read: "1GB/s" write: "1GB/s" } }
jobs { name: "a" model: "gpt2" global_batch: 8 gpus: 2 checkpoint { every_steps: 60 }
       configs { layout: "tp2" step_time: "1s" } }
events { at: "115s" fail { hosts: 1 } }
costs { detect: "5s" }
)");
    return file;
  }
};

TEST_F(ExecLive, CtlAsksAndSteersAndSigtermDrains) {
  Outcome run;
  std::thread controller([&] { run = exec(replicated_scenario(), "--scale-model=1/16 --time-scale=500ms"); });
  EXPECT_TRUE(eventually([&] { return !status().empty(); }));
  expect_one_line(ctl("resize --gpus=1"), 3, "job a has no configuration for 1 GPUs: it has for 4, 2");
  expect_one_line(ctl("drain --host=2"), 3, "there is no host 2");
  EXPECT_THAT(ctl("save").out, HasSubstr("a checkpoint at the next step boundary"));
  EXPECT_TRUE(
      eventually([&] { return fs::exists(path("exec/checkpoints/a")) && !fs::is_empty(path("exec/checkpoints/a")); }));
  EXPECT_EQ(ctl("resize --gpus=2").code, 0);
  EXPECT_TRUE(eventually([&] {
    const nlohmann::json jobs = status();
    return !jobs.empty() && jobs[0].at("gpus") == 2 && jobs[0].at("state") == "running";
  }));
  EXPECT_THAT(ctl("status").out, HasSubstr("tp2"));
  const pid_t pid = this->controller();
  EXPECT_GT(pid, 0);
  if (pid > 0) kill(pid, SIGTERM);
  controller.join();
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("every job writes a checkpoint"));
  const nlohmann::json job = nlohmann::json::parse(summary("exec")).at("jobs")[0];
  EXPECT_EQ(job.at("state"), "stopped");
  EXPECT_TRUE(fs::exists(path(fmt::format("exec/checkpoints/a/step_{:08}", job.at("steps").get<int>()))));
  expect_replayable();
  expect_one_line(ctl("status"), 4, "no run is going on");
}

// A launcher gets the workers' command line behind it. This one starts two, as srun would on two hosts.
TEST_F(ExecLive, ALauncherStartsTheWorkers) {
  write_all(path("on two hosts"), "#!/bin/sh\n\"$@\" & \"$@\" & wait\n");
  fs::permissions(path("on two hosts"), fs::perms::owner_all);
  const Outcome run =
      exec(replicated_scenario(), fmt::format("--launcher=\"'{}'\" --scale-model=1/16", path("on two hosts")));
  EXPECT_EQ(run.code, 0) << run.err;
  expect_replayable();
  const Outcome none = exec(replicated_scenario(), "--launcher=false --scale-model=1/16");
  EXPECT_EQ(none.code, 5) << none.err;
  EXPECT_THAT(none.err, HasSubstr("ends before it has joined: exit code 1; "));
  EXPECT_THAT(scalai("exec x.textproto --out=y --launcher=srun --no-workers").err, HasSubstr("exclude each other"));
}

// The controller is killed while it cannot write the checkpoint of the last step; the next one writes it.
TEST_F(ExecLive, TheLastStepIsKeptByWhoeverGoesOn) {
  write_all(path("trained.textproto"), R"(schema_version: 1
name: "trained"
cluster { hosts { count: 2 gpus: 1 gpu: "a100-40g" nic: "100Gbps" } storage { read: "1GB/s" } }
jobs { name: "a" model: "gpt2" global_batch: 8 gpus: 2 steps: 7 configs { layout: "dp2" step_time: "1s" } }
)");
  write_all(path("train"), fmt::format("#!/bin/sh\ncd '{}'\ntouch '{}'\nexec '{}/executor_trainer'\n", path(""),
                                       path("exec/checkpoints"), kPrograms.string()));
  fs::permissions(path("train"), fs::perms::owner_all);
  Outcome run;
  std::thread first([&] {
    run = exec(path("trained.textproto"),
               fmt::format("--scale-model=1/32 --train=\"'{}'\" 2>'{}'", path("train"), path("said")));
  });
  EXPECT_TRUE(eventually([&] {
    return read_all(path("said")).find("the checkpoint of its last step, 7, failed and is tried again") !=
           std::string::npos;
  })) << read_all(path("said"));
  const pid_t pid = this->controller();
  EXPECT_GT(pid, 0);
  if (pid > 0) kill(pid, SIGKILL);
  first.join();
  EXPECT_NE(run.code, 0);
  fs::remove(path("exec/checkpoints"));
  const Outcome resumed = scalai(fmt::format("exec --resume='{}'", path("exec")));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(nlohmann::json::parse(summary("exec")).at("jobs")[0].at("state"), "complete");
  EXPECT_TRUE(fs::exists(path("exec/checkpoints/a/step_00000007/manifest.json")));
  expect_replayable();
}

TEST_F(ExecLive, WorkersListenWhereTheirControllerDoes) {
  Outcome run;
  std::atomic<bool> over = false;
  std::thread controller([&] {
    run = exec(replicated_scenario(), "--transport=ucx --scale-model=1/16 --time-scale=100ms");
    over = true;
  });
  std::map<pid_t, std::vector<std::string>> addresses;  // of each worker
  EXPECT_TRUE(eventually([&] {
    for (const auto& [pid, process] : processes()) {
      const bool ours =
          process.log.starts_with(folder_.string()) && process.words.find(" worker ") != std::string::npos;
      if (!ours) continue;
      if (const auto found = listens_at(pid); !found.empty()) addresses[pid] = found;
    }
    return addresses.size() >= 2 || over;
  }));
  controller.join();
  if (run.err.find("without UCX") != std::string::npos) GTEST_SKIP() << run.err;
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_GE(addresses.size(), 2U);
  for (const auto& [pid, found] : addresses)
    EXPECT_THAT(found, ::testing::Each(::testing::AnyOf("0100007F", "0000000000000000FFFF00000100007F"))) << pid;
}

TEST_F(ExecLive, ASecondRunIsNotStartedInTheFolderOfOneThatGoesOn) {
  Outcome run;
  std::thread controller([&] { run = exec(replicated_scenario(), "--scale-model=1/16 --time-scale=30ms"); });
  EXPECT_TRUE(eventually([&] { return !status().empty(); }));
  expect_one_line(exec(replicated_scenario(), "--scale-model=1/16"), 4, "a run is going on in");
  const pid_t pid = this->controller();
  if (pid > 0) kill(pid, SIGKILL);
  controller.join();
  expect_one_line(exec(replicated_scenario(), "--scale-model=1/16"), 4, "was cut off: go on with it");
  const Outcome nobody = ctl("status");
  EXPECT_EQ(nobody.code, 4);
  EXPECT_THAT(nobody.err, HasSubstr("the controller of this run has died\nhint: scalai exec --resume="));
  const Outcome resumed = scalai(fmt::format("exec --resume='{}'", path("exec")));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  expect_replayable();
}

// The workers know their run, however its folder is spelled and wherever the next controller is started.
TEST_F(ExecLive, ARunGoesOnFromAnotherFolderUnderAnotherSpelling) {
  Outcome run;
  const std::string scenario = replicated_scenario();
  std::thread controller([&] {
    run = shell(fmt::format("cd '{}' && exec '{}/scalai' exec '{}' --out=exec --scale-model=1/16 --time-scale=30ms",
                            folder_.string(), kPrograms.string(), fs::path(scenario).filename().string()));
  });
  EXPECT_TRUE(eventually([&] { return !status().empty(); }));
  pid_t pid = -1;
  for (const auto& [other, process] : processes()) {
    std::error_code gone;
    if (process.words.find("--out=exec ") != std::string::npos &&
        fs::read_symlink(fmt::format("/proc/{}/cwd", other), gone) == folder_)
      pid = other;
  }
  ASSERT_GT(pid, 0);
  kill(pid, SIGKILL);
  controller.join();
  const Outcome resumed =
      shell(fmt::format("cd / && '{}/scalai' exec --resume='{}/'", kPrograms.string(), path("exec").substr(1)));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  const nlohmann::json changes = nlohmann::json::parse(summary("exec")).at("jobs")[0].at("reconfigurations");
  ASSERT_EQ(changes.size(), 1u) << "no worker was lost: " << changes.dump(2);
  EXPECT_THAT(changes[0].at("cause").get<std::string>(), HasSubstr("redeploy"));
  expect_replayable();
}

// No GPU is there, or no second one: the run does not begin, and of its folder nothing stays.
TEST_F(ExecLive, ARunThatDoesNotBeginLeavesNothing) {
  const Outcome run = exec(replicated_scenario(), "--scale-model=1/16 --backend=cuda --transport=nccl --nccl=/none.so");
  ASSERT_NE(run.code, 0);
  EXPECT_FALSE(fs::exists(path("exec"))) << run.err;
  fs::create_directory(path("exec"));  // somebody else's
  ASSERT_NE(exec(replicated_scenario(), "--scale-model=1/16 --backend=cuda --transport=nccl --nccl=/none.so").code, 0);
  EXPECT_TRUE(fs::is_empty(path("exec")));
}

TEST_F(ExecLive, WhatIsNotOfARunIsNeitherRemovedNorRead) {
  fs::create_directories(path("proj/checkpoints"));
  write_all(path("proj/checkpoints/theirs"), "x");
  const auto run_in = [&](const std::string& out, const std::string& more) {
    return scalai(fmt::format("exec '{}' --out='{}' --scale-model=1/16 {}", replicated_scenario(), path(out), more));
  };
  const Outcome theirs = run_in("proj", "");
  EXPECT_EQ(theirs.code, 3) << theirs.err;
  EXPECT_THAT(theirs.err, HasSubstr("a run would remove checkpoints there"));
  EXPECT_EQ(read_all(path("proj/checkpoints/theirs")), "x");
  ASSERT_EQ(run_in("first", "").code, 0);
  ASSERT_TRUE(fs::exists(path("first/checkpoints/a")));
  const std::string state = fs::directory_iterator(path("first/checkpoints/a"))->path().string();
  const Outcome inside = run_in("first", fmt::format("--state='{}'", state));
  EXPECT_EQ(inside.code, 3) << inside.err;
  EXPECT_THAT(inside.err, HasSubstr("which a run clears when it begins"));
  EXPECT_TRUE(fs::exists(state));
}

// The program answers otherwise each time it is started. What it has answered holds.
TEST_F(ExecLive, APolicyThatIsAProgramIsNotAskedTwice) {
  write_all(path("fickle.py"), R"(import json, os, sys
started = len(open("starts").read()) if os.path.exists("starts") else 0
open("starts", "a").write("x")
for line in sys.stdin:
    question = json.loads(line)
    if question["ask"] == "hello":
        answer = {"scalai_policy": 1, "name": "fickle"}
    else:
        kind = next(iter(question["capacity"]))
        answer = {"grants": [{"job": job["job"], "type": kind, "gpus": 1 if started else 2} for job in question["jobs"]]}
    print(json.dumps(answer), flush=True)
)");
  write_all(path("asked.textproto"), R"(schema_version: 1
name: "asked"
until: "300s"
cluster { name: "four" hosts { count: 4 gpus: 1 gpu: "a100-40g" nic: "100Gbps" } storage { read: "1GB/s" write: "1GB/s" } }
policy { exec: "python3 fickle.py" timeout: "60s" }
jobs { name: "a" model: "gpt2" global_batch: 8 gpus: 2 checkpoint { every_steps: 60 }
       configs { layout: "dp2" step_time: "1s" } configs { layout: "tp1" step_time: "2s" } }
jobs { name: "b" model: "gpt2" global_batch: 8 gpus: 2 submit: "50s" steps: 400 checkpoint { every_steps: 60 }
       configs { layout: "dp2" step_time: "1s" } configs { layout: "tp1" step_time: "2s" } }
)");
  Outcome run;
  std::thread controller(
      [&] { run = exec(path("asked.textproto"), "--scale-model=1/16 --time-scale=30ms --orphan-timeout=120s"); });
  EXPECT_TRUE(eventually([&] {
    const nlohmann::json jobs = status();
    return jobs.size() == 2 && jobs[1].at("state") == "running" && jobs[1].at("gpus") == 2;
  }));
  const pid_t pid = this->controller();
  if (pid > 0) kill(pid, SIGKILL);
  controller.join();
  const Outcome resumed = scalai(fmt::format("exec --resume='{}'", path("exec")));
  EXPECT_EQ(resumed.code, 0) << run.err << resumed.err;
  const nlohmann::json jobs = nlohmann::json::parse(summary("exec")).at("jobs");
  for (const nlohmann::json& job : jobs) {
    EXPECT_LE(job.at("training_s").get<double>(), job.at("wall_s").get<double>());
  }
  EXPECT_THAT(read_all(path("exec/events.csv")), HasSubstr(",0=2@0"));
  expect_replayable();
}

TEST_F(ExecLive, AFullDiskEndsTheRunAndAnotherControllerGoesOn) {
  const std::string disk = path("disk");
  fs::create_directory(disk);
  if (mount("scalai", disk.c_str(), "tmpfs", 0, "size=40m") != 0)
    GTEST_SKIP() << "cannot mount a small file system: " << std::strerror(errno);
  Outcome run;
  const std::string out = disk + "/run";
  std::thread controller([&] {
    run = scalai(fmt::format("exec '{}' --out='{}' --scale-model=1/16 --time-scale=50ms", restored_scenario(), out));
  });
  EXPECT_TRUE(eventually([&] { return fs::exists(out + "/address"); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  shell(fmt::format("cat /dev/zero > '{}/filler' || true", disk));
  controller.join();
  EXPECT_EQ(run.code, 5) << run.err;
  EXPECT_THAT(run.err, HasSubstr("disk is full"));
  EXPECT_THAT(run.err, HasSubstr("scalai exec --resume=" + out));
  fs::remove(disk + "/filler");
  const Outcome resumed = scalai(fmt::format("exec --resume='{}'", out));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(scalai(fmt::format("replay '{}'", out)).out, HasSubstr("all digests equal"));
  EXPECT_EQ(umount2(disk.c_str(), MNT_DETACH), 0);
}

TEST_F(ExecLive, AReportThatCannotBeWrittenIsWrittenLater) {
  Outcome run;
  std::thread controller([&] { run = exec(restored_scenario(), "--scale-model=1/16 --time-scale=10ms"); });
  EXPECT_TRUE(eventually([&] { return fs::exists(path("exec/address")); }));
  fs::create_directories(path("exec/summary.json/in the way"));
  controller.join();
  EXPECT_THAT(run.err, HasSubstr("scalai exec --resume=" + path("exec")));
  EXPECT_EQ(run.code, 4) << run.err;
  fs::remove_all(path("exec/summary.json"));
  const Outcome resumed = scalai(fmt::format("exec --resume='{}'", path("exec")));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_FALSE(fs::exists(path("exec/address")));
  expect_replayable();
}

TEST_F(ExecLive, ACheckpointThatHasRottedIsNamed) {
  Outcome run;
  std::thread controller([&] { run = exec(restored_scenario(), "--scale-model=1/16 --time-scale=50ms"); });
  const fs::path folder = path("exec/checkpoints/a/step_00000060");
  EXPECT_TRUE(eventually([&] { return fs::exists(folder); }));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  }
  controller.join();
  EXPECT_EQ(run.code, 5) << run.err;  // the job failed
  EXPECT_THAT(run.err, HasSubstr(".safetensors"));
  EXPECT_THAT(run.err, HasSubstr("tensor \""));
}

}  // namespace
}  // namespace scalai::testing
