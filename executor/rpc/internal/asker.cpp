#include "executor/rpc/internal/asker.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "executor/rpc/internal/wire.h"
#include "executor/rpc/token.h"
#include "executor/secret/secret.h"
#include "ptc/base/status.h"
#include "ptc/base/version.h"
#include "ptc/proto/control.grpc.pb.h"

namespace scalai::executor::rpc::internal {
namespace {

std::string metadata_of(const grpc::ClientContext& context, const char* key) {
  const auto& metadata = context.GetServerInitialMetadata();
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

}  // namespace

absl::Status of_another_build() {
  return absl::FailedPreconditionError(
      fmt::format("this is no Scalai controller of this build ({}, protocol {})", kVersion, kProtocolVersion));
}

absl::StatusOr<Asker> Asker::begin(const std::shared_ptr<grpc::Channel>& channel, std::string token,
                                   std::string_view role, TimePoint until) {
  Exchange exchange{.role = std::string(role), .challenge = "", .nonce = ""};
  SCALAI_ASSIGN_OR_RETURN(exchange.nonce, secret::random_bytes(secret::kNonceBytes));
  grpc::ClientContext context;
  set_deadline(context, until);
  const auto stub = proto::Door::NewStub(channel);
  const auto stream = stub->Challenge(&context);
  stream->WaitForInitialMetadata();
  exchange.challenge = metadata_of(context, kChallengeKey);
  if (!exchange.challenge.empty()) context.TryCancel();  // nothing else of this call matters
  const grpc::Status end = stream->Finish();
  if (!exchange.challenge.empty()) return Asker(std::move(token), std::move(exchange));
  if (end.error_code() == grpc::StatusCode::UNIMPLEMENTED || end.ok()) {
    return of_another_build();
  }
  return absl::UnavailableError(fmt::format("it does not answer: {}", end.error_message()));
}

void Asker::sign(grpc::ClientContext& context) const {
  context.AddMetadata(kProtocolKey, std::to_string(kProtocolVersion));
  context.AddMetadata(kChallengeKey, exchange_.challenge);
  context.AddMetadata(kNonceKey, exchange_.nonce);
  context.AddMetadata(kProofKey, proof_of_asker(token_, exchange_));
}

absl::StatusOr<std::string> Asker::check(const grpc::ClientContext& context) const {
  const std::string proof = metadata_of(context, kProofKey);
  if (proof.empty()) return absl::NotFoundError("it did not prove that it knows the token");
  std::string run_id = metadata_of(context, kRunKey);
  if (secret::same_secret(proof, proof_of_controller(token_, exchange_, run_id))) return run_id;
  return absl::UnauthenticatedError(fmt::format(
      "it does not know the token (from {} or a token file): another program listens there", kTokenVariable));
}

}  // namespace scalai::executor::rpc::internal
