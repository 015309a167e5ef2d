// What `complete` offers; tests/completion_command_test.cpp asks the real shells.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/command.h"
#include "ptc/base/internal/program_text.h"
#include "ptc/base/testing/toy_program.h"

namespace scalai {
namespace completion_test {

using Words = std::vector<std::string>;

// The answers to `toy complete WORDS`, without explanations.
Words offers(const Program& program, Words words) {
  words.insert(words.begin(), {program.name, "complete"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_program(program, static_cast<int>(argv.size()), argv.data()), 0);
  std::istringstream lines(testing::internal::GetCapturedStdout());
  Words found;
  for (std::string line; std::getline(lines, line);) found.push_back(line.substr(0, line.find('\t')));
  return found;
}

TEST(Completion, OffersCommands) {
  EXPECT_EQ(offers(toy(), {""}), (Words{"validate", "sim", "help", "completion", "man"}));
  EXPECT_EQ(offers(toy(), {}), offers(toy(), {""}));
  EXPECT_EQ(offers(toy(), {"va"}), Words{"validate"});
  EXPECT_EQ(offers(toy(), {"--v"}), Words{"--version"});
  EXPECT_EQ(offers(toy(), {"help", "s"}), Words{"sim"});
  EXPECT_EQ(offers(toy(), {"completion", "z"}), Words{"zsh"});
  EXPECT_EQ(offers(toy(), {"banana", ""}), Words{});
}

TEST(Completion, OffersOptionsThatAreNotGivenYet) {
  EXPECT_EQ(offers(toy(), {"validate", "--s"}), (Words{"--strict", "--seed="}));
  EXPECT_EQ(offers(toy(), {"validate", "--strict", "--seed=3", "--s"}), Words{});
  EXPECT_EQ(offers(toy(), {"validate", "--q"}), Words{"--quiet"});
  EXPECT_EQ(offers(toy(), {"validate", "--", "--s"}), Words{":files "});
  Program program = toy();
  program.commands[0].spec.options.push_back(texts_option("set", "PATH=VALUE", "One value."));
  EXPECT_EQ(offers(program, {"validate", "--set=a=b", "--set"}), Words{"--set="});
}

TEST(Completion, OffersValues) {
  EXPECT_EQ(offers(toy(), {"validate", "--format="}), (Words{"--format=table", "--format=json", "--format=csv"}));
  EXPECT_EQ(offers(toy(), {"validate", "--format", "c"}), Words{"csv"});
  EXPECT_EQ(offers(toy(), {"validate", "--only=shape,"}), Words{"--only=shape,memory"});
  EXPECT_EQ(offers(toy(), {"validate", "--seed="}), Words{});
  EXPECT_EQ(offers(toy(), {"validate", "--write-a-very-long-report="}), Words{":files "});
  Program program = toy();
  program.commands[0].spec.options.push_back(
      suggesting(text_option("model", "NAME|FILE", "A model."), {"gpt2", "llama3-8b"}));
  program.commands[0].spec.options.push_back(text_option("out", "DIR", "A folder."));
  EXPECT_EQ(offers(program, {"validate", "--model=l"}), (Words{"--model=llama3-8b", ":files "}));
  EXPECT_EQ(offers(program, {"validate", "--out="}), Words{":folders"});
}

TEST(Completion, OffersArgumentsWhereTheCommandTakesThem) {
  EXPECT_EQ(offers(toy(), {"validate", ""}), Words{":files "});
  EXPECT_EQ(offers(toy(), {"validate", "--seed", "3", "a", ""}), Words{":files "});
  EXPECT_EQ(offers(toy(), {"validate", "a", "b", ""}), Words{}) << "it takes two";
  Program program = toy();
  program.commands[0].spec.endings = {".json", ".textproto"};
  EXPECT_EQ(offers(program, {"validate", ""}), Words{":files .json .textproto"});
  program.commands[0].spec.verbs = {{"show", "Print."}, {"verify", "Read."}};
  EXPECT_EQ(offers(program, {"validate", "s"}), Words{"show"});
  EXPECT_EQ(offers(program, {"validate", "show", ""}), Words{":files .json .textproto"});
  program.commands[0].spec.verbs.clear();
  program.commands[0].spec.endings.clear();
  program.commands[0].spec.operands = {"gpt2"};
  EXPECT_EQ(offers(program, {"validate", ""}), Words{"gpt2"});
}

TEST(Completion, OffersCommandsOfTwoWordsAndHidesFormerOnes) {
  Program program = toy();
  program.commands.push_back(program.commands[0]);
  program.commands[1].spec.name = "validate deeply";
  program.commands[1].spec.options = {flag_option("all", "All.")};
  program.former = {{"prove", {"validate", "deeply"}}};
  EXPECT_EQ(offers(program, {""}), (Words{"validate", "sim", "help", "completion", "man"}));
  EXPECT_EQ(offers(program, {"validate", "d"}), (Words{"deeply", ":files "}));
  EXPECT_EQ(offers(program, {"validate", "deeply", "--a"}), Words{"--all"});
  EXPECT_EQ(offers(program, {"prove", "--a"}), Words{"--all"});
}

TEST(Completion, ASingleProgramIsItsCommand) {
  EXPECT_EQ(offers(single_toy(), {"--st"}), Words{"--strict"});
  EXPECT_EQ(offers(single_toy(), {""}), Words{":files "});
}

TEST(Completion, ScriptsNameTheProgram) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(toy(), shell);
    EXPECT_THAT(script, testing::HasSubstr("toy completion " + std::string(shell)));
    EXPECT_EQ(script.find('@' + std::string("PROGRAM")), std::string::npos);
  }
}

}  // namespace completion_test
}  // namespace scalai
