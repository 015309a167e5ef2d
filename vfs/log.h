#pragma once
// Error lines of a server, on stderr or in a file. Repeated lines are counted instead of written, so that retrying
// readers do not fill a disk. Thread-safe; moving a log is not.

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

namespace scalai::vfs {

enum class LogRate {
  kAll,
  kLimited,  // lines that any reader can cause without end: at most kLimitedLines a minute; the rest is counted
};

class Log {
 public:
  static constexpr int64_t kLimitedLines = 60;
  // Writes to stderr.
  Log() = default;
  // Appends to a file. NotFound: the file cannot be opened.
  static absl::StatusOr<Log> to_file(const std::string& path);
  Log(Log&& other) noexcept;
  Log& operator=(Log&&) = delete;
  // Flushes.
  ~Log();

  // Writes "scalai fs: TEXT\n" by one write. A line equal to one of the last kRemembered is only counted; its count is
  // written when newer lines displace it, or by flush().
  void line(const std::string& text, LogRate rate = LogRate::kAll);
  void flush();
  // The log owns it; valid as long as the log.
  int descriptor() const { return fd_; }

 private:
  static constexpr size_t kRemembered = 16;
  struct Recent {
    std::string text;
    int64_t repeated = 0;
  };
  void write_line(const std::string& text) const;
  void tell_repeated(Recent& recent) const;
  bool within_limit();
  void tell_left_out();

  int fd_ = 2;
  std::mutex mutex_;
  std::array<Recent, kRemembered> recent_;
  size_t next_ = 0;
  std::chrono::steady_clock::time_point minute_ = {};  // start of the current minute
  int64_t limited_ = 0, left_out_ = 0;                 // lines of the current minute, lines left out
};

}  // namespace scalai::vfs
