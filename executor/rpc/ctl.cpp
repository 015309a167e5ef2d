#include "executor/rpc/ctl.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "executor/rpc/internal/asker.h"
#include "executor/rpc/internal/wire.h"
#include "executor/rpc/token.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.grpc.pb.h"

namespace scalai::executor {
namespace {

// One call: both ends prove that they know the token, then the request goes out. An error of the controller is as it
// says.
template <class Message, class Stream>
absl::StatusOr<std::string> exchange(const internal::Asker& asker, const grpc::ClientContext& context, Stream stream,
                                     const Message& message) {
  stream->WaitForInitialMetadata();
  const absl::Status proven = asker.check(context).status();
  if (absl::IsUnauthenticated(proven)) return proven;
  proto::CtlReply reply;
  if (!proven.ok()) {
    const absl::Status end = internal::from_grpc(stream->Finish());
    return end.ok() ? absl::UnauthenticatedError(message_of(proven)) : end;
  }
  stream->Write(message);
  stream->WritesDone();
  const bool answered = stream->Read(&reply);
  for (proto::CtlReply rest; answered && stream->Read(&rest);) continue;
  SCALAI_RETURN_IF_ERROR(internal::from_grpc(stream->Finish()));
  if (!answered) return absl::UnavailableError("it ended the call without an answer");
  return reply.live().empty() ? reply.text() : reply.live();
}

proto::CtlLive live_message(const CtlRequest& request) {
  proto::CtlLive message;
  message.set_job(request.job);
  message.set_reader(request.reader);
  for (const int64_t version : request.keeps) message.add_keeps(version);
  message.set_wants(request.wants);
  message.set_optimizer(request.optimizer);
  message.set_fleeting(request.fleeting);
  message.set_after_step(request.after_step);
  message.set_digest_bytes(request.digest_bytes);
  message.set_stats(request.stats);
  message.set_version(request.version);
  message.set_host_name(request.host_name);
  message.set_transport_address(request.transport_address);
  if (request.touch) {
    proto::LiveTouch& touch = *message.mutable_touch();
    touch.set_version(request.touch->version);
    for (const int64_t block : request.touch->blocks) touch.add_blocks(block);
    for (const int64_t bytes : request.touch->bytes) touch.add_bytes(bytes);
    for (const int64_t block : request.touch->dropped) touch.add_dropped(block);
    for (const uint64_t reader : request.touch->unreached) touch.add_unreached(reader);
  }
  return message;
}

absl::StatusOr<std::string> call(const std::shared_ptr<grpc::Channel>& channel, const std::string& token,
                                 const CtlRequest& request, internal::TimePoint until) {
  SCALAI_ASSIGN_OR_RETURN(const internal::Asker asker,
                          internal::Asker::begin(channel, token, internal::kCtlRole, until));
  const auto stub = proto::Ctl::NewStub(channel);
  grpc::ClientContext context;
  asker.sign(context);
  internal::set_deadline(context, until);
  switch (request.kind) {
    case CtlRequest::Kind::kStatus: return exchange(asker, context, stub->Status(&context), proto::CtlStatus());
    case CtlRequest::Kind::kResize: {
      proto::CtlResize message;
      message.set_job(request.job);
      message.set_gpus(request.gpus);
      return exchange(asker, context, stub->Resize(&context), message);
    }
    case CtlRequest::Kind::kDrain: {
      proto::CtlDrain message;
      message.set_host(request.host);
      return exchange(asker, context, stub->Drain(&context), message);
    }
    case CtlRequest::Kind::kSave: {
      proto::CtlSave message;
      message.set_job(request.job);
      return exchange(asker, context, stub->Save(&context), message);
    }
    case CtlRequest::Kind::kLive: return exchange(asker, context, stub->Live(&context), live_message(request));
  }
  return absl::InternalError("no such request");
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> connected(const CtlTarget& target, internal::TimePoint until) {
  SCALAI_RETURN_IF_ERROR(check_token(target.token));
  SCALAI_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                          internal::open_channel(target.address, target.ca_file));
  if (!internal::wait_connected(*channel, until))
    return absl::UnavailableError(fmt::format("no controller at {} within {} s", target.address, target.timeout_s));
  return channel;
}

}  // namespace

absl::StatusOr<std::string> ask_controller(const CtlTarget& target, const CtlRequest& request) {
  const auto until = internal::Clock::now() + internal::seconds(target.timeout_s);
  SCALAI_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, connected(target, until));
  absl::StatusOr<std::string> text = call(channel, target.token, request, until);
  if (text.ok()) return text;
  const absl::Status& status = text.status();
  return absl::Status(status.code(), fmt::format("controller at {}: {}", target.address, message_of(status)));
}

struct CtlLine::State {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<proto::Ctl::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<proto::CtlLive, proto::CtlReply>> stream;
};

CtlLine::CtlLine(std::unique_ptr<State> state) : state_(std::move(state)) {}

CtlLine::~CtlLine() {
  if (state_->stream == nullptr) return;
  state_->context.TryCancel();
  (void)state_->stream->Finish();
}

absl::StatusOr<std::unique_ptr<CtlLine>> CtlLine::open(const CtlTarget& target) {
  const auto until = internal::Clock::now() + internal::seconds(target.timeout_s);
  auto state = std::make_unique<State>();
  SCALAI_ASSIGN_OR_RETURN(state->channel, connected(target, until));
  SCALAI_ASSIGN_OR_RETURN(const internal::Asker asker,
                          internal::Asker::begin(state->channel, target.token, internal::kCtlRole, until));
  state->stub = proto::Ctl::NewStub(state->channel);
  asker.sign(state->context);
  internal::set_deadline(state->context, until);
  state->stream = state->stub->Live(&state->context);
  state->stream->WaitForInitialMetadata();
  const absl::Status proven = asker.check(state->context).status();
  std::unique_ptr<CtlLine> line(new CtlLine(std::move(state)));
  if (proven.ok()) return line;
  return absl::IsUnauthenticated(proven) ? proven : line->failure();
}

absl::StatusOr<std::string> CtlLine::ask(const CtlRequest& request) {
  SCALAI_CHECK(request.kind == CtlRequest::Kind::kLive);
  if (state_->stream == nullptr) return absl::UnavailableError("the connection has ended");
  proto::CtlReply reply;
  if (!state_->stream->Write(live_message(request)) || !state_->stream->Read(&reply)) return failure();
  return reply.live();
}

absl::Status CtlLine::failure() {
  const absl::Status end = internal::from_grpc(state_->stream->Finish());
  state_->stream.reset();
  return end.ok() ? absl::UnavailableError("the controller ended the connection") : end;
}

}  // namespace scalai::executor
