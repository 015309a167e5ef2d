#pragma once
// Commands and replies to and from the messages of control.proto, and gRPC's statuses and channels to and from ours.
// The libraries' types are only declared here; who calls these includes their headers.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/rpc/internal/controller_core.h"
#include "executor/rpc/messages.h"

namespace grpc {
class Channel;
class ClientContext;
class Status;
}  // namespace grpc

namespace scalai::proto {
class Command;
class Reply;
}  // namespace scalai::proto

namespace scalai::executor::rpc::internal {

// Around a body: what gRPC may count on top.
inline constexpr int64_t kEnvelopeBytes = 1 << 16;

proto::Command pack(const Command& command);
Command unpack(proto::Command message);
proto::Reply pack(const Reply& reply);
Reply unpack(proto::Reply message);

absl::Status from_grpc(const grpc::Status& status);
grpc::Status to_grpc(const absl::Status& status);

// A channel that asks for no proxy, retries quickly, and shares no connection with other channels. NotFound: ca_file.
absl::StatusOr<std::shared_ptr<grpc::Channel>> open_channel(const std::string& address, const std::string& ca_file);
// Waits; false when there is no connection at `until`.
bool wait_connected(grpc::Channel& channel, TimePoint until);
void set_deadline(grpc::ClientContext& context, TimePoint until);

}  // namespace scalai::executor::rpc::internal
