// Somebody else on the controller's port: it learns nothing of the token, and nobody obeys it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <array>
#include <atomic>
#include <mutex>

#include "executor/rpc/ctl.h"
#include "executor/rpc/internal/asker.h"
#include "executor/rpc/internal/wire.h"
#include "executor/rpc/testing/test_rig.h"
#include "executor/secret/secret.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.grpc.pb.h"

namespace scalai::executor::rpc::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

enum class Ruse { kRefuses, kTurnsAway, kDismisses, kCommands };

// Takes whoever comes and writes down all that is said to it.
class Impostor final : public proto::Workers::Service, public proto::Door::Service {
 public:
  Impostor(const std::string& address, Ruse ruse) : ruse_(ruse) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.RegisterService(static_cast<proto::Workers::Service*>(this));
    builder.RegisterService(static_cast<proto::Door::Service*>(this));
    builder.RegisterService(&ctl_);
    server_ = builder.BuildAndStart();
  }
  ~Impostor() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }
  bool listens() const { return server_ != nullptr; }
  int visits() const { return visits_; }
  std::vector<std::string> received() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return received_;
  }

  grpc::Status Challenge(grpc::ServerContext* context,
                         grpc::ServerReaderWriter<proto::Nothing, proto::Nothing>* stream) override {
    listen_to(*context);
    context->AddInitialMetadata(internal::kChallengeKey, "as good as any other");
    stream->SendInitialMetadata();
    return grpc::Status::OK;
  }

  grpc::Status Session(grpc::ServerContext* context,
                       grpc::ServerReaderWriter<proto::ToWorker, proto::FromWorker>* stream) override {
    listen_to(*context);
    ++visits_;
    if (ruse_ == Ruse::kTurnsAway) return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "go away");
    if (ruse_ != Ruse::kRefuses) lie(*context);
    proto::ToWorker message;
    if (ruse_ == Ruse::kRefuses) {
      message.mutable_refused()->set_reason("you are not wanted");
      stream->Write(message);
      return grpc::Status::OK;
    }
    proto::Welcome& welcome = *message.mutable_welcome();
    welcome.set_run_id("run");
    welcome.set_controller_epoch(9);
    welcome.set_heartbeat_s(1);
    welcome.set_missed_heartbeats(60);
    welcome.set_max_message_bytes(1 << 20);
    stream->Write(message);
    if (ruse_ == Ruse::kDismisses) {
      message.mutable_goodbye()->set_reason("the run is over");
    } else {
      message.mutable_command()->set_id(1);
      message.mutable_command()->set_controller_epoch(9);
      message.mutable_command()->set_deadline_ms(60'000);
      message.mutable_command()->set_what("exit");
    }
    stream->Write(message);
    for (proto::FromWorker said; stream->Read(&said);) note(said.SerializeAsString());
    return grpc::Status::OK;
  }

 private:
  // Asked to drain the run, it says that it did.
  class Ctl final : public proto::Ctl::Service {
   public:
    explicit Ctl(Impostor& impostor) : impostor_(impostor) {}
    grpc::Status Ask(grpc::ServerContext* context,
                     grpc::ServerReaderWriter<proto::CtlReply, proto::CtlRequest>* stream) override {
      impostor_.listen_to(*context);
      lie(*context);
      proto::CtlReply reply;
      reply.set_answer("done");
      stream->Write(reply);
      for (proto::CtlRequest said; stream->Read(&said);) impostor_.note("a request");
      return grpc::Status::OK;
    }

   private:
    Impostor& impostor_;
  };

  static void lie(grpc::ServerContext& context) {
    context.AddInitialMetadata(internal::kRunKey, "run");
    context.AddInitialMetadata(internal::kProofKey, std::string(secret::kMacBytes, 'x'));
  }
  void note(std::string text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    received_.push_back(std::move(text));
  }
  void listen_to(const grpc::ServerContext& context) {
    for (const auto& [key, value] : context.client_metadata()) note(std::string(value.data(), value.size()));
  }

  const Ruse ruse_;
  std::atomic<int> visits_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> received_;
  Ctl ctl_{*this};
  std::unique_ptr<grpc::Server> server_;
};

class ImpostorTest : public ::testing::TestWithParam<Ruse> {
 protected:
  void SetUp() override {
    if (!kCanUseGrpc) GTEST_SKIP() << "gRPC is not instrumented for ThreadSanitizer";
  }
};

std::string name_of(const ::testing::TestParamInfo<Ruse>& ruse) {
  constexpr std::array<const char*, 4> kNames = {"Refuses", "TurnsAway", "Dismisses", "Commands"};
  return kNames[static_cast<size_t>(ruse.param)];
}

INSTANTIATE_TEST_SUITE_P(Ruses, ImpostorTest,
                         ::testing::Values(Ruse::kRefuses, Ruse::kTurnsAway, Ruse::kDismisses, Ruse::kCommands),
                         name_of);

TEST_P(ImpostorTest, AnOrphanStaysAndKeepsTheToken) {
  GrpcRig rig;
  auto controller = rig.start({}).value();
  const std::string address = controller->address();
  TestWorker worker(rig, worker_options(3));
  ASSERT_TRUE(first_error(controller->call_all({{3, {.what = "echo"}}}, kPatience_s)).ok());
  controller.reset();
  {
    const Impostor impostor(address, GetParam());
    ASSERT_TRUE(impostor.listens());
    EXPECT_TRUE(eventually([&] { return impostor.visits() >= 3 || worker.ended(); }));
    EXPECT_THAT(impostor.received(), Each(Not(AnyOf(HasSubstr(kToken), HasSubstr("node")))));
    EXPECT_EQ(worker.runs(), 1) << "it obeyed";
    ASSERT_FALSE(worker.ended()) << worker.result();
  }
  controller = rig.start({.epoch = 2}).value();
  EXPECT_EQ(controller->address(), address);
  const auto joined = next_of<WorkerJoined>(*controller);
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->host, 3);
  EXPECT_TRUE(first_error(controller->call_all({{3, {.what = "echo"}}}, kPatience_s)).ok());
}

TEST_P(ImpostorTest, OrphansGiveUpAtTheirTimeout) {
  GrpcRig rig;
  auto controller = rig.start({}).value();
  const std::string address = controller->address();
  WorkerOptions options = worker_options(3);
  options.orphan_timeout_s = 1;
  TestWorker worker(rig, options);
  controller.reset();
  const Impostor impostor(address, GetParam());
  const absl::Status end = worker.result();
  EXPECT_TRUE(absl::IsUnavailable(end)) << end;
  EXPECT_THAT(message_of(end), HasSubstr("no controller at " + address));
}

TEST_P(ImpostorTest, ANewWorkerIsToldThatTheOtherEndProvesNothing) {
  GrpcRig rig;
  const std::string address = rig.start({}).value()->address();
  const Impostor impostor(address, GetParam());
  ASSERT_TRUE(impostor.listens());
  const absl::Status refused = rig.connect(worker_options(3)).status();
  EXPECT_TRUE(absl::IsUnauthenticated(refused)) << refused;
  EXPECT_THAT(impostor.received(), Each(Not(HasSubstr(kToken))));
}

TEST_P(ImpostorTest, CtlKeepsTheTokenAndItsRequest) {
  GrpcRig rig;
  const std::string address = rig.start({}).value()->address();
  const Impostor impostor(address, GetParam());
  ASSERT_TRUE(impostor.listens());
  proto::CtlRequest drain;
  drain.mutable_drain()->set_host(2);
  const auto answer = ask_controller({.address = address, .token = kToken, .timeout_s = kPatience_s}, drain);
  EXPECT_TRUE(absl::IsUnauthenticated(answer.status())) << answer.status();
  EXPECT_THAT(message_of(answer.status()), HasSubstr("does not know the token"));
  EXPECT_THAT(impostor.received(), Each(Not(AnyOf(HasSubstr(kToken), HasSubstr("a request")))));
}

}  // namespace
}  // namespace scalai::executor::rpc::testing
