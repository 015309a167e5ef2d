#pragma once
// Reads a text file line by line with one buffer; memory does not grow with the file. Lines end in "\n" or "\r\n". A
// line of more than kMaxLine bytes is an error (it shows a binary file). Owns the open file. One thread at a time.

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace scalai::trace {

// Called with the bytes that were read since the last call.
using BytesRead = std::function<void(int64_t)>;

class LineReader {
 public:
  static constexpr size_t kMaxLine = size_t{1} << 20;

  // NotFound: no such file, a folder, or no permission. InvalidArgument: a compressed file.
  static absl::StatusOr<LineReader> open(const std::string& path, BytesRead read = {});

  // The next line without its end, valid until the next call; false at the end of the file or after an error.
  bool next(std::string_view& line);
  int64_t row() const { return row_; }  // number of the last line, from 1
  const std::string& path() const { return path_; }
  // OK at the end of the file. NotFound: a read failed. InvalidArgument: a line is too long.
  const absl::Status& status() const { return status_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  LineReader(std::string path, std::FILE* file, BytesRead read)
      : path_(std::move(path)), file_(file), read_(std::move(read)) {}
  bool fill();  // appends more bytes to the buffer; false: end of the file

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  BytesRead read_;
  std::string buffer_;
  size_t at_ = 0;
  int64_t row_ = 0;
  absl::Status status_;
};

// Opens a file for reading; the caller must fclose it. Errors are those of LineReader::open.
absl::StatusOr<std::FILE*> open_trace_file(const std::string& path);

}  // namespace scalai::trace
