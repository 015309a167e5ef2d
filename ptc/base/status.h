#pragma once
// Errors. Input and environment cause an absl::Status; only a bug causes a failed SCALAI_CHECK. Our code throws
// nothing. The first function that detects an error writes the message: observation, place, remedy. Any thread may
// call.

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai {

// Prints `file:line: CHECK failed: expression detail` to stderr and exits at once with code 70 (a bug in Scalai).
[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& detail);

// Constructors for the three most frequent codes; the message is for the user.
absl::Status invalid(const std::string& message);  // InvalidArgument: bad scenario, plan or checkpoint; exit code 3
absl::Status missing(const std::string& message);  // NotFound: device, library, file or permission; exit code 4
absl::Status failed(const std::string& message);   // Aborted: failure while running; exit code 5

// The exit code of a status (DESIGN section 9): 0, 3, 4, 5 or 70.
int exit_code_of(const absl::Status& status);

// A copy of the message (Debian's absl::string_view is not std::string_view).
std::string message_of(const absl::Status& status);

}  // namespace scalai

// Always on. A false condition calls check_failed; the arguments after it build the detail as a std::string.
#define SCALAI_CHECK(condition, ...)                                                                    \
  do {                                                                                                  \
    if (!(condition)) ::scalai::check_failed(__FILE__, __LINE__, #condition, std::string{__VA_ARGS__}); \
  } while (false)

#define SCALAI_CONCAT_(a, b) a##b
#define SCALAI_CONCAT(a, b) SCALAI_CONCAT_(a, b)
// Returns a status that is not OK from the enclosing function.
#define SCALAI_RETURN_IF_ERROR(expression)                    \
  do {                                                        \
    if (absl::Status status_ = (expression); !status_.ok()) { \
      return status_;                                         \
    }                                                         \
  } while (false)
// Assigns or declares `lhs` from a StatusOr, or returns its status. Expands to several statements.
#define SCALAI_ASSIGN_OR_RETURN(lhs, expression)           \
  auto SCALAI_CONCAT(status_or_, __LINE__) = (expression); \
  if (!SCALAI_CONCAT(status_or_, __LINE__).ok()) {         \
    return SCALAI_CONCAT(status_or_, __LINE__).status();   \
  }                                                        \
  lhs = std::move(SCALAI_CONCAT(status_or_, __LINE__)).value()
