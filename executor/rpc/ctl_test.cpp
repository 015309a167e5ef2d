#include "executor/rpc/ctl.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <thread>

#include "executor/rpc/control_server.h"
#include "executor/rpc/internal/handshake.h"
#include "executor/rpc/testing/test_rig.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.grpc.pb.h"

namespace scalai::executor::rpc::testing {
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
  start([](const proto::CtlRequest& request) -> absl::StatusOr<std::string> {
    if (request.has_resize() && request.resize().gpus() == 0) return invalid("no GPUs");
    return request.SerializeAsString();
  });
  const CtlTarget target{.address = server_->address(), .token = kToken, .timeout_s = kPatience_s};
  proto::CtlRequest request;
  for (const int32_t host : {-1, 2}) {
    request.mutable_drain()->set_host(host);
    EXPECT_EQ(ask_controller(target, request).value(), request.SerializeAsString());
  }
  request.mutable_resize();
  const absl::Status refused = ask_controller(target, request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_EQ(message_of(refused), fmt::format("controller at {}: no GPUs", target.address));
}

TEST_F(CtlTest, ALineTakesManyRequestsAfterOneProof) {
  start([](const proto::CtlRequest& request) -> absl::StatusOr<std::string> {
    if (!request.live().has_touch()) return invalid("no touch");
    return request.SerializeAsString();
  });
  CtlTarget target{.address = server_->address(), .token = kToken, .timeout_s = kPatience_s};
  auto line = CtlLine::open(target);
  ASSERT_TRUE(line.ok()) << line.status();
  proto::CtlRequest request;
  request.mutable_live()->set_reader(7);
  request.mutable_live()->mutable_touch()->add_unreached(~uint64_t{0});
  for (int64_t block = 0; block < 100; ++block) {
    request.mutable_live()->mutable_touch()->add_blocks(block);
    EXPECT_EQ((*line)->ask(request).value(), request.SerializeAsString());
  }
  request.mutable_live()->clear_touch();
  EXPECT_TRUE(absl::IsInvalidArgument((*line)->ask(request).status()));
  EXPECT_TRUE(absl::IsUnavailable((*line)->ask(request).status())) << "an error is the last answer";
  target.token = "another-token-0123456789";
  EXPECT_TRUE(absl::IsUnauthenticated(CtlLine::open(target).status()));
  target.token = kToken;
  const auto left = CtlLine::open(target).value();
  target.timeout_s = 2;
  const auto brief = CtlLine::open(target).value();
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  request.mutable_live()->mutable_touch()->set_version(5);
  EXPECT_TRUE(absl::IsDeadlineExceeded(brief->ask(request).status()));
  server_.reset();
  EXPECT_FALSE(left->ask(request).ok()) << "the controller is gone";
}

// It has a door, and its ctl takes other requests.
TEST_F(CtlTest, AControllerOfAnotherBuildIsNamed) {
  class Door final : public proto::Door::Service {
    grpc::Status Challenge(grpc::ServerContext* context,
                           grpc::ServerReaderWriter<proto::Nothing, proto::Nothing>* stream) override {
      context->AddInitialMetadata(internal::kChallengeKey, "a challenge");
      stream->SendInitialMetadata();
      return grpc::Status::OK;
    }
  } door;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port).RegisterService(&door);
  const auto server = builder.BuildAndStart();
  const CtlTarget target{.address = fmt::format("127.0.0.1:{}", port), .token = kToken, .timeout_s = kPatience_s};
  const absl::Status status = ask_controller(target, {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("no Scalai controller of this build"));
}

TEST_F(CtlTest, CtlWithoutAHandlerIsTold) {
  start({});
  const absl::Status status =
      ask_controller({.address = server_->address(), .token = kToken, .timeout_s = kPatience_s}, {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("takes no requests"));
}

}  // namespace ctl_test
}  // namespace scalai::executor::rpc::testing
