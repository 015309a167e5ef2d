#include "vfs/control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::vfs {
namespace {

absl::Status unreachable(const std::string& directory, int error) {
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(fmt::format("{}: only the user of the mount may ask", directory));
  }
  if (error == ENOTCONN) {
    return missing(
        fmt::format("{}: its server is dead; `scalai fs unmount {}` removes the mount", directory, directory));
  }
  if (error == ENOTTY || error == ENOSYS || error == EINVAL) {
    return missing(fmt::format("{}: nothing is mounted there by scalai fs", directory));
  }
  return missing(fmt::format("{}: {}", directory, std::strerror(error)));
}

}  // namespace

unsigned control_command() { return static_cast<unsigned>(_IOWR('S', 0x41, ControlMessage)); }

ControlMessage message_of_text(std::string_view text) {
  ControlMessage message;
  message.bytes = static_cast<uint32_t>(std::min(text.size(), kMostText));
  std::memcpy(message.text, text.data(), message.bytes);
  return message;
}

ControlMessage message_of_answer(const absl::StatusOr<std::string>& answer) {
  if (answer.ok()) return message_of_text(*answer);
  ControlMessage message = message_of_text(message_of(answer.status()));
  message.code = static_cast<int32_t>(answer.status().code());
  return message;
}

absl::StatusOr<std::string> text_of(const ControlMessage& message) {
  if (message.version != kControlVersion) {
    return invalid(
        fmt::format("control messages of version {}, this program has version {}", message.version, kControlVersion));
  }
  if (message.bytes > kMostText) return invalid(fmt::format("a control message of {} bytes", message.bytes));
  const std::string text(message.text, message.bytes);
  if (message.code == 0) return text;
  return absl::Status(static_cast<absl::StatusCode>(message.code), text);
}

absl::StatusOr<ControlRequest> parse_request(const std::string& text) {
  std::istringstream words(text);
  ControlRequest request;
  words >> request.verb;
  if (request.verb.empty()) return invalid("an empty request");
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) return invalid(fmt::format("\"{}\" is not NAME=N", word));
    const auto number = parse_count(word.substr(equals + 1));
    if (!number.ok()) return invalid(fmt::format("{}: {}", word, message_of(number.status())));
    if (!request.numbers.emplace(word.substr(0, equals), *number).second)
      return invalid(fmt::format("\"{}\" is there twice", word.substr(0, equals)));
  }
  return request;
}

absl::StatusOr<std::string> ask(const std::string& directory, const std::string& request) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return unreachable(directory, errno);
  ControlMessage message = message_of_text(request);
  const int result = ::ioctl(fd, control_command(), &message);
  const int error = errno;
  ::close(fd);
  if (result != 0) return unreachable(directory, error);
  return text_of(message);
}

}  // namespace scalai::vfs
