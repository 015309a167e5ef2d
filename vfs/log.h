#pragma once
// Where a server says what went wrong: lines on stderr, or in a file when nobody looks at stderr. Readers that try again
// would fill a disk, so a line that repeats one of the last is counted instead of written. Safe from several threads.

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

namespace scalai::vfs {

enum class LogRate {
  kAll,
  kLimited,  // what anybody may cause without end: at most kLimitedLines a minute, the others are counted
};

class Log {
 public:
  static constexpr int64_t kLimitedLines = 60;
  // To stderr.
  Log() = default;
  // Appends to a file. NotFound: it cannot be opened.
  static absl::StatusOr<Log> to_file(const std::string& path);
  Log(Log&& other) noexcept;
  Log& operator=(Log&&) = delete;
  ~Log();

  // "scalai fs: TEXT\n", in one write. A line equal to one of the last kRemembered is only counted; how often that was is
  // said when other lines have pushed it out, and by flush().
  void line(const std::string& text, LogRate rate = LogRate::kAll);
  void flush();
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
  std::chrono::steady_clock::time_point minute_ = {};  // when the current one began
  int64_t limited_ = 0, left_out_ = 0;                 // lines in it
};

}  // namespace scalai::vfs
