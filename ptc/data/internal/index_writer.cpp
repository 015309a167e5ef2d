#include "ptc/data/internal/index_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "ptc/base/status.h"

namespace scalai::data {
namespace {

constexpr size_t kWriterBuffer = size_t{1} << 20;

bool is_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

}  // namespace

absl::StatusOr<TemporaryFile> TemporaryFile::create(const std::string& path) {
  std::string name = fmt::format("{}.tmp.{}", path, ::getpid());
  const int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return missing(fmt::format("{}: cannot create: {}", name, std::strerror(errno)));
  return TemporaryFile(std::move(name), fd);
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

TemporaryFile::~TemporaryFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(path_.c_str());
}

absl::Status TemporaryFile::write_error(const std::string& what, int error) const {
  const std::string message = fmt::format("{}: {}: {}", path_, what, std::strerror(error));
  return is_full(error) ? absl::ResourceExhaustedError(message) : failed(message);
}

absl::Status TemporaryFile::write(int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return write_error("cannot write", errno);
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += n;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> TemporaryFile::read_number(int64_t offset) const {
  int64_t value = 0;
  const ssize_t n = ::pread(fd_, &value, sizeof value, offset);
  if (n == sizeof value) return value;
  return failed(fmt::format("{}: cannot be read back: {}", path_, n < 0 ? std::strerror(errno) : "it was cut"));
}

absl::Status TemporaryFile::publish(const std::string& path) {
  if (::fsync(fd_) != 0) return write_error("cannot flush", errno);
  if (::rename(path_.c_str(), path.c_str()) != 0) return write_error("cannot be renamed to " + path, errno);
  ::close(std::exchange(fd_, -1));
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const int folder = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return absl::OkStatus();
  ::fsync(folder);  // some network file systems cannot, and say so
  ::close(folder);
  return absl::OkStatus();
}

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
  return file_->read_number(begin_ + 8 * row);
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
  IndexWriter writer(out, std::move(file));
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
  return file_->publish(out_);
}

}  // namespace scalai::data
