#include "ptc/store/datasets/data_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"

namespace scalai::datasets {
namespace {

constexpr int64_t kEdgeBytes = 65536;

absl::Status check_unchanged(const DataFile& file, const ByteSource& source) {
  constexpr const char* kHint = "build the index again with `scalai data index`";
  if (source.size() != file.bytes) {
    return invalid(fmt::format("{}: has {} bytes and had {} when it was indexed; {}", shown_location(file.location),
                               source.size(), file.bytes, kHint));
  }
  SCALAI_ASSIGN_OR_RETURN(const int64_t modified_ns, modified_ns_of(file.location));
  if (modified_ns != file.modified_ns) {
    return invalid(fmt::format("{}: was written since it was indexed; {}", shown_location(file.location), kHint));
  }
  SCALAI_ASSIGN_OR_RETURN(const std::string edges, edges_of(source));
  if (edges == file.edges) return absl::OkStatus();
  return invalid(
      fmt::format("{}: begins or ends otherwise than when it was indexed; {}", shown_location(file.location), kHint));
}

}  // namespace

absl::Status check_inside(const Index& index) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path beside = fs::path(index.path()).parent_path();
  const fs::path folder = fs::weakly_canonical(beside.empty() ? "." : beside, error);
  std::vector<std::string> outside;
  for (const DataFile& file : index.files()) {
    const fs::path seen =
        is_local(file.location) ? fs::weakly_canonical(file.location, error).lexically_relative(folder) : fs::path();
    if (seen.empty() || *seen.begin() == "..") outside.push_back(shown_location(file.location));
  }
  if (outside.empty()) return absl::OkStatus();
  constexpr size_t kShown = 5;
  const std::string more = outside.size() > kShown ? fmt::format(", and {} more", outside.size() - kShown) : "";
  outside.resize(std::min(outside.size(), kShown));
  return invalid(
      fmt::format("{}: names data outside of its folder: {}{}", index.path(), fmt::join(outside, ", "), more));
}

bool is_local(const std::string& location) { return location.find("://") == std::string::npos; }

bool has_user_info(const std::string& location) {
  if (is_local(location)) return false;
  const size_t host = location.find("://") + 3;
  return location.substr(host, location.find_first_of("/?#", host) - host).find('@') != std::string::npos;
}

std::string shown_location(const std::string& location) {
  if (is_local(location)) return location;
  const size_t host = location.find("://") + 3;
  const size_t path = std::min(location.find_first_of("/?#", host), location.size());
  const size_t at = location.rfind('@', path);
  const size_t from = at != std::string::npos && at >= host && at < path ? at + 1 : host;
  return location.substr(0, host) + location.substr(from, location.find_first_of("?#", from) - from);
}

absl::StatusOr<int64_t> modified_ns_of(const std::string& location) {
  if (!is_local(location)) return 0;
  struct stat info {};
  if (::stat(location.c_str(), &info) != 0) return missing(fmt::format("{}: {}", location, std::strerror(errno)));
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

absl::StatusOr<std::string> edges_of(const ByteSource& source) {
  const int64_t bytes = std::min(source.size(), kEdgeBytes);
  std::string edge(static_cast<size_t>(bytes), '\0');
  SCALAI_RETURN_IF_ERROR(source.read(0, std::as_writable_bytes(std::span(edge))));
  Hasher hasher;
  hasher.add(edge);
  SCALAI_RETURN_IF_ERROR(source.read(source.size() - bytes, std::as_writable_bytes(std::span(edge))));
  return hasher.add(edge).hex();
}

DataFiles::DataFiles(std::shared_ptr<const Index> index, SourceOpener opener, int most_open)
    : index_(std::move(index)), opener_(std::move(opener)), most_open_(static_cast<size_t>(std::max(1, most_open))) {
  SCALAI_CHECK(index_ != nullptr && opener_ != nullptr);
}

ByteSourcePtr DataFiles::recall(int file) const {
  const std::lock_guard lock(mutex_);
  const auto it = by_file_.find(file);
  if (it == by_file_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, it->second);
  return it->second->second;
}

void DataFiles::remember(int file, const ByteSourcePtr& source) const {
  const std::lock_guard lock(mutex_);
  if (by_file_.count(file) != 0) return;  // another thread was faster
  recent_.emplace_front(file, source);
  by_file_[file] = recent_.begin();
  if (recent_.size() <= most_open_) return;
  by_file_.erase(recent_.back().first);
  recent_.pop_back();
}

absl::StatusOr<ByteSourcePtr> DataFiles::source(int file) const {
  SCALAI_CHECK(file >= 0 && static_cast<size_t>(file) < index_->files().size());
  if (ByteSourcePtr known = recall(file)) return known;
  const DataFile& expected = index_->files()[static_cast<size_t>(file)];
  SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, opener_(expected.location));
  SCALAI_RETURN_IF_ERROR(check_unchanged(expected, *source));
  remember(file, source);
  return source;
}

absl::Status DataFiles::read(const Extent& extent, std::span<std::byte> dst) const {
  SCALAI_CHECK(static_cast<int64_t>(dst.size()) == extent.bytes);
  SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr from, source(extent.file));
  return from->read(extent.offset, dst);
}

}  // namespace scalai::datasets
