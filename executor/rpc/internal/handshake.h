#pragma once
// How a controller and who asks it (a worker, or ctl) prove to each other that both know the token, without saying it.
// Everything travels as metadata, so nobody reads a message of somebody unproven, however long it is:
//
//   asker                                          controller
//     Door.Challenge ──────────────────────────────►
//     ◄────────────────────────────── challenge      new, counts once
//     Session, Status, … : challenge, nonce, proof ►
//          proof = MAC(token, "asker", role, challenge, nonce)
//     ◄───────────────────────────── run id, proof   or an error, which proves nothing
//          proof = MAC(token, "controller", role, challenge, nonce, run id)
//     Hello, or a request ─────────────────────────►
//
// This proves the ends of a connection. What is said on it later is as safe as the network, or as TLS.

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace scalai::executor::rpc::internal {

// Keys of the metadata. gRPC encodes the values of those in -bin.
inline constexpr const char* kProtocolKey = "x-scalai-protocol";
inline constexpr const char* kChallengeKey = "x-scalai-challenge-bin";
inline constexpr const char* kNonceKey = "x-scalai-nonce-bin";
inline constexpr const char* kProofKey = "x-scalai-proof-bin";
inline constexpr const char* kRunKey = "x-scalai-run-bin";

// Roles of askers. A proof of one role is none of another one.
inline constexpr std::string_view kWorkerRole = "worker";
inline constexpr std::string_view kCtlRole = "ctl";

struct Exchange {
  std::string role;
  std::string challenge;
  std::string nonce;
};
std::string proof_of_asker(const std::string& token, const Exchange& exchange);
std::string proof_of_controller(const std::string& token, const Exchange& exchange, const std::string& run_id);

// Challenges of one controller process: nobody can foresee one, and each counts once. Asking for one takes no memory;
// only those that were redeemed are remembered. Thread-safe.
class Challenges {
 public:
  // `key` is random, of this process only.
  explicit Challenges(std::string key) : key_(std::move(key)) {}

  std::string next();
  // Whether it is one of ours, not too old, and not redeemed; from now on it is redeemed. Only for who has proven that
  // it knows the token.
  bool redeem(std::string_view challenge);

  // A challenge is too old when so many later ones were given out.
  static constexpr uint64_t kWindow = 1 << 16;

 private:
  std::string text_of(uint64_t number) const;

  const std::string key_;
  std::mutex mutex_;
  uint64_t last_ = 0;
  std::set<uint64_t> redeemed_;  // of the window
};

}  // namespace scalai::executor::rpc::internal
