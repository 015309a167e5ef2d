#include "executor/rpc/internal/worker_loop.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>

#include "executor/rpc/process.h"
#include "ptc/base/backoff.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/thread.h"
#include "ptc/base/version.h"
#include "ptc/base/work_done.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::rpc::internal {
namespace {

// It only has to differ between worker processes, so this is not the seeded source of results.
uint64_t random_instance() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

void log_to_stderr(const std::string& line) { say("scalai: worker: {}\n", line); }

WorkerOptions with_defaults(WorkerOptions options) {
  if (!options.log) options.log = log_to_stderr;
  return options;
}

constexpr double kFirstPause_s = 0.05;  // between two attempts; workers that lost one controller spread out
constexpr double kLongestPause_s = 1;
constexpr double kRefusedPause_s = 0.5;  // after a refusal, which is rarely taken back at once

}  // namespace

WorkerLoop::WorkerLoop(WorkerOptions options, std::unique_ptr<Dialer> dialer)
    : options_(with_defaults(std::move(options))),
      dialer_(std::move(dialer)),
      hello_(std::make_unique<proto::Hello>()) {
  hello_->set_protocol_version(kProtocolVersion);
  hello_->set_build_version(kVersion);
  hello_->set_host(options_.host);
  hello_->set_host_name(machine_name());
  hello_->set_pid(::getpid());
  hello_->set_instance(random_instance());
  if (options_.introduce) options_.introduce(*hello_);
}

absl::StatusOr<std::unique_ptr<WorkerEnd>> WorkerLoop::connect(WorkerOptions options, std::unique_ptr<Dialer> dialer) {
  std::unique_ptr<WorkerLoop> loop(new WorkerLoop(std::move(options), std::move(dialer)));
  SCALAI_ASSIGN_OR_RETURN(std::shared_ptr<Wire> wire, loop->join(loop->options_.connect_timeout_s, OnRefusal::kGiveUp));
  loop->adopt(std::move(wire));
  SCALAI_ASSIGN_OR_RETURN(loop->reader_, start_thread([worker = loop.get()] { worker->read_until_over(); }));
  return loop;
}

WorkerLoop::~WorkerLoop() {
  finish(absl::OkStatus());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // After a goodbye the controller closes; it has been told everything.
    if (wire_ != nullptr && !leaving_) wire_->cut();
  }
  if (reader_.joinable()) reader_.join();
}

proto::Welcome WorkerLoop::welcome() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return wire_->welcome();
}

bool WorkerLoop::over() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return over_.has_value();
}

void WorkerLoop::finish(absl::Status status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!over_.has_value()) over_ = std::move(status);
  inbox_.clear();
  changed_.notify_all();
}

absl::StatusOr<std::shared_ptr<Wire>> WorkerLoop::dial() {
  SCALAI_ASSIGN_OR_RETURN(std::shared_ptr<Wire> wire, dialer_->dial(*hello_));
  const int64_t epoch = wire->welcome().controller_epoch();
  if (epoch >= core_.epoch()) return wire;
  wire->cut();
  return absl::FailedPreconditionError(fmt::format("the controller's epoch {} is older than {}", epoch, core_.epoch()));
}

absl::StatusOr<std::shared_ptr<Wire>> WorkerLoop::join(double timeout_s, OnRefusal on_refusal) {
  const TimePoint until = Clock::now() + seconds(timeout_s);
  for (Backoff backoff(kFirstPause_s, kLongestPause_s, hello_->instance());;) {
    absl::StatusOr<std::shared_ptr<Wire>> wire = dial();
    const bool refused = !wire.ok() && !absl::IsUnavailable(wire.status());
    if (wire.ok() || (refused && on_refusal == OnRefusal::kGiveUp)) return wire;
    std::unique_lock<std::mutex> lock(mutex_);
    if (over_.has_value()) return absl::CancelledError("stopped");
    if (Clock::now() >= until) {
      return absl::UnavailableError(
          fmt::format("no controller at {} within {} s: {}", options_.address, timeout_s, message_of(wire.status())));
    }
    const double pause_s = std::max(backoff.next_s(), refused ? kRefusedPause_s : 0);
    changed_.wait_for(lock, std::min(seconds(pause_s), until - Clock::now()));
  }
}

void WorkerLoop::adopt(std::shared_ptr<Wire> wire) {
  const proto::Welcome& welcome = wire->welcome();
  const bool newer = core_.adopt(welcome.controller_epoch());
  SCALAI_CHECK(newer, "dial() refuses a controller of an older epoch");
  hello_->set_run_id(welcome.run_id());
  hello_->set_host(welcome.host());
  hello_->set_controller_epoch(welcome.controller_epoch());
  const std::lock_guard<std::mutex> lock(mutex_);
  wire_ = std::move(wire);
  if (over_.has_value()) wire_->cut();
}

// The reader thread.
void WorkerLoop::read_until_over() {
  while (true) {
    std::shared_ptr<Wire> wire;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      wire = wire_;
    }
    if (!read_until_lost(*wire)) return finish(absl::OkStatus());
    options_.log(fmt::format("lost the controller at {} ({}); keeping state for {} s", options_.address, wire->reason(),
                             options_.orphan_timeout_s));
    wire.reset();
    if (options_.introduce) options_.introduce(*hello_);
    absl::StatusOr<std::shared_ptr<Wire>> next = join(options_.orphan_timeout_s, OnRefusal::kTryAgain);
    if (!next.ok()) return finish(absl::IsCancelled(next.status()) ? absl::OkStatus() : next.status());
    options_.log(fmt::format("joined the controller at {} again, epoch {}", options_.address,
                             (*next)->welcome().controller_epoch()));
    const int64_t before = core_.epoch();
    adopt(*std::move(next));
    if (core_.epoch() > before && options_.superseded) options_.superseded();
  }
}

// True: try to join again.
bool WorkerLoop::read_until_lost(Wire& wire) {
  while (std::optional<Incoming> incoming = wire.read()) {
    if (const auto* dismissed = std::get_if<Dismissed>(&*incoming)) {
      wire.goodbye(dismissed->reason);
      const std::lock_guard<std::mutex> lock(mutex_);
      leaving_ = true;
      continue;
    }
    if (const auto* departed = std::get_if<Departed>(&*incoming)) {
      if (options_.departed) options_.departed(departed->host);
      continue;
    }
    Command& command = std::get<Command>(*incoming);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (over_.has_value() || leaving_) continue;
    const TimePoint expires = Clock::now() + seconds(command.deadline_s);
    inbox_.push_back({std::move(command), expires, work_done()});
    changed_.notify_all();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  // The controller was told that these are lost; it may repeat them.
  inbox_.clear();
  return !leaving_ && !over_.has_value();
}

std::optional<WorkerLoop::Queued> WorkerLoop::next() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return over_.has_value() || !inbox_.empty(); });
  if (over_.has_value()) return std::nullopt;
  Queued queued = std::move(inbox_.front());
  inbox_.pop_front();
  if (queued.work_done != work_done())
    queued.expires = std::max(queued.expires, Clock::now() + seconds(queued.command.deadline_s));
  return queued;
}

void WorkerLoop::answer(const Reply& reply) {
  const std::lock_guard<std::mutex> lock(mutex_);
  wire_->reply(reply);
  if (!reply.last) return;
  wire_->goodbye("its work is done");
  leaving_ = true;
}

absl::Status WorkerLoop::run(const CommandHandler& handler) {
  while (std::optional<Queued> queued = next()) {
    const Reply reply = core_.handle(queued->command, queued->expires, handler);
    answer(reply);
    if (!reply.last) continue;
    // The reader sees the connection end once the reply and the goodbye have gone out.
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return over_.has_value(); });
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  return *over_;
}

void WorkerLoop::stop(const std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (over_.has_value()) return;
  over_ = absl::OkStatus();
  inbox_.clear();
  leaving_ = true;
  if (wire_ != nullptr) wire_->goodbye(reason);
  changed_.notify_all();
}

}  // namespace scalai::executor::rpc::internal
