#include "executor/rpc/token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::executor::rpc {
namespace {

constexpr size_t kTokenBytes = 32;

std::string without_blanks_at_end(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

absl::Status only_owner_reads(const std::string& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return missing(fmt::format("{}: {}", file, std::strerror(errno)));
  if (info.st_uid != ::geteuid() && info.st_uid != 0)
    return absl::PermissionDeniedError(
        fmt::format("{}: this token file belongs to user {}, who knows the token", file, info.st_uid));
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("{}: others can read this token file (mode {:o}); chmod 600 it", file, info.st_mode & 0777u));
}

}  // namespace

absl::StatusOr<std::string> make_token() {
  const int fd = ::open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return missing(fmt::format("/dev/urandom: {}", std::strerror(errno)));
  std::array<unsigned char, kTokenBytes> bytes{};
  const ssize_t count = ::read(fd, bytes.data(), bytes.size());
  ::close(fd);
  if (count != static_cast<ssize_t>(bytes.size())) return missing("/dev/urandom: cannot read 32 bytes");
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

absl::StatusOr<std::string> read_token(const std::string& file) {
  std::string token;
  if (!file.empty()) {
    SCALAI_RETURN_IF_ERROR(only_owner_reads(file));
    SCALAI_ASSIGN_OR_RETURN(token, read_file(file, 4096));
  } else if (const char* variable = std::getenv(kTokenVariable); variable != nullptr) {
    token = variable;
  } else {
    return missing(fmt::format("no token: set {} or name a token file", kTokenVariable));
  }
  token = without_blanks_at_end(token);
  const std::string from = file.empty() ? kTokenVariable : file;
  if (absl::Status status = check_token(token); !status.ok()) {
    return invalid(fmt::format("{}: {}", from, message_of(status)));
  }
  return token;
}

absl::Status write_token(const std::string& file, const std::string& token) {
  SCALAI_RETURN_IF_ERROR(check_token(token));
  ::unlink(file.c_str());
  // O_EXCL: the mode is ours, not that of a file somebody else put there.
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return missing(fmt::format("{}: cannot create: {}", file, std::strerror(errno)));
  const std::string line = token + "\n";
  const ssize_t count = ::write(fd, line.data(), line.size());
  const bool synced = ::fsync(fd) == 0 || errno == EINVAL;
  ::close(fd);
  if (count != static_cast<ssize_t>(line.size()) || !synced) return missing(fmt::format("{}: cannot write", file));
  return absl::OkStatus();
}

absl::Status check_token(const std::string& token) {
  if (token.size() < 16 || token.size() > 512) {
    return invalid(fmt::format("a token has 16 to 512 characters, not {}", token.size()));
  }
  for (const char c : token) {
    if (c < '!' || c > '~') return invalid("a token has printable ASCII characters only, and no blanks");
  }
  return absl::OkStatus();
}

}  // namespace scalai::executor::rpc
