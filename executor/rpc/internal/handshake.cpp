#include "executor/rpc/internal/handshake.h"

#include <cstring>

#include "executor/secret/secret.h"

namespace scalai::executor::rpc::internal {

std::string proof_of_asker(const std::string& token, const Exchange& exchange) {
  return secret::mac_of(token, {"asker", exchange.role, exchange.challenge, exchange.nonce});
}

std::string proof_of_controller(const std::string& token, const Exchange& exchange, const std::string& run_id) {
  return secret::mac_of(token, {"controller", exchange.role, exchange.challenge, exchange.nonce, run_id});
}

std::string Challenges::text_of(uint64_t number) const {
  std::string text(sizeof number, '\0');
  std::memcpy(text.data(), &number, sizeof number);
  return text + secret::mac_of(key_, {text});
}

std::string Challenges::next() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return text_of(++last_);
}

bool Challenges::redeem(std::string_view challenge) {
  uint64_t number = 0;
  if (challenge.size() != sizeof number + secret::kMacBytes) return false;
  std::memcpy(&number, challenge.data(), sizeof number);
  if (!secret::same_secret(challenge, text_of(number))) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t oldest = last_ < kWindow ? 1 : last_ - kWindow + 1;
  redeemed_.erase(redeemed_.begin(), redeemed_.lower_bound(oldest));
  return number >= oldest && redeemed_.insert(number).second;
}

}  // namespace scalai::executor::rpc::internal
