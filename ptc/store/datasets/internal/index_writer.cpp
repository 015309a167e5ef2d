#include "ptc/store/datasets/internal/index_writer.h"

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ptc/base/status.h"

namespace scalai::datasets {
namespace {

constexpr size_t kWriterBuffer = size_t{1} << 20;

absl::StatusOr<int64_t> read_number(const TemporaryFile& file, int64_t offset) {
  int64_t value = 0;
  const ssize_t n = ::pread(file.descriptor(), &value, sizeof value, offset);
  if (n == sizeof value) return value;
  return failed(fmt::format("{}: cannot be read back: {}", file.path(), n < 0 ? std::strerror(errno) : "it was cut"));
}

}  // namespace

struct ColumnWriter::Hash {
  XXH3_state_t* xxh = XXH3_createState();
  ~Hash() { XXH3_freeState(xxh); }
};

ColumnWriter::ColumnWriter(TemporaryFile& file, int64_t offset)
    : file_(&file), begin_(offset), offset_(offset), hash_(std::make_unique<Hash>()) {
  SCALAI_CHECK(hash_->xxh != nullptr);
  XXH3_128bits_reset(hash_->xxh);
}

ColumnWriter::~ColumnWriter() = default;
ColumnWriter::ColumnWriter(ColumnWriter&&) noexcept = default;

absl::Status ColumnWriter::add(int64_t value) {
  buffer_.append(reinterpret_cast<const char*>(&value), sizeof value);
  ++rows_;
  return buffer_.size() < kWriterBuffer ? absl::OkStatus() : flush();
}

absl::Status ColumnWriter::flush() {
  for (std::string_view rest = buffer_; !rest.empty();) {
    const size_t here = std::min(rest.size(), static_cast<size_t>(kBlockBytes - hashed_));
    XXH3_128bits_update(hash_->xxh, rest.data(), here);
    hashed_ += static_cast<int64_t>(here);
    rest.remove_prefix(here);
    if (hashed_ == kBlockBytes) end_block();
  }
  SCALAI_RETURN_IF_ERROR(file_->write(offset_, buffer_));
  offset_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ColumnWriter::row(int64_t row) {
  SCALAI_CHECK(row >= 0 && row < rows_);
  SCALAI_RETURN_IF_ERROR(flush());
  return read_number(*file_, begin_ + 8 * row);
}

// As block_sum_of, of what came in parts.
void ColumnWriter::end_block() {
  const XXH128_hash_t hash = XXH3_128bits_digest(hash_->xxh);
  for (const uint64_t half : {uint64_t{hash.high64}, uint64_t{hash.low64}}) {
    sums_.append(reinterpret_cast<const char*>(&half), sizeof half);
  }
  XXH3_128bits_reset(hash_->xxh);
  hashed_ = 0;
}

absl::StatusOr<std::string> ColumnWriter::finish() {
  SCALAI_RETURN_IF_ERROR(flush());
  if (hashed_ > 0) end_block();
  return sums_;
}

absl::StatusOr<IndexWriter> IndexWriter::create(const std::string& out, const IndexHeader& header) {
  SCALAI_ASSIGN_OR_RETURN(TemporaryFile file, TemporaryFile::create(out));
  IndexWriter writer(std::move(file));
  for (int i = 0; i < columns_of(header.format); ++i) {
    writer.columns_.emplace_back(*writer.file_, column_offset(header, i));
  }
  return writer;
}

absl::StatusOr<int64_t> IndexWriter::row(int column, int64_t row) {
  return columns_[static_cast<size_t>(column)].row(row);
}

absl::Status IndexWriter::finish(IndexHeader& header) {
  header.checksums.clear();
  for (size_t i = 0; i < columns_.size(); ++i) {
    SCALAI_CHECK(columns_[i].rows() == rows_of(header, static_cast<int>(i)));
    SCALAI_ASSIGN_OR_RETURN(const std::string sums, columns_[i].finish());
    header.checksums.push_back(checksum_of(sums));
    SCALAI_RETURN_IF_ERROR(file_->write(sums_offset(header, static_cast<int>(i)), sums));
  }
  SCALAI_RETURN_IF_ERROR(file_->write(0, encode_header(header)));
  return file_->publish();
}

}  // namespace scalai::datasets
