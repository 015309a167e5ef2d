#include "executor/rpc/internal/wire.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cmath>

#include "executor/rpc/worker_place.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::internal {
namespace {

// gRPC takes deadlines of the system clock only.
std::chrono::system_clock::time_point system_time(TimePoint until) {
  const auto left = std::max(until - Clock::now(), Clock::duration::zero());
  return std::chrono::time_point_cast<std::chrono::system_clock::duration>(std::chrono::system_clock::now() + left);
}

}  // namespace

proto::Hello pack(const Greeting& greeting) {
  const Hello& hello = greeting.hello;
  proto::Hello message;
  message.set_protocol_version(hello.protocol_version);
  message.set_build_version(hello.build_version);
  message.set_host(hello.host);
  message.set_host_name(hello.host_name);
  message.set_pid(hello.pid);
  for (const WorkerPlace& place : hello.places) *message.add_places() = executor::pack(place);
  message.set_transport_address(hello.transport_address);
  for (const HeldState& held : hello.held) {
    proto::HeldState* packed = message.add_held();
    packed->set_job(held.job);
    packed->set_version(held.version.wire());
    packed->set_step(held.step);
  }
  message.set_instance(greeting.instance);
  message.set_run_id(greeting.run_id);
  message.set_controller_epoch(greeting.controller_epoch);
  return message;
}

absl::StatusOr<Greeting> unpack(const proto::Hello& message) {
  Greeting greeting;
  Hello& hello = greeting.hello;
  hello.protocol_version = message.protocol_version();
  hello.build_version = message.build_version();
  hello.host = message.host();
  hello.host_name = message.host_name();
  hello.pid = message.pid();
  for (const proto::WorkerPlace& place : message.places()) hello.places.push_back(executor::unpack(place));
  hello.transport_address = message.transport_address();
  for (const proto::HeldState& held : message.held()) {
    SCALAI_ASSIGN_OR_RETURN(const StateVersion version, StateVersion::from_wire(held.version()));
    hello.held.push_back({held.job(), version, held.step()});
  }
  greeting.instance = message.instance();
  greeting.run_id = message.run_id();
  greeting.controller_epoch = message.controller_epoch();
  return greeting;
}

proto::Welcome pack(const Welcome& welcome) {
  proto::Welcome message;
  message.set_run_id(welcome.run_id);
  message.set_host(welcome.host);
  message.set_controller_epoch(welcome.controller_epoch);
  message.set_heartbeat_s(welcome.heartbeat_s);
  message.set_missed_heartbeats(welcome.missed_heartbeats);
  message.set_max_message_bytes(welcome.max_message_bytes);
  return message;
}

Welcome unpack(const proto::Welcome& message) {
  return Welcome{.run_id = message.run_id(),
                 .host = message.host(),
                 .controller_epoch = message.controller_epoch(),
                 .heartbeat_s = message.heartbeat_s(),
                 .missed_heartbeats = message.missed_heartbeats(),
                 .max_message_bytes = message.max_message_bytes()};
}

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

}  // namespace scalai::executor::internal
