#include "labs/near/session.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>

#include "ptc/base/status.h"

namespace scalai::near {
namespace session_test {

using ::testing::HasSubstr;

// A host that greets and then says this, whatever it is asked.
class SessionWithAHost : public ::testing::Test {
 protected:
  std::unique_ptr<Session> that_says(const std::vector<Answer>& answers) {
    std::string path = ::testing::TempDir() + "session-XXXXXX";
    const FileDescriptor file(::mkstemp(path.data()));
    EXPECT_TRUE(send(file.get(), Answer(Hello{.version = kProtocol, .threads = 1})).ok());
    for (const Answer& answer : answers) EXPECT_TRUE(send(file.get(), answer).ok());
    const Launch launch{.words = {"sh", "-c", "cat " + path + "; rm " + path + "; cat > /dev/null"}, .program = "x"};
    auto session = Session::start({.name = "h", .folder = "/x"}, launch);
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }
  std::string listed(const std::vector<ListedFile>& files, bool more = false) {
    return message_of(that_says({Listed{.files = files, .problem = "", .more = more}})->list().status());
  }
  // Of `commands`, or of bytes [2, 6) of a file without any.
  std::string ran(const std::vector<Answer>& answers, size_t commands) {
    PartWork work{.folder = "/x", .stages = {}, .ranges = {{"f", 2, 6}}, .environment = {}};
    work.stages.resize(commands, {{"true"}});
    const auto end = that_says(answers)->run(work, [](std::string_view) { return absl::OkStatus(); });
    EXPECT_TRUE(!end.ok() || !end->problem.empty() || end->stages.size() == commands);
    return message_of(end.status());
  }
};

TEST_F(SessionWithAHost, NamesOfAHostLieBelowItsFolder) {
  EXPECT_EQ(listed({{"a/b..c", 1}}), "");
  for (const std::string& name :
       {std::string("/etc/x"), std::string("../x"), std::string("a/../../x"), std::string(), std::string("a\0b", 3),
        std::string("."), std::string("./a"), std::string("a//b"), std::string("a/")})
    EXPECT_THAT(listed({{name, 1}}), HasSubstr("h: the worker lists \"")) << name;
}

TEST_F(SessionWithAHost, ListsAreInOrderAndHaveSizesThatAddUp) {
  EXPECT_EQ(listed({{"a", kMostListed - 1}, {"b", 1}}), "");
  EXPECT_THAT(listed({{"b", 1}, {"a", 1}}), HasSubstr("lists \"a\" after \"b\""));
  EXPECT_THAT(listed({{"a", 1}, {"a", 2}}), HasSubstr("lists \"a\" after \"a\""));
  EXPECT_THAT(listed({{"a", INT64_MAX}}), HasSubstr("lists \"a\" with 9223372036854775807 bytes"));
  EXPECT_THAT(listed({{"a", kMostListed}, {"b", 1}}), HasSubstr("lists \"b\" with 1 bytes"));
  EXPECT_THAT(listed({{"a", -1}}), HasSubstr("lists \"a\" with -1 bytes"));
  EXPECT_THAT(listed({}, true), HasSubstr("lists no end of files"));
  EXPECT_THAT(message_of(that_says({PartEnd{}})->list().status()), HasSubstr("answers another question"));
  EXPECT_EQ(that_says({Alive{}, Listed{.files = {{"a", 1}}}})->list()->size(), 1U);
  const auto session = that_says({Listed{.files = {{"a", 1}}, .more = true}, Listed{.files = {{"b", 2}}}});
  EXPECT_EQ(session->list()->size(), 2U);
  const Listed first{.files = {{"b", 1}}, .more = true}, second{.files = {{"a", 2}}};
  EXPECT_THAT(message_of(that_says({first, second})->list().status()), HasSubstr("lists \"a\" after \"b\""));
}

TEST_F(SessionWithAHost, AnEndTellsOfTheCommandsThatWereGiven) {
  EXPECT_EQ(ran({PartEnd{.stages = {{0}, {255}}}}, 2), "");
  EXPECT_EQ(ran({PartEnd{.problem = "no room"}}, 2), "");
  EXPECT_THAT(ran({PartEnd{}}, 2), HasSubstr("h: the worker tells of 0 commands, and was given 2"));
  EXPECT_THAT(ran({PartEnd{.stages = {{}, {}, {}}}}, 2), HasSubstr("tells of 3 commands, and was given 2"));
  for (const StageEnd& stage : {StageEnd{.status = -1}, StageEnd{.status = 256}, StageEnd{.signal = 65},
                                StageEnd{.signal = -1}, StageEnd{.signal = INT32_MAX}})
    EXPECT_THAT(ran({PartEnd{.stages = {stage}}}, 1), HasSubstr("tells of a command with status"));
}

// What is left of its answer would be taken for that to the next question.
TEST_F(SessionWithAHost, NothingMoreIsAskedAfterAWrongAnswer) {
  const PartWork work{.folder = "/x", .stages = {{{"true"}}}, .ranges = {}, .environment = {}};
  const auto ok = [](std::string_view) { return absl::OkStatus(); };
  const PartEnd good{.stages = {{}}};
  auto session = that_says({PartEnd{}, good});
  EXPECT_TRUE(absl::IsUnavailable(session->run(work, ok).status()));
  EXPECT_TRUE(absl::IsUnavailable(session->run(work, ok).status()));
  EXPECT_TRUE(absl::IsUnavailable(session->list().status()));
  session = that_says({Output{"a"}, Output{"b"}, good, good});
  EXPECT_TRUE(
      absl::IsCancelled(session->run(work, [](std::string_view) { return absl::CancelledError("no"); }).status()));
  EXPECT_THAT(message_of(session->run(work, ok).status()), HasSubstr("was left amid its answer"));
}

TEST_F(SessionWithAHost, BytesAreAsManyAsWereAskedFor) {
  EXPECT_EQ(ran({Output{"1234"}, PartEnd{.output_bytes = 4}}, 0), "");
  EXPECT_THAT(ran({Output{"123"}, PartEnd{.output_bytes = 4}}, 0), HasSubstr("sent other bytes than it says"));
  EXPECT_THAT(ran({Output{"123"}, PartEnd{.output_bytes = 3}}, 0), HasSubstr("sends 3 of the 4 bytes"));
  EXPECT_THAT(ran({Output{"12345"}}, 0), HasSubstr("sends more than the 4 bytes that were asked for"));
}

}  // namespace session_test
}  // namespace scalai::near
