#pragma once
// Errors. What input or the environment can cause is an absl::Status; what only a bug can cause is a SCALAI_CHECK.
// Nothing of ours throws. The first place that knows writes the message: what was seen, where, what to do.

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai {

// Prints `file:line: CHECK failed: expression (detail)` to stderr and exits with code 70 (a bug of ours).
[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& detail);

// Shorthands for the two codes used most; the message is for the user.
absl::Status invalid(const std::string& message);  // bad scenario, plan, checkpoint: exit code 3
absl::Status missing(const std::string& message);  // device, library, file or permission: exit code 4
absl::Status failed(const std::string& message);   // failed while running: exit code 5

// Exit code of DESIGN section 9 for a status: 0, 3, 4, 5 or 70.
int exit_code_of(const absl::Status& status);

// std::string of a status message (absl's string_view is not std::string_view on Debian).
std::string message_of(const absl::Status& status);

}  // namespace scalai

#define SCALAI_CHECK(condition, ...)                                                                    \
  do {                                                                                                  \
    if (!(condition)) ::scalai::check_failed(__FILE__, __LINE__, #condition, std::string{__VA_ARGS__}); \
  } while (false)

#define SCALAI_CONCAT_(a, b) a##b
#define SCALAI_CONCAT(a, b) SCALAI_CONCAT_(a, b)
#define SCALAI_RETURN_IF_ERROR(expression)                    \
  do {                                                        \
    if (absl::Status status_ = (expression); !status_.ok()) { \
      return status_;                                         \
    }                                                         \
  } while (false)
#define SCALAI_ASSIGN_OR_RETURN(lhs, expression)           \
  auto SCALAI_CONCAT(status_or_, __LINE__) = (expression); \
  if (!SCALAI_CONCAT(status_or_, __LINE__).ok()) {         \
    return SCALAI_CONCAT(status_or_, __LINE__).status();   \
  }                                                        \
  lhs = std::move(SCALAI_CONCAT(status_or_, __LINE__)).value()
