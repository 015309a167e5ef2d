#pragma once
// Trees for tests: files with bytes that follow from their position, and files that go wrong on request.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "ptc/base/status.h"
#include "vfs/folder.h"
#include "vfs/tree.h"

namespace scalai::vfs {

// Byte i of a file with that seed.
inline std::byte fake_byte(uint64_t seed, int64_t i) {
  const uint64_t x = (static_cast<uint64_t>(i) + seed * 1000003U) * 0x9E3779B97F4A7C15U;
  return static_cast<std::byte>(x >> 56U);
}

class FakeSource final : public ByteSource {
 public:
  FakeSource(uint64_t seed, int64_t size) : name_("fake-" + std::to_string(seed)), seed_(seed), size_(size) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return size_; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override {
    SCALAI_CHECK(offset >= 0 && offset + static_cast<int64_t>(dst.size()) <= size_, name_);
    ++reads;
    for (size_t i = 0; i < dst.size(); ++i) dst[i] = fake_byte(seed_, offset + static_cast<int64_t>(i));
    return broken ? invalid(name_ + ": was cut while in use") : absl::OkStatus();
  }

  std::atomic<bool> broken = false;
  mutable std::atomic<int64_t> reads = 0;

 private:
  std::string name_;
  uint64_t seed_;
  int64_t size_;
};

inline Node file_node(ByteSourcePtr source) {
  return std::shared_ptr<File>(std::make_shared<SourceFile>(std::move(source)));
}
inline Node fake_file(uint64_t seed, int64_t size) { return file_node(std::make_shared<FakeSource>(seed, size)); }
inline Node folder_node(std::shared_ptr<Directory> directory) { return Node(std::move(directory)); }

// A file that can be seen or opened only with an error.
class BadFile final : public File {
 public:
  BadFile(absl::StatusOr<int64_t> size, absl::Status open) : size_(std::move(size)), open_(std::move(open)) {}
  absl::StatusOr<int64_t> size() override { return size_; }
  absl::StatusOr<ByteSourcePtr> open() override { return open_; }

 private:
  absl::StatusOr<int64_t> size_;
  absl::Status open_;
};

// So many files, file_00000 and so on, made when found; each has its number as seed and 100 bytes.
class ManyFiles final : public Directory {
 public:
  ManyFiles(int64_t count, bool quick) : count_(count), quick_(quick) {}
  absl::StatusOr<Node> find(const std::string& name) override {
    ++finds;
    const int64_t i = name.size() > 5 ? std::strtoll(name.c_str() + 5, nullptr, 10) : -1;
    if (i < 0 || i >= count_ || name_of(i) != name) return missing("");
    return fake_file(static_cast<uint64_t>(i), 100);
  }
  int64_t entries() override { return count_; }
  Entry entry(int64_t index) override { return {name_of(index), Kind::kFile}; }
  bool fixed() override { return true; }
  bool quick() override { return quick_; }
  static std::string name_of(int64_t i) {
    const std::string digits = std::to_string(i);
    return "file_" + std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  }

  std::atomic<int64_t> finds = 0;

 private:
  int64_t count_;
  bool quick_;
};

}  // namespace scalai::vfs
