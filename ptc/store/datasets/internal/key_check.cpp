#include "ptc/store/datasets/internal/key_check.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "ptc/base/status.h"

namespace scalai::datasets {
namespace {

struct Row {
  int64_t hash = 0;
  int64_t sample = 0;
};

}  // namespace

absl::StatusOr<KeyCheck> KeyCheck::create(const std::string& out) {
  SCALAI_ASSIGN_OR_RETURN(TemporaryFile file, TemporaryFile::create(out + ".keys"));
  return KeyCheck(std::move(file));
}

absl::Status KeyCheck::add(std::string_view key, int64_t sample) {
  SCALAI_RETURN_IF_ERROR(rows_.add(static_cast<int64_t>(XXH3_64bits(key.data(), key.size()))));
  return rows_.add(sample);
}

absl::Status KeyCheck::for_each_pair(const std::function<absl::Status(int64_t, int64_t)>& same) {
  SCALAI_RETURN_IF_ERROR(rows_.flush());
  if (rows_.rows() == 0) return absl::OkStatus();
  const auto bytes = static_cast<size_t>(rows_.rows()) * sizeof(int64_t);
  void* map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_->descriptor(), 0);
  if (map == MAP_FAILED) return failed(fmt::format("{}: cannot be mapped: {}", file_->path(), std::strerror(errno)));
  const std::span<Row> rows(static_cast<Row*>(map), bytes / sizeof(Row));
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return a.hash != b.hash ? a.hash < b.hash : a.sample < b.sample; });
  absl::Status status;
  for (size_t begin = 0; begin < rows.size() && status.ok(); ++begin) {
    for (size_t i = begin + 1; i < rows.size() && rows[i].hash == rows[begin].hash && status.ok(); ++i) {
      status = same(rows[begin].sample, rows[i].sample);
    }
  }
  ::munmap(map, bytes);
  return status;
}

}  // namespace scalai::datasets
