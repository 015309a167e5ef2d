#pragma once
// How `scalai fs repartition` and others talk to a running server: an ioctl on the root of the mount. So there is no socket
// that could be left over, be in another place in a container, or belong to somebody else: whoever sees the mount reaches
// its server, and the server answers only the user who mounted it.
//
// A message is text of one version, either way: "repartition dp=6 step=1234"; the answer is a text or an error with its
// status code. Neither is longer than kMostText.

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
  int32_t code = 0;  // of an answer: absl::StatusCode
  uint32_t bytes = 0;
  char text[kMostText] = {};
};
static_assert(sizeof(ControlMessage) == 4096);

// The number of the ioctl.
unsigned control_command();

// A longer text is cut.
ControlMessage message_of_text(std::string_view text);
ControlMessage message_of_answer(const absl::StatusOr<std::string>& answer);
// InvalidArgument: another version (both are named), or a text that is longer than a message.
absl::StatusOr<std::string> text_of(const ControlMessage& message);

struct ControlRequest {
  std::string verb;
  std::map<std::string, int64_t> numbers;  // NAME=N
};
// InvalidArgument: not "VERB [NAME=N]…".
absl::StatusOr<ControlRequest> parse_request(const std::string& text);

// Asks the server of the mount at `directory`, and gives its answer, error or not. NotFound: nothing of ours is mounted
// there, its server is dead; PermissionDenied: somebody else mounted it.
absl::StatusOr<std::string> ask(const std::string& directory, const std::string& request);

}  // namespace scalai::vfs
