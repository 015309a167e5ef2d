// What every command of every program says about itself: help in 80 columns, the options that all have, and manual
// pages that mandoc finds nothing wrong with.

#include "tests/end_to_end.h"

#include "ptc/base/utf8.h"

namespace help_command_test {

using namespace scalai::testing;

constexpr size_t kColumns = 80;

// "scalai plan", "scalai-sim", "scalai-exec ctl": whatever may be followed by --help.
class HelpCommand : public EndToEnd {
 protected:
  std::vector<std::string> commands() const {
    std::vector<std::string> all;
    for (const fs::directory_entry& entry : fs::directory_iterator(kPrograms)) {
      const std::string name = entry.path().filename().string();
      if (name != "scalai" && !name.starts_with("scalai-")) continue;
      const std::string program = entry.path().string();
      all.push_back(program);
      bool listed = false;
      for (const std::string& line : lines_of(shell(program + " --help").out)) {
        if (!line.starts_with("  ")) listed = line == "Commands:" || line == "About the program itself:";
        if (listed && line.starts_with("  ") && line[2] != ' ' && line[2] != '-')
          all.push_back(program + " " + line.substr(2, line.find("  ", 2) - 2));
      }
      if (name == "scalai-exec") {
        for (const char* verb : {"launch", "worker", "sync", "ctl", "bench", "calibrate", "doctor"})
          all.push_back(program + " " + verb);
      }
    }
    return all;
  }
  static std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(HelpCommand, FitsInto80Columns) {
  const std::vector<std::string> all = commands();
  EXPECT_GT(all.size(), 30U);
  for (const std::string& command : all) {
    const Outcome help = shell(command + " --help");
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_EQ(help.err, "") << command;
    for (const std::string& line : lines_of(help.out))
      EXPECT_LE(scalai::columns_of(line), kColumns) << command << "\n" << line;
    EXPECT_EQ(shell(command + " -h").out, help.out) << command;
  }
}

TEST_F(HelpCommand, HasTheOptionsOfEveryCommand) {
  for (const std::string& command : commands()) {
    const std::string help = shell(command + " --help").out;
    if (help.find("Exit codes:") == std::string::npos) continue;  // an overview of commands
    for (const char* option : {"--wide", "--color=WHEN", "-q, --quiet", "-v, --verbose", "-h, --help"})
      EXPECT_NE(help.find(std::string("\n  ") + option + " "), std::string::npos) << command << " " << option;
  }
}

TEST_F(HelpCommand, ManualPagesAreClean) {
  if (shell("command -v mandoc").code != 0) GTEST_SKIP() << "mandoc is not installed";
  for (const std::string& command : commands()) {
    const size_t blank = command.find(' ');
    const std::string program = command.substr(0, blank);
    const std::string page = blank == std::string::npos ? program + " man" : program + " man" + command.substr(blank);
    const Outcome lint = shell(page + " | mandoc -Tlint");
    EXPECT_EQ(lint.code, 0) << page << "\n" << lint.out;
    EXPECT_EQ(lint.out, "") << page;
  }
}

}  // namespace help_command_test
