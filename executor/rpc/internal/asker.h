#pragma once
// The asking end of the handshake, for one call: gets a challenge, signs the call, and checks the controller's proof.
// One thread.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/rpc/internal/controller_core.h"
#include "executor/rpc/internal/handshake.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace scalai::executor::rpc::internal {

// FailedPrecondition: no Scalai controller of this build.
absl::Status of_another_build();

class Asker {
 public:
  // Asks for a challenge, until `until` at most. FailedPrecondition: no Scalai controller of this build. Unavailable:
  // no answer.
  static absl::StatusOr<Asker> begin(const std::shared_ptr<grpc::Channel>& channel, std::string token,
                                     std::string_view role, TimePoint until);

  // Adds our proof to a call that has not begun.
  void sign(grpc::ClientContext& context) const;
  // After the call's initial metadata have come: the run's id, of a controller that knows the token. NotFound: it says
  // nothing of a proof, so the call has ended or its status says why. Unauthenticated: it does not know the token.
  absl::StatusOr<std::string> check(const grpc::ClientContext& context) const;

 private:
  Asker(std::string token, Exchange exchange) : token_(std::move(token)), exchange_(std::move(exchange)) {}

  std::string token_;
  Exchange exchange_;
};

}  // namespace scalai::executor::rpc::internal
