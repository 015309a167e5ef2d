#pragma once
// What tests of whole programs share: a folder of their own, `scalai` run from a shell, a small scenario.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "ptc/base/testing/share.h"

namespace scalai::testing {

namespace fs = std::filesystem;

inline const fs::path kPrograms = fs::path(SCALAI_BINARY_DIR) / "bin";
inline const fs::path kScenarios = fs::path(SCALAI_SOURCE_DIR) / "scenarios";
inline const std::vector<std::string> kStrategies = {
    "reshard", "tenplex", "central", "dp-only", "checkpoint-restart", "full-migration"};

// AddressSanitizer remarks on SimGrid's stacks (google/sanitizers#189); that is not a program's own output.
inline std::string without_sanitizer_notes(const std::string& text) {
  std::string kept;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool note = line.find("ASan is ignoring requested __asan_handle_no_return") != std::string::npos ||
                      line.rfind("False positive error reports may follow", 0) == 0 ||
                      line.find("github.com/google/sanitizers/issues/189") != std::string::npos;
    if (!note) kept += line + "\n";
  }
  return kept;
}

inline std::string read_all(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline void write_all(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// Scenarios of the control loop, or those of many jobs and of recovery designs (sim/jobs/scenario).
inline std::vector<std::string> scenario_names(bool of_many_jobs = false) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kScenarios)) {
    if (entry.path().extension() != ".textproto") continue;
    const std::string text = read_all(entry.path());
    const bool many = text.find("\nworkload {") != std::string::npos || text.find("\nrecovery {") != std::string::npos;
    if (many == of_many_jobs) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string scenario_file(const std::string& name) { return (kScenarios / (name + ".textproto")).string(); }

struct Outcome {
  int code = -1;
  std::string out, err;
};

class EndToEnd : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "scalai-e2e-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
    ::setenv("SCALAI_WIDE", "1", 1);  // cases/tables.case looks at narrow tables
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  // `scalai WORDS`, from a shell.
  Outcome scalai(const std::string& words) const {
    return shell(fmt::format("'{}/scalai' {}", kPrograms.string(), words));
  }
  Outcome shell(const std::string& command) const {
    static std::atomic<int> count = 0;  // several may run at once
    const std::string number = std::to_string(++count);
    const fs::path out = folder_ / ("stdout" + number), err = folder_ / ("stderr" + number);
    const int status =
        std::system(fmt::format("{{ {} ; }} >'{}' 2>'{}' </dev/null", command, out.string(), err.string()).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_all(out), without_sanitizer_notes(read_all(err))};
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // A job of two shards on two hosts; what else happens is up to the test.
  std::string small_scenario(const std::string& more) const {
    const std::string file = path("small.textproto");
    write_all(file, R"(schema_version: 1
name: "small"
until: "100s"
cluster { name: "two" hosts { count: 2 gpus: 2 gpu: "a100-40g" nic: "100Gbps" } storage { read: "1GB/s" } }
jobs { name: "a" model: "gpt2" global_batch: 8 devices: [0, 2] configs { layout: "tp2" step_time: "1s" }
       configs { layout: "tp1" step_time: "2s" } }
)" + more);
    return file;
  }
  std::string summary(const std::string& report) const { return read_all(folder_ / report / "summary.json"); }

  fs::path folder_;
};

}  // namespace scalai::testing
