#include "vfs/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ptc/base/status.h"

namespace scalai::vfs {

absl::StatusOr<Log> Log::to_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return missing(fmt::format("{}: {}", path, std::strerror(errno)));
  Log log;
  log.fd_ = fd;
  return log;
}

Log::Log(Log&& other) noexcept : fd_(std::exchange(other.fd_, 2)) {}

Log::~Log() {
  flush();
  if (fd_ != 2) ::close(fd_);
}

void Log::write_line(const std::string& text) const {
  const std::string line = fmt::format("scalai fs: {}\n", text);
  [[maybe_unused]] const ssize_t ignored = ::write(fd_, line.data(), line.size());  // nowhere to say that it failed
}

void Log::tell_repeated(Recent& recent) const {
  if (recent.repeated > 0) write_line(fmt::format("{} more of: {}", recent.repeated, recent.text));
  recent.repeated = 0;
}

void Log::tell_left_out() {
  if (left_out_ > 0) write_line(fmt::format("{} more lines about other names were left out", left_out_));
  left_out_ = 0;
}

bool Log::within_limit() {
  const auto now = std::chrono::steady_clock::now();
  if (limited_ == 0 || now - minute_ >= std::chrono::minutes(1)) {
    tell_left_out();
    minute_ = now;
    limited_ = 0;
  }
  if (++limited_ <= kLimitedLines) return true;
  ++left_out_;
  return false;
}

void Log::line(const std::string& text, LogRate rate) {
  const std::lock_guard lock(mutex_);
  const auto same = std::find_if(recent_.begin(), recent_.end(), [&](const Recent& one) { return one.text == text; });
  if (same != recent_.end()) {
    ++same->repeated;
    return;
  }
  if (rate == LogRate::kLimited && !within_limit()) return;
  tell_repeated(recent_[next_]);
  recent_[next_] = {text, 0};
  next_ = (next_ + 1) % kRemembered;
  write_line(text);
}

void Log::flush() {
  const std::lock_guard lock(mutex_);
  tell_left_out();
  for (Recent& recent : recent_) {
    tell_repeated(recent);
    recent.text.clear();
  }
}

}  // namespace scalai::vfs
