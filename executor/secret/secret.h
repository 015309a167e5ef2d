#pragma once
// What both planes need of a run's token: random bytes, message authentication codes, and keys for one purpose each.
// The token itself never leaves a process over a network. Free functions; any thread.

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace scalai::executor::secret {

inline constexpr size_t kMacBytes = 32;
inline constexpr size_t kNonceBytes = 32;

// Bytes that nobody can foresee. Unavailable: the system gives none.
absl::StatusOr<std::string> random_bytes(size_t count);

// HMAC-SHA256 (RFC 2104) over the parts, each behind its length in 8 bytes, so that other parts never give the same
// input:
//   MAC = HMAC(key, |p1| p1 |p2| p2 …), kMacBytes long
std::string mac_of(std::string_view key, std::initializer_list<std::string_view> parts);

// Whether both are equal, in time that depends on their lengths only.
bool same_secret(std::string_view a, std::string_view b);

// A key for one purpose: HMAC(token, purpose). Nobody gets from one of these to the token or to another key.
std::string key_for(std::string_view token, std::string_view purpose);

}  // namespace scalai::executor::secret
