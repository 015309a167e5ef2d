#include "executor/rpc/ctl.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "executor/rpc/internal/wire.h"
#include "executor/rpc/token.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.grpc.pb.h"

namespace scalai::executor {
namespace {

grpc::Status call(proto::Ctl::Stub& stub, grpc::ClientContext& context, const CtlRequest& request,
                  proto::CtlReply& reply) {
  switch (request.kind) {
    case CtlRequest::Kind::kStatus: {
      proto::CtlStatus message;
      return stub.Status(&context, message, &reply);
    }
    case CtlRequest::Kind::kResize: {
      proto::CtlResize message;
      message.set_job(request.job);
      message.set_gpus(request.gpus);
      return stub.Resize(&context, message, &reply);
    }
    case CtlRequest::Kind::kDrain: {
      proto::CtlDrain message;
      message.set_host(request.host);
      return stub.Drain(&context, message, &reply);
    }
  }
  return grpc::Status(grpc::StatusCode::INTERNAL, "no such request");
}

}  // namespace

absl::StatusOr<std::string> ask_controller(const CtlTarget& target, const CtlRequest& request) {
  SCALAI_RETURN_IF_ERROR(check_token(target.token));
  SCALAI_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel,
                          internal::open_channel(target.address, target.ca_file));
  const auto until = internal::Clock::now() + internal::seconds(target.timeout_s);
  if (!internal::wait_connected(*channel, until)) {
    return absl::UnavailableError(fmt::format("no controller at {} within {} s", target.address, target.timeout_s));
  }
  grpc::ClientContext context;
  internal::add_token(context, target.token);
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::milliseconds>(until - internal::Clock::now()));
  proto::CtlReply reply;
  const auto stub = proto::Ctl::NewStub(channel);
  const absl::Status status = internal::from_grpc(call(*stub, context, request, reply));
  if (status.ok()) return reply.text();
  return absl::Status(status.code(), fmt::format("controller at {}: {}", target.address, message_of(status)));
}

}  // namespace scalai::executor
