// What only real connections and real processes show.

#include "executor/rpc/control_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "executor/rpc/ctl.h"
#include "executor/rpc/internal/asker.h"
#include "executor/rpc/internal/listening.h"
#include "executor/rpc/internal/wire.h"
#include "executor/rpc/process.h"
#include "executor/rpc/testing/test_rig.h"
#include "executor/rpc/token.h"
#include "executor/rpc/worker_session.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/base/work_done.h"
#include "ptc/proto/control.grpc.pb.h"

namespace scalai::executor::rpc::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Lines of a log, written from any thread.
class Lines {
 public:
  LogLine sink() {
    return [this](const std::string& line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      lines_.push_back(line);
    };
  }
  std::vector<std::string> all() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return lines_;
  }
  bool any(const std::string& part) const {
    for (const std::string& line : all()) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kCanUseGrpc) GTEST_SKIP() << "gRPC is not instrumented for ThreadSanitizer";
    folder_ = ::testing::TempDir() +
              fmt::format("control-{}-{}", ::getpid(), ::testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_TRUE(make_folders(folder_).ok());
    spawner_ = std::make_unique<Spawner>(folder_);
  }
  void TearDown() override {
    if (spawner_ != nullptr) spawner_->end_all(0);
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  ServerOptions options() {
    ServerOptions options{.token = kToken, .log = log_.sink()};
    options.controller.heartbeat_s = 0.5;
    options.controller.missed_heartbeats = 240;  // so that only the connection can tell
    return options;
  }
  void start(const ServerOptions& options) {
    auto server = ControlServer::start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // One that was free a moment ago.
  std::string free_address() {
    start(options());
    std::string address = server_->address();
    server_.reset();
    return address;
  }
  void spawn(int32_t host, const std::string& role, const std::string& address) {
    const absl::Status status = spawner_->start(
        host, {.arguments = {"executor_rpc_test", role, address}, .environment = {{kTokenVariable, kToken}}});
    ASSERT_TRUE(status.ok()) << status;
  }
  WorkerOptions worker_at(const std::string& address) {
    WorkerOptions options = worker_options();
    options.address = address;
    options.log = log_.sink();
    return options;
  }
  std::string log_of(int32_t host) { return read_file(spawner_->log_file(host)).value_or("no log"); }

  std::string folder_;
  std::unique_ptr<Spawner> spawner_;
  Lines log_;
  std::unique_ptr<ControllerEnd> server_;
};

// --- addresses and tokens --------------------------------------------------------------------------------------------

TEST_F(ServerTest, AStrangerIsOneLineOnBothSides) {
  start(options());
  WorkerOptions stranger = worker_at(server_->address());
  stranger.token = "another-token-altogether";
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = WorkerSession::connect(stranger).status();
    ASSERT_TRUE(absl::IsUnauthenticated(status)) << status;
    EXPECT_THAT(message_of(status),
                AllOf(HasSubstr(server_->address()), HasSubstr("token"), HasSubstr("SCALAI_TOKEN")));
    EXPECT_EQ(message_of(status).find(kToken), std::string::npos) << "it tells the secret";
  }
  ASSERT_THAT(log_.all(), SizeIs(1));
  EXPECT_THAT(log_.all()[0], AllOf(HasSubstr("turned away"), HasSubstr("127.0.0.1"), HasSubstr("wrong token")));
  const absl::Status asked =
      ask_controller({.address = server_->address(), .token = "another-token-altogether"}, {}).status();
  EXPECT_TRUE(absl::IsUnauthenticated(asked)) << asked;
}

TEST_F(ServerTest, APortInUseIsNamed) {
  start(options());
  ServerOptions second = options();
  second.bind_address = server_->address();
  const absl::Status status = ControlServer::start(second).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(message_of(status), AllOf(HasSubstr(server_->address()), HasSubstr("in use")));
}

TEST_F(ServerTest, BadOptionsAreSaid) {
  ServerOptions bad = options();
  bad.token = "short";
  EXPECT_TRUE(absl::IsInvalidArgument(ControlServer::start(bad).status()));
  bad = options();
  bad.bind_address = "nowhere";
  EXPECT_THAT(message_of(ControlServer::start(bad).status()), HasSubstr("'nowhere' is not HOST:PORT"));
  bad = options();
  bad.controller.epoch = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(ControlServer::start(bad).status()));
  bad = options();
  bad.certificate_file = "cert.pem";
  EXPECT_THAT(message_of(ControlServer::start(bad).status()), HasSubstr("both a certificate and its key"));
  bad.key_file = "absent.pem";
  EXPECT_TRUE(absl::IsNotFound(ControlServer::start(bad).status()));
}

TEST_F(ServerTest, LoopbackAddressesAreKnown) {
  EXPECT_TRUE(internal::listen_on("127.0.0.1:0")->loopback);
  EXPECT_TRUE(internal::listen_on("localhost:0")->loopback);
  EXPECT_FALSE(internal::listen_on("0.0.0.0:0")->loopback);
  EXPECT_GT(internal::listen_on("127.0.0.1:0")->port, 0);
  // An address for documentation, which no machine has.
  EXPECT_THAT(message_of(internal::listen_on("192.0.2.1:0").status()), HasSubstr("cannot listen on 192.0.2.1:0"));
  EXPECT_THAT(message_of(internal::listen_on("127.0.0.1:99999").status()), HasSubstr("is not HOST:PORT"));
}

TEST_F(ServerTest, WhatCanBeReadOnTheNetworkIsOneLine) {
  ServerOptions open = options();
  open.bind_address = "0.0.0.0:0";
  start(open);
  ASSERT_THAT(log_.all(), SizeIs(1));
  EXPECT_THAT(log_.all()[0], AllOf(HasSubstr("without TLS"), Not(HasSubstr("state between workers"))));
  server_.reset();
  open.state_on_network = true;
  start(open);
  ASSERT_THAT(log_.all(), SizeIs(2));
  EXPECT_THAT(log_.all()[1], AllOf(HasSubstr("without TLS"), HasSubstr("state between workers is not encrypted")));
  server_.reset();
  open.bind_address = "127.0.0.1:0";
  start(open);
  EXPECT_THAT(log_.all(), SizeIs(2)) << "on loopback there is nothing to say";
}

// Takes connections into its backlog and never says a word.
TEST_F(ServerTest, AMuteListenerIsNoController) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(fd, 8), 0);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string name = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  WorkerOptions worker = worker_at(name);
  worker.connect_timeout_s = 0.1;
  const absl::Status status = WorkerSession::connect(worker).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("no controller at " + name));
  EXPECT_TRUE(absl::IsUnavailable(ask_controller({name, kToken, "", 0.1}, {}).status()));
  ::close(fd);
}

TEST_F(ServerTest, TlsWithTheRightAuthorityOnly) {
  const std::string key = folder_ + "/key.pem";
  const std::string certificate = folder_ + "/cert.pem";
  auto openssl =
      Process::start({.binary = "/usr/bin/openssl",
                      .arguments = {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                                    "-nodes", "-days", "1", "-subj", "/CN=test", "-addext",
                                    "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate}});
  if (!openssl.ok()) GTEST_SKIP() << "no openssl to make a certificate: " << openssl.status();
  const auto made = openssl->wait(kPatience_s);
  ASSERT_TRUE(made.has_value() && made->ok());
  ServerOptions secure = options();
  secure.certificate_file = certificate;
  secure.key_file = key;
  start(secure);
  WorkerOptions plain = worker_at(server_->address());
  plain.connect_timeout_s = 0.1;
  const absl::Status refused = WorkerSession::connect(plain).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(message_of(refused), HasSubstr("TLS"));
  WorkerOptions trusting = worker_at(server_->address());
  trusting.ca_file = certificate;
  const auto worker = WorkerSession::connect(trusting);
  EXPECT_TRUE(worker.ok()) << worker.status();
  trusting.ca_file = folder_ + "/absent.pem";
  EXPECT_TRUE(absl::IsNotFound(WorkerSession::connect(trusting).status()));
}

// --- processes -------------------------------------------------------------------------------------------------------

TEST_F(ServerTest, AKilledWorkerIsLostAtOnce) {
  start(options());
  spawn(0, "--as-worker", server_->address());
  spawn(1, "--as-worker", server_->address());
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kPatience_s);
  while (server_->workers().size() < 2 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::vector<WorkerJoined> workers = server_->workers();
  ASSERT_THAT(workers, SizeIs(2)) << log_of(0);
  const auto echoed = server_->call_all({{0, {.what = "echo", .body = "a"}}, {1, {.what = "echo"}}}, kPatience_s);
  ASSERT_TRUE(first_error(echoed).ok()) << first_error(echoed);
  const int64_t id = server_->send(0, {.what = "sleep"}, 10 * kPatience_s);
  // Heartbeats would take two minutes to tell, and the command's deadline ten.
  ASSERT_EQ(::kill(static_cast<pid_t>(workers[0].hello->pid()), SIGKILL), 0);
  const auto lost = next_of<WorkerLost>(*server_);
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->host, 0);
  EXPECT_EQ(lost->reason, "connection closed");
  EXPECT_FALSE(lost->clean);
  const auto done = next_of<CommandDone>(*server_);
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->id, id);
  EXPECT_TRUE(absl::IsUnavailable(done->reply.status()));
  const int32_t killed = spawner_->pid(0) == workers[0].hello->pid() ? 0 : 1;
  EXPECT_EQ(spawner_->wait(killed, kPatience_s)->str(), "killed by signal 9 (Killed)");
  server_->dismiss("over", kPatience_s);
  const auto left = spawner_->wait(1 - killed, kPatience_s);
  ASSERT_TRUE(left.has_value());
  EXPECT_EQ(left->str(), "exit code 0") << log_of(1 - killed);
}

TEST_F(ServerTest, AStoppedWorkerIsSilentAndComesBack) {
  ServerOptions quick = options();
  quick.controller.heartbeat_s = 0.05;
  quick.controller.missed_heartbeats = 20;
  start(quick);
  spawn(0, "--as-worker", server_->address());
  ASSERT_TRUE(next_of<WorkerJoined>(*server_).has_value()) << log_of(0);
  ASSERT_EQ(::kill(spawner_->pid(0), SIGSTOP), 0);
  const auto lost = next_of<WorkerLost>(*server_);
  ASSERT_TRUE(lost.has_value());
  EXPECT_EQ(lost->reason, "silent for 1 s");
  ASSERT_EQ(::kill(spawner_->pid(0), SIGCONT), 0);
  const auto joined = next_of<WorkerJoined>(*server_);
  ASSERT_TRUE(joined.has_value()) << log_of(0);
  EXPECT_EQ(joined->host, 0);
}

// The worker and this test are one process, which counts the work of both.
TEST_F(ServerTest, AWorkerThatWorksHasTime) {
  ServerOptions quick = options();
  quick.controller.heartbeat_s = 0.05;
  quick.controller.missed_heartbeats = 2000;
  start(quick);
  auto worker = WorkerSession::connect(worker_at(server_->address()));
  ASSERT_TRUE(worker.ok()) << worker.status();
  Gate gate;
  std::atomic<int> runs = 0;
  std::thread working([&] {
    (void)(*worker)->run([&](const Command& command) {
      ++runs;
      if (command.what == "wait") gate.pass();
      return Reply{};
    });
  });
  ASSERT_TRUE(next_of<WorkerJoined>(*server_).has_value());
  constexpr double kDeadline_s = 2;
  (void)server_->send(0, {.what = "wait"}, kDeadline_s);
  (void)server_->send(0, {.what = "echo"}, kDeadline_s);  // waits behind it
  std::optional<Event> event;
  for (int i = 0; i < 80; ++i) {
    note_work_done();
    event = server_->next_event(0.05);
    EXPECT_FALSE(event) << "after " << i << " pieces of work";
  }
  gate.open();
  for (int i = 0; i < 2; ++i) {
    const auto done = next_of<CommandDone>(*server_);
    EXPECT_TRUE(done && done->reply.ok() && done->reply->status.ok());
  }
  EXPECT_EQ(runs, 2) << "the second command has not waited for too long";
  (*worker)->stop("the test is over");
  working.join();
}

TEST_F(ServerTest, AHelloWithoutARealVersionIsRefused) {
  start(options());
  const auto channel = internal::open_channel(server_->address(), "").value();
  const auto asker = internal::Asker::begin(channel, kToken, internal::kWorkerRole,
                                            internal::Clock::now() + internal::seconds(kPatience_s));
  ASSERT_TRUE(asker.ok()) << asker.status();
  const auto stub = proto::Workers::NewStub(channel);
  grpc::ClientContext context;
  asker->sign(context);
  const auto stream = stub->Session(&context);
  stream->WaitForInitialMetadata();
  EXPECT_EQ(asker->check(context).value(), options().controller.run_id);
  proto::FromWorker first;
  proto::Hello& hello = *first.mutable_hello();
  hello.set_protocol_version(kProtocolVersion);
  hello.set_build_version(kVersion);
  hello.set_host(-1);
  hello.add_held()->set_version(-7);
  ASSERT_TRUE(stream->Write(first));
  proto::ToWorker answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_THAT(answer.refused().reason(), HasSubstr("-7 is no state version"));
  EXPECT_TRUE(server_->workers().empty());
  context.TryCancel();
}

TEST_F(ServerTest, WorkersOutliveAKilledController) {
  const std::string address = free_address();
  spawn(0, "--as-controller", address);
  WorkerOptions options_of_worker = worker_at(address);
  options_of_worker.introduce = [](proto::Hello& hello) {
    hello.clear_held();
    hello.add_held()->set_version(2);
    hello.add_held()->set_version(5);
  };
  GrpcRig rig(address);
  TestWorker worker(rig, options_of_worker);
  ASSERT_EQ(worker.host(), 0) << log_of(0);
  ASSERT_TRUE(spawner_->kill(0).ok());
  ASSERT_TRUE(spawner_->wait(0, kPatience_s).has_value());
  ServerOptions next = options();
  next.bind_address = address;
  next.controller.epoch = 2;
  start(next);
  const auto joined = next_of<WorkerJoined>(*server_);
  ASSERT_TRUE(joined.has_value());
  ASSERT_EQ(joined->hello->held_size(), 2);
  EXPECT_EQ(joined->hello->held(1).version(), 5);
  EXPECT_TRUE(first_error(server_->call_all({{0, {.what = "echo"}}}, kPatience_s)).ok());
  EXPECT_TRUE(log_.any("lost the controller at " + address));
  EXPECT_TRUE(log_.any("joined the controller at " + address + " again, epoch 2"));
}

// Its state is worth more than its log.
TEST_F(ServerTest, AWorkerWhoseLogIsFullStays) {
  const std::string address = free_address();
  std::filesystem::create_symlink("/dev/full", spawner_->log_file(0));
  for (const int64_t epoch : {1, 2}) {
    ServerOptions one = options();
    one.bind_address = address;
    one.controller.epoch = epoch;
    start(one);
    if (epoch == 1) spawn(0, "--as-worker", address);
    const auto joined = next_of<WorkerJoined>(*server_);
    ASSERT_TRUE(joined.has_value());
    EXPECT_EQ(joined->hello->pid(), spawner_->pid(0));
    EXPECT_TRUE(first_error(server_->call_all({{0, {.what = "echo"}}}, kPatience_s)).ok());
    if (epoch == 1) server_.reset();
  }
}

// New threads with more stack than there are addresses: none can start.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 50);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

TEST_F(ServerTest, AnOrphanWithoutRoomForThreadsAsksAgain) {
  const std::string address = free_address();
  spawn(0, "--as-controller", address);
  GrpcRig rig(address);
  TestWorker worker(rig, worker_at(address));
  {
    const NoThreads none;
    ASSERT_TRUE(spawner_->kill(0).ok());
    ASSERT_TRUE(spawner_->wait(0, kPatience_s).has_value());
    EXPECT_TRUE(eventually([&] { return log_.any("lost the controller"); }));
    spawn(1, "--as-controller", address);
    std::this_thread::sleep_for(std::chrono::seconds(3));  // it is there, and the worker asks
    EXPECT_FALSE(worker.ended());
    EXPECT_FALSE(log_.any("again, epoch"));
  }
  EXPECT_TRUE(eventually([&] { return log_.any("again, epoch"); })) << log_of(1);
}

TEST_F(ServerTest, AStoppedControllerIsSilent) {
  const std::string address = free_address();
  spawn(0, "--as-controller", address);
  GrpcRig rig(address);
  TestWorker worker(rig, worker_at(address));
  ASSERT_EQ(::kill(spawner_->pid(0), SIGSTOP), 0);
  EXPECT_TRUE(eventually([&] { return log_.any("silent for 0.5 s"); }));
  ASSERT_EQ(::kill(spawner_->pid(0), SIGCONT), 0);
  EXPECT_TRUE(eventually([&] { return log_.any("again, epoch 1"); }));
}

}  // namespace
}  // namespace scalai::executor::rpc::testing
