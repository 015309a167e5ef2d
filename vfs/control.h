#pragma once
// Requests to a running server, as of `scalai fs repartition`: an ioctl on the root of the mount. No socket can be left
// over, lie in another place in a container, or belong to another process: access to the mount is access to its server.
// The server answers only the user who mounted it. Values and free functions; any thread.
//
// A message is text with a version, in both directions: "repartition dp=6 step=1234". An answer is a text, or an error
// with its status code. Both have at most kMostText bytes.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace scalai::vfs {

inline constexpr uint32_t kControlVersion = 1;
inline constexpr size_t kMostText = 4084;

struct ControlMessage {
  uint32_t version = kControlVersion;
  int32_t code = 0;  // of an answer: absl::StatusCode, 0 = OK
  uint32_t bytes = 0;
  char text[kMostText] = {};
};
static_assert(sizeof(ControlMessage) == 4096);

// The ioctl request number.
unsigned control_command();

// Truncates a longer text.
ControlMessage message_of_text(std::string_view text);
ControlMessage message_of_answer(const absl::StatusOr<std::string>& answer);
// The text, or the error that the message carries. InvalidArgument: another version (the message names both), or a
// length above kMostText.
absl::StatusOr<std::string> text_of(const ControlMessage& message);

struct ControlRequest {
  std::string verb;
  std::map<std::string, int64_t> numbers;  // NAME=N
};
// InvalidArgument: not "VERB [NAME=N]…", or a name that occurs twice.
absl::StatusOr<ControlRequest> parse_request(const std::string& text);

// Sends a request to the server mounted at `directory`; returns its answer or its error. NotFound: no scalai mount
// there, or its server is dead. PermissionDenied: another user mounted it.
absl::StatusOr<std::string> ask(const std::string& directory, const std::string& request);

}  // namespace scalai::vfs
