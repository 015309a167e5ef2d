#include "ptc/base/screen.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace scalai {
namespace {

// The screen in an environment of these variables; standard output is a file.
class ScreenTest : public testing::Test {
 protected:
  ScreenTest() {
    testing::internal::CaptureStdout();
    for (const char* name : kNames) {
      const char* const value = std::getenv(name);
      if (value != nullptr) saved_[name] = value;
      ::unsetenv(name);
    }
  }
  ~ScreenTest() override {
    testing::internal::GetCapturedStdout();
    for (const char* name : kNames) ::unsetenv(name);
    for (const auto& [name, value] : saved_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }

 private:
  static constexpr const char* kNames[] = {
      "COLUMNS", "SCALAI_WIDE", "CLICOLOR_FORCE", "NO_COLOR", "SCALAI_QUIET", "SCALAI_VERBOSE", "TERM"};
  std::map<std::string, std::string> saved_;
};

TEST_F(ScreenTest, AFileHas80PlainColumns) {
  EXPECT_EQ(stdout_screen().columns, 80u);
  EXPECT_FALSE(stdout_screen().colour);
  EXPECT_FALSE(quiet());
  EXPECT_FALSE(verbose());
}

TEST_F(ScreenTest, ColumnsIsTheWidthIfItIsANumber) {
  set("COLUMNS", "132");
  EXPECT_EQ(stdout_screen().columns, 132u);
  for (const char* value : {"", "0", "-3", "wide"}) {
    set("COLUMNS", value);
    EXPECT_EQ(stdout_screen().columns, 80u) << value;
  }
  set("COLUMNS", "132");
  set("SCALAI_WIDE", "1");
  EXPECT_EQ(stdout_screen().columns, 0u);
}

TEST_F(ScreenTest, ForcedColourWinsOverNone) {
  set("CLICOLOR_FORCE", "1");
  EXPECT_TRUE(stdout_screen().colour);
  set("NO_COLOR", "1");
  EXPECT_TRUE(stdout_screen().colour);
  set("CLICOLOR_FORCE", "0");
  EXPECT_FALSE(stdout_screen().colour);
}

TEST_F(ScreenTest, StylesAreSequencesOfTheTerminalOnlyInColour) {
  EXPECT_EQ(styled({.colour = true}, Style::kBold, "x"), "\033[1mx\033[0m");
  EXPECT_EQ(styled({.colour = true}, Style::kDim, "x"), "\033[2mx\033[0m");
  EXPECT_EQ(styled({.colour = true}, Style::kDim, ""), "");
  EXPECT_EQ(styled({}, Style::kBold, "x"), "x");
}

TEST_F(ScreenTest, ATerminalGetsNoSequencesButOurs) {
  const std::string table = styled({.colour = true}, Style::kBold, "head") + "\n";
  EXPECT_EQ(for_terminal(table + "caf\xC3\xA9\n"), table + "caf\xC3\xA9\n");
  EXPECT_EQ(for_terminal("a\033]0;title\007b\033[31m"), "a\\x1b]0;title\\x07b\\x1b[31m");
  EXPECT_EQ(for_terminal("\033"), "\\x1b");
  EXPECT_EQ(for_terminal(""), "");
}

TEST_F(ScreenTest, QuietAndVerboseAreVariables) {
  set("SCALAI_QUIET", "1");
  set("SCALAI_VERBOSE", "1");
  EXPECT_TRUE(quiet());
  EXPECT_TRUE(verbose());
}

}  // namespace
}  // namespace scalai
