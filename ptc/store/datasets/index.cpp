#include "ptc/store/datasets/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "ptc/base/byte_source.h"
#include "ptc/base/status.h"
#include "ptc/store/datasets/data_files.h"
#include "ptc/store/datasets/internal/index_columns.h"
#include "ptc/store/datasets/internal/index_format.h"

namespace scalai::datasets {
namespace {

constexpr int64_t kRowsARead = 4096;

absl::Status named(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}: {}", path, message_of(status)));
}

absl::StatusOr<IndexHeader> read_header(const ByteSource& source) {
  std::string bytes(static_cast<size_t>(std::min(source.size(), kFixedHeaderBytes)), '\0');
  SCALAI_RETURN_IF_ERROR(source.read(0, std::as_writable_bytes(std::span(bytes))));
  absl::StatusOr<IndexSizes> sizes = parse_sizes(bytes);
  if (!sizes.ok()) return named(source.name(), sizes.status());
  if (sizes->file_bytes != source.size()) {
    return invalid(fmt::format("{}: has {} bytes and says that it has {}: it was cut or is damaged", source.name(),
                               source.size(), sizes->file_bytes));
  }
  bytes.resize(static_cast<size_t>(sizes->header_bytes));
  SCALAI_RETURN_IF_ERROR(source.read(0, std::as_writable_bytes(std::span(bytes))));
  absl::StatusOr<IndexHeader> header = parse_header(bytes);
  return header.ok() ? header : named(source.name(), header.status());
}

}  // namespace

Index::Index() = default;

Index::~Index() = default;

absl::StatusOr<std::shared_ptr<const Index>> Index::open(const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr source, open_file_source(path));
  SCALAI_ASSIGN_OR_RETURN(IndexHeader header, read_header(*source));
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::shared_ptr<Index> index(new Index);
  index->path_ = path;
  index->digest_ = header.digest();
  // Before locations, whose lengths count, are resolved.
  SCALAI_ASSIGN_OR_RETURN(index->columns_, IndexColumns::open(source, header));
  index->file_begins_ = {0};
  for (DataFile& file : header.files) {
    if (is_local(file.location)) file.location = (folder / file.location).lexically_normal().string();
    index->file_begins_.push_back(index->file_begins_.back() + file.bytes);
  }
  index->header_ = std::make_unique<const IndexHeader>(std::move(header));
  return std::shared_ptr<const Index>(index);
}

Format Index::format() const { return header_->format; }
const std::vector<DataFile>& Index::files() const { return header_->files; }
int64_t Index::documents() const { return header_->documents; }
int64_t Index::bytes() const { return file_begins_.back(); }
int64_t Index::record_bytes() const { return header_->record_bytes; }
int Index::dtype_code() const { return header_->dtype_code; }
int64_t Index::token_bytes() const { return header_->token_bytes(); }
int64_t Index::tokens() const { return header_->tokens; }
int64_t Index::sequences() const { return header_->sequences; }

absl::StatusOr<int64_t> Index::row(int column, int64_t row) const {
  int64_t value = 0;
  SCALAI_RETURN_IF_ERROR(columns_->read(column, row, {&value, 1}));
  return value;
}

absl::StatusOr<Index::Pair> Index::rows(int column, int64_t row) const {
  int64_t values[2] = {};
  SCALAI_RETURN_IF_ERROR(columns_->read(column, row, values));
  return Pair{values[0], values[1]};
}

absl::Status Index::damaged(int64_t i) const {
  return invalid(
      fmt::format("{}: the index is damaged at document {}; build it again with `scalai data index`", path_, i));
}

absl::StatusOr<Extent> Index::within_file(int64_t i, int64_t begin, int64_t end) const {
  if (begin < 0 || end < begin || end > bytes()) return damaged(i);
  // An empty range where files meet lies in the later one, at the end of all in the last.
  const auto behind = std::upper_bound(file_begins_.begin(), file_begins_.end() - 1, begin);
  const auto file = static_cast<size_t>(behind - file_begins_.begin()) - 1;
  if (end > file_begins_[file + 1]) return damaged(i);
  return Extent{static_cast<int>(file), begin - file_begins_[file], end - begin};
}

absl::StatusOr<Index::Pair> Index::sequences_of(int64_t i) const {
  SCALAI_ASSIGN_OR_RETURN(const Pair found, rows(0, i));
  const bool inside = found.begin >= 0 && found.end >= found.begin && found.end <= sequences();
  return inside ? absl::StatusOr<Pair>(found) : damaged(i);
}

// Where it lies in all data files one after the other, as the index says.
absl::StatusOr<Index::Pair> Index::place_of(int64_t i) const {
  switch (format()) {
    case Format::kMegatron: {
      SCALAI_ASSIGN_OR_RETURN(const Pair found, sequences_of(i));
      SCALAI_ASSIGN_OR_RETURN(const int64_t begin, row(1, found.begin));
      SCALAI_ASSIGN_OR_RETURN(const int64_t end, row(1, found.end));
      if (begin < 0 || begin > tokens() || end < 0 || end > tokens()) return damaged(i);
      return Pair{begin * token_bytes(), end * token_bytes()};
    }
    case Format::kTfRecord: return rows(0, i);
    case Format::kTar: return rows(0, 2 * i);
    case Format::kFixed: break;
  }
  return Pair{i * record_bytes(), (i + 1) * record_bytes()};
}

absl::StatusOr<Extent> Index::document(int64_t i) const {
  SCALAI_CHECK(i >= 0 && i < documents());
  SCALAI_ASSIGN_OR_RETURN(const Pair place, place_of(i));
  return within_file(i, place.begin, place.end);
}

void Index::extents_of(int64_t begin, int64_t bytes, std::vector<Extent>& extents) const {
  SCALAI_CHECK(begin >= 0 && bytes >= 0 && bytes <= this->bytes() - begin);
  auto behind = std::upper_bound(file_begins_.begin(), file_begins_.end() - 1, begin);
  for (; bytes > 0; ++behind) {
    const auto file = static_cast<size_t>(behind - file_begins_.begin()) - 1;
    const int64_t here = std::min(bytes, file_begins_[file + 1] - begin);
    if (here > 0) extents.push_back({static_cast<int>(file), begin - file_begins_[file], here});
    begin += here;
    bytes -= here;
  }
}

absl::Status Index::sequence_lengths(int64_t i, std::vector<int32_t>& lengths) const {
  SCALAI_CHECK(i >= 0 && i < documents());
  if (format() != Format::kMegatron) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(const Pair found, sequences_of(i));
  std::vector<int64_t> ends;
  for (int64_t first = found.begin; first < found.end; first += kRowsARead) {
    const int64_t count = std::min(kRowsARead, found.end - first);
    ends.resize(static_cast<size_t>(count + 1));
    SCALAI_RETURN_IF_ERROR(columns_->read(1, first, ends));
    for (size_t s = 0; s < static_cast<size_t>(count); ++s) {
      int64_t length = 0;
      if (__builtin_sub_overflow(ends[s + 1], ends[s], &length)) return damaged(i);
      if (length < 0 || length > std::numeric_limits<int32_t>::max()) return damaged(i);
      lengths.push_back(static_cast<int32_t>(length));
    }
  }
  return absl::OkStatus();
}

}  // namespace scalai::datasets
