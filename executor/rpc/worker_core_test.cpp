#include "executor/rpc/internal/worker_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::executor::rpc::internal {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr Clock::time_point kNever = Clock::time_point::max();

class WorkerCoreTest : public ::testing::Test {
 protected:
  Reply run(int64_t id, int64_t epoch = 1, Clock::time_point expires = kNever) {
    return core_.handle({.what = "echo", .id = id, .controller_epoch = epoch}, expires, [&](const Command&) {
      ++runs_;
      return Reply{.body = std::string(body_bytes_, 'x')};
    });
  }

  WorkerCore core_;
  int runs_ = 0;
  size_t body_bytes_ = 0;
};

TEST_F(WorkerCoreTest, ServesTheNewestEpochOnly) {
  EXPECT_TRUE(core_.adopt(2));
  EXPECT_TRUE(core_.adopt(2));
  EXPECT_FALSE(core_.adopt(1));
  const Reply refused = run(1, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status));
  EXPECT_THAT(message_of(refused.status), HasSubstr("from controller epoch 1, this worker serves epoch 2"));
  EXPECT_EQ(runs_, 0);
}

TEST_F(WorkerCoreTest, AnExpiredCommandMayBeRepeated) {
  core_.adopt(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(run(1, 1, Clock::now()).status));
  EXPECT_EQ(runs_, 0);
  EXPECT_TRUE(run(1).status.ok());
  EXPECT_EQ(runs_, 1);
}

TEST_F(WorkerCoreTest, ForgetsTheOldestRepliesButNeverRunsThemAgain) {
  core_.adopt(1);
  const auto kept = static_cast<int64_t>(WorkerCore::kReplies);
  for (int64_t id = 1; id <= kept + 1; ++id) run(id);
  EXPECT_EQ(runs_, kept + 1);
  EXPECT_TRUE(run(2).status.ok());
  EXPECT_THAT(message_of(run(1).status), HasSubstr("too old to repeat"));
  EXPECT_EQ(runs_, kept + 1);
}

TEST_F(WorkerCoreTest, KeepsALimitedNumberOfBytes) {
  core_.adopt(1);
  body_bytes_ = static_cast<size_t>(WorkerCore::kReplyBytes) + 1;
  run(1);
  EXPECT_TRUE(run(1).status.ok()) << "the last one stays";
  EXPECT_EQ(runs_, 1);
  body_bytes_ = 0;
  run(2);
  EXPECT_TRUE(absl::IsFailedPrecondition(run(1).status));
  EXPECT_TRUE(run(2).status.ok());
  EXPECT_EQ(runs_, 2);
}

TEST_F(WorkerCoreTest, ANewEpochWhileACommandRunsDoesNotInheritItsReply) {
  core_.adopt(1);
  core_.handle({.id = 1, .controller_epoch = 1}, kNever, [&](const Command&) {
    core_.adopt(2);
    return Reply{};
  });
  run(1, 2);
  EXPECT_EQ(runs_, 1);
}

}  // namespace
}  // namespace scalai::executor::rpc::internal
