#pragma once
// Reads a file front to back through one buffer. Not for several threads.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"

namespace scalai::datasets {

class Scanner {
 public:
  static constexpr int64_t kBuffer = int64_t{1} << 20;
  // Scans [begin, end) of a source; end = −1: up to its last byte. `on_read`, when given, is called with the position
  // before each read.
  explicit Scanner(ByteSourcePtr source, int64_t begin = 0, int64_t end = -1, int64_t buffer_bytes = kBuffer);

  void watch(std::function<void(int64_t position)> on_read) { on_read_ = std::move(on_read); }
  const std::string& name() const { return source_->name(); }
  int64_t position() const { return position_; }
  int64_t remaining() const { return end_ - position_; }
  int64_t most() const { return buffer_bytes_; }
  // The next n bytes, n ≤ most() and n ≤ remaining() (CHECK); valid until the next call. Errors as of ByteSource::read.
  absl::StatusOr<std::span<const std::byte>> take(int64_t n);
  void skip(int64_t n);  // n in [0, remaining()] (CHECK)

 private:
  ByteSourcePtr source_;
  int64_t position_;
  int64_t end_;
  int64_t buffer_bytes_;
  std::vector<std::byte> buffer_;
  int64_t buffer_begin_ = 0;  // position of its first byte
  int64_t buffer_end_ = 0;
  std::function<void(int64_t)> on_read_;
};

}  // namespace scalai::datasets
