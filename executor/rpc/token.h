#pragma once
// The secret that workers and ctl share with a controller. It is never on a command line, because `ps` shows those: it
// travels in an environment variable or in a file that only its owner can read. Free functions; any thread.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::executor::rpc {

inline constexpr const char* kTokenVariable = "SCALAI_TOKEN";

// 256 random bits from /dev/urandom, as 64 hexadecimal digits.
absl::StatusOr<std::string> make_token();
// Reads the token from `file`; if "", from the environment variable SCALAI_TOKEN. NotFound: neither exists, or the file
// cannot be read. PermissionDenied: others can read the file, or it is
// another user's. InvalidArgument: see check_token.
absl::StatusOr<std::string> read_token(const std::string& file);
// Writes a new file with mode 0600; replaces an old one.
absl::Status write_token(const std::string& file, const std::string& token);
// InvalidArgument unless 16 to 512 printable ASCII characters without blanks. Messages never contain the token.
absl::Status check_token(const std::string& token);

}  // namespace scalai::executor::rpc
