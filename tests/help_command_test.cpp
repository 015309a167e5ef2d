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
  // Of labs, in a build without.
  static bool is_left_out(std::string_view words) {
    return words.starts_with("accuracy ") && !fs::exists(kPrograms / "scalai-accuracy");
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

// docs/design.md §9: what the help rules out is 2; a well-formed name that nothing has is 3, as in a file.
TEST_F(HelpCommand, UnknownNamesAreThreeAndUnknownWordsTwo) {
  for (const char* words : {"models nosuch", "machines nosuch", "policies nosuch", "explain nosuch",
                            "accuracy --table=nosuch", "import nosuch f", "plan --model=nosuch --from=tp2 --to=tp1",
                            "parallelize --model=nosuch --gpus=4 --gpu=h100-80g --global-batch=8",
                            "parallelize --model=gpt2 --gpus=4 --gpu=nosuch --global-batch=8"})
    EXPECT_EQ(scalai(words).code, is_left_out(words) ? 4 : 3) << words;
  for (const char* words : {"nosuch", "models --nosuch", "plan --model=gpt2 --from=tp2 --to=tp1 --precision=nosuch",
                            "parallelize --model=gpt2 --gpus=many --gpu=h100-80g --global-batch=8"})
    EXPECT_EQ(scalai(words).code, 2) << words;
}

// They go with the next release.
TEST_F(HelpCommand, FormerNamesWorkWithANote) {
  const std::vector<std::pair<std::string, std::string>> words_and_notes = {
      {"reshard a", "scalai: note: \"scalai reshard\" is now \"scalai checkpoint reshard\""},
      {"validate-model --table=x", "note: \"scalai validate-model\" is now \"scalai accuracy model\""},
      {"validate-policies --set=G77", "note: \"scalai validate-policies\" is now \"scalai accuracy policies\""},
      {"accuracy --data=/none", "note: --data is now called --published"},
      {"accuracy --check --table=models", "note: --check is now called --require-goals"},
      {"checkpoint reshard a b --memory-cap=1GiB", "note: --memory-cap is now called --process-memory"},
      {"plan --model=gpt2 --from=tp2 --to=tp1 --explain=step", "note: --explain is now called --tensor"},
      {"parallelize --explain", "note: --explain is now called --breakdown"},
      {"data show none --check", "note: --check is now called --verify"},
  };
  for (const auto& [words, note] : words_and_notes) {
    if (is_left_out(words)) continue;
    const Outcome outcome = scalai(words);
    EXPECT_NE(outcome.err.find(note), std::string::npos) << words << "\n" << outcome.err;
    EXPECT_EQ(outcome.err.find("unknown"), std::string::npos) << words << "\n" << outcome.err;
    EXPECT_EQ(scalai(words + " -q").err.find(note), std::string::npos) << words;
  }
  if (!fs::exists(kPrograms / "scalai-exec")) return;
  EXPECT_NE(scalai("exec none.textproto --memory-cap=1GiB").err.find("note: --memory-cap is now called --memory"),
            std::string::npos);
  EXPECT_EQ(scalai("--help").out.find("validate-"), std::string::npos);
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
