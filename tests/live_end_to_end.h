#pragma once
// What tests of running jobs' state share: a run of an emulated job, and what a mount shows against the checkpoints
// that it writes.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/fs_end_to_end.h"

namespace scalai::testing {

class LiveEndToEnd : public FsEndToEnd {
 protected:
  void TearDown() override {
    if (run_.joinable()) {
      scalai(fmt::format("exec ctl drain --run='{}'", path("out")));
      run_.join();
    }
    FsEndToEnd::TearDown();
  }
  // Checkpoints of every third step. It ends after 120 steps of the time in `scale`, or `steps`.
  void start_run(const std::string& events = "", const std::string& words = "", const std::string& scale = "0.4s",
                 int steps = 120) {
    write_all(path("live.textproto"), R"(schema_version: 1
name: "live"
until: ")" + std::to_string(steps) + R"(s"
cluster { name: "two" hosts { count: 2 gpus: 2 gpu: "a100-40g" nic: "100Gbps" } storage { read: "1GB/s" write: "1GB/s" } }
jobs { name: "a" model: "gpt2" global_batch: 8 gpus: 4 checkpoint { every_steps: 3 }
       configs { layout: ")" + layout_ + R"(" step_time: "1s" } configs { layout: "pp2" step_time: "1s" } }
)" + events);
    run_ = std::thread([this, words, scale] {
      outcome_ = scalai(fmt::format("exec '{}' --out='{}' --scale-model=1/8 --time-scale={} {}", path("live.textproto"),
                                    path("out"), scale, words));
    });
    ASSERT_TRUE(eventually([&] { return fs::exists(path("out/address")); }));
  }
  static bool eventually(const std::function<bool()>& holds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }
  std::string job() const { return path("m/jobs/a"); }
  std::string current() const {
    std::error_code error;
    return fs::read_symlink(job() + "/step-current", error).string();
  }
  std::string saved(const std::string& step) const {
    return path("out/checkpoints/a/step_" + step.substr(std::string("step-").size()));
  }
  // The checkpoint that the job wrote at this step, if it is still there: newer ones take its place.
  bool keep_saved(const std::string& step) const {
    std::error_code error;
    if (!fs::exists(saved(step) + "/manifest.json")) return false;
    fs::copy(saved(step), path("kept-" + step), fs::copy_options::recursive, error);
    return !error;
  }
  // The errno of reading a file from its begin to its end; 0: it can be read.
  static int error_of(const std::string& name) {
    const int file = ::open(name.c_str(), O_RDONLY);
    if (file < 0) return errno;
    std::vector<char> buffer(1 << 20);
    ssize_t got = 1;
    while (got > 0) got = ::read(file, buffer.data(), buffer.size());
    const int error = got < 0 ? errno : 0;
    ::close(file);
    return error;
  }
  // Every file of the folder.
  static std::map<std::string, std::string> bytes_of(const std::string& folder) {
    std::map<std::string, std::string> files;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
      files[entry.path().filename()] = read_all(entry.path());
    return files;
  }
  // What the views of a step say, against those of the checkpoint that the job wrote at that step.
  void expect_saved(const std::string& step, const std::map<std::string, std::map<std::string, std::string>>& live) {
    ASSERT_EQ(mount("saved", "--checkpoint=" + path("kept-" + step)).code, 0);
    for (const auto& [view, files] : live) {
      SCOPED_TRACE(step + " " + view);
      const auto same = bytes_of(path("saved/views/" + view));
      ASSERT_FALSE(files.empty());
      ASSERT_EQ(files.size(), same.size());
      for (const auto& [name, bytes] : files) EXPECT_TRUE(same.contains(name) && same.at(name) == bytes) << name;
    }
    ASSERT_EQ(unmount("saved").code, 0);
  }

  std::string layout_ = "tp2,dp2,zero1";  // on four GPUs
  std::thread run_;
  Outcome outcome_;
};

}  // namespace scalai::testing
