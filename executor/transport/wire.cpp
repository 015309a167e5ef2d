#include "executor/transport/internal/wire.h"

#include "executor/transport/internal/errors.h"
#include "ptc/base/hash.h"
#include "ptc/base/status.h"

namespace scalai::executor::internal {
namespace {

constexpr std::string_view kMark = "scalai-ucx-1:";
constexpr size_t kDigestSize = 32;

}  // namespace

std::string wrap_address(std::string_view ucx_address) {
  return std::string(kMark) + digest_of(ucx_address) + std::string(ucx_address);
}

absl::StatusOr<std::string> unwrap_address(HostId peer, std::string_view address) {
  if (!address.starts_with(kMark) || address.size() < kMark.size() + kDigestSize) return invalid(bad_address(peer));
  const std::string_view digest = address.substr(kMark.size(), kDigestSize);
  const std::string_view inner = address.substr(kMark.size() + kDigestSize);
  if (inner.empty() || digest_of(inner) != digest) return invalid(bad_address(peer));
  return std::string(inner);
}

}  // namespace scalai::executor::internal
