#pragma once
// A text file line by line, with one buffer: the memory used does not grow with the file. Lines end in "\n" or "\r\n"; a
// line of more than kMaxLine bytes is an error (no trace has one, a binary file does).

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace scalai::sched::trace {

class LineReader {
 public:
  static constexpr size_t kMaxLine = size_t{1} << 20;

  // Errors (NotFound): no such file, a folder, no permission; InvalidArgument: a compressed file.
  static absl::StatusOr<LineReader> open(const std::string& path);

  // The next line without its end, valid until the next call; false at the end of the file or after an error.
  bool next(std::string_view& line);
  int64_t row() const { return row_; }  // of the line last given, from 1
  const std::string& path() const { return path_; }
  // Ok at a proper end of the file; what went wrong otherwise.
  const absl::Status& status() const { return status_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  LineReader(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  bool fill();  // more bytes behind what is left; false: there are none

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::string buffer_;
  size_t at_ = 0;
  int64_t row_ = 0;
  absl::Status status_;
};

// A file to be read from the front, as LineReader::open says.
absl::StatusOr<std::FILE*> open_trace_file(const std::string& path);

}  // namespace scalai::sched::trace
