#include "vfs/log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "ptc/base/file.h"

namespace scalai::vfs {
namespace {

std::string new_path(const std::string& name) {
  std::string path = fmt::format("{}/vfs-log-{}-{}", ::testing::TempDir(), ::getpid(), name);
  ::unlink(path.c_str());
  return path;
}

TEST(Log, AppendsLines) {
  const std::string path = new_path("lines");
  for (const char* text : {"one", "two"}) {
    auto log = Log::to_file(path);
    ASSERT_TRUE(log.ok());
    log->line(text);
  }
  EXPECT_EQ(*read_file(path), "scalai fs: one\nscalai fs: two\n");
}

TEST(Log, CountsWhatIsSaidAgain) {
  const std::string path = new_path("again");
  {
    auto log = Log::to_file(path);
    ASSERT_TRUE(log.ok());
    for (int i = 0; i < 1000; ++i) {
      log->line("a.safetensors: was cut");
      log->line("b.safetensors: was cut");
    }
    EXPECT_EQ(*read_file(path), "scalai fs: a.safetensors: was cut\nscalai fs: b.safetensors: was cut\n");
    for (int i = 0; i < 15; ++i) log->line(fmt::format("other {}", i));  // pushes out the first one
  }
  const std::string text = *read_file(path);
  EXPECT_NE(text.find("scalai fs: 999 more of: a.safetensors: was cut\nscalai fs: other 14\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("scalai fs: 999 more of: b.safetensors: was cut\n"), std::string::npos) << "told at the end\n"
                                                                                              << text;
}

TEST(Log, LimitsWhatAnybodyMayCause) {
  const std::string path = new_path("limited");
  {
    auto log = Log::to_file(path);
    ASSERT_TRUE(log.ok());
    for (int i = 0; i < 1000; ++i) log->line(fmt::format("step-{}: none", i), LogRate::kLimited);
    log->line("a.bin: was cut");
  }
  const std::string text = *read_file(path);
  EXPECT_NE(text.find("step-59: none"), std::string::npos);
  EXPECT_EQ(text.find("step-60: none"), std::string::npos);
  EXPECT_NE(text.find("a.bin: was cut"), std::string::npos);
  EXPECT_NE(text.find("940 more lines"), std::string::npos) << text;
}

TEST(Log, NeedsAFileThatCanBeOpened) {
  EXPECT_EQ(Log::to_file("/nowhere/at/all").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace scalai::vfs
