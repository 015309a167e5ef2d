#pragma once
// What the tests of this folder share: a controller's address, real or fake, and workers on threads.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "executor/rpc/control_server.h"
#include "executor/rpc/testing/fake_network.h"
#include "executor/rpc/worker_session.h"

namespace scalai::executor::rpc::testing {

inline constexpr double kPatience_s = 60;  // for what must happen; a loaded machine is slow
inline constexpr const char* kToken = "0123456789abcdef-test";

// Debian's gRPC is not instrumented, and ThreadSanitizer reports races in correct programs that use it.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kCanUseGrpc = false;
#else
inline constexpr bool kCanUseGrpc = true;
#endif

// An address at which controllers start and die, and which workers connect to.
class Rig {
 public:
  virtual ~Rig() = default;
  virtual absl::StatusOr<std::unique_ptr<ControllerEnd>> start(ControllerOptions options) = 0;
  virtual absl::StatusOr<std::unique_ptr<WorkerEnd>> connect(WorkerOptions options) = 0;
};

class FakeRig final : public Rig {
 public:
  absl::StatusOr<std::unique_ptr<ControllerEnd>> start(ControllerOptions options) override {
    return network_.start(std::move(options), kToken);
  }
  absl::StatusOr<std::unique_ptr<WorkerEnd>> connect(WorkerOptions options) override {
    return network_.connect(std::move(options));
  }

 private:
  FakeNetwork network_;
};

// The first controller takes any free port, the later ones the same.
class GrpcRig final : public Rig {
 public:
  explicit GrpcRig(std::string address = "127.0.0.1:0") : address_(std::move(address)) {}
  absl::StatusOr<std::unique_ptr<ControllerEnd>> start(ControllerOptions options) override {
    auto controller = ControlServer::start(
        {.bind_address = address_, .token = kToken, .controller = std::move(options), .log = [](const auto&) {}});
    if (controller.ok()) address_ = (*controller)->address();
    return controller;
  }
  absl::StatusOr<std::unique_ptr<WorkerEnd>> connect(WorkerOptions options) override {
    options.address = address_;
    return WorkerSession::connect(std::move(options));
  }

 private:
  std::string address_;
};

// Of a worker on "node", as process 1000 + host.
WorkerOptions worker_options(int32_t host = -1);

// Looks again and again until `holds`; false after kPatience_s.
inline bool eventually(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kPatience_s);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

// The next event of one type, skipping others; nullopt after kPatience_s without any.
template <typename Kind>
std::optional<Kind> next_of(ControllerEnd& controller) {
  while (std::optional<Event> event = controller.next_event(kPatience_s)) {
    if (Kind* found = std::get_if<Kind>(&*event)) return std::move(*found);
  }
  return std::nullopt;
}

// A gate that a handler waits at.
class Gate {
 public:
  void open() { open_ = true; }
  void pass() const {
    EXPECT_TRUE(eventually([&] { return open_.load(); })) << "the gate stayed shut";
  }

 private:
  std::atomic<bool> open_ = false;
};

// A worker on a thread. It answers "echo" with the body, "fail" with an error, "exit" as its last command, waits at its
// gate for "wait", and counts what it runs.
class TestWorker {
 public:
  TestWorker(Rig& rig, WorkerOptions options) {
    auto end = rig.connect(std::move(options));
    EXPECT_TRUE(end.ok()) << end.status();
    if (!end.ok()) return;
    end_ = *std::move(end);
    thread_ = std::thread([this] {
      result_ = end_->run([this](const Command& command) { return handle(command); });
      done_ = true;
    });
  }
  ~TestWorker() {
    gate_.open();
    if (end_ != nullptr) end_->stop("the test is over");
    if (thread_.joinable()) thread_.join();
  }
  TestWorker(const TestWorker&) = delete;
  TestWorker& operator=(const TestWorker&) = delete;

  WorkerEnd& end() { return *end_; }
  int host() const;
  int runs() const { return runs_; }  // begun
  bool ended() const { return done_; }
  Gate& gate() { return gate_; }
  // What run() returned.
  absl::Status result() {
    EXPECT_TRUE(eventually([&] { return done_.load(); })) << "run() does not return";
    thread_.join();
    return result_;
  }

 private:
  Reply handle(const Command& command) {
    ++runs_;
    if (command.what == "wait") gate_.pass();
    if (command.what == "fail") return {.status = absl::DataLossError("two elements differ"), .body = command.body};
    return {.body = command.body, .last = command.what == "exit"};
  }

  std::unique_ptr<WorkerEnd> end_;
  std::atomic<int> runs_ = 0;
  std::atomic<bool> done_ = false;
  Gate gate_;
  absl::Status result_;
  std::thread thread_;
};

}  // namespace scalai::executor::rpc::testing
