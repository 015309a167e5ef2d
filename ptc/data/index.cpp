#include "ptc/data/index.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "ptc/base/byte_source.h"
#include "ptc/base/status.h"
#include "ptc/data/data_files.h"
#include "ptc/data/internal/index_format.h"

namespace scalai::data {
namespace {

absl::Status named(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}: {}", path, message_of(status)));
}

// Closed when it goes: a mapping outlives its descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

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

Index::~Index() {
  if (map_ != nullptr) ::munmap(const_cast<unsigned char*>(map_), map_bytes_);
}

absl::StatusOr<std::shared_ptr<const Index>> Index::open(const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr source, open_file_source(path));
  SCALAI_ASSIGN_OR_RETURN(IndexHeader header, read_header(*source));
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::shared_ptr<Index> index(new Index);
  index->path_ = path;
  index->digest_ = header.digest();
  index->header_bytes_ = header_bytes_of(header);  // before locations, which count, are resolved
  index->file_begins_ = {0};
  for (DataFile& file : header.files) {
    if (is_local(file.location)) file.location = (folder / file.location).lexically_normal().string();
    index->file_begins_.push_back(index->file_begins_.back() + file.bytes);
  }
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (fd.get() < 0 || ::fstat(fd.get(), &info) != 0) return missing(fmt::format("{}: {}", path, std::strerror(errno)));
  if (info.st_size != source->size()) return invalid(fmt::format("{}: was changed while it was opened", path));
  index->map_bytes_ = static_cast<size_t>(info.st_size);
  void* map = ::mmap(nullptr, index->map_bytes_, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (map == MAP_FAILED) return failed(fmt::format("{}: cannot be mapped: {}", path, std::strerror(errno)));
  index->map_ = static_cast<const unsigned char*>(map);
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

int64_t Index::column_begin(int number) const { return header_bytes_ + (number == 0 ? 0 : 8 * rows_of(*header_, 0)); }

int64_t Index::column(int number, int64_t row) const {
  SCALAI_CHECK(row >= 0 && row < rows_of(*header_, number));
  int64_t value = 0;
  std::memcpy(&value, map_ + column_begin(number) + 8 * row, sizeof value);
  return value;
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

absl::StatusOr<Index::Sequences> Index::sequences_of(int64_t i) const {
  const Sequences found{column(0, i), column(0, i + 1)};
  const bool inside = found.begin >= 0 && found.end >= found.begin && found.end <= sequences();
  return inside ? absl::StatusOr<Sequences>(found) : damaged(i);
}

absl::StatusOr<Extent> Index::document(int64_t i) const {
  SCALAI_CHECK(i >= 0 && i < documents());
  switch (format()) {
    case Format::kMegatron: {
      SCALAI_ASSIGN_OR_RETURN(const Sequences found, sequences_of(i));
      const int64_t begin = column(1, found.begin), end = column(1, found.end);
      if (begin < 0 || begin > tokens() || end < 0 || end > tokens()) return damaged(i);
      return within_file(i, begin * token_bytes(), end * token_bytes());
    }
    case Format::kTfRecord: return within_file(i, column(0, i), column(0, i + 1));
    case Format::kTar: return within_file(i, column(0, 2 * i), column(0, 2 * i + 1));
    case Format::kFixed: break;
  }
  return within_file(i, i * record_bytes(), (i + 1) * record_bytes());
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
  SCALAI_ASSIGN_OR_RETURN(const Sequences found, sequences_of(i));
  for (int64_t s = found.begin; s < found.end; ++s) {
    int64_t length = 0;
    if (__builtin_sub_overflow(column(1, s + 1), column(1, s), &length)) return damaged(i);
    if (length < 0 || length > std::numeric_limits<int32_t>::max()) return damaged(i);
    lengths.push_back(static_cast<int32_t>(length));
  }
  return absl::OkStatus();
}

}  // namespace scalai::data
