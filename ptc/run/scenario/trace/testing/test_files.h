#pragma once
// For the tests of this folder: traces written where they are read from, and what an import says.

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/import.h"

namespace scalai::trace::testing {

// A folder of its own for each test, gone with it.
class TraceFiles : public ::testing::Test {
 protected:
  TraceFiles() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("scalai_trace_" + std::to_string(getpid()) + "_" + info->test_suite_name() + "_" + info->name());
    std::filesystem::create_directories(folder_);
  }
  ~TraceFiles() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  std::string file(const std::string& text, const std::string& name = "trace.csv") const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  absl::StatusOr<Imported> read(const std::string& format, const std::string& text,
                                const std::vector<std::string>& set = {}) const {
    return import_trace(format, file(text), set);
  }
  // What is imported; fails the test, and is empty, where that is refused.
  Imported good(const std::string& format, const std::string& text, const std::vector<std::string>& set = {}) const {
    absl::StatusOr<Imported> imported = read(format, text, set);
    EXPECT_TRUE(imported.ok()) << message_of(imported.status());
    return imported.ok() ? *std::move(imported) : Imported();
  }
  // The message of what is refused, without the folder.
  std::string bad(const std::string& format, const std::string& text, const std::vector<std::string>& set = {}) const {
    const absl::StatusOr<Imported> imported = read(format, text, set);
    EXPECT_FALSE(imported.ok()) << "accepted";
    std::string message = imported.ok() ? "" : message_of(imported.status());
    const std::string prefix = folder_.string() + "/";
    for (size_t at = message.find(prefix); at != std::string::npos; at = message.find(prefix)) {
      message.erase(at, prefix.size());
    }
    return message;
  }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace scalai::trace::testing
