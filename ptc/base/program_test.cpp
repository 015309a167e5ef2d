#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <thread>

#include "ptc/base/command.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/base/testing/toy_program.h"
#include "ptc/base/version.h"

namespace scalai {
namespace program_test {

using testing::HasSubstr;
using Words = std::vector<std::string>;

int run(const Program& program, Words words) {
  words.insert(words.begin(), program.name);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return run_program(program, static_cast<int>(words.size()), argv.data());
}

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

Outcome outcome(const Program& program, const Words& words) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run(program, words);
  std::string out = testing::internal::GetCapturedStdout();
  return {code, out, testing::internal::GetCapturedStderr()};
}

void expect_usage_error(const Program& program, const Words& words, const std::string& err) {
  const Outcome result = outcome(program, words);
  EXPECT_EQ(result.code, 2) << err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, err);
}

TEST(RunProgram, RunsACommandAndReturnsItsCode) {
  const Outcome result = outcome(toy(), {"validate", "a", "--format", "json", "--strict"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "json a\n");
  EXPECT_EQ(result.err, "");
}

TEST(RunProgram, PrintsTheOverview) {
  const std::string overview =
      "Usage: toy COMMAND [ARGUMENT…]\n"
      "\n"
      "Plays with scenarios.\n"
      "\n"
      "Commands:\n"
      "  validate    Check a scenario.\n"
      "\n"
      "Commands of programs installed separately:\n"
      "  sim         Simulate a scenario.\n"
      "\n"
      "About the program itself:\n"
      "  help        Explain a command.\n"
      "  completion  Print a completion script for a shell.\n"
      "  man         Print a manual page.\n"
      "  --version   Print the version.\n"
      "\n"
      "`toy help COMMAND` explains one command. Terms: docs/glossary.md\n";
  for (const Words& words :
       {Words{"--help"}, Words{"-h"}, Words{"help"}, Words{"--help", "x"}, Words{"--what", "--help"}}) {
    const Outcome result = outcome(toy(), words);
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.out, overview);
    EXPECT_EQ(result.err, "");
  }
}

TEST(RunProgram, PrintsHelpWhereverItIsAskedFor) {
  const std::string help = help_text(validate_spec());
  const std::vector<Words> asking = {{"validate", "--help"},           {"help", "validate"},
                                     {"validate", "a", "-h"},          {"validate", "--nope", "--help"},
                                     {"validate", "--seed", "--help"}, {"validate", "a", "b", "c", "--help=x"}};
  for (const Words& words : asking) {
    const Outcome result = outcome(toy(), words);
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.out, help);
  }
  EXPECT_EQ(outcome(toy(), {"validate", "--", "--help"}).out, "table --help\n");
  EXPECT_THAT(outcome(toy(), {"completion", "--help"}).out, HasSubstr("Usage: toy completion bash|zsh|fish"));
}

Program toy_of_two_words() {
  Program program = toy();
  Command check = program.commands[0];
  check.spec.name = "validate deeply";
  check.spec.summary = "Check all of it.";
  check.run = [](const Arguments& arguments) {
    std::fputs(("deeply " + arguments.positional()[0] + "\n").c_str(), stdout);
    return 0;
  };
  program.commands.push_back(check);
  program.former = {{"prove", {"validate", "deeply"}}};
  return program;
}

TEST(RunProgram, ACommandMayHaveTwoWords) {
  EXPECT_EQ(outcome(toy_of_two_words(), {"validate", "deeply", "a"}).out, "deeply a\n");
  EXPECT_EQ(outcome(toy_of_two_words(), {"validate", "a"}).out, "table a\n");
  EXPECT_THAT(outcome(toy_of_two_words(), {"help", "validate", "deeply"}).out, HasSubstr("Usage: toy validate FILE…"));
  EXPECT_THAT(outcome(toy_of_two_words(), {"man", "validate", "deeply"}).out, HasSubstr("toy\\-validate\\-deeply"));
  expect_usage_error(toy_of_two_words(), {"validate", "deeply"},
                     "toy validate deeply: error: an argument is missing; usage: toy validate FILE…\n"
                     "Try 'toy validate deeply --help'.\n");
}

TEST(RunProgram, FormerNamesWorkWithANote) {
  const Outcome command = outcome(toy_of_two_words(), {"prove", "a"});
  EXPECT_EQ(command.out, "deeply a\n");
  EXPECT_EQ(command.err, "toy: note: \"toy prove\" is now \"toy validate deeply\"\n");
  EXPECT_EQ(outcome(toy_of_two_words(), {"--help"}).out.find("prove"), std::string::npos);

  Program program = toy();
  program.commands[0].spec.options[0].former = {"style"};
  const Outcome option = outcome(program, {"validate", "a", "--style=csv"});
  EXPECT_EQ(option.out, "csv a\n");
  EXPECT_EQ(option.err, "toy validate: note: --style is now called --format\n");
  EXPECT_EQ(outcome(program, {"validate", "--help"}).out.find("style"), std::string::npos);
  expect_usage_error(program, {"validate", "a", "--style=csv", "--format=csv"},
                     "toy validate: error: option --format is given twice\nTry 'toy validate --help'.\n");
}

// The options of every command reach the programs that a command starts as variables (screen.h).
TEST(RunProgramDeathTest, CommonOptionsBecomeVariables) {
  const auto run_with = [](const Words& words, const std::string& variable) {
    for (const char* name : {"SCALAI_WIDE", "SCALAI_QUIET", "SCALAI_VERBOSE", "CLICOLOR_FORCE", "NO_COLOR"})
      ::unsetenv(name);
    Words all = {"validate", "a"};
    all.insert(all.end(), words.begin(), words.end());
    run(toy(), all);
    const char* const value = std::getenv(variable.c_str());
    std::_Exit(value == nullptr ? 9 : value[0] - '0');
  };
  const auto exited = [](int code) { return testing::ExitedWithCode(code); };
  EXPECT_EXIT(run_with({"--wide"}, "SCALAI_WIDE"), exited(1), "");
  EXPECT_EXIT(run_with({"-q"}, "SCALAI_QUIET"), exited(1), "");
  EXPECT_EXIT(run_with({"--quiet"}, "SCALAI_QUIET"), exited(1), "");
  EXPECT_EXIT(run_with({"-v"}, "SCALAI_VERBOSE"), exited(1), "toy validate: .*s, .* of memory at most");
  EXPECT_EXIT(run_with({"--color=always"}, "CLICOLOR_FORCE"), exited(1), "");
  EXPECT_EXIT(run_with({"--color=never"}, "NO_COLOR"), exited(1), "");
  EXPECT_EXIT(run_with({"--color=never"}, "CLICOLOR_FORCE"), exited(0), "");
  EXPECT_EXIT(run_with({}, "CLICOLOR_FORCE"), exited(9), "^$");
}

TEST(RunProgram, PrintsTheVersion) {
  EXPECT_EQ(outcome(toy(), {"--version"}).out, std::string("toy ") + kVersion + "\n");
  EXPECT_EQ(outcome(single_toy(), {"--version"}).out, std::string("toy-validate ") + kVersion + "\n");
}

TEST(RunProgram, UsageErrorsGoToStderrAndExitWith2) {
  const std::string try_toy = "Try 'toy --help'.\n";
  const std::string try_validate = "Try 'toy validate --help'.\n";
  expect_usage_error(toy(), {}, "toy: error: a command is missing\n" + try_toy);
  expect_usage_error(toy(), {"validte", "a"},
                     "toy: error: unknown command \"validte\"; did you mean validate?\n" + try_toy);
  expect_usage_error(toy(), {"sin"}, "toy: error: unknown command \"sin\"; did you mean sim?\n" + try_toy);
  expect_usage_error(toy(), {"banana"}, "toy: error: unknown command \"banana\"\n" + try_toy);
  expect_usage_error(toy(), {""}, "toy: error: unknown command \"\"\n" + try_toy);
  expect_usage_error(toy(), {"--vresion"}, "toy: error: unknown option --vresion; did you mean --version?\n" + try_toy);
  expect_usage_error(toy(), {"-q"}, "toy: error: unknown option -q\n" + try_toy);
  expect_usage_error(toy(), {"help", "nope"}, "toy: error: unknown command \"nope\"\n" + try_toy);
  expect_usage_error(toy(), {"validate", "--formt"},
                     "toy validate: error: unknown option --formt; did you mean --format?\n" + try_validate);
  expect_usage_error(toy(), {"completion", "csh"},
                     "toy completion: error: unknown shell \"csh\" (bash, zsh or fish)\n"
                     "Try 'toy completion --help'.\n");
}

TEST(RunProgram, ASingleProgramTakesOptionsAtOnce) {
  EXPECT_EQ(outcome(single_toy(), {"--format=csv", "a"}).out, "csv a\n");
  EXPECT_EQ(outcome(single_toy(), {"--help"}).out, help_text(validate_spec()));
  EXPECT_EQ(outcome(single_toy(), {"help"}).out, help_text(validate_spec()));
  expect_usage_error(single_toy(), {},
                     "toy validate: error: an argument is missing; usage: toy validate FILE…\n"
                     "Try 'toy validate --help'.\n");
}

[[noreturn]] void run_out() { throw std::bad_alloc(); }
[[noreturn]] void fail() { throw std::logic_error("a bug"); }

// Where nothing may throw, and in a thread, nobody can catch it.
TEST(RunProgramDeathTest, MemoryThatRunsOutIsAFailure) {
  const std::vector<void (*)()> places = {[] { run_out(); }, [] { std::thread(run_out).join(); },
                                          []() noexcept { run_out(); }};
  for (const auto& place : places) {
    Program program = toy();
    program.commands[0].run = [place](const Arguments&) {
      place();
      return 0;
    };
    EXPECT_EXIT(std::_Exit(run(program, {"validate", "a"})), testing::ExitedWithCode(5),
                "^toy validate: error: out of memory\nhint: it needs more than it may have");
  }
  Program program = toy();
  program.commands[0].run = [](const Arguments&) noexcept -> int { fail(); };
  EXPECT_DEATH(run(program, {"validate", "a"}), "a bug");
}

TEST(RunProgram, MessagesSteerNoTerminal) {
  const Outcome wrong = outcome(toy(), {"validate", "a", "--format=\x1b[2J"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err.find('\x1b'), std::string::npos) << wrong.err;
  Program program = toy();
  program.commands[0].run = [](const Arguments& arguments) {
    return report_error(missing(arguments.positional()[0] + ": no such file"));
  };
  const Outcome absent = outcome(program, {"validate", "\x1b]0;title\x07\xff"});
  EXPECT_EQ(absent.code, 4);
  EXPECT_EQ(absent.err, "toy validate: error: \\x1b]0;title\\x07\\xff: no such file\n");
}

TEST(RunProgramDeathTest, AFullDiskIsAFailure) {
  const auto run_on_full_disk = [](const Words& words) {
    EXPECT_NE(std::freopen("/dev/full", "w", stdout), nullptr);
    std::_Exit(run(toy(), words));
  };
  EXPECT_EXIT(run_on_full_disk({"--help"}), testing::ExitedWithCode(5),
              "toy: error: cannot write the output: No space left on device");
  EXPECT_EXIT(run_on_full_disk({"validate", "a"}), testing::ExitedWithCode(5), "cannot write the output");
  EXPECT_EXIT(run_on_full_disk({"validate"}), testing::ExitedWithCode(2), "an argument is missing");
}

TEST(RunProgramDeathTest, AReaderThatLeavesEndsUsQuietly) {
  const auto run_into_closed_pipe = [] {
    std::signal(SIGPIPE, SIG_IGN);
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    ::close(ends[0]);
    ::dup2(ends[1], STDOUT_FILENO);
    std::_Exit(run(toy(), {"--help"}));
  };
  EXPECT_EXIT(run_into_closed_pipe(), testing::KilledBySignal(SIGPIPE), "^$");
}

// --- external commands --------------------------------------------------------------------------------------------

class ExternalDeathTest : public testing::Test {
 protected:
  ExternalDeathTest() {
    std::string pattern = testing::TempDir() + "scalai-external-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ExternalDeathTest() override { std::filesystem::remove_all(folder_); }

  // A program that prints its name and words to stderr and exits with `code`.
  static void install(const std::string& path, const std::string& what, int code) {
    const std::string script = "#!/bin/sh\necho \"" + what + ": $*\" >&2\nexit " + std::to_string(code) + "\n";
    ASSERT_TRUE(write_file(path, script).ok());
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  }
  [[noreturn]] void exec(const Program& program, const Words& words) const {
    ::setenv("PATH", (folder_ + ":/bin").c_str(), 1);
    std::_Exit(run(program, words));
  }

  std::string folder_;
};

TEST_F(ExternalDeathTest, RunsFromPathWithAllWords) {
  install(folder_ + "/toy-sim", "on PATH", 7);
  EXPECT_EXIT(exec(toy(), {"sim", "a b", "--seed=3", "--help"}), testing::ExitedWithCode(7),
              "^on PATH: a b --seed=3 --help\n$");
  EXPECT_EXIT(exec(toy(), {"help", "sim"}), testing::ExitedWithCode(7), "^on PATH: --help\n$");
  EXPECT_EXIT(exec(toy(), {"man", "sim"}), testing::ExitedWithCode(7), "^on PATH: man\n$");
  EXPECT_EXIT(exec(toy(), {"complete", "sim", "--se"}), testing::ExitedWithCode(7), "^on PATH: complete --se\n$");
}

TEST_F(ExternalDeathTest, ACommandOfAProgramWithSeveralKeepsItsName) {
  install(folder_ + "/toy-machine", "machine", 7);
  Program program = toy();
  program.external = {{"doctor", "Look."}};
  program.external_of = {{"doctor", "machine"}};
  EXPECT_EXIT(exec(program, {"doctor", "--fast"}), testing::ExitedWithCode(7), "^machine: doctor --fast\n$");
  EXPECT_EXIT(exec(program, {"help", "doctor"}), testing::ExitedWithCode(7), "^machine: doctor --help\n$");
  EXPECT_EXIT(exec(program, {"man", "doctor"}), testing::ExitedWithCode(7), "^machine: man doctor\n$");
  EXPECT_EXIT(exec(program, {"complete", "doctor", ""}), testing::ExitedWithCode(7), "^machine: complete doctor \n$");
}

TEST_F(ExternalDeathTest, AnotherProgramAnswersCallsWithItsOption) {
  install(folder_ + "/toy-lab", "lab", 7);
  Program program = toy();
  for (OptionSpec& option : program.commands[0].spec.options)
    if (option.name == "only") option = answered_by("toy-lab", option);
  const Words words = {"validate", "a b", "--only=shape"};
  EXPECT_EXIT(exec(program, words), testing::ExitedWithCode(7), "^lab: validate a b --only=shape\n$");
  EXPECT_EQ(outcome(program, {"validate", "a"}).out, "table a\n");
  EXPECT_EQ(outcome(program, {"validate", "a", "--only=colour"}).code, 2);
  std::filesystem::remove(folder_ + "/toy-lab");
  EXPECT_EXIT(exec(program, words), testing::ExitedWithCode(4), "^toy validate: error: --only: toy-lab is neither in");
  program.name = "toy-lab";
  EXPECT_EQ(outcome(program, words).out, "table a b\n");
}

TEST_F(ExternalDeathTest, TheCallMaySayWhichProgramAnswers) {
  install(folder_ + "/toy-lab", "lab", 7);
  install(folder_ + "/toy-validate", "validate", 7);
  Program program = toy();
  program.commands[0].spec.program_of = [](const Arguments& call) {
    return call.positional()[0] == "here" ? "toy" : call.positional()[0] == "named" ? "toy-validate" : "toy-lab";
  };
  EXPECT_EQ(outcome(program, {"validate", "here"}).out, "table here\n");
  EXPECT_EXIT(exec(program, {"validate", "there"}), testing::ExitedWithCode(7), "^lab: validate there\n$");
  EXPECT_EXIT(exec(program, {"validate", "named"}), testing::ExitedWithCode(7), "^validate: named\n$");
}

TEST_F(ExternalDeathTest, ACallIsHandedOverOnce) {
  Program program = toy();
  program.commands[0].spec.program_of = [](const Arguments&) { return "toy-lab"; };
  install(folder_ + "/toy-lab", "${SCALAI_HANDED_OVER}", 7);
  EXPECT_EXIT(exec(program, {"validate", "a"}), testing::ExitedWithCode(7), "^toy: validate a\n$");
  ::setenv("SCALAI_HANDED_OVER", "toy-lab", 1);  // by another build, which thinks that this program answers
  const Outcome again = outcome(program, {"validate", "a"});
  EXPECT_EQ(again.code, 4);
  EXPECT_THAT(again.err, HasSubstr("toy validate: error: toy-lab and toy hand this call to each other"));
  EXPECT_EQ(std::getenv("SCALAI_HANDED_OVER"), nullptr);
}

TEST_F(ExternalDeathTest, ACommandOfTwoWordsMayBelongToAnotherProgram) {
  install(folder_ + "/toy-lab", "lab", 7);
  Program program = toy();
  program.commands[0].spec.name = "validate deeply";
  program.commands[0].spec.program = "toy-lab";
  EXPECT_EXIT(exec(program, {"validate", "deeply", "a"}), testing::ExitedWithCode(7), "^lab: validate deeply a\n$");
}

TEST_F(ExternalDeathTest, PrefersTheFileBesideTheExecutable) {
  Program program = toy();
  program.name = "toy" + std::to_string(::getpid());
  const std::string file = program.name + "-sim";
  const std::filesystem::path beside = std::filesystem::read_symlink("/proc/self/exe").parent_path() / file;
  install(folder_ + "/" + file, "on PATH", 7);
  install(beside.string(), "beside", 8);
  EXPECT_EXIT(exec(program, {"sim", "x"}), testing::ExitedWithCode(8), "^beside: x\n$");
  std::filesystem::remove(beside);
}

TEST_F(ExternalDeathTest, AMissingProgramExitsWith4AndAHint) {
  EXPECT_EXIT(exec(toy(), {"sim"}), testing::ExitedWithCode(4),
              "toy: error: toy-sim is neither in .* nor on PATH\nhint: install the package toy-sim");
}

TEST_F(ExternalDeathTest, AProgramThatMayNotRunExitsWith4) {
  ASSERT_TRUE(write_file(folder_ + "/toy-sim", "x").ok());
  EXPECT_EXIT(exec(toy(), {"sim"}), testing::ExitedWithCode(4), "toy: error: cannot run toy-sim: Permission denied");
}

// --- parts ----------------------------------------------------------------------------------------------------------

// "play", whose command follows the word, and "check", whose command begins with it.
Program with_parts() {
  Program whole = toy(), play = toy(), check = toy();
  play.name = "toy-play", check.name = "toy-check", check.typed = "toy";
  check.commands[0].spec.name = "check deeply";
  whole.parts = {std::make_shared<const Part>(Part{"Play.", play}), std::make_shared<const Part>(Part{"Look.", check})};
  return whole;
}

TEST(Parts, AreProgramsBehindAWord) {
  const Program whole = with_parts();
  EXPECT_EQ(outcome(whole, {"play", "validate", "a"}).out, "table a\n");
  EXPECT_EQ(outcome(whole, {"check", "deeply", "a"}).out, "table a\n");
  EXPECT_THAT(outcome(whole, {"--help"}).out, HasSubstr("\n  play        Play.\n  check       Look.\n\nCommands of"));
  for (const Words& words : {Words{"play", "--help"}, Words{"help", "play"}})
    EXPECT_THAT(outcome(whole, words).out, HasSubstr("Usage: toy-play COMMAND"));
  EXPECT_THAT(outcome(whole, {"help", "check", "deeply"}).out, HasSubstr("Usage: toy validate FILE"));
  EXPECT_THAT(outcome(whole, {"man", "play"}).out, HasSubstr(".TH \"TOY\\-PLAY\""));
  EXPECT_THAT(outcome(whole, {"complete", "play", "vali"}).out, HasSubstr("validate\tCheck a scenario."));
  EXPECT_THAT(outcome(whole, {"complete", "pla"}).out, HasSubstr("play\tPlay."));
  expect_usage_error(whole, {"play", "validat"},
                     "toy play: error: unknown command \"validat\"; did you mean validate?\n"
                     "Try 'toy play --help'.\n");
  expect_usage_error(whole, {"plai"}, "toy: error: unknown command \"plai\"; did you mean play?\nTry 'toy --help'.\n");
}

TEST(Parts, AnswerToTheirOwnNames) {
  const Program whole = with_parts();
  testing::internal::CaptureStdout();
  Words words = {"/usr/bin/toy-play", "validate", "a"};
  std::vector<char*> argv = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  EXPECT_EQ(run_program(whole, 3, argv.data()), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "table a\n");
}

// --- man pages ------------------------------------------------------------------------------------------------------

TEST(ManPage, EscapesWhatRoffWouldTake) {
  Program program = toy();
  CommandSpec& spec = program.commands[0].spec;
  spec.description = ".PP is \\fBnot\\fR ours";
  const std::string page = outcome(program, {"man", "validate"}).out;
  EXPECT_THAT(page, HasSubstr(std::string(".TH \"TOY\\-VALIDATE\" 1 \"") + kVersionDate + "\" \"Scalai " + kVersion +
                              "\"\n"
                              ".SH NAME\ntoy\\-validate \\- Check a scenario.\n"
                              ".SH SYNOPSIS\ntoy validate FILE…\n"
                              ".SH DESCRIPTION\n\\&.PP is \\efBnot\\efR ours\n"
                              ".SH OPTIONS\n.TP\n.B \\-\\-format=FORMAT\nHow to print. One of: table"));
  EXPECT_THAT(page, HasSubstr(".SH \"EXIT STATUS\"\n.TP\n.B 0\ndone\n"));
}

// Lines of more than 80 bytes are poor roff: text is broken at blanks, what keeps its lines behind "\\c".
TEST(ManPage, HasNoLongLines) {
  Program program = toy();
  CommandSpec& spec = program.commands[0].spec;
  spec.usage = "toy validate FILE…\ntoy validate --all";
  spec.description =
      "Reads every-file-that-is-there and prints what is wrong with it, one problem after another, until the "
      "end.\n\n  word   an explanation that goes on and on, far beyond the eightieth column of its line";
  spec.verbs = {{"show", "Print."}};
  const std::string page = outcome(program, {"man", "validate"}).out;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_THAT(page, HasSubstr(".SH SYNOPSIS\ntoy validate FILE…\n.br\ntoy validate \\-\\-all\n"));
  EXPECT_THAT(page, HasSubstr("far beyond the eightieth \\c\ncolumn of its line\n.fi\n"));
  EXPECT_THAT(page, HasSubstr(".SH VERBS\n.TP\n.B show\nPrint.\n"));
}

TEST(ManPage, OfTheProgramListsItsCommands) {
  const std::string page = outcome(toy(), {"man"}).out;
  EXPECT_THAT(page, HasSubstr(".SH COMMANDS\n.TP\n.B validate\nCheck a scenario.\n"
                              ".TP\n.B sim\nSimulate a scenario.\n"));
  EXPECT_THAT(outcome(single_toy(), {"man"}).out, HasSubstr(".TH \"TOY\\-VALIDATE\" 1 "));
}

// --- report_error -------------------------------------------------------------------------------------------------

TEST(ReportError, PrintsTheMessageAndReturnsTheCode) {
  const auto reported = [](const absl::Status& status) {
    testing::internal::CaptureStderr();
    const int code = report_error(status);
    return std::to_string(code) + " " + testing::internal::GetCapturedStderr();
  };
  ::unsetenv("SCALAI_COMMAND_NAME");
  EXPECT_EQ(reported(absl::OkStatus()), "0 ");
  EXPECT_EQ(reported(invalid("bad plan")), "3 scalai: error: bad plan\n");
  EXPECT_EQ(reported(missing("no GPU")), "4 scalai: error: no GPU\n");
  EXPECT_EQ(reported(failed("worker died")), "5 scalai: error: worker died\n");
  EXPECT_EQ(reported(absl::InternalError("oops")), "70 scalai: error: oops\n");
  EXPECT_EQ(outcome(single_toy(), {"a"}).code, 0);
  EXPECT_EQ(reported(invalid("bad plan")), "3 toy validate: error: bad plan\n") << "as people type it";
  EXPECT_EQ(reported(invalid("x.textproto:1:1: error: no\n1 error\n")), "3 x.textproto:1:1: error: no\n1 error\n")
      << "problems have their file";
}

}  // namespace program_test
}  // namespace scalai
