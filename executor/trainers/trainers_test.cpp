#include "executor/trainers/trainers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <fcntl.h>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::executor {
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
  const auto [path, offset] = trainers.place_of_word(kSecond);
  const int fd = ::open(path.c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  const uint64_t torn = 2 * 7 + 1;
  ASSERT_EQ(::pwrite(fd, &torn, sizeof torn, static_cast<off_t>(offset)), static_cast<ssize_t>(sizeof torn));
  ::close(fd);
  EXPECT_EQ(trainers.word(kSecond).step, 7);
  EXPECT_TRUE(trainers.word(kSecond).torn);
}

TEST_F(TrainersTest, WhoeverConnectsWithoutATrainersNameIsSentAway) {
  Trainers& trainers = of("sh -c 'printf %s \"$SCALAI_WORKER\" > name; while [ ! -e go ]; do sleep 0.05; done'");
  ASSERT_TRUE(trainers.start({kFirst}).ok());
  std::string name;
  for (int tries = 0; tries < 500 && name.empty(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    name = read_file(folder_ + "/name").value_or("");
  }
  ASSERT_FALSE(name.empty());
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const int guest = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(guest, reinterpret_cast<const sockaddr*>(&address),
                      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
            0);
  const std::string claim = "{\"device\": 99}\n";
  ASSERT_EQ(::send(guest, claim.data(), claim.size(), 0), static_cast<ssize_t>(claim.size()));
  std::thread killer([&] {  // so that tell() comes to an end
    char byte = 0;
    EXPECT_EQ(::recv(guest, &byte, 1, 0), 0) << "the connection stays open";
    EXPECT_TRUE(write_file(folder_ + "/go", "").ok());
  });
  std::thread telling([&] {
    const auto answers = trainers.tell({{kFirst, R"({"do": "meet"})"}});
    EXPECT_FALSE(answers.front().ended.empty());
  });
  killer.join();
  telling.join();
  ::close(guest);
}

}  // namespace
}  // namespace scalai::executor
