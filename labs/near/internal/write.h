#pragma once
// Writes to pipes.

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/status/status.h"
#include "ptc/base/status.h"

namespace scalai::near::internal {

// FailedPrecondition: nobody reads any more. Aborted: the rest, with its reason.
inline absl::Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) return absl::FailedPreconditionError("nobody reads any more");
    if (n < 0) return failed(fmt::format("cannot write: {}", std::strerror(errno)));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace scalai::near::internal
