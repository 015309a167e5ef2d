#pragma once
// The controller's door: gives challenges, lets in who proves that it knows the token, and writes one line a machine
// about who does not. Thread-safe.

#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "executor/rpc/internal/handshake.h"
#include "executor/rpc/messages.h"

namespace grpc {
class ServerContext;
class Status;
}  // namespace grpc

namespace scalai::executor::rpc::internal {

class Guard {
 public:
  struct Options {
    std::string token;
    std::string run_id;
    std::string challenge_key;
    LogLine log;
    std::function<void(const std::string& peer)> on_proof;  // gRPC's name of a caller that was let in; may be empty
  };
  explicit Guard(Options options) : options_(std::move(options)), challenges_(options_.challenge_key) {}

  // Puts a challenge into the answer's initial metadata.
  void challenge(grpc::ServerContext& context);
  // OK, with our own proof in the initial metadata, which the caller sends before it reads anything: the asker waits
  // for it. Unauthenticated: no proof, or a wrong one. FailedPrecondition: another protocol.
  grpc::Status admit(grpc::ServerContext& context, std::string_view role);

 private:
  grpc::Status turn_away(const grpc::ServerContext& context, const std::string& why, const grpc::Status& answer);

  const Options options_;
  Challenges challenges_;
  std::mutex mutex_;
  std::set<std::string> turned_away_;  // machines
};

}  // namespace scalai::executor::rpc::internal
