#include "executor/rpc/internal/wire.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cmath>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::rpc::internal {
namespace {

// gRPC takes deadlines of the system clock only.
std::chrono::system_clock::time_point system_time(TimePoint until) {
  const auto left = std::max(until - Clock::now(), Clock::duration::zero());
  return std::chrono::time_point_cast<std::chrono::system_clock::duration>(std::chrono::system_clock::now() + left);
}

}  // namespace

proto::Command pack(const Command& command) {
  proto::Command message;
  message.set_id(command.id);
  message.set_controller_epoch(command.controller_epoch);
  message.set_deadline_ms(static_cast<int64_t>(std::ceil(std::min(command.deadline_s, 1e9) * 1000)));
  message.set_what(command.what);
  message.set_body(command.body);
  return message;
}

Command unpack(proto::Command message) {
  return Command{.what = std::move(*message.mutable_what()),
                 .body = std::move(*message.mutable_body()),
                 .id = message.id(),
                 .controller_epoch = message.controller_epoch(),
                 .deadline_s = static_cast<double>(message.deadline_ms()) / 1000};
}

proto::Reply pack(const Reply& reply) {
  proto::Reply message;
  message.set_id(reply.id);
  message.set_controller_epoch(reply.controller_epoch);
  message.set_code(static_cast<int32_t>(reply.status.code()));
  message.set_message(message_of(reply.status));
  message.set_body(reply.body);
  message.set_seconds(reply.seconds);
  return message;
}

Reply unpack(proto::Reply message) {
  return Reply{.status = absl::Status(static_cast<absl::StatusCode>(message.code()), message.message()),
               .body = std::move(*message.mutable_body()),
               .id = message.id(),
               .controller_epoch = message.controller_epoch(),
               .seconds = message.seconds()};
}

// The two numberings are the same by design of both libraries.
absl::Status from_grpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

grpc::Status to_grpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message_of(status));
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> open_channel(const std::string& address, const std::string& ca_file) {
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!ca_file.empty()) {
    grpc::SslCredentialsOptions tls;
    SCALAI_ASSIGN_OR_RETURN(tls.pem_root_certs, read_file(ca_file));
    credentials = grpc::SslCredentials(tls);
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 3000);  // despite its name: how long one attempt may take
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

bool wait_connected(grpc::Channel& channel, TimePoint until) { return channel.WaitForConnected(system_time(until)); }

void set_deadline(grpc::ClientContext& context, TimePoint until) { context.set_deadline(system_time(until)); }

}  // namespace scalai::executor::rpc::internal
