#include "executor/rpc/internal/guard.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include "executor/rpc/internal/asker.h"
#include "executor/rpc/internal/wire.h"
#include "executor/rpc/testing/test_rig.h"
#include "ptc/proto/control.grpc.pb.h"

namespace scalai::executor::rpc::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What an asker of an older build sends: the token itself.
TEST(GuardTest, AnOlderBuildIsTold) {
  if (!kCanUseGrpc) GTEST_SKIP() << "gRPC is not instrumented for ThreadSanitizer";
  GrpcRig rig;
  const auto controller = rig.start({}).value();
  const auto stub = proto::Workers::NewStub(internal::open_channel(controller->address(), "").value());
  grpc::ClientContext context;
  context.AddMetadata("x-scalai-token", kToken);
  const auto stream = stub->Session(&context);
  const grpc::Status end = stream->Finish();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(end.error_message(), AllOf(HasSubstr(kVersion), HasSubstr("older build")));
}

TEST(GuardTest, AProofCountsOnceAndForOneRole) {
  if (!kCanUseGrpc) GTEST_SKIP() << "gRPC is not instrumented for ThreadSanitizer";
  GrpcRig rig;
  const auto controller = rig.start({}).value();
  const auto channel = internal::open_channel(controller->address(), "").value();
  const auto stub = proto::Workers::NewStub(channel);
  const auto begin = [&](std::string_view role) {
    return internal::Asker::begin(channel, kToken, role, internal::Clock::now() + internal::seconds(kPatience_s))
        .value();
  };
  const auto call = [&](const internal::Asker& asker) {
    grpc::ClientContext context;
    asker.sign(context);
    const auto stream = stub->Session(&context);
    stream->WaitForInitialMetadata();
    const bool proven = asker.check(context).ok();
    if (proven) context.TryCancel();
    const grpc::Status end = stream->Finish();
    return proven ? grpc::StatusCode::OK : end.error_code();
  };
  const internal::Asker worker = begin(internal::kWorkerRole);
  EXPECT_EQ(call(worker), grpc::StatusCode::OK);
  EXPECT_EQ(call(worker), grpc::StatusCode::UNAVAILABLE) << "said again by somebody who listened";
  EXPECT_EQ(call(begin(internal::kCtlRole)), grpc::StatusCode::UNAUTHENTICATED);
}

}  // namespace
}  // namespace scalai::executor::rpc::testing
