#pragma once
// What tests of `scalai exec` share: who runs, what is left behind, and one scenario.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "tests/end_to_end.h"

namespace scalai::testing {

inline constexpr int kPatience_s = 60;

inline bool eventually(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(kPatience_s);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

// By process: its command line, blanks between arguments, and the file its stderr goes to.
struct Running {
  std::string words, log;
};
inline std::map<pid_t, Running> processes() {
  std::map<pid_t, Running> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string words = read_all(entry.path() / "cmdline");
    std::replace(words.begin(), words.end(), '\0', ' ');
    std::error_code gone;
    found[std::stoi(name)] = {words, fs::read_symlink(entry.path() / "fd/2", gone).string()};
  }
  return found;
}

inline std::map<std::string, std::string> files_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename()] = read_all(entry.path());
  }
  return files;
}

class Exec : public EndToEnd {
 protected:
  void TearDown() override {
    for (const auto& [pid, process] : processes()) {
      const bool ours =
          process.log.rfind(folder_.string(), 0) == 0 && process.words.find("worker") != std::string::npos;
      EXPECT_FALSE(ours) << "left behind: " << process.words;
      if (ours) kill(pid, SIGKILL);
    }
    EndToEnd::TearDown();
  }

  Outcome exec(const std::string& scenario, const std::string& words) const {
    return scalai(fmt::format("exec '{}' --out='{}' {}", scenario, path("exec"), words));
  }
  void expect_replayable() const {
    const Outcome replay = scalai(fmt::format("replay '{}'", path("exec")));
    EXPECT_EQ(replay.code, 0) << replay.err;
    EXPECT_THAT(replay.out, ::testing::HasSubstr("all digests equal"));
  }
  // The worker of a host, once it is there.
  pid_t worker(int host) const {
    pid_t found = -1;
    EXPECT_TRUE(eventually([&] {
      const std::string address = read_all(folder_ / "exec/address");
      if (address.empty()) return false;
      const std::string words = fmt::format("--controller={} --host={} ", address, host);
      for (const auto& [pid, process] : processes()) {
        if (process.words.find(words) != std::string::npos) found = pid;
      }
      return found > 0;
    }));
    return found;
  }
  // The process of the run itself.
  pid_t controller() const {
    for (const auto& [pid, process] : processes()) {
      if (process.words.find("--out=" + path("exec")) != std::string::npos &&
          process.words.find("scalai-exec") != std::string::npos)
        return pid;
    }
    return -1;
  }
  // Two hosts with a replica each; checkpoints of every fifth step.
  std::string replicated_scenario() const {
    const std::string file = path("replicated.textproto");
    write_all(file, R"(schema_version: 1
name: "replicated"
until: "60s"
cluster { name: "two" hosts { count: 2 gpus: 2 gpu: "a100-40g" nic: "100Gbps" } storage { read: "1GB/s" write: "1GB/s" } }
jobs { name: "a" model: "gpt2" global_batch: 8 gpus: 4 checkpoint { every_steps: 5 }
       configs { layout: "tp2,dp2" step_time: "1s" } configs { layout: "tp2" step_time: "2s" } }
events { at: "50s" redeploy { hosts: 0 } }
)");
    return file;
  }
};

inline void expect_one_line(const Outcome& run, int code, const std::string& part) {
  EXPECT_EQ(run.code, code) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, ::testing::HasSubstr(part));
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), code == 2 ? 2 : 1) << run.err;
}

}  // namespace scalai::testing
