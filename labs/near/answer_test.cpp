// What answer.h, gather.h and session.h do without hosts; tests/near_command_test runs them with some, well and badly.
#include "labs/near/answer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "labs/near/gather.h"
#include "labs/near/session.h"
#include "ptc/base/status.h"

namespace scalai::near {
namespace answer_test {

using ::testing::HasSubstr;

const std::function<absl::Status(const Sink&)> kLines = [](const Sink& sink) { return sink("b\na\n"); };

TEST(RunCommands, TheStatusIsThatOfTheLastOne) {
  EXPECT_EQ(*run_commands({{{"sort"}}, {{"grep", "-q", "a"}}}, "", kLines), 0);
  EXPECT_EQ(*run_commands({{{"sort"}}, {{"grep", "-q", "x"}}}, "", kLines), 1);
  EXPECT_EQ(*run_commands({{{"false"}}, {{"true"}}}, "", kLines), 0);
  EXPECT_EQ(*run_commands({{{"sh", "-c", "kill -9 $$"}}}, "", kLines), 128 + SIGKILL);
  EXPECT_EQ(*run_commands({{{"no-such-program"}}}, "", kLines), kNotStarted);
  EXPECT_EQ(*run_commands({{{"/etc/passwd"}}}, "", kLines), kNotExecutable);
  EXPECT_EQ(*run_commands({{{"/etc/passwd"}}, {{"true"}}}, "", kLines), 0);
}

TEST(RunCommands, RunsInItsFolder) {
  const std::string out =
      (std::filesystem::temp_directory_path() / ("scalai-near-" + std::to_string(::getpid()))).string();
  EXPECT_EQ(*run_commands({{{"sort"}}, {{"tee", out.substr(out.rfind('/') + 1)}}, {{"grep", "-q", "a"}}},
                          out.substr(0, out.rfind('/')), kLines),
            0);
  std::ostringstream text;
  text << std::ifstream(out).rdbuf();
  EXPECT_EQ(text.str(), "a\nb\n");
  std::filesystem::remove(out);
}

// One that has read enough is no error; one that cannot be fed is.
TEST(RunCommands, ErrorsOfItsInputAreErrors) {
  const std::string much(size_t{1} << 20, 'x');
  EXPECT_EQ(*run_commands({{{"true"}}}, "", [&](const Sink& sink) { return sink(much); }), 0);
  EXPECT_FALSE(run_commands({{{"cat"}}}, "", [](const Sink&) { return failed("no"); }).ok());
}

TEST(Sessions, AProgramIsNothingThatALoginShellReads) {
  EXPECT_TRUE(check_program("/opt/scalai-1.0/bin/scalai-near").ok());
  for (const char* program : {"", "/a b", "a;b", "$(x)", "~/x", "a'b", "*", "a\nb"})
    EXPECT_FALSE(check_program(program).ok()) << program;
}

TEST(Sessions, AnEndBeforeItsGreetingIsALostHost) {
  const Host host{.name = "h", .folder = "/"};
  const auto gone = Session::start(host, {.words = {"sh", "-c", "echo why $0 $1 >&2"}, .program = "x"});
  EXPECT_TRUE(absl::IsUnavailable(gone.status())) << gone.status();
  EXPECT_THAT(message_of(gone.status()), HasSubstr("h: the worker is gone: why h x"));
  EXPECT_TRUE(absl::IsNotFound(Session::start(host, {.words = {"/no/such/launcher"}, .program = "x"}).status()));
  const auto silent = Session::start(host, {.words = {"sleep", "0.3", "#"}, .program = "x", .patience_s = 0.05});
  EXPECT_FALSE(silent.ok());
}

// Hosts whose words are frames in files of their names.
class LyingHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = ::testing::TempDir() + "near-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void say(const std::string& host, const Answer& answer) const {
    const FileDescriptor file(::open((folder_ + "/" + host).c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600));
    EXPECT_TRUE(send(file.get(), Answer(Hello{.version = kProtocol, .threads = 1})).ok());
    EXPECT_TRUE(send(file.get(), answer).ok());
  }
  // A part of it on each of two hosts.
  absl::StatusOr<Answered> ask(const std::string& pipeline) const {
    Question question;
    question.pipeline = parse_pipeline(pipeline, {}).value();
    for (size_t i = 0; i < question.pipeline.size(); ++i)
      question.uses.push_back(
          Annotations::built_in().use_of(question.pipeline[i], {.first = i == 0, .byte_locale = true}));
    question.source = {.hosts = {{.name = "h0", .folder = "/x"}, {.name = "h1", .folder = "/x"}},
                       .jobs = {1, 1},
                       .by_host = {{{"a", {.bytes = 100}}}, {{"b", {.bytes = 100}}}},
                       .files = {{"a", {.bytes = 100}}, {"b", {.bytes = 100}}}};
    question.launch = {.words = {"sh", "-c", "cat " + folder_ + "/$0; cat > /dev/null"}, .program = "x"};
    question.scratch = folder_;
    return answer(question, {});
  }
  std::string folder_;
};

TEST_F(LyingHosts, AnEndOfOtherCommandsIsALostHost) {
  for (const size_t commands : {0, 2, 3, 200}) {
    PartEnd end;
    end.stages.resize(commands);
    say("h0", end);
    say("h1", end);
    const std::string said = message_of(ask("grep x a b | wc -l").status());
    EXPECT_THAT(said, HasSubstr(": the worker tells of " + std::to_string(commands) + " commands, and was given 1"));
    EXPECT_THAT(said, HasSubstr("nothing was put out"));
  }
}

// Other files of the same host are not asked for any more: what is left of its answer would be taken for theirs.
TEST_F(LyingHosts, AFileThatIsShorterThanListedIsNotTaken) {
  say("h0", Answer(PartEnd{}));
  Question question;
  question.source = {.hosts = {{.name = "h0", .folder = "/x"}},
                     .jobs = {1},
                     .by_host = {{{"a", {.bytes = 100}}}},
                     .files = {{"a", {.bytes = 100}}}};
  question.launch = {.words = {"sh", "-c", "cat " + folder_ + "/$0; cat > /dev/null"}, .program = "x"};
  int64_t moved = 0;
  const absl::Status fetched = fetch(question, {"a"}, folder_ + "/files", moved);
  EXPECT_THAT(message_of(fetched), HasSubstr("h0: the worker sends 0 of the 100 bytes that were asked for"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/files/a"));
  EXPECT_EQ(moved, 0);
}

TEST(StatusOf, IsThatOfAShell) {
  EXPECT_EQ(status_of({.status = 3}), 3);
  EXPECT_EQ(status_of({.signal = SIGPIPE}), 141);
}

}  // namespace answer_test
}  // namespace scalai::near
