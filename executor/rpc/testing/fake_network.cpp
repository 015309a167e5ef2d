#include "executor/rpc/testing/fake_network.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "executor/rpc/internal/controller_core.h"
#include "executor/rpc/internal/worker_loop.h"
#include "executor/rpc/token.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::rpc {

using internal::ControllerCore;
using internal::Departed;
using internal::Dismissed;
using internal::Incoming;

// The controller that is there now. Its mutex is taken before the core's.
struct FakeNetwork::Hub {
  std::mutex mutex;
  ControllerCore* core = nullptr;
  std::string token;
};

namespace {

// What one worker has been told.
struct Channel {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Incoming> incoming;
  std::optional<std::string> ended;

  void push(Incoming message) {
    const std::lock_guard<std::mutex> lock(mutex);
    incoming.push_back(std::move(message));
    changed.notify_all();
  }
  void end(const std::string& reason) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!ended.has_value()) ended = reason;
    changed.notify_all();
  }
};

class FakeLink final : public internal::Link {
 public:
  explicit FakeLink(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}
  void welcome(const proto::Welcome& welcome) override { welcome_ = welcome; }
  void deliver(const Command& command) override { channel_->push(command); }
  void goodbye(const std::string& reason) override { channel_->push(Dismissed{reason}); }
  void departed(int32_t host) override { channel_->push(Departed{host}); }
  void close(const std::string& reason, bool) override { channel_->end(reason); }
  const proto::Welcome& said() const { return welcome_; }

 private:
  const std::shared_ptr<Channel> channel_;
  proto::Welcome welcome_;
};

// The worker's end; towards the controller it calls the core at once.
class FakeWire final : public internal::Wire {
 public:
  FakeWire(std::shared_ptr<FakeNetwork::Hub> hub, std::shared_ptr<Channel> channel, std::shared_ptr<FakeLink> link)
      : hub_(std::move(hub)), channel_(std::move(channel)), link_(std::move(link)) {}

  const proto::Welcome& welcome() const override { return link_->said(); }

  std::optional<Incoming> read() override {
    std::unique_lock<std::mutex> lock(channel_->mutex);
    channel_->changed.wait(lock, [&] { return channel_->ended.has_value() || !channel_->incoming.empty(); });
    if (channel_->ended.has_value()) return std::nullopt;
    Incoming message = std::move(channel_->incoming.front());
    channel_->incoming.pop_front();
    return message;
  }

  std::string reason() override {
    const std::lock_guard<std::mutex> lock(channel_->mutex);
    return channel_->ended.value_or("");
  }

  void reply(const Reply& reply) override {
    const std::lock_guard<std::mutex> lock(hub_->mutex);
    if (hub_->core != nullptr) hub_->core->replied(link_.get(), reply);
  }
  void goodbye(const std::string& reason) override { leave("it left: " + reason, true); }
  void cut() override { leave("connection closed", false); }

 private:
  void leave(const std::string& reason, bool clean) {
    const std::lock_guard<std::mutex> lock(hub_->mutex);
    if (hub_->core != nullptr) hub_->core->lost(link_.get(), reason, clean);
    channel_->end(reason);
  }

  const std::shared_ptr<FakeNetwork::Hub> hub_;
  const std::shared_ptr<Channel> channel_;
  const std::shared_ptr<FakeLink> link_;
};

class FakeDialer final : public internal::Dialer {
 public:
  FakeDialer(std::shared_ptr<FakeNetwork::Hub> hub, std::string token)
      : hub_(std::move(hub)), token_(std::move(token)) {}

  absl::StatusOr<std::shared_ptr<internal::Wire>> dial(const proto::Hello& hello) override {
    const std::lock_guard<std::mutex> lock(hub_->mutex);
    if (hub_->core == nullptr) return absl::UnavailableError("nobody listens");
    if (token_ != hub_->token) return absl::UnauthenticatedError("the token is not the controller's");
    const auto channel = std::make_shared<Channel>();
    const auto link = std::make_shared<FakeLink>(channel);
    if (const auto refusal = hub_->core->join(hello, link)) return internal::status_of(*refusal);
    return std::make_shared<FakeWire>(hub_, channel, link);
  }

 private:
  const std::shared_ptr<FakeNetwork::Hub> hub_;
  const std::string token_;
};

class FakeController final : public ControllerCore {
 public:
  FakeController(ControllerOptions options, std::shared_ptr<FakeNetwork::Hub> hub)
      : ControllerCore(std::move(options)), hub_(std::move(hub)) {}
  ~FakeController() override {
    {
      const std::lock_guard<std::mutex> lock(hub_->mutex);
      hub_->core = nullptr;
    }
    for (const WorkerJoined& worker : workers()) cut(worker.host, "the controller is gone");
  }
  std::string address() const override { return "fake"; }

 private:
  const std::shared_ptr<FakeNetwork::Hub> hub_;
};

}  // namespace

void fill_hello(proto::Hello& hello, const std::string& transport_address, bool dead) {
  if (dead) hello.set_protocol_version(-1);
  hello.set_transport_address(transport_address);
}

FakeNetwork::FakeNetwork() : hub_(std::make_shared<Hub>()) {}
FakeNetwork::~FakeNetwork() = default;

absl::StatusOr<std::unique_ptr<ControllerEnd>> FakeNetwork::start(ControllerOptions options, const std::string& token) {
  SCALAI_RETURN_IF_ERROR(ControllerCore::check(options));
  SCALAI_RETURN_IF_ERROR(check_token(token));
  const std::lock_guard<std::mutex> lock(hub_->mutex);
  if (hub_->core != nullptr) return absl::UnavailableError("cannot listen on fake: there is a controller");
  auto controller = std::make_unique<FakeController>(std::move(options), hub_);
  hub_->core = controller.get();
  hub_->token = token;
  return controller;
}

absl::StatusOr<std::unique_ptr<WorkerEnd>> FakeNetwork::connect(WorkerOptions options) {
  options.address = "fake";
  auto dialer = std::make_unique<FakeDialer>(hub_, options.token);
  return internal::WorkerLoop::connect(std::move(options), std::move(dialer));
}

}  // namespace scalai::executor::rpc
