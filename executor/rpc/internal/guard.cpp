#include "executor/rpc/internal/guard.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "executor/rpc/token.h"
#include "executor/secret/secret.h"
#include "ptc/base/version.h"

namespace scalai::executor::rpc::internal {
namespace {

std::string metadata_of(const grpc::ServerContext& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return "";
  return std::string(found->second.data(), found->second.size());
}

}  // namespace

void Guard::challenge(grpc::ServerContext& context) { context.AddInitialMetadata(kChallengeKey, challenges_.next()); }

grpc::Status Guard::admit(grpc::ServerContext& context, std::string_view role) {
  const std::string protocol = metadata_of(context, kProtocolKey);
  if (protocol.empty()) {
    return turn_away(context, "no proof of the token",
                     {grpc::StatusCode::UNAUTHENTICATED,
                      fmt::format("the token is to be proven, as workers and ctl of this controller's build do ({}, "
                                  "protocol {}); is this one of an older build?",
                                  kVersion, kProtocolVersion)});
  }
  if (protocol != std::to_string(kProtocolVersion)) {
    return turn_away(context, fmt::format("protocol {}", protocol),
                     {grpc::StatusCode::FAILED_PRECONDITION,
                      fmt::format("the {} speaks protocol {}, the controller ({}) protocol {}", role, protocol,
                                  kVersion, kProtocolVersion)});
  }
  const Exchange exchange{.role = std::string(role),
                          .challenge = metadata_of(context, kChallengeKey),
                          .nonce = metadata_of(context, kNonceKey)};
  const bool proven = secret::same_secret(metadata_of(context, kProofKey), proof_of_asker(options_.token, exchange));
  if (!proven) {
    return turn_away(context, "wrong token",
                     {grpc::StatusCode::UNAUTHENTICATED,
                      fmt::format("the token is not the controller's (from {} or a token file)", kTokenVariable)});
  }
  if (exchange.nonce.size() != secret::kNonceBytes || !challenges_.redeem(exchange.challenge)) {
    return turn_away(context, "a proof that does not count any more",
                     {grpc::StatusCode::UNAVAILABLE, "the challenge is not the controller's, or too old"});
  }
  if (options_.on_proof) options_.on_proof(context.peer());
  context.AddInitialMetadata(kRunKey, options_.run_id);
  context.AddInitialMetadata(kProofKey, proof_of_controller(options_.token, exchange, options_.run_id));
  return grpc::Status::OK;
}

grpc::Status Guard::turn_away(const grpc::ServerContext& context, const std::string& why, const grpc::Status& answer) {
  const std::string peer = context.peer();
  const auto first_time = [&] {
    const std::lock_guard<std::mutex> lock(mutex_);
    constexpr size_t kRemembered = 1000;
    return turned_away_.size() < kRemembered && turned_away_.insert(peer.substr(0, peer.rfind(':'))).second;
  };
  if (first_time()) options_.log(fmt::format("turned away {}: {}", peer, why));
  return answer;
}

}  // namespace scalai::executor::rpc::internal
