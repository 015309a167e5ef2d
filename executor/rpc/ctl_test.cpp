#include "executor/rpc/ctl.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "executor/rpc/control_server.h"
#include "executor/rpc/testing/test_rig.h"
#include "ptc/base/status.h"

namespace scalai::executor::testing {
namespace ctl_test {

using ::testing::HasSubstr;

class CtlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kCanUseGrpc) GTEST_SKIP() << "gRPC is not instrumented for ThreadSanitizer";
  }
  void start(CtlHandler handler) {
    auto server = ControlServer::start(
        {.bind_address = "127.0.0.1:0", .token = kToken, .on_ctl = std::move(handler), .log = [](const std::string&) {
         }});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::unique_ptr<ControllerEnd> server_;
};

TEST_F(CtlTest, CtlRequestsReachTheHandler) {
  start([](const CtlRequest& request) -> absl::StatusOr<std::string> {
    if (request.kind == CtlRequest::Kind::kResize && request.gpus == 0) return invalid("no GPUs");
    return fmt::format("{} {} {} {}", static_cast<int>(request.kind), request.job, request.gpus, request.host);
  });
  const CtlTarget target{.address = server_->address(), .token = kToken, .timeout_s = kPatience_s};
  EXPECT_EQ(ask_controller(target, {}).value(), "0  0 -1");
  EXPECT_EQ(ask_controller(target, {.kind = CtlRequest::Kind::kResize, .job = "a", .gpus = 8}).value(), "1 a 8 -1");
  EXPECT_EQ(ask_controller(target, {.kind = CtlRequest::Kind::kDrain, .host = 2}).value(), "2  0 2");
  const absl::Status refused = ask_controller(target, {.kind = CtlRequest::Kind::kResize}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(message_of(refused), HasSubstr("no GPUs"));
}

TEST_F(CtlTest, ALineTakesManyRequestsAfterOneProof) {
  start([](const CtlRequest& request) -> absl::StatusOr<std::string> {
    if (!request.touch) return invalid("no touch");
    return fmt::format("{} {} {} {} {} {}", request.reader, request.touch->version, request.touch->blocks.at(0),
                       request.touch->bytes.at(0), request.touch->dropped.size(), request.touch->unreached.at(0));
  });
  CtlTarget target{.address = server_->address(), .token = kToken, .timeout_s = kPatience_s};
  auto line = CtlLine::open(target);
  ASSERT_TRUE(line.ok()) << line.status();
  CtlRequest request{.kind = CtlRequest::Kind::kLive, .reader = 7};
  for (int64_t block = 0; block < 100; ++block) {
    request.touch = {.version = 5, .blocks = {block}, .bytes = {3, 4}, .dropped = {1, 2}, .unreached = {~uint64_t{0}}};
    EXPECT_EQ((*line)->ask(request).value(), fmt::format("7 5 {} 3 2 {}", block, ~uint64_t{0}));
  }
  request.touch.reset();
  EXPECT_TRUE(absl::IsInvalidArgument((*line)->ask(request).status()));
  EXPECT_TRUE(absl::IsUnavailable((*line)->ask(request).status())) << "an error is the last answer";
  target.token = "another-token-0123456789";
  EXPECT_TRUE(absl::IsUnauthenticated(CtlLine::open(target).status()));
  target.token = kToken;
  const auto left = CtlLine::open(target).value();
  target.timeout_s = 2;
  const auto brief = CtlLine::open(target).value();
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  request.touch = {.version = 5, .unreached = {1}};
  EXPECT_TRUE(absl::IsDeadlineExceeded(brief->ask(request).status()));
  server_.reset();
  EXPECT_FALSE(left->ask(request).ok()) << "the controller is gone";
}

TEST_F(CtlTest, CtlWithoutAHandlerIsTold) {
  start({});
  const absl::Status status =
      ask_controller({.address = server_->address(), .token = kToken, .timeout_s = kPatience_s}, {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("takes no requests"));
}

}  // namespace ctl_test
}  // namespace scalai::executor::testing
