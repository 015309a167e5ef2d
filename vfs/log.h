#pragma once
// Where a server says what went wrong: lines on stderr, or in a file when nobody looks at stderr. Readers that try again
// would fill a disk, so a line that repeats one of the last is counted instead of written. Safe from several threads.

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"

namespace scalai::vfs {

class Log {
 public:
  // To stderr.
  Log() = default;
  // Appends to a file. NotFound: it cannot be opened.
  static absl::StatusOr<Log> to_file(const std::string& path);
  Log(Log&& other) noexcept;
  Log& operator=(Log&&) = delete;
  ~Log();

  // "scalai fs: TEXT\n", in one write. A line equal to one of the last kRemembered is only counted; how often that was is
  // said when other lines have pushed it out, and by flush().
  void line(const std::string& text);
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

  int fd_ = 2;
  std::mutex mutex_;
  std::array<Recent, kRemembered> recent_;
  size_t next_ = 0;
};

}  // namespace scalai::vfs
