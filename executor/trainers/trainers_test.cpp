#include "executor/trainers/trainers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::executor::trainers {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const DeviceId kFirst(4), kSecond(5);

class TrainersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "scalai-trainers-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override {
    trainers_.reset();
    std::filesystem::remove_all(folder_);
  }
  Trainers& of(const std::string& command, double patience_s = 20) {
    auto made =
        Trainers::create({.command = command, .folder = folder_, .logs = folder_ + "/logs", .patience_s = patience_s});
    SCALAI_CHECK(made.ok(), message_of(made.status()));
    trainers_ = *std::move(made);
    return *trainers_;
  }
  Trainers& standing_in(const std::string& variables = "") { return of(variables + " " + TRAINER_PROGRAM); }

  std::string folder_;
  std::unique_ptr<Trainers> trainers_;
};

TEST_F(TrainersTest, EachAnswersItsOrder) {
  Trainers& trainers = standing_in();
  ASSERT_TRUE(trainers.start({kFirst, kSecond}).ok());
  ASSERT_TRUE(trainers.start({kFirst}).ok()) << "it runs already";
  const auto answers = trainers.tell({{kFirst, R"({"do": "meet"})"}, {kSecond, R"({"do": "train", "until": 3})"}});
  ASSERT_EQ(answers.size(), 2u);
  for (const Trainers::Answer& answer : answers) {
    EXPECT_EQ(answer.ended, "");
    EXPECT_THAT(answer.said, HasSubstr(answer.device == kFirst ? R"("done":"meet")" : R"("done":"train")"));
  }
  EXPECT_TRUE(trainers.running(kFirst));
  EXPECT_TRUE(trainers.dismiss({kFirst, kSecond}).ok());
  EXPECT_FALSE(trainers.running(kFirst));
}

TEST_F(TrainersTest, HowOneEndedIsTold) {
  Trainers& trainers = of("sh -c 'exit 7'");
  ASSERT_TRUE(trainers.start({kFirst}).ok());
  const auto answers = trainers.tell({{kFirst, R"({"do": "meet"})"}});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_THAT(answers.front().ended, StartsWith("exit code 7, see " + folder_ + "/logs/g4.log"));
}

TEST_F(TrainersTest, ADeathWhileOthersAnswer) {
  Trainers& trainers = standing_in("SCALAI_TEST_DEATHS=g5:start:0");
  ASSERT_TRUE(trainers.start({kFirst, kSecond}).ok());
  const auto answers = trainers.tell({{kFirst, R"({"do": "meet"})"}, {kSecond, R"({"do": "meet"})"}});
  ASSERT_EQ(answers.size(), 2u);
  for (const Trainers::Answer& answer : answers) {
    if (answer.device == kSecond) {
      EXPECT_THAT(answer.ended, HasSubstr("killed by signal 9"));
    } else {
      EXPECT_EQ(answer.ended, "");
    }
  }
  EXPECT_FALSE(trainers.running(kSecond));
  ASSERT_TRUE(trainers.start({kSecond}).ok());
  EXPECT_EQ(trainers.tell({{kSecond, R"({"do": "meet"})"}}).front().ended, "");
}

TEST_F(TrainersTest, TheyDoNotGetTheSecretOfTheRun) {
  ASSERT_EQ(::setenv("SCALAI_TOKEN", "of-this-run-and-no-other", 1), 0);
  Trainers& trainers = of("sh -c 'exit ${SCALAI_TOKEN:+3}'");
  ASSERT_TRUE(trainers.start({kFirst}).ok());
  const auto answers = trainers.tell({{kFirst, R"({"do": "meet"})"}});
  ASSERT_EQ(::unsetenv("SCALAI_TOKEN"), 0);
  EXPECT_THAT(answers.front().ended, StartsWith("exit code 0"));
}

// Its neighbour waits for what never comes, and knows nothing of it.
TEST_F(TrainersTest, OneWhoWaitsForADeadOneIsKilled) {
  Trainers& trainers = of("sh -c 'test $SCALAI_DEVICE = 5 && exit 3; exec " TRAINER_PROGRAM "'", 0.5);
  ASSERT_TRUE(trainers.start({kFirst, kSecond}).ok());
  EXPECT_EQ(trainers.tell({{kFirst, R"({"do": "meet"})"}}).front().ended, "");
  const auto answers = trainers.tell({{kFirst, R"({"do": "nothing"})"}, {kSecond, R"({"do": "meet"})"}});
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_THAT(answers[0].ended, StartsWith("exit code 3"));
  EXPECT_THAT(answers[1].ended, StartsWith("killed by signal 9"));
}

// Imports take long; nothing has failed while they go on.
TEST_F(TrainersTest, AllAttachHoweverLongItTakes) {
  Trainers& trainers = of("sh -c 'test $SCALAI_DEVICE = 5 && sleep 1; exec " TRAINER_PROGRAM "'", 0.1);
  ASSERT_TRUE(trainers.start({kFirst, kSecond}).ok());
  const auto answers = trainers.tell({{kFirst, ""}, {kSecond, ""}});
  ASSERT_EQ(answers.size(), 2u);
  for (const Trainers::Answer& answer : answers) {
    EXPECT_EQ(answer.ended, "");
    EXPECT_EQ(answer.said, "");
    EXPECT_TRUE(trainers.running(answer.device));
  }
}

TEST_F(TrainersTest, OneWhoDoesNotLeaveInOrderIsNamed) {
  Trainers& trainers = standing_in("SCALAI_TEST_LEAVES=3");
  ASSERT_TRUE(trainers.start({kFirst}).ok());
  (void)trainers.tell({{kFirst, R"({"do": "meet"})"}});
  const absl::Status left = trainers.dismiss({kFirst});
  EXPECT_THAT(message_of(left), HasSubstr("the trainer of g4 did not leave in order: exit code 3"));
}

TEST_F(TrainersTest, TheyEndWithTheWorker) {
  Trainers& trainers = standing_in();
  ASSERT_TRUE(trainers.start({kFirst}).ok());
  (void)trainers.tell({{kFirst, R"({"do": "meet"})"}});
  trainers.kill({kFirst});
  EXPECT_FALSE(trainers.running(kFirst));
  EXPECT_TRUE(trainers.devices().empty());
}

TEST_F(TrainersTest, WordsOutliveThem) {
  Trainers& trainers = standing_in();
  trainers.set_word(kSecond, 7);
  EXPECT_EQ(trainers.word(kSecond).step, 7);
  EXPECT_FALSE(trainers.word(kSecond).torn);
  EXPECT_EQ(trainers.word(kFirst).step, 0) << "nobody said anything of it";
  const auto [fd, offset] = trainers.place_of_word(kSecond);
  const uint64_t torn = 2 * 7 + 1;
  ASSERT_EQ(::pwrite(fd, &torn, sizeof torn, static_cast<off_t>(offset)), static_cast<ssize_t>(sizeof torn));
  EXPECT_EQ(trainers.word(kSecond).step, 7);
  EXPECT_TRUE(trainers.word(kSecond).torn);
}

// Whoever binds a name that a dead worker leaves is the worker to its trainers.
TEST_F(TrainersTest, TheirConnectionHasNoName) {
  Trainers& trainers = standing_in();
  ASSERT_TRUE(trainers.start({kFirst}).ok());
  ASSERT_EQ(trainers.tell({{kFirst, R"({"do": "meet"})"}}).front().ended, "");
  std::set<std::string> ours;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry, gone).string();
    if (target.starts_with("socket:[")) ours.insert(target.substr(8, target.size() - 9));
  }
  std::istringstream table(read_file("/proc/net/unix").value_or(""));
  int found = 0;
  for (std::string line; std::getline(table, line);) {
    std::istringstream row(line);
    std::string word, inode, name;
    for (int column = 0; column < 7 && row >> word; ++column) inode = word;
    row >> name;
    if (!ours.contains(inode)) continue;
    ++found;
    EXPECT_EQ(name, "") << line;
  }
  EXPECT_GE(found, 1) << "/proc/net/unix does not show the connection";
}

TEST_F(TrainersTest, TheyAndTheirChildrenDieWithTheOneWhoStartedThem) {
  const pid_t owner = ::fork();
  if (owner == 0) {
    // The shell hears nothing of its connection: only the group ends it.
    auto trainers = Trainers::create({.command = "sh -c 'echo $$ > shell; sleep 1000 & echo $! > below; wait'",
                                      .folder = folder_,
                                      .logs = folder_ + "/logs"});
    if (!trainers.ok() || !(*trainers)->start({kFirst}).ok()) ::_exit(1);
    for (;;) ::pause();
  }
  const auto pid_in = [&](const std::string& name) {
    std::string text;
    for (int tries = 0; tries < 1000 && text.find('\n') == std::string::npos; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      text = read_file(folder_ + "/" + name).value_or("");
    }
    return static_cast<pid_t>(std::atoi(text.c_str()));
  };
  const pid_t shell = pid_in("shell"), below = pid_in("below");
  ASSERT_GT(shell, 0);
  ASSERT_GT(below, 0);
  ::kill(owner, SIGKILL);
  ASSERT_EQ(::waitpid(owner, nullptr, 0), owner);
  for (const pid_t pid : {shell, below}) {
    const auto is_there = [&] {
      const std::string state = read_file("/proc/" + std::to_string(pid) + "/stat").value_or("");
      return !state.empty() && state.find(") Z") == std::string::npos;  // nobody may reap it here
    };
    for (int tries = 0; tries < 1000 && is_there(); ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_FALSE(is_there());
    if (is_there()) ::kill(pid, SIGKILL);
  }
}

TEST_F(TrainersTest, NotesOutliveTheirSender) {
  Trainers& trainers = of(R"(sh -c 'printf "{\"device\": 4}\n{\"read\": [1]}\n{\"read\": [2]}\n" >&3; exit 3')");
  ASSERT_TRUE(trainers.start({kFirst}).ok());
  EXPECT_THAT(trainers.tell({{kFirst, R"({"do": "meet"})"}}).front().ended, StartsWith("exit code 3"));
  EXPECT_EQ(trainers.take_notes(kFirst), (std::vector<std::string>{R"({"read": [1]})", R"({"read": [2]})"}));
  EXPECT_TRUE(trainers.take_notes(kFirst).empty());
}

TEST_F(TrainersTest, OneWhoClosesItsConnectionIsKilled) {
  Trainers& trainers = of("sh -c 'exec 3>&-; sleep 1000'");
  ASSERT_TRUE(trainers.start({kFirst}).ok());
  EXPECT_THAT(trainers.tell({{kFirst, R"({"do": "meet"})"}}).front().ended,
              StartsWith("killed: it closed its connection"));
}

TEST_F(TrainersTest, OneWhoSpeaksOutOfTurnIsKilled) {
  for (const char* said : {R"({\"done\": \"train\"})", "no message", "[1]"}) {
    Trainers& trainers = of(std::string("sh -c 'printf \"%s\\n\" \"") + said + "\" >&3; sleep 1000'");
    ASSERT_TRUE(trainers.start({kFirst}).ok());
    EXPECT_THAT(trainers.tell({{kFirst, R"({"do": "meet"})"}}).front().ended, StartsWith("killed: it s")) << said;
    EXPECT_FALSE(trainers.running(kFirst));
  }
}

}  // namespace
}  // namespace scalai::executor::trainers
