#include "executor/rpc/control_server.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <set>
#include <thread>

#include "executor/rpc/internal/front.h"
#include "executor/rpc/internal/guard.h"
#include "executor/rpc/internal/outbox.h"
#include "executor/rpc/internal/wire.h"
#include "executor/rpc/token.h"
#include "executor/secret/secret.h"
#include "ptc/base/file.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/thread.h"
#include "ptc/proto/control.grpc.pb.h"

namespace scalai::executor::rpc {
namespace {

using internal::Clock;
using internal::ControllerCore;
using internal::TimePoint;
using SessionStream = grpc::ServerReaderWriter<proto::ToWorker, proto::FromWorker>;

// A worker has one call at a time, or two while it joins again; so has ctl.
constexpr int kCallsOfOneConnection = 16;

// For all connections together: two of the largest messages, and what many small ones need.
size_t quota_bytes(const ControllerOptions& options) {
  return 2 * static_cast<size_t>(options.max_message_bytes) + (size_t{256} << 20);
}

void log_to_stderr(const std::string& line) { say("scalai: controller: {}\n", line); }

// One worker's stream. Lives as long as the core or the serving thread needs it; gRPC's objects only until serve()
// has returned.
class Session final : public internal::Link, public std::enable_shared_from_this<Session> {
 public:
  Session(grpc::ServerContext& context, SessionStream& stream) : context_(&context), stream_(stream) {}

  grpc::Status serve(ControllerCore& core);
  // Sends a heartbeat when nothing else is under way, and ends the stream when the worker was silent for too long.
  void pulse(double silence_s);

  void welcome(const proto::Welcome& welcome) override;
  void deliver(const Command& command) override;
  void goodbye(const std::string& reason) override;
  void departed(int32_t host) override;
  void close(const std::string& reason, bool clean) override;

 private:
  void serve_messages(ControllerCore& core);
  std::string why_lost();

  std::mutex mutex_;
  grpc::ServerContext* context_;  // null once serve() is about to return
  SessionStream& stream_;
  internal::Outbox<proto::ToWorker> outbox_;
  TimePoint last_received_ = Clock::now();
  bool welcomed_ = false;
  std::string closed_because_;
};

grpc::Status Session::serve(ControllerCore& core) {
  proto::FromWorker first;
  if (!stream_.Read(&first) || !first.has_hello()) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the first message is no hello");
  }
  const absl::Status started = outbox_.start([this](const proto::ToWorker& message) { return stream_.Write(message); });
  if (!started.ok()) return internal::to_grpc(started);
  if (const auto refusal = core.join(first.hello(), shared_from_this())) {
    proto::ToWorker message;
    message.mutable_refused()->set_reason(refusal->reason);
    message.mutable_refused()->set_retry(refusal->retry);
    stream_.Write(message);
    return grpc::Status::OK;
  }
  serve_messages(core);
  outbox_.close();
  const std::lock_guard<std::mutex> lock(mutex_);
  context_ = nullptr;
  return grpc::Status::OK;
}

void Session::serve_messages(ControllerCore& core) {
  proto::FromWorker message;
  while (stream_.Read(&message)) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      last_received_ = Clock::now();
    }
    if (message.has_heartbeat()) core.worked(this, message.heartbeat().work_done());
    if (message.has_reply()) core.replied(this, internal::unpack(std::move(*message.mutable_reply())));
    if (message.has_goodbye()) return core.lost(this, "it left: " + message.goodbye().reason(), true);
  }
  core.lost(this, why_lost(), false);
}

std::string Session::why_lost() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return closed_because_.empty() ? "connection closed" : closed_because_;
}

void Session::pulse(double silence_s) {
  bool beat = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (context_ != nullptr && Clock::now() - last_received_ > internal::seconds(silence_s)) {
      if (closed_because_.empty()) closed_because_ = fmt::format("silent for {} s", silence_s);
      context_->TryCancel();
    }
    beat = welcomed_ && outbox_.idle();
  }
  if (!beat) return;
  proto::ToWorker message;
  message.mutable_heartbeat();
  outbox_.push(std::move(message));
}

void Session::welcome(const proto::Welcome& welcome) {
  proto::ToWorker message;
  *message.mutable_welcome() = welcome;
  outbox_.push(std::move(message));
  const std::lock_guard<std::mutex> lock(mutex_);
  welcomed_ = true;
}

void Session::deliver(const Command& command) {
  proto::ToWorker message;
  *message.mutable_command() = internal::pack(command);
  outbox_.push(std::move(message));
}

void Session::goodbye(const std::string& reason) {
  proto::ToWorker message;
  message.mutable_goodbye()->set_reason(reason);
  outbox_.push(std::move(message));
}

void Session::departed(int32_t host) {
  proto::ToWorker message;
  message.mutable_departed()->set_host(host);
  outbox_.push(std::move(message));
}

void Session::close(const std::string& reason, bool clean) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_because_.empty()) closed_because_ = reason;
  outbox_.seal();
  // After a goodbye the serving thread is on its way out and closes in order.
  if (context_ != nullptr && !clean) context_->TryCancel();
}

class DoorService final : public proto::Door::Service {
 public:
  explicit DoorService(internal::Guard& guard) : guard_(guard) {}

  grpc::Status Challenge(grpc::ServerContext* context,
                         grpc::ServerReaderWriter<proto::Nothing, proto::Nothing>* stream) override {
    guard_.challenge(*context);
    stream->SendInitialMetadata();
    return grpc::Status::OK;
  }

 private:
  internal::Guard& guard_;
};

class WorkersService final : public proto::Workers::Service {
 public:
  WorkersService(ControllerCore& core, internal::Guard& guard) : core_(core), guard_(guard) {}

  grpc::Status Session(grpc::ServerContext* context, SessionStream* stream) override {
    if (grpc::Status status = guard_.admit(*context, internal::kWorkerRole); !status.ok()) return status;
    stream->SendInitialMetadata();
    const auto session = std::make_shared<rpc::Session>(*context, *stream);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      sessions_.insert(session);
    }
    const grpc::Status status = session->serve(core_);
    const std::lock_guard<std::mutex> lock(mutex_);
    sessions_.erase(session);
    return status;
  }

  void pulse(double silence_s) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& session : sessions_) session->pulse(silence_s);
  }

 private:
  ControllerCore& core_;
  internal::Guard& guard_;
  std::mutex mutex_;
  std::set<std::shared_ptr<rpc::Session>> sessions_;
};

class CtlService final : public proto::Ctl::Service {
 public:
  CtlService(CtlHandler handler, internal::Guard& guard) : handler_(std::move(handler)), guard_(guard) {}

  grpc::Status Ask(grpc::ServerContext* context,
                   grpc::ServerReaderWriter<proto::CtlReply, proto::CtlRequest>* stream) override {
    if (grpc::Status status = guard_.admit(*context, internal::kCtlRole); !status.ok()) return status;
    stream->SendInitialMetadata();
    proto::CtlRequest request;
    if (!stream->Read(&request)) return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no request came");
    if (!handler_) {
      return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "this controller takes no requests");
    }
    do {  // one after another, as long as the asker has more
      absl::StatusOr<std::string> answer = handler_(request);
      if (!answer.ok()) return internal::to_grpc(answer.status());
      proto::CtlReply reply;
      reply.set_answer(*std::move(answer));
      stream->Write(reply);
    } while (stream->Read(&request));
    return grpc::Status::OK;
  }

 private:
  const CtlHandler handler_;
  internal::Guard& guard_;
};

class Server final : public ControllerCore {
 public:
  Server(const ServerOptions& options, std::string challenge_key)
      : ControllerCore(options.controller),
        log_(options.log ? options.log : log_to_stderr),
        guard_({.token = options.token,
                .run_id = options.controller.run_id,
                .challenge_key = std::move(challenge_key),
                .log = log_,
                .on_proof = [this](const std::string& peer) { front_->admit(internal::peer_of(peer)); }}),
        door_service_(guard_),
        workers_service_(*this, guard_),
        ctl_service_(options.on_ctl, guard_) {}
  ~Server() override;

  absl::Status listen(const ServerOptions& options);
  std::string address() const override { return address_; }

 private:
  void keep_pulse();

  const LogLine log_;
  internal::Guard guard_;
  DoorService door_service_;
  WorkersService workers_service_;
  CtlService ctl_service_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<internal::Front> front_;
  std::mutex pulse_mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;
  std::thread pulse_;
};

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials_of(const ServerOptions& options) {
  if (options.certificate_file.empty() != options.key_file.empty()) {
    return invalid("TLS needs both a certificate and its key");
  }
  if (options.certificate_file.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  SCALAI_ASSIGN_OR_RETURN(pair.cert_chain, read_file(options.certificate_file));
  SCALAI_ASSIGN_OR_RETURN(pair.private_key, read_file(options.key_file));
  grpc::SslServerCredentialsOptions tls;
  tls.pem_key_cert_pairs.push_back(std::move(pair));
  return grpc::SslServerCredentials(tls);
}

absl::Status Server::listen(const ServerOptions& options) {
  SCALAI_ASSIGN_OR_RETURN(internal::Listening listening, internal::listen_on(options.bind_address));
  SCALAI_ASSIGN_OR_RETURN(const auto credentials, credentials_of(options));
  const bool plain = options.certificate_file.empty();
  if (!listening.loopback && (plain || options.state_on_network)) {
    log_(fmt::format("listening on {}: {}{}{}", options.bind_address,
                     plain ? "without TLS commands can be read and forged on the network" : "",
                     plain && options.state_on_network ? "; " : "",
                     options.state_on_network ? "state between workers is not encrypted" : ""));
  }
  grpc::ServerBuilder builder;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  // Strangers are turned away before a message of theirs is read, so what they have here is at most a window a call.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsOfOneConnection);
  builder.SetResourceQuota(grpc::ResourceQuota("controller").Resize(quota_bytes(options.controller)));
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.controller.max_message_bytes + internal::kEnvelopeBytes));
  builder.SetMaxSendMessageSize(-1);
  builder.RegisterService(&door_service_);
  builder.RegisterService(&workers_service_);
  builder.RegisterService(&ctl_service_);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::UnavailableError(fmt::format("cannot listen on {}", options.bind_address));
  address_ = fmt::format("{}:{}", listening.host, listening.port);
  const auto hand_over = [this](int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.fd = connection;
    acceptor_->HandleNewConnection(&parameters);
  };
  front_ = std::make_unique<internal::Front>(std::move(listening),
                                             internal::Front::Options{.hand_over = hand_over, .log = log_});
  SCALAI_RETURN_IF_ERROR(front_->start());
  SCALAI_ASSIGN_OR_RETURN(pulse_, start_thread([this] { keep_pulse(); }));
  return absl::OkStatus();
}

void Server::keep_pulse() {
  const double silence_s = this->options().heartbeat_s * this->options().missed_heartbeats;
  std::unique_lock<std::mutex> lock(pulse_mutex_);
  while (!stopped_) {
    stop_.wait_for(lock, internal::seconds(this->options().heartbeat_s / 2));
    workers_service_.pulse(silence_s);
  }
}

Server::~Server() {
  {
    const std::lock_guard<std::mutex> lock(pulse_mutex_);
    stopped_ = true;
    stop_.notify_all();
  }
  if (pulse_.joinable()) pulse_.join();
  if (front_ != nullptr) front_->stop();
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControllerEnd>> ControlServer::start(const ServerOptions& options) {
  SCALAI_RETURN_IF_ERROR(ControllerCore::check(options.controller));
  SCALAI_RETURN_IF_ERROR(check_token(options.token));
  SCALAI_ASSIGN_OR_RETURN(std::string challenge_key, secret::random_bytes(secret::kMacBytes));
  auto server = std::make_unique<Server>(options, std::move(challenge_key));
  SCALAI_RETURN_IF_ERROR(server->listen(options));
  return server;
}

}  // namespace scalai::executor::rpc
