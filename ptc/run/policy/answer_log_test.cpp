#include "ptc/run/policy/answer_log.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::policy {
namespace answer_log_test {

using ::testing::HasSubstr;

class AnswerLogs : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "scalai-answers-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/snapshot"; }

  // Questions "q0", "q1", … answered by "a0", … of `size` bytes more; how many were computed.
  int play(AnswerLog& log, int questions) {
    int computed = 0;
    for (int k = 0; k < questions; ++k) {
      const auto answer = log.answer(fmt::format("q{}", k), [&]() -> absl::StatusOr<std::string> {
        ++computed;
        return fmt::format("a{}{}", k, std::string(static_cast<size_t>(k), '\0'));
      });
      EXPECT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(answer.value_or(""), fmt::format("a{}{}", k, std::string(static_cast<size_t>(k), '\0')));
    }
    return computed;
  }
  std::string resumed(const std::string& about = "x") { return message_of(AnswerLog::resume(path(), about).status()); }

  std::string folder_;
};

TEST_F(AnswerLogs, AnswersOnce) {
  {
    const auto log = AnswerLog::create(path(), "x");
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_EQ(play(**log, 5), 5);
  }
  for (const int more : {3, 5, 8, 9}) {
    const auto log = AnswerLog::resume(path(), "x");
    ASSERT_TRUE(log.ok()) << log.status();
    const int before = more < 8 ? 5 : more == 8 ? 5 : 8;
    EXPECT_EQ(play(**log, more), std::max(0, more - before)) << more;
    EXPECT_EQ((*log)->recalled(), std::min(more, before));
  }
}

TEST_F(AnswerLogs, ErrorsAreNotKept) {
  const auto log = AnswerLog::create(path(), "x");
  ASSERT_TRUE(log.ok());
  EXPECT_FALSE((*log)->answer("q0", []() -> absl::StatusOr<std::string> { return failed("no"); }).ok());
  EXPECT_EQ(play(**log, 2), 2);
}

// Cut at any byte: the answers that are whole are recalled, the others are computed, and the file is whole again.
TEST_F(AnswerLogs, CutAnywhere) {
  { EXPECT_EQ(play(**AnswerLog::create(path(), "x"), 6), 6); }
  const std::string all = read_file(path()).value();
  const size_t head = all.find('\n') + 1;
  size_t end = head;
  int whole = 0;
  for (size_t bytes = head; bytes <= all.size(); ++bytes) {
    ASSERT_TRUE(write_file(path(), all.substr(0, bytes)).ok());
    const size_t record = 4 + 32 + 2 + static_cast<size_t>(whole) + 4;
    if (bytes == end + record) {
      end = bytes;
      ++whole;
    }
    {
      const auto log = AnswerLog::resume(path(), "x");
      ASSERT_TRUE(log.ok()) << bytes << ": " << log.status();
      EXPECT_EQ(play(**log, 6), 6 - whole) << bytes;
    }
    EXPECT_EQ(read_file(path()).value(), all) << bytes;
  }
  EXPECT_EQ(whole, 6);
}

TEST_F(AnswerLogs, DamageInTheMiddleIsFound) {
  { EXPECT_EQ(play(**AnswerLog::create(path(), "x"), 6), 6); }
  const std::string all = read_file(path()).value();
  const size_t head = all.find('\n') + 1, last = all.size() - (4 + 32 + 2 + 5 + 4);
  for (size_t byte = head; byte < last; ++byte) {
    std::string other = all;
    other[byte] = static_cast<char>(other[byte] ^ 0x41);
    ASSERT_TRUE(write_file(path(), other).ok());
    const auto log = AnswerLog::resume(path(), "x");
    if (log.ok()) {  // a length that reaches beyond the end looks like a cut: then less is recalled
      EXPECT_GE(play(**log, 6), 1) << byte;
    } else {
      EXPECT_THAT(message_of(log.status()), HasSubstr("the snapshot is damaged at byte")) << byte;
    }
  }
}

TEST_F(AnswerLogs, OthersAreRefused) {
  EXPECT_THAT(resumed(), HasSubstr("cannot go on with it: No such file"));
  ASSERT_TRUE(write_file(path(), "name: \"x\"\n").ok());
  EXPECT_THAT(resumed(), HasSubstr("it is no snapshot"));
  EXPECT_THAT(message_of(AnswerLog::create(path(), "x").status()), HasSubstr("it is there already"));
  EXPECT_EQ(read_file(path()).value(), "name: \"x\"\n");
  ASSERT_TRUE(write_file(path(), "scalai-snap").ok());
  EXPECT_THAT(resumed(), HasSubstr("it is no snapshot"));
  std::filesystem::remove(path());
  const auto log = AnswerLog::create(path(), "0.1 abc");
  ASSERT_TRUE(log.ok());
  EXPECT_THAT(resumed("0.1 abc"), HasSubstr("another run is writing this snapshot"));
  std::filesystem::copy(path(), folder_ + "/copy");
  EXPECT_THAT(
      message_of(AnswerLog::resume(folder_ + "/copy", "0.1 abd").status()),
      HasSubstr("the snapshot is of another scenario, other settings, other traces or another version of Scalai "
                "(0.1 abc; this is 0.1 abd)"));
  EXPECT_THAT(message_of(AnswerLog::resume(folder_, "x").status()), HasSubstr("cannot go on with it: Is a directory"));
}

TEST_F(AnswerLogs, OtherQuestionsAreFound) {
  { EXPECT_EQ(play(**AnswerLog::create(path(), "x"), 3), 3); }
  const auto log = AnswerLog::resume(path(), "x");
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(play(**log, 1), 0);
  const auto other = (*log)->answer("what?", [] { return absl::StatusOr<std::string>("never asked"); });
  EXPECT_THAT(message_of(other.status()), HasSubstr("answer 1 of the snapshot is to another question"));
}

}  // namespace answer_log_test
}  // namespace scalai::policy
