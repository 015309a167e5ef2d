#include "executor/rpc/inline_control.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "executor/rpc/internal/controller_core.h"
#include "executor/rpc/internal/worker_core.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/base/version.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::rpc {
namespace {

using internal::ControllerCore;
using internal::TimePoint;

struct InlineWorker {
  int32_t host = -1;
  CommandHandler handler;
  internal::WorkerCore core;
  std::deque<Command> inbox;
  bool dismissed = false;
  bool closed = false;
};

ControllerOptions checked(ControllerOptions options) {
  const absl::Status status = ControllerCore::check(options);
  SCALAI_CHECK(status.ok(), message_of(status));
  return options;
}

class InlineLink final : public internal::Link {
 public:
  explicit InlineLink(std::shared_ptr<InlineWorker> worker) : worker_(std::move(worker)) {}
  void welcome(const proto::Welcome& welcome) override {
    worker_->host = welcome.host();
    worker_->core.adopt(welcome.controller_epoch());
  }
  void deliver(const Command& command) override { worker_->inbox.push_back(command); }
  void goodbye(const std::string&) override { worker_->dismissed = true; }
  void departed(int32_t) override {}  // its commands do not wait for each other
  void close(const std::string&, bool) override { worker_->closed = true; }

 private:
  const std::shared_ptr<InlineWorker> worker_;
};

}  // namespace

// The core of every controller's end, with a clock of its own.
class InlineControl::Core final : public ControllerCore {
 public:
  Core(ControllerOptions options, uint64_t seed) : ControllerCore(checked(std::move(options))), random_(seed) {}

  std::string address() const override { return "inline"; }
  TimePoint now() const override { return now_; }
  absl::Status add(int32_t host, CommandHandler handler);

  std::function<Fault(int32_t, const Command&)> fault;

 private:
  struct Station {
    std::shared_ptr<InlineWorker> worker;
    std::shared_ptr<InlineLink> link;
    bool idle() const { return worker->inbox.empty() && !worker->dismissed; }
  };

  void wait(Lock& lock, TimePoint until) override;
  void run_one(const Station& station);

  TimePoint now_{};
  Random random_;
  uint64_t next_instance_ = 1;
  std::vector<Station> stations_;
};

absl::Status InlineControl::Core::add(int32_t host, CommandHandler handler) {
  proto::Hello hello;
  hello.set_protocol_version(kProtocolVersion);
  hello.set_build_version(kVersion);
  hello.set_host(host);
  hello.set_instance(next_instance_++);
  Station station;
  station.worker = std::make_shared<InlineWorker>();
  station.worker->handler = std::move(handler);
  station.link = std::make_shared<InlineLink>(station.worker);
  if (const auto refusal = join(hello, station.link)) {
    return absl::FailedPreconditionError(refusal->reason);
  }
  stations_.push_back(std::move(station));
  return absl::OkStatus();
}

void InlineControl::Core::wait(Lock& lock, TimePoint until) {
  lock.unlock();
  std::erase_if(stations_, [](const Station& station) { return station.worker->closed; });
  std::vector<size_t> busy;
  for (size_t i = 0; i < stations_.size(); ++i) {
    if (!stations_[i].idle()) busy.push_back(i);
  }
  if (busy.empty()) {
    now_ = std::max(now_, until);  // nothing else can happen before
  } else {
    const Station station = stations_[busy[static_cast<size_t>(random_.below(static_cast<int64_t>(busy.size())))]];
    run_one(station);
  }
  lock.lock();
}

void InlineControl::Core::run_one(const Station& station) {
  InlineWorker& worker = *station.worker;
  if (worker.inbox.empty()) return lost(station.link.get(), "it left: dismissed", true);
  const Command command = std::move(worker.inbox.front());
  worker.inbox.pop_front();
  const Fault fault_now = fault ? fault(worker.host, command) : Fault::kNone;
  if (fault_now == Fault::kHang) return;
  if (fault_now == Fault::kDieBefore) return lost(station.link.get(), "scripted fault", false);
  const Reply reply = worker.core.handle(command, TimePoint::max(), worker.handler);
  if (fault_now == Fault::kDieAfter) return lost(station.link.get(), "scripted fault", false);
  replied(station.link.get(), reply);
  if (reply.last) lost(station.link.get(), "it left: its work is done", true);
}

InlineControl::InlineControl(ControllerOptions options, uint64_t seed)
    : core_(std::make_unique<Core>(std::move(options), seed)) {}
InlineControl::~InlineControl() = default;

ControllerEnd& InlineControl::controller() { return *core_; }
absl::Status InlineControl::join(int32_t host, CommandHandler handler) { return core_->add(host, std::move(handler)); }
void InlineControl::set_fault(std::function<Fault(int32_t, const Command&)> fault) { core_->fault = std::move(fault); }
double InlineControl::time_s() const { return std::chrono::duration<double>(core_->now().time_since_epoch()).count(); }

}  // namespace scalai::executor::rpc
