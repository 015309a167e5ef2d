// One suite for both ends that work with threads: the fake and gRPC on loopback.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "executor/rpc/controller_end.h"
#include "executor/rpc/internal/controller_core.h"
#include "executor/rpc/internal/worker_core.h"
#include "executor/rpc/internal/worker_loop.h"
#include "executor/rpc/process.h"
#include "executor/rpc/testing/fake_network.h"
#include "executor/rpc/testing/test_rig.h"
#include "ptc/base/status.h"
#include "ptc/base/version.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::rpc::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

enum class Kind { kFake, kGrpc };

void add_held(proto::Hello& hello, int64_t epoch, int64_t step) {
  hello.add_held()->set_version(epoch);
  hello.mutable_held()->rbegin()->set_step(step);
}

class Control : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::kFake) {
      rig_ = std::make_unique<FakeRig>();
    } else {
      if (!kCanUseGrpc) GTEST_SKIP() << "gRPC is not instrumented for ThreadSanitizer";
      rig_ = std::make_unique<GrpcRig>();
    }
  }
  void start(ControllerOptions options = {}) {
    options.heartbeat_s = 0.5;
    options.missed_heartbeats = 40;
    auto controller = rig_->start(options);
    ASSERT_TRUE(controller.ok()) << controller.status();
    controller_ = *std::move(controller);
  }
  std::unique_ptr<TestWorker> worker(int32_t host = -1) {
    return std::make_unique<TestWorker>(*rig_, worker_options(host));
  }
  ControllerEnd& controller() { return *controller_; }
  static Call call(int32_t host, const std::string& what, const std::string& body = "") {
    return {.host = host, .command = {.what = what, .body = body}};
  }

  std::unique_ptr<Rig> rig_;
  std::unique_ptr<ControllerEnd> controller_;
};

INSTANTIATE_TEST_SUITE_P(Ends, Control, ::testing::Values(Kind::kFake, Kind::kGrpc),
                         [](const auto& end) { return end.param == Kind::kFake ? "Fake" : "Grpc"; });

// --- joining ---------------------------------------------------------------------------------------------------------

TEST_P(Control, GivesHostsTheLowestFreeIndex) {
  start({.hosts = 3});
  const auto second = worker(1);
  const auto first = worker();
  const auto third = worker();
  EXPECT_EQ(first->host(), 0);
  EXPECT_EQ(second->host(), 1);
  EXPECT_EQ(third->host(), 2);
  EXPECT_EQ(controller().workers().size(), 3u);
}

TEST_P(Control, HelloAndWelcomeArriveWhole) {
  start({.run_id = "night", .epoch = 7, .max_message_bytes = 12345678});
  WorkerOptions options = worker_options(4);
  proto::Hello said;
  options.introduce = [&](proto::Hello& hello) {
    hello.set_transport_address(std::string("\0\xff binary", 9));
    hello.add_places()->set_address(std::string("\0a", 2));
    add_held(hello, 9, 1000);
    said = hello;
  };
  TestWorker worker(*rig_, options);
  const proto::Welcome welcome = worker.end().welcome();
  EXPECT_EQ(welcome.run_id(), "night");
  EXPECT_EQ(welcome.controller_epoch(), 7);
  EXPECT_EQ(welcome.host(), 4);
  EXPECT_EQ(welcome.heartbeat_s(), 0.5);
  EXPECT_EQ(welcome.missed_heartbeats(), 40);
  EXPECT_EQ(welcome.max_message_bytes(), 12345678);
  const auto joined = next_of<WorkerJoined>(controller());
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->host, 4);
  EXPECT_EQ(said.host_name(), machine_name());
  EXPECT_EQ(said.pid(), ::getpid());
  EXPECT_EQ(joined->hello->SerializeAsString(), said.SerializeAsString());
}

TEST_P(Control, RefusesAnotherVersionNamingBoth) {
  start();
  WorkerOptions options = worker_options();
  options.introduce = [](proto::Hello& hello) { hello.set_build_version("0.0.9"); };
  EXPECT_THAT(message_of(rig_->connect(options).status()), AllOf(HasSubstr("0.0.9"), HasSubstr(kVersion)));
  options.introduce = [](proto::Hello& hello) { hello.set_protocol_version(kProtocolVersion + 1); };
  const absl::Status status = rig_->connect(options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(message_of(status), AllOf(HasSubstr(fmt::format("protocol {}", kProtocolVersion + 1)),
                                        HasSubstr(fmt::format("protocol {}", kProtocolVersion))));
}

TEST_P(Control, RefusesAHostThatIsTakenOrDoesNotExist) {
  start({.hosts = 2});
  const auto first = worker(1);
  WorkerOptions options = worker_options(1);
  options.connect_timeout_s = 0.2;
  const absl::Status taken = rig_->connect(options).status();
  EXPECT_TRUE(absl::IsUnavailable(taken)) << taken;
  EXPECT_THAT(message_of(taken), HasSubstr("host 1 has a worker: process 1001 on node"));
  const absl::Status unknown = rig_->connect(worker_options(2)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(unknown)) << unknown;
  EXPECT_THAT(message_of(unknown), HasSubstr("there is no host 2"));
  const auto second = worker();
  options.host = -1;
  EXPECT_THAT(message_of(rig_->connect(options).status()), HasSubstr("all 2 hosts have a worker"));
}

TEST_P(Control, AStrangerIsTurnedAway) {
  start();
  WorkerOptions options = worker_options();
  options.token = "another-token-altogether";
  const absl::Status status = rig_->connect(options).status();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_TRUE(controller().workers().empty());
}

TEST_P(Control, NobodyThereIsSaidWithTheAddress) {
  WorkerOptions options = worker_options();
  options.connect_timeout_s = 0.1;
  start();
  const std::string address = controller_->address();
  controller_.reset();
  const absl::Status status = rig_->connect(options).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("no controller at " + address));
}

// --- commands --------------------------------------------------------------------------------------------------------

TEST_P(Control, CallAllGivesRepliesInTheOrderOfTheCalls) {
  start();
  const auto first = worker(0);
  const auto second = worker(1);
  const std::string binary("\0\1\xff", 3);
  const auto outcomes =
      controller().call_all({call(1, "echo", "b"), call(0, "fail", binary), call(0, "echo", "a")}, kPatience_s);
  ASSERT_EQ(outcomes.size(), 3u);
  ASSERT_TRUE(outcomes[0].ok() && outcomes[1].ok() && outcomes[2].ok());
  EXPECT_EQ(outcomes[0]->body, "b");
  EXPECT_TRUE(absl::IsDataLoss(outcomes[1]->status));
  EXPECT_EQ(message_of(outcomes[1]->status), "two elements differ");
  EXPECT_EQ(outcomes[1]->body, binary);
  EXPECT_EQ(outcomes[2]->body, "a");
  EXPECT_TRUE(absl::IsDataLoss(first_error(outcomes)));
}

TEST_P(Control, SendEndsInAnEvent) {
  start();
  const auto only = worker(0);
  const int64_t id = controller().send(0, {.what = "echo", .body = "x"}, kPatience_s);
  const auto done = next_of<CommandDone>(controller());
  ASSERT_TRUE(done.has_value() && done->reply.ok());
  EXPECT_EQ(done->id, id);
  EXPECT_EQ(done->host, 0);
  EXPECT_EQ(done->reply->body, "x");
  EXPECT_EQ(done->reply->id, id);
}

TEST_P(Control, CommandsToOneHostRunInOrder) {
  start();
  const auto only = worker(0);
  std::vector<int64_t> sent;
  std::vector<int64_t> answered;
  for (int i = 0; i < 50; ++i) sent.push_back(controller().send(0, {.what = "echo"}, kPatience_s));
  while (answered.size() < sent.size()) {
    const auto done = next_of<CommandDone>(controller());
    ASSERT_TRUE(done.has_value() && done->reply.ok());
    answered.push_back(done->id);
  }
  EXPECT_EQ(answered, sent);
}

TEST_P(Control, LargeBodiesPassAndTooLargeOnesAreNamed) {
  constexpr int64_t kLimit = 24 << 20;
  start({.max_message_bytes = kLimit});
  const auto only = worker(0);
  const std::string large(static_cast<size_t>(kLimit), 'x');
  const auto passed = controller().call_all({call(0, "echo", large)}, kPatience_s);
  ASSERT_TRUE(passed[0].ok()) << passed[0].status();
  EXPECT_EQ(passed[0]->body, large);
  const auto refused = controller().call_all({call(0, "echo", large + "x")}, kPatience_s);
  EXPECT_TRUE(absl::IsResourceExhausted(refused[0].status())) << refused[0].status();
  EXPECT_EQ(only->runs(), 1);
}

TEST_P(Control, ARepeatedIdIsAnsweredWithoutRunning) {
  start();
  const auto only = worker(0);
  const int64_t id = controller().send(0, {.what = "echo", .body = "once"}, kPatience_s);
  ASSERT_TRUE(next_of<CommandDone>(controller()).has_value());
  const auto again =
      controller().call_all({{.host = 0, .command = {.what = "echo", .body = "twice", .id = id}}}, kPatience_s);
  ASSERT_TRUE(again[0].ok()) << again[0].status();
  EXPECT_EQ(again[0]->body, "once");
  EXPECT_EQ(only->runs(), 1);
}

TEST_P(Control, DeadlinesPassAndWhatWaitedTooLongIsNotRun) {
  start();
  const auto only = worker(0);
  const int64_t first = controller().send(0, {.what = "wait"}, kPatience_s);
  ASSERT_TRUE(eventually([&] { return only->runs() == 1; }));
  const auto late = controller().call_all({call(0, "echo")}, 0.05);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late[0].status())) << late[0].status();
  EXPECT_THAT(message_of(late[0].status()), AllOf(HasSubstr("host 0"), HasSubstr("'echo'"), HasSubstr("0.05 s")));
  // The worker counts the 0.05 s from when its reader has the command, which a loaded machine may delay.
  std::this_thread::sleep_for(std::chrono::seconds(1));
  only->gate().open();
  const auto next = controller().call_all({call(0, "echo", "later")}, kPatience_s);
  ASSERT_TRUE(next[0].ok());
  EXPECT_EQ(only->runs(), 2) << "the late command was run";
  const auto done = next_of<CommandDone>(controller());
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->id, first);
}

TEST_P(Control, NothingIsSentWhenOneHostIsAbsent) {
  start();
  const auto only = worker(0);
  const auto outcomes = controller().call_all({call(0, "echo"), call(1, "echo")}, kPatience_s);
  EXPECT_TRUE(absl::IsCancelled(outcomes[0].status()));
  EXPECT_TRUE(absl::IsUnavailable(outcomes[1].status()));
  EXPECT_THAT(message_of(first_error(outcomes)), HasSubstr("host 1 is not connected"));
  EXPECT_EQ(only->runs(), 0);
}

TEST_P(Control, NotesWakeTheLoop) {
  start();
  std::thread other([&] { controller().notify("SIGTERM"); });
  const auto note = next_of<Note>(controller());
  other.join();
  ASSERT_TRUE(note.has_value());
  EXPECT_EQ(note->text, "SIGTERM");
  EXPECT_FALSE(controller().next_event(0).has_value());
}

// --- losses ----------------------------------------------------------------------------------------------------------

TEST_P(Control, CallAllReturnsEarlyWhenAWorkerIsLost) {
  start();
  const auto waits = worker(0);
  const auto dies = worker(1);
  std::thread other([&] {
    EXPECT_TRUE(eventually([&] { return waits->runs() == 1 && dies->runs() == 1; }));
    controller().cut(1, "the test cuts it");
  });
  // Without an early return both would end in DeadlineExceeded.
  const auto outcomes = controller().call_all({call(0, "wait"), call(1, "wait")}, 2 * kPatience_s);
  other.join();
  EXPECT_TRUE(absl::IsCancelled(outcomes[0].status())) << outcomes[0].status();
  EXPECT_TRUE(absl::IsUnavailable(outcomes[1].status())) << outcomes[1].status();
  EXPECT_THAT(message_of(first_error(outcomes)), HasSubstr("the test cuts it"));
}

TEST_P(Control, AWorkerThatLostTheConnectionKeepsItsStateAndItsReplies) {
  start();
  WorkerOptions options = worker_options(0);
  options.introduce = [](proto::Hello& hello) { add_held(hello, 5, 42); };
  TestWorker worker(*rig_, options);
  ASSERT_TRUE(next_of<WorkerJoined>(controller()).has_value());
  const int64_t id = controller().send(0, {.what = "wait", .body = "kept"}, kPatience_s);
  ASSERT_TRUE(eventually([&] { return worker.runs() == 1; }));
  controller().cut(0, "the test cuts it");
  const auto lost = next_of<WorkerLost>(controller());
  ASSERT_TRUE(lost.has_value());
  EXPECT_FALSE(lost->clean);
  const auto done = next_of<CommandDone>(controller());
  ASSERT_TRUE(done.has_value());
  EXPECT_TRUE(absl::IsUnavailable(done->reply.status()));
  const auto joined = next_of<WorkerJoined>(controller());
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->hello->held_size(), 2) << "of both introductions";
  worker.gate().open();
  const auto again = controller().call_all({{.host = 0, .command = {.what = "wait", .id = id}}}, kPatience_s);
  ASSERT_TRUE(again[0].ok()) << again[0].status();
  EXPECT_EQ(again[0]->body, "kept");
  EXPECT_EQ(worker.runs(), 1);
}

TEST_P(Control, ANewControllerTakesTheWorkersOver) {
  start({.epoch = 1});
  WorkerOptions options = worker_options(3);
  options.introduce = [](proto::Hello& hello) { add_held(hello, 2, 7); };
  TestWorker worker(*rig_, options);
  ASSERT_TRUE(controller().call_all({call(3, "echo", "old")}, kPatience_s)[0].ok());
  controller_.reset();
  start({.epoch = 2});
  const auto joined = next_of<WorkerJoined>(controller());
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->host, 3);
  EXPECT_EQ(joined->hello->held(0).step(), 7);
  // Its first id is the old controller's first id too, and must not get the old reply.
  const auto outcomes = controller().call_all({call(3, "echo", "new")}, kPatience_s);
  ASSERT_TRUE(outcomes[0].ok()) << outcomes[0].status();
  EXPECT_EQ(outcomes[0]->body, "new");
  EXPECT_EQ(worker.end().welcome().controller_epoch(), 2);
}

// Also while it works; the same controller, after a cut, is no news.
TEST_P(Control, ABusyWorkerHearsOfANewerController) {
  start({.epoch = 1});
  std::atomic<int> superseded = 0;
  WorkerOptions options = worker_options(0);
  options.superseded = [&] { ++superseded; };
  TestWorker busy(*rig_, std::move(options));
  ASSERT_TRUE(next_of<WorkerJoined>(controller()).has_value());
  controller().send(0, {.what = "wait"}, kPatience_s);
  ASSERT_TRUE(eventually([&] { return busy.runs() == 1; }));
  controller().cut(0, "the test cuts it");
  ASSERT_TRUE(next_of<WorkerJoined>(controller()).has_value());
  EXPECT_EQ(superseded, 0);
  controller_.reset();
  start({.epoch = 2});
  EXPECT_TRUE(eventually([&] { return superseded == 1; }));
}

// They may be gone in a moment, so a worker with state asks again until its orphan timeout.
TEST_P(Control, AnOlderControllerAndAnotherRunAreFencedOff) {
  start({.epoch = 2});
  WorkerOptions options = worker_options(0);
  options.orphan_timeout_s = 1;
  TestWorker first(*rig_, options);
  controller_.reset();
  start({.epoch = 1});
  const absl::Status older = first.result();
  EXPECT_TRUE(absl::IsUnavailable(older)) << older;
  EXPECT_THAT(message_of(older), HasSubstr("has served controller epoch 2, this one is older: 1"));
  TestWorker second(*rig_, options);
  controller_.reset();
  start({.run_id = "another", .epoch = 3});
  EXPECT_THAT(message_of(second.result()), HasSubstr("belongs to run 'run', this is 'another'"));
}

TEST_P(Control, ARefusalDoesNotEndAnOrphan) {
  start({.epoch = 2});
  const auto first = worker(0);
  controller_.reset();
  start({.epoch = 1});
  std::this_thread::sleep_for(std::chrono::milliseconds(700));  // it asks and is refused; once more, if it is late
  EXPECT_TRUE(controller().workers().empty());
  controller_.reset();
  start({.epoch = 3});
  const auto joined = next_of<WorkerJoined>(controller());
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->host, 0);
  EXPECT_FALSE(first->ended());
}

TEST_P(Control, AnOrphanGivesUp) {
  start();
  WorkerOptions options = worker_options(0);
  options.orphan_timeout_s = 0.1;
  TestWorker worker(*rig_, options);
  controller_.reset();
  const absl::Status status = worker.result();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("no controller at"));
}

// --- leaving ---------------------------------------------------------------------------------------------------------

TEST_P(Control, TheLastReplyArrivesAndIsNoLoss) {
  start();
  const auto first = worker(0);
  const auto second = worker(1);
  const auto outcomes = controller().call_all({call(0, "exit", "a"), call(1, "exit", "b")}, kPatience_s);
  ASSERT_TRUE(first_error(outcomes).ok()) << first_error(outcomes);
  EXPECT_TRUE(first->result().ok());
  EXPECT_TRUE(second->result().ok());
  for (int i = 0; i < 2; ++i) {
    const auto lost = next_of<WorkerLost>(controller());
    ASSERT_TRUE(lost.has_value());
    EXPECT_TRUE(lost->clean) << lost->reason;
  }
}

// Also while it works.
TEST_P(Control, TheOthersHearOfALostWorkerAtOnce) {
  start();
  std::atomic<int> departed = -1;
  WorkerOptions options = worker_options(0);
  options.departed = [&](int32_t host) { departed = host; };
  TestWorker busy(*rig_, std::move(options));
  const auto other = worker(1);
  controller().send(0, {.what = "wait"}, kPatience_s);
  ASSERT_TRUE(eventually([&] { return busy.runs() == 1; }));
  controller().cut(1, "silent");
  EXPECT_TRUE(eventually([&] { return departed == 1; }));
}

TEST_P(Control, DismissedWorkersLeave) {
  start();
  const auto first = worker(0);
  const auto second = worker(1);
  controller().dismiss("the run is over", kPatience_s);
  EXPECT_TRUE(controller().workers().empty());
  EXPECT_TRUE(first->result().ok());
  EXPECT_TRUE(second->result().ok());
  const auto lost = next_of<WorkerLost>(controller());
  ASSERT_TRUE(lost.has_value());
  EXPECT_TRUE(lost->clean);
  EXPECT_THAT(lost->reason, HasSubstr("the run is over"));
}

TEST_P(Control, WhoComesBackAfterTheDismissalIsDismissedToo) {
  start();
  controller().dismiss("the run is over", 0);
  const auto late = worker(0);
  EXPECT_TRUE(late->result().ok());
}

TEST_P(Control, AWorkerThatStopsSaysGoodbye) {
  start();
  const auto only = worker(0);
  only->end().stop("SIGTERM");
  EXPECT_TRUE(only->result().ok());
  const auto lost = next_of<WorkerLost>(controller());
  ASSERT_TRUE(lost.has_value());
  EXPECT_TRUE(lost->clean);
  EXPECT_THAT(lost->reason, HasSubstr("SIGTERM"));
}

TEST_P(Control, ManyThreadsCallAtOnce) {
  start();
  std::vector<std::unique_ptr<TestWorker>> workers;
  for (int host = 0; host < 4; ++host) workers.push_back(worker(host));
  std::vector<std::thread> callers;
  std::atomic<int> right = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 25; ++i) {
        const std::string body = std::to_string(caller * 1000 + i);
        const auto outcomes = controller().call_all({call(i % 4, "echo", body), call(3, "echo", body)}, kPatience_s);
        for (const auto& outcome : outcomes) right += outcome.ok() && outcome->body == body ? 1 : 0;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(right, 4 * 25 * 2);
}

}  // namespace
}  // namespace scalai::executor::rpc::testing
