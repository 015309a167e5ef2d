#include "ptc/base/status.h"

#include <cstdio>

#include "ptc/base/utf8.h"

namespace scalai {

void check_failed(const char* file, int line, const char* expression, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s %s\nThis is a bug in Scalai; please report it with the command line.\n",
               file, line, expression, escaped(detail).c_str());
  std::fflush(stderr);
  std::_Exit(70);
}

absl::Status invalid(const std::string& message) { return absl::InvalidArgumentError(message); }
absl::Status missing(const std::string& message) { return absl::NotFoundError(message); }
absl::Status failed(const std::string& message) { return absl::AbortedError(message); }

int exit_code_of(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return 0;
    case absl::StatusCode::kInvalidArgument: return 3;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated: return 4;
    case absl::StatusCode::kInternal: return 70;
    default: return 5;
  }
}

std::string message_of(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

}  // namespace scalai
