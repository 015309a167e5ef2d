// Strangers who send much: the controller keeps none of it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "executor/rpc/ctl.h"
#include "executor/rpc/internal/wire.h"
#include "executor/rpc/process.h"
#include "executor/rpc/testing/test_rig.h"
#include "executor/rpc/token.h"
#include "ptc/base/file.h"
#include "ptc/base/file_descriptor.h"
#include "ptc/base/status.h"

namespace scalai::executor::rpc::testing {
namespace {

constexpr size_t kPart = size_t{1} << 20;
constexpr size_t kParts = 100;  // of one message

// Most memory that the process ever had.
int64_t peak_bytes(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return -1;
}

// A message of many references to the same bytes, so that only the receiver needs memory for it.
grpc::ByteBuffer large_message() {
  const grpc::Slice part(std::string(kPart, 'x'));
  const std::vector<grpc::Slice> parts(kParts, part);
  return grpc::ByteBuffer(parts.data(), parts.size());
}

struct Flood {
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
  grpc::Status status;
};

// Sends the message over `count` calls at once; their ends.
std::vector<grpc::Status> flood(grpc::GenericStub& stub, const std::string& method, int count) {
  grpc::CompletionQueue queue;
  const grpc::ByteBuffer message = large_message();
  const auto wait_for = [&](int events) {
    void* tag = nullptr;
    for (bool ok = false; events > 0 && queue.Next(&tag, &ok);) --events;
  };
  std::vector<std::unique_ptr<Flood>> floods;
  for (int i = 0; i < count; ++i) {
    auto& one = *floods.emplace_back(std::make_unique<Flood>());
    one.context.set_deadline(std::chrono::system_clock::now() +
                             std::chrono::seconds(static_cast<int64_t>(kPatience_s)));
    one.stream = stub.PrepareCall(&one.context, method, &queue);
    one.stream->StartCall(nullptr);
  }
  wait_for(count);
  for (const auto& one : floods) {
    one->stream->Write(message, nullptr);
    one->stream->Finish(&one->status, nullptr);
  }
  wait_for(2 * count);
  std::vector<grpc::Status> ends;
  for (const auto& one : floods) ends.push_back(one->status);
  return ends;
}

// A controller in a process of its own, and a stranger's connections to it.
class FloodTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kCanUseGrpc) GTEST_SKIP() << "gRPC is not instrumented for ThreadSanitizer";
    GrpcRig rig;
    address_ = rig.start({}).value()->address();  // free a moment later
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    const std::string limit = descriptors_ > 0 ? fmt::format("ulimit -n {}; ", descriptors_) : "";
    ASSERT_TRUE(spawner_
                    .start(0, {.binary = "/bin/sh",
                               .arguments = {"sh", "-c", limit + "exec \"$0\" --as-controller " + address_, self},
                               .environment = {{kTokenVariable, kToken}}})
                    .ok());
    connect();
    before_ = peak_bytes(spawner_.pid(0));
    ASSERT_GT(before_, 0);
  }
  void TearDown() override {
    spawner_.end_all(0);
    std::filesystem::remove_all(folder_);
  }
  grpc::GenericStub connect() {
    const auto channel = internal::open_channel(address_, "").value();
    EXPECT_TRUE(internal::wait_connected(*channel, internal::Clock::now() + internal::seconds(kPatience_s)))
        << read_file(spawner_.log_file(0)).value_or("no log");
    return grpc::GenericStub(channel);
  }
  // Proves the token, and gets the answer of a controller without requests.
  void expect_to_be_heard() {
    const absl::Status answer = ask_controller({.address = address_, .token = kToken}, {}).status();
    EXPECT_THAT(message_of(answer), ::testing::HasSubstr("this controller takes no requests"));
    const auto worker = GrpcRig(address_).connect(worker_options());
    EXPECT_TRUE(worker.ok()) << worker.status();
  }
  int64_t more() const { return peak_bytes(spawner_.pid(0)) - before_; }

  int descriptors_ = 0;  // that the controller may have; 0: as many as we
  const std::string folder_ = ::testing::TempDir() + fmt::format("flood-{}", ::getpid());
  Spawner spawner_{folder_};
  std::string address_;
  int64_t before_ = 0;
};

TEST_F(FloodTest, LargeMessagesOfStrangersAreNotRead) {
  grpc::GenericStub stub = connect();
  for (const char* method : {"/scalai.proto.Door/Challenge", "/scalai.proto.Workers/Session", "/scalai.proto.Ctl/Ask",
                             "/scalai.proto.Nobody/Knows"}) {
    flood(stub, method, 3);
    EXPECT_LT(more(), int64_t{64} << 20) << method;
  }
}

TEST_F(FloodTest, ManyCallsOfStrangersTakeLittle) {
  for (int connection = 0; connection < 3; ++connection) {
    grpc::GenericStub stub = connect();
    for (const grpc::Status& end : flood(stub, "/scalai.proto.Ctl/Ask", 50))
      EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  }
  EXPECT_LT(more(), int64_t{64} << 20);
}

// A controller that may have few descriptors, and connections of strangers that say nothing.
class IdleFloodTest : public FloodTest {
 protected:
  IdleFloodTest() { descriptors_ = 160; }
  FileDescriptor connection() const {
    FileDescriptor one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    there.sin_port = htons(static_cast<uint16_t>(std::stoi(address_.substr(address_.rfind(':') + 1))));
    EXPECT_EQ(::connect(one.get(), reinterpret_cast<const sockaddr*>(&there), sizeof(there)), 0);
    return one;
  }
};

TEST_F(IdleFloodTest, ConnectionsThatSayNothingKeepNobodyOut) {
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 320; ++i) strangers.push_back(connection());
  expect_to_be_heard();
  strangers.clear();
  expect_to_be_heard();
}

}  // namespace
}  // namespace scalai::executor::rpc::testing
