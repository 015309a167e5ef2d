#pragma once
// For tests: bytes in memory as a source, which counts what is asked of it.

#include <atomic>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptc/base/byte_source.h"
#include "ptc/base/status.h"

namespace scalai::store {

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::vector<std::byte> bytes, std::string name = "memory")
      : name_(std::move(name)), bytes_(std::move(bytes)) {}
  MemorySource(std::string name, std::string_view text) : name_(std::move(name)), bytes_(text.size()) {
    if (!text.empty()) std::memcpy(bytes_.data(), text.data(), text.size());
  }
  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override {
    SCALAI_CHECK(offset >= 0 && offset + static_cast<int64_t>(dst.size()) <= size(), name_);
    if (!dst.empty()) std::memcpy(dst.data(), bytes_.data() + offset, dst.size());
    ++reads;
    bytes_read += static_cast<int64_t>(dst.size());
    return absl::OkStatus();
  }

  mutable std::atomic<int64_t> reads = 0;
  mutable std::atomic<int64_t> bytes_read = 0;

 private:
  std::string name_;
  std::vector<std::byte> bytes_;
};

}  // namespace scalai::store
