#pragma once
// What fuzzers of datasets share: bytes as a data file, and a folder in memory for the index that is built.

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "ptc/base/byte_source.h"
#include "ptc/base/status.h"
#include "ptc/store/datasets/build.h"

namespace scalai::fuzz {

class Text final : public ByteSource {
 public:
  Text(std::string name, std::string bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override {
    SCALAI_CHECK(offset >= 0 && offset <= size() && static_cast<int64_t>(dst.size()) <= size() - offset);
    if (!dst.empty()) std::memcpy(dst.data(), bytes_.data() + offset, dst.size());
    return absl::OkStatus();
  }

 private:
  std::string name_, bytes_;
};

// Addresses and their bytes. Nothing else is opened.
inline SourceOpener opener_of(const std::map<std::string, std::string>& files) {
  return [files](const std::string& location) -> absl::StatusOr<ByteSourcePtr> {
    const auto it = files.find(location);
    if (it == files.end()) return missing(location + ": is not there");
    return std::make_shared<Text>(location, it->second);
  };
}

// A file name in memory where there is such a folder.
inline std::string scratch(const std::string& name) {
  const std::string folder = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
  return fmt::format("{}/scalai_fuzz_{}_{}", folder, ::getpid(), name);
}

struct Built {
  std::shared_ptr<const datasets::Index> index;
  SourceOpener opener;
};

// Indexes the files; what is accepted must open and hold what it says. nullptr: refused, with a message.
inline Built build(datasets::Format format, const std::string& file, const std::map<std::string, std::string>& files,
                   int64_t record_bytes = 0) {
  static const std::string out = scratch("index");
  const SourceOpener opener = opener_of(files);
  const auto built = datasets::build_index(
      {.format = format, .files = {file}, .out = out, .record_bytes = record_bytes, .opener = opener});
  if (!built.ok()) {
    SCALAI_CHECK(!message_of(built.status()).empty());
    return {};
  }
  const auto index = datasets::Index::open(out);
  SCALAI_CHECK(index.ok(), message_of(index.status()));
  SCALAI_CHECK((*index)->verify().ok(), message_of((*index)->verify()));
  SCALAI_CHECK((*index)->digest() == built->digest && (*index)->documents() == built->documents);
  std::filesystem::remove(out);
  return {*index, opener};
}

}  // namespace scalai::fuzz
