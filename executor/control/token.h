#pragma once
// The secret that workers and ctl share with a controller. It never stands on a command line, where `ps` shows it:
// it travels in an environment variable or in a file that only its owner can read.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::executor {

inline constexpr const char* kTokenVariable = "SCALAI_TOKEN";

// 256 random bits from /dev/urandom as 64 hexadecimal digits.
absl::StatusOr<std::string> make_token();
// From `file`, or when that is "" from the environment variable SCALAI_TOKEN. Errors: NotFound (neither, cannot read),
// PermissionDenied (others can read the file), InvalidArgument (check_token).
absl::StatusOr<std::string> read_token(const std::string& file);
// A new file with mode 0600; an old one is replaced.
absl::Status write_token(const std::string& file, const std::string& token);
// InvalidArgument unless 16 to 512 printable ASCII characters without blanks. Never prints the token.
absl::Status check_token(const std::string& token);
// Takes the same time wherever the two differ.
bool same_token(const std::string& a, const std::string& b);

}  // namespace scalai::executor
