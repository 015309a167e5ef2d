#include "executor/rpc/ctl.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "executor/rpc/internal/asker.h"
#include "executor/rpc/internal/wire.h"
#include "executor/rpc/token.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.grpc.pb.h"

namespace scalai::executor::rpc {

struct CtlLine::State {
  std::string address;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<proto::Ctl::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<proto::CtlRequest, proto::CtlReply>> stream;
};

CtlLine::CtlLine(std::unique_ptr<State> state) : state_(std::move(state)) {}

CtlLine::~CtlLine() {
  if (state_->stream == nullptr) return;
  state_->context.TryCancel();
  (void)state_->stream->Finish();
}

absl::StatusOr<std::unique_ptr<CtlLine>> CtlLine::open(const CtlTarget& target) {
  const auto until = internal::Clock::now() + internal::seconds(target.timeout_s);
  SCALAI_RETURN_IF_ERROR(check_token(target.token));
  auto made = std::make_unique<State>();
  State& state = *made;
  state.address = target.address;
  SCALAI_ASSIGN_OR_RETURN(state.channel, internal::open_channel(target.address, target.ca_file));
  if (!internal::wait_connected(*state.channel, until))
    return absl::UnavailableError(fmt::format("no controller at {} within {} s", target.address, target.timeout_s));
  std::unique_ptr<CtlLine> line(new CtlLine(std::move(made)));
  const absl::StatusOr<internal::Asker> asker =
      internal::Asker::begin(state.channel, target.token, internal::kCtlRole, until);
  if (!asker.ok()) return line->failure(asker.status());
  state.stub = proto::Ctl::NewStub(state.channel);
  asker->sign(state.context);
  internal::set_deadline(state.context, until);
  state.stream = state.stub->Ask(&state.context);
  state.stream->WaitForInitialMetadata();
  const absl::Status proven = asker->check(state.context).status();
  if (proven.ok()) return line;
  if (absl::IsUnauthenticated(proven)) return line->failure(proven);
  const absl::Status end = line->end(absl::UnauthenticatedError(message_of(proven)));
  return line->failure(absl::IsUnimplemented(end) ? internal::of_another_build() : end);
}

absl::StatusOr<std::string> CtlLine::ask(const proto::CtlRequest& request) {
  if (state_->stream == nullptr) return absl::UnavailableError("the connection has ended");
  proto::CtlReply reply;
  if (state_->stream->Write(request) && state_->stream->Read(&reply)) return std::move(*reply.mutable_answer());
  return failure(end(absl::UnavailableError("it ended the call without an answer")));
}

absl::Status CtlLine::end(const absl::Status& otherwise) {
  const absl::Status end = internal::from_grpc(state_->stream->Finish());
  state_->stream.reset();
  return end.ok() ? otherwise : end;
}

absl::Status CtlLine::failure(const absl::Status& status) const {
  return absl::Status(status.code(), fmt::format("controller at {}: {}", state_->address, message_of(status)));
}

absl::StatusOr<std::string> ask_controller(const CtlTarget& target, const proto::CtlRequest& request) {
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<CtlLine> line, CtlLine::open(target));
  return line->ask(request);
}

}  // namespace scalai::executor::rpc
