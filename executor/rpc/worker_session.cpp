#include "executor/rpc/worker_session.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "executor/rpc/internal/asker.h"
#include "executor/rpc/internal/outbox.h"
#include "executor/rpc/internal/wire.h"
#include "executor/rpc/internal/worker_loop.h"
#include "executor/rpc/token.h"
#include "ptc/base/status.h"
#include "ptc/base/thread.h"
#include "ptc/base/work_done.h"
#include "ptc/proto/control.grpc.pb.h"

namespace scalai::executor::rpc {
namespace {

using internal::Clock;
using internal::Incoming;
using internal::TimePoint;

constexpr double kDial_s = 0.5;     // waits for a connection so long before the loop looks whether it was stopped
constexpr double kHandshake_s = 5;  // from Hello to Welcome

// One stream. The pulse thread sends heartbeats and ends a stream on which the controller is silent for too long.
class Stream final : public internal::Wire {
 public:
  Stream(std::shared_ptr<grpc::Channel> channel, internal::Asker asker)
      : channel_(std::move(channel)), stub_(proto::Workers::NewStub(channel_)), asker_(std::move(asker)) {}
  ~Stream() override {
    if (stream_ != nullptr) context_.TryCancel();
    outbox_.close();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    if (pulse_.joinable()) pulse_.join();
    if (stream_ != nullptr) read_rest();
  }

  // Starts the threads, then the call. ResourceExhausted: there is no room for them.
  absl::Status begin();
  // Waits for the controller's proof; nothing is read or said before. Then says hello and waits for the answer.
  absl::Status introduce(const proto::Hello& hello);

  const proto::Welcome& welcome() const override { return welcome_; }
  std::optional<Incoming> read() override;
  std::string reason() override;
  void reply(const Reply& reply) override;
  void goodbye(const std::string& reason) override;
  void cut() override { context_.TryCancel(); }

 private:
  bool write(const proto::FromWorker& message);
  bool read(proto::ToWorker* message);
  void read_rest();
  void keep_pulse();
  grpc::Status finish();
  absl::Status prove();
  bool is_silent() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return silent_;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<proto::Workers::Stub> stub_;
  const internal::Asker asker_;
  std::string run_id_;  // of the controller's proof
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::FromWorker, proto::ToWorker>> stream_;
  internal::Outbox<proto::FromWorker> outbox_;
  proto::Welcome welcome_;
  bool read_ended_ = false;               // of the reading thread
  std::optional<grpc::Status> finished_;  // of the reading thread

  std::mutex mutex_;
  std::condition_variable changed_;
  TimePoint last_received_ = Clock::now();
  double heartbeat_s_ = 0;  // 0 = not welcomed
  double silence_s_ = kHandshake_s;
  bool silent_ = false;
  bool over_ = false;
  std::thread pulse_;
};

absl::Status Stream::begin() {
  SCALAI_RETURN_IF_ERROR(outbox_.start([this](const proto::FromWorker& message) { return write(message); }));
  SCALAI_ASSIGN_OR_RETURN(pulse_, start_thread([this] { keep_pulse(); }));
  asker_.sign(context_);
  stream_ = stub_->Session(&context_);
  return absl::OkStatus();
}

bool Stream::write(const proto::FromWorker& message) {
  const bool written = stream_->Write(message);
  // Goodbye is the last word: the controller sees the end of our messages and closes.
  if (written && message.has_goodbye()) stream_->WritesDone();
  return written;
}

bool Stream::read(proto::ToWorker* message) {
  if (!stream_->Read(message)) {
    read_ended_ = true;
    return false;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  last_received_ = Clock::now();
  return true;
}

// gRPC wants all messages read before Finish, also those of a stream that was cancelled.
void Stream::read_rest() {
  proto::ToWorker rest;
  while (!read_ended_) read(&rest);
  finish();
}

grpc::Status Stream::finish() {
  if (!finished_.has_value()) finished_ = stream_->Finish();
  return *finished_;
}

void Stream::keep_pulse() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!over_) {
    changed_.wait_for(lock, internal::seconds((heartbeat_s_ > 0 ? heartbeat_s_ : kHandshake_s) / 2));
    if (Clock::now() - last_received_ > internal::seconds(silence_s_)) {
      silent_ = true;
      context_.TryCancel();
    }
    // A message that waits tells as much as a heartbeat.
    if (heartbeat_s_ > 0 && outbox_.idle()) {
      proto::FromWorker message;
      message.mutable_heartbeat()->set_work_done(work_done());
      outbox_.push(std::move(message));
    }
  }
}

absl::Status Stream::prove() {
  stream_->WaitForInitialMetadata();
  absl::StatusOr<std::string> run_id = asker_.check(context_);
  if (run_id.ok()) {
    run_id_ = *std::move(run_id);
    return absl::OkStatus();
  }
  if (absl::IsUnauthenticated(run_id.status())) return run_id.status();
  // What it sends instead of a proof is not read; while it goes on sending, the call does not end by itself.
  const bool was_silent = is_silent();
  const absl::Status end = internal::from_grpc(finish());
  read_ended_ = true;
  if (!was_silent && is_silent()) return absl::UnauthenticatedError(message_of(run_id.status()));
  if (absl::IsUnauthenticated(end) || absl::IsFailedPrecondition(end)) return end;
  if (end.ok()) return absl::UnauthenticatedError(message_of(run_id.status()));
  return absl::UnavailableError(was_silent ? "it does not answer" : "it closed the connection: " + message_of(end));
}

absl::Status Stream::introduce(const proto::Hello& hello) {
  SCALAI_RETURN_IF_ERROR(prove());
  proto::FromWorker first;
  *first.mutable_hello() = hello;
  outbox_.push(std::move(first));
  proto::ToWorker answer;
  if (!read(&answer)) {
    outbox_.close();
    const absl::Status status = internal::from_grpc(finish());
    return absl::UnavailableError(is_silent() ? "it does not answer"
                                              : "it closed the connection: " + message_of(status));
  }
  if (answer.has_refused()) {
    return internal::status_of({.reason = answer.refused().reason(), .retry = answer.refused().retry()});
  }
  if (!answer.has_welcome()) return absl::FailedPreconditionError("its first message is no welcome");
  welcome_ = answer.welcome();
  if (welcome_.run_id() != run_id_) return absl::FailedPreconditionError("it proved another run than it welcomes to");
  const std::lock_guard<std::mutex> lock(mutex_);
  heartbeat_s_ = welcome_.heartbeat_s();
  silence_s_ = welcome_.heartbeat_s() * welcome_.missed_heartbeats();
  last_received_ = Clock::now();
  changed_.notify_all();
  return absl::OkStatus();
}

std::optional<Incoming> Stream::read() {
  proto::ToWorker message;
  while (read(&message)) {
    if (message.has_command()) return internal::unpack(std::move(*message.mutable_command()));
    if (message.has_departed()) return internal::Departed{message.departed().host()};
    if (message.has_goodbye()) return internal::Dismissed{message.goodbye().reason()};
  }
  return std::nullopt;
}

std::string Stream::reason() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (silent_) return fmt::format("silent for {} s", silence_s_);
  }
  return "connection closed";
}

void Stream::reply(const Reply& reply) {
  proto::FromWorker message;
  if (static_cast<int64_t>(reply.body.size()) > welcome_.max_message_bytes()) {
    Reply too_large{.status = absl::ResourceExhaustedError(fmt::format(
                        "the reply has {} bytes; the limit is {}", reply.body.size(), welcome_.max_message_bytes())),
                    .id = reply.id,
                    .controller_epoch = reply.controller_epoch,
                    .seconds = reply.seconds};
    *message.mutable_reply() = internal::pack(too_large);
  } else {
    *message.mutable_reply() = internal::pack(reply);
  }
  outbox_.push(std::move(message));
}

void Stream::goodbye(const std::string& reason) {
  proto::FromWorker message;
  message.mutable_goodbye()->set_reason(reason);
  outbox_.push(std::move(message));
  outbox_.seal();
}

class GrpcDialer final : public internal::Dialer {
 public:
  GrpcDialer(std::shared_ptr<grpc::Channel> channel, const WorkerOptions& options)
      : channel_(std::move(channel)), address_(options.address), token_(options.token) {}

  absl::StatusOr<std::shared_ptr<internal::Wire>> dial(const proto::Hello& hello) override {
    if (!internal::wait_connected(*channel_, Clock::now() + internal::seconds(kDial_s))) {
      return absl::UnavailableError("no controller listens there, or only one end uses TLS");
    }
    absl::StatusOr<internal::Asker> asker =
        internal::Asker::begin(channel_, token_, internal::kWorkerRole, Clock::now() + internal::seconds(kHandshake_s));
    absl::Status status = asker.status();
    if (status.ok()) {
      auto stream = std::make_shared<Stream>(channel_, *std::move(asker));
      status = stream->begin();
      if (status.ok()) status = stream->introduce(hello);
      if (status.ok()) return stream;
    }
    // The loop adds the address to Unavailable.
    if (absl::IsUnavailable(status)) return status;
    return absl::Status(status.code(), fmt::format("{}: {}", address_, message_of(status)));
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::string address_;
  const std::string token_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerEnd>> WorkerSession::connect(WorkerOptions options) {
  SCALAI_RETURN_IF_ERROR(check_token(options.token));
  SCALAI_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                          internal::open_channel(options.address, options.ca_file));
  auto dialer = std::make_unique<GrpcDialer>(std::move(channel), options);
  return internal::WorkerLoop::connect(std::move(options), std::move(dialer));
}

}  // namespace scalai::executor::rpc
