#include "labs/near/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "labs/near/session.h"
#include "labs/near/worker.h"
#include "ptc/base/file_descriptor.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::near {
namespace work_test {

using ::testing::HasSubstr;

struct Ends {
  Ends() {
    ::signal(SIGPIPE, SIG_IGN);
    std::array<int, 2> both{};
    EXPECT_EQ(::pipe(both.data()), 0);
    read = FileDescriptor(both[0]);
    write = FileDescriptor(both[1]);
  }
  FileDescriptor read, write;
};

const std::string kNasty("a b'\"$(x)\n\0\xff;|*\\", 16);

TEST(Frames, KeepEveryByte) {
  Ends ends;
  const PartWork sent{.folder = kNasty,
                      .stages = {{{kNasty, "", "-n"}, 1, kNasty}},
                      .ranges = {{kNasty, 3, int64_t{1} << 40, true}},
                      .environment = {{"A", kNasty, true}, {"B", "", false}}};
  ASSERT_TRUE(send(ends.write.get(), Work(sent)).ok());
  const auto work = receive_work(ends.read.get());
  ASSERT_TRUE(work.ok()) << work.status();
  const auto& got = std::get<PartWork>(*work);
  EXPECT_EQ(got.folder, sent.folder);
  EXPECT_EQ(got.stages[0].words, sent.stages[0].words);
  EXPECT_EQ(got.stages[0].script, 1U);
  EXPECT_EQ(got.stages[0].script_text, kNasty);
  EXPECT_EQ(got.ranges[0].file, kNasty);
  EXPECT_EQ(got.ranges[0].end, int64_t{1} << 40);
  EXPECT_EQ(got.environment[0].value, kNasty);
  EXPECT_FALSE(got.environment[1].set);
  ASSERT_TRUE(send(ends.write.get(), Answer(PartEnd{{{1, 9, true, false}}, kNasty, "why", 7})).ok());
  const auto answer = receive_answer(ends.read.get(), 1);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto& end = std::get<PartEnd>(*answer);
  EXPECT_EQ(end.stages[0].signal, 9);
  EXPECT_TRUE(end.stages[0].nul);
  EXPECT_FALSE(end.stages[0].whole);
  EXPECT_EQ(end.errors, kNasty);
  EXPECT_EQ(end.output_bytes, 7);
}

TEST(Frames, WhatIsNoneIsRefused) {
  {
    Ends ends;
    ASSERT_GT(::write(ends.write.get(), "Welcome to n1!\n", 15), 0);
    const auto answer = receive_answer(ends.read.get(), 1);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(message_of(answer.status()), HasSubstr("Welcome to n1!"));
  }
  {
    Ends ends;
    ASSERT_EQ(::write(ends.write.get(), "snr1\xff\xff\xff\x7f", 8), 8);
    EXPECT_THAT(message_of(receive_answer(ends.read.get(), 1).status()), HasSubstr("a message of 2147483647 bytes"));
  }
  {
    Ends ends;
    ASSERT_EQ(::write(ends.write.get(), "snr1\0\0\0\x01", 8), 8);
    EXPECT_THAT(message_of(receive_answer(ends.read.get(), 1).status()), HasSubstr("a message of 16777216 bytes"));
  }
  {
    Ends ends;
    ASSERT_EQ(::write(ends.write.get(), "snr1\x02\0\0\0\xff\xff", 10), 10);
    EXPECT_EQ(receive_answer(ends.read.get(), 1).status().code(), absl::StatusCode::kInvalidArgument);
  }
  Ends ends;
  EXPECT_TRUE(absl::IsDeadlineExceeded(receive_answer(ends.read.get(), 0.05).status()));
  ASSERT_EQ(::write(ends.write.get(), "snr1\x05", 5), 5);
  ends.write = {};
  EXPECT_TRUE(absl::IsOutOfRange(receive_answer(ends.read.get(), 1).status()));
  ends.read = {};
}

// Whatever comes: an error or a message, and no more memory than its length.
TEST(Frames, RandomBytesDoNoHarm) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    std::string body;
    for (int64_t i = random.below(40); i > 0; --i) body += static_cast<char>(random.below(256));
    std::string frame = "snr1";
    frame += static_cast<char>(body.size());
    frame += std::string(3, '\0') + body;
    Ends ends;
    ASSERT_EQ(::write(ends.write.get(), frame.data(), frame.size()), std::ssize(frame));
    ends.write = {};
    (void)receive_work(ends.read.get());
  }
}

// The next one that says more than that the worker lives.
Answer answer_in(const Ends& from) {
  for (;;) {
    absl::StatusOr<Answer> answer = receive_answer(from.read.get(), 10);
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok()) return PartEnd{};
    if (!std::holds_alternative<Alive>(*answer)) return *std::move(answer);
  }
}

// A worker answers what it is asked, refuses files outside of the folder, and ends with its input.
TEST(Serve, AnswersUntilItsInputIsClosed) {
  Ends to, from;
  std::thread worker([&] { serve(to.read.get(), from.write.get(), "/tmp"); });
  EXPECT_EQ(std::get<Hello>(answer_in(from)).version, kProtocol);
  ASSERT_TRUE(send(to.write.get(), Work(ListWork{.folder = "/nosuch"})).ok());
  EXPECT_THAT(std::get<Listed>(answer_in(from)).problem, HasSubstr("/nosuch"));
  for (const char* file : {"/etc/passwd", "../x", "a/../../x"}) {
    ASSERT_TRUE(send(to.write.get(),
                     Work(PartWork{.folder = "/tmp", .stages = {}, .ranges = {{file, 0, 1}}, .environment = {}}))
                    .ok());
    EXPECT_THAT(std::get<PartEnd>(answer_in(from)).problem, HasSubstr("outside of the folder"));
  }
  ASSERT_TRUE(
      send(to.write.get(), Work(PartWork{.folder = "/", .stages = {{{}}}, .ranges = {}, .environment = {}})).ok());
  EXPECT_THAT(std::get<PartEnd>(answer_in(from)).problem, HasSubstr("has no words"));
  const std::string before = std::getenv("LC_ALL") == nullptr ? "" : std::getenv("LC_ALL");
  ASSERT_TRUE(
      send(to.write.get(),
           Work(PartWork{
               .folder = "/", .stages = {{{"true"}}}, .ranges = {}, .environment = {{"LC_ALL", "xx_XX.nosuch"}}}))
          .ok());
  EXPECT_THAT(std::get<PartEnd>(answer_in(from)).problem, HasSubstr("has not the locale xx_XX.nosuch"));
  // A worker of the caller's machine has the caller's environment, right as it is.
  ::setenv("LC_ALL", "xx_XX.nosuch", 1);
  ASSERT_TRUE(
      send(to.write.get(), Work(PartWork{.folder = "/", .stages = {{{"true"}}}, .ranges = {}, .environment = {}}))
          .ok());
  EXPECT_EQ(std::get<PartEnd>(answer_in(from)).problem, "");
  to.write = {};
  worker.join();
  before.empty() ? ::unsetenv("LC_ALL") : ::setenv("LC_ALL", before.c_str(), 1);
}

TEST(Serve, ListsManyFilesInSeveralMessages) {
  std::string folder = ::testing::TempDir() + "list-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  for (int i = 0; i < 2500; ++i) std::ofstream(folder + "/" + std::to_string(i));
  Ends to, from;
  std::thread worker([&] { serve(to.read.get(), from.write.get(), "/tmp"); });
  {
    auto session = Session::over({.name = "h", .folder = folder}, 10, std::move(to.write), std::move(from.read));
    ASSERT_TRUE(session.ok()) << session.status();
    const auto files = (*session)->list();
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_EQ(files->size(), 2500U);
  }
  worker.join();
  std::filesystem::remove_all(folder);
}

// Once for each: two parts read the same mount.
TEST(Serve, OpensRunsForWhoeverAsks) {
  Ends to, from;
  std::vector<std::string> opened;
  std::thread worker([&] {
    serve(to.read.get(), from.write.get(), "/tmp",
          [&](const std::string& run, const RunView& view) -> absl::StatusOr<std::string> {
            opened.push_back(run + " " + view.job + " " + view.view + " " + std::to_string(view.step));
            if (view.step == 0) return absl::NotFoundError("it is gone");
            return "/nosuch/" + view.view;
          });
  });
  (void)answer_in(from);
  const RunView hf{.job = "a", .view = "hf", .step = 7}, tp{.job = "a", .view = "tp2", .step = 7},
      gone{.job = "a", .view = "hf"};
  const auto listed = [&](const RunView& view) {
    EXPECT_TRUE(send(to.write.get(), Work(ListWork{.folder = "/out", .run = view})).ok());
    return std::get<Listed>(answer_in(from)).problem;
  };
  EXPECT_THAT(listed(hf), HasSubstr("/nosuch/hf"));
  EXPECT_THAT(listed(tp), HasSubstr("/nosuch/tp2"));
  EXPECT_THAT(listed(hf), HasSubstr("/nosuch/hf"));
  EXPECT_EQ(listed(gone), "it is gone");
  const auto part = [&](const RunView& view) {
    PartWork work{.folder = "/out", .stages = {}, .ranges = {{"file", 0, 1}}, .environment = {}, .run = view};
    EXPECT_TRUE(send(to.write.get(), Work(std::move(work))).ok());
    return std::get<PartEnd>(answer_in(from)).problem;
  };
  EXPECT_THAT(part(tp), HasSubstr("/nosuch/tp2"));
  EXPECT_EQ(part(gone), "it is gone");
  to.write = {};
  worker.join();
  EXPECT_EQ(opened, (std::vector<std::string>{"/out a hf 7", "/out a tp2 7", "/out a hf 0", "/out a hf 0"}));
}

// A job's first step takes longer than the asker's patience.
TEST(Serve, SaysThatItLivesWhileARunIsOpened) {
  Ends to, from;
  std::promise<void> heeded;
  std::thread worker([&] {
    serve(to.read.get(), from.write.get(), "/tmp",
          [&](const std::string&, const RunView&) -> absl::StatusOr<std::string> {
            heeded.get_future().wait();
            return absl::NotFoundError("it is gone");
          });
  });
  (void)answer_in(from);
  EXPECT_TRUE(send(to.write.get(), Work(ListWork{.folder = "/out", .run = RunView{.job = "a", .view = "hf"}})).ok());
  const auto first = receive_answer(from.read.get(), 30);
  EXPECT_TRUE(first.ok() && std::holds_alternative<Alive>(*first)) << first.status();
  heeded.set_value();
  EXPECT_EQ(std::get<Listed>(answer_in(from)).problem, "it is gone");
  to.write = {};
  worker.join();
}

}  // namespace work_test
}  // namespace scalai::near
