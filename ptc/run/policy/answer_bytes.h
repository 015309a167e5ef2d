#pragma once
// Numbers of an answer that a snapshot keeps (answer_log.h), 8 bytes each, little endian; doubles come back bit for
// bit.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace scalai::policy {

class AnswerWriter {
 public:
  AnswerWriter& add(int64_t value) {
    for (int k = 0; k < 8; ++k) bytes_ += static_cast<char>(static_cast<uint64_t>(value) >> (8 * k) & 0xff);
    return *this;
  }
  AnswerWriter& add_double(double value) { return add(std::bit_cast<int64_t>(value)); }
  AnswerWriter& add_size(size_t value) { return add(static_cast<int64_t>(value)); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Once there are no more bytes, 0 and a mark.
class AnswerReader {
 public:
  explicit AnswerReader(std::string_view bytes) : bytes_(bytes) {}
  int64_t number() {
    good_ = good_ && bytes_.size() >= 8;
    if (!good_) return 0;
    uint64_t value = 0;
    for (size_t k = 0; k < 8; ++k) value |= uint64_t{static_cast<uint8_t>(bytes_[k])} << (8 * k);
    bytes_.remove_prefix(8);
    return static_cast<int64_t>(value);
  }
  double real() { return std::bit_cast<double>(number()); }
  // A number of things that take at least 8 bytes each.
  size_t size() { return below(number(), bytes_.size() / 8 + 1); }
  // One of [0, end).
  size_t below(int64_t value, size_t end) {
    good_ = good_ && value >= 0 && static_cast<uint64_t>(value) < end;
    return good_ ? static_cast<size_t>(value) : 0;
  }
  bool good() const { return good_; }
  bool done() const { return good_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool good_ = true;
};

}  // namespace scalai::policy
