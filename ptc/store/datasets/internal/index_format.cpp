#include "ptc/store/datasets/internal/index_format.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"

namespace scalai::datasets {
namespace {

static_assert(std::endian::native == std::endian::little, "columns are used as they lie in the file");

constexpr std::string_view kMagic = "SCALAIDX";
constexpr size_t kDigestBytes = 32;
constexpr int64_t kTarBlock = 512;
constexpr int64_t kLeastRecord = 16;  // a TFRecord without data

int64_t rounded_up(int64_t bytes) { return (bytes + 7) / 8 * 8; }

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Reads front to back; after the end everything is 0 and ok() false.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  std::string_view rest() const { return rest_; }
  std::string_view take(size_t n) {
    ok_ = ok_ && n <= rest_.size();
    if (!ok_) return {};
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }
  template <class T>
  T number() {
    T value = 0;
    if (const std::string_view bytes = take(sizeof value); !bytes.empty())
      std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

absl::Status broken(const std::string& what) { return invalid("the index's header is damaged: " + what); }

absl::Status check_files(const IndexHeader& header) {
  if (header.files.empty()) return broken("no data files");
  int64_t total = 0;
  const int64_t unit = header.format == Format::kFixed      ? header.record_bytes
                       : header.format == Format::kMegatron ? header.token_bytes()
                                                            : 1;
  for (const DataFile& file : header.files) {
    if (file.bytes < 0 || file.bytes > kMostDataBytes - total) return broken("sizes of data files");
    if (file.bytes % unit != 0) return broken("a data file that is no multiple of its records or tokens");
    if (file.location.empty()) return broken("a data file without a location");
    total += file.bytes;
  }
  return absl::OkStatus();
}

// So that no lookup ever has to ask whether counts fit the files.
absl::Status check_numbers(const IndexHeader& header) {
  const bool fixed = header.format == Format::kFixed, megatron = header.format == Format::kMegatron;
  if (fixed ? header.record_bytes < 1 : header.record_bytes != 0) return broken("record bytes");
  if (megatron ? header.token_bytes() == 0 : header.dtype_code != 0) return broken("dtype code");
  SCALAI_RETURN_IF_ERROR(check_files(header));
  const int64_t bytes = header.data_bytes();
  const int64_t most = kMostDataBytes / 64;
  if (header.documents < 1 || header.documents > most) return broken("documents");
  if (header.sequences < 0 || header.sequences > most || (!megatron && header.sequences != 0))
    return broken("sequences");
  if (header.tokens < 0 || (!megatron && header.tokens != 0)) return broken("tokens");
  if (megatron && (bytes % header.token_bytes() != 0 || bytes / header.token_bytes() != header.tokens)) {
    return broken("tokens");
  }
  if (fixed && bytes / header.record_bytes != header.documents) return broken("documents");
  if (header.format == Format::kTfRecord && header.documents > bytes / kLeastRecord) return broken("documents");
  if (header.format == Format::kTar && header.documents > bytes / kTarBlock) return broken("documents");
  return absl::OkStatus();
}

}  // namespace

std::string_view name_of(Format format) {
  switch (format) {
    case Format::kMegatron: return "megatron";
    case Format::kTfRecord: return "tfrecord";
    case Format::kTar: return "tar";
    case Format::kFixed: return "fixed";
  }
  return "unknown";
}

int64_t IndexHeader::data_bytes() const {
  int64_t total = 0;
  for (const DataFile& file : files) total += file.bytes;
  return total;
}

int64_t IndexHeader::token_bytes() const {
  constexpr int64_t kBytes[] = {0, 1, 1, 2, 4, 8, 8, 4, 2};
  return dtype_code >= 1 && dtype_code <= 8 ? kBytes[dtype_code] : 0;
}

std::string IndexHeader::digest() const {
  Hasher hasher;
  hasher.add("scalai.data.index").add(kIndexSchemaVersion).add(static_cast<int64_t>(format));
  hasher.add(documents).add(record_bytes).add(dtype_code).add(sequences).add(tokens);
  hasher.add(static_cast<int64_t>(files.size()));
  for (const DataFile& file : files) hasher.add(file.bytes).add(file.edges);
  for (const std::string& checksum : checksums) hasher.add(checksum);
  return hasher.hex();
}

int columns_of(Format format) { return format == Format::kMegatron ? 2 : format == Format::kFixed ? 0 : 1; }

int64_t rows_of(const IndexHeader& header, int column) {
  switch (header.format) {
    case Format::kMegatron: return (column == 0 ? header.documents : header.sequences) + 1;
    case Format::kTfRecord: return header.documents + 1;
    case Format::kTar: return header.documents * 2;
    case Format::kFixed: break;
  }
  return 0;
}

int64_t header_bytes_of(const IndexHeader& header) {
  int64_t bytes = kFixedHeaderBytes + 6 * 8;
  for (const DataFile& file : header.files) bytes += 8 + 8 + 32 + 4 + static_cast<int64_t>(file.location.size());
  return rounded_up(bytes + 32 * columns_of(header.format)) + 32;
}

int64_t column_offset(const IndexHeader& header, int column) {
  int64_t offset = header_bytes_of(header);
  for (int before = 0; before < column; ++before) offset += 8 * rows_of(header, before);
  return offset;
}

int64_t blocks_of(const IndexHeader& header, int column) {
  return (8 * rows_of(header, column) + kBlockBytes - 1) / kBlockBytes;
}

int64_t sums_offset(const IndexHeader& header, int column) {
  int64_t offset = column_offset(header, columns_of(header.format));
  for (int before = 0; before < column; ++before) offset += kBlockSumBytes * blocks_of(header, before);
  return offset;
}

std::string encode_header(const IndexHeader& header) {
  std::string out(kMagic);
  put(out, kIndexSchemaVersion);
  put(out, static_cast<uint32_t>(header.format));
  put(out, header_bytes_of(header));
  put(out, sums_offset(header, columns_of(header.format)));
  put(out, header.documents);
  put(out, header.record_bytes);
  put(out, int64_t{header.dtype_code});
  put(out, header.sequences);
  put(out, header.tokens);
  put(out, static_cast<int64_t>(header.files.size()));
  for (const DataFile& file : header.files) {
    SCALAI_CHECK(file.edges.size() == kDigestBytes);
    put(out, file.bytes);
    put(out, file.modified_ns);
    out += file.edges;
    put(out, static_cast<uint32_t>(file.location.size()));
    out += file.location;
  }
  for (const std::string& checksum : header.checksums) out += checksum;
  out.resize(static_cast<size_t>(rounded_up(static_cast<int64_t>(out.size()))), '\0');
  out += checksum_of(out);
  SCALAI_CHECK(static_cast<int64_t>(out.size()) == header_bytes_of(header));
  return out;
}

absl::StatusOr<IndexSizes> parse_sizes(std::string_view begin) {
  Decoder decoder(begin);
  if (decoder.take(kMagic.size()) != kMagic) return invalid("is no index that `scalai data index` wrote");
  const auto version = decoder.number<uint32_t>();
  if (decoder.ok() && version != kIndexSchemaVersion) {
    return invalid(
        fmt::format("has schema version {}, and this program reads {}; build it again with `scalai data index`",
                    version, kIndexSchemaVersion));
  }
  decoder.number<uint32_t>();
  IndexSizes sizes{.header_bytes = decoder.number<int64_t>(), .file_bytes = decoder.number<int64_t>()};
  if (!decoder.ok()) return invalid("was cut in its header");
  if (sizes.header_bytes < kFixedHeaderBytes + 32 || sizes.header_bytes > kMostHeaderBytes ||
      sizes.header_bytes > sizes.file_bytes) {
    return broken("sizes");
  }
  return sizes;
}

absl::StatusOr<IndexHeader> parse_header(std::string_view bytes) {
  SCALAI_ASSIGN_OR_RETURN(const IndexSizes sizes, parse_sizes(bytes));
  if (static_cast<int64_t>(bytes.size()) != sizes.header_bytes) return broken("its size");
  const size_t covered = bytes.size() - kDigestBytes;
  if (checksum_of(bytes.substr(0, covered)) != bytes.substr(covered)) return broken("its checksum does not fit");
  Decoder decoder(bytes.substr(0, covered));
  decoder.take(kMagic.size() + 4);
  IndexHeader header;
  const auto format = decoder.number<uint32_t>();
  if (format < 1 || format > 4) return broken(fmt::format("there is no format {}", format));
  header.format = static_cast<Format>(format);
  decoder.take(16);
  header.documents = decoder.number<int64_t>();
  header.record_bytes = decoder.number<int64_t>();
  const auto dtype_code = decoder.number<int64_t>();
  header.dtype_code = dtype_code >= 0 && dtype_code <= 8 ? static_cast<int>(dtype_code) : -1;
  header.sequences = decoder.number<int64_t>();
  header.tokens = decoder.number<int64_t>();
  const auto files = decoder.number<int64_t>();
  for (int64_t i = 0; i < files && decoder.ok(); ++i) {
    DataFile file;
    file.bytes = decoder.number<int64_t>();
    file.modified_ns = decoder.number<int64_t>();
    file.edges = decoder.take(kDigestBytes);
    const auto length = decoder.number<uint32_t>();
    file.location = decoder.take(length);
    header.files.push_back(std::move(file));
  }
  for (int i = 0; i < columns_of(header.format); ++i) header.checksums.emplace_back(decoder.take(kDigestBytes));
  if (!decoder.ok() || decoder.rest().size() >= 8) return broken("its parts do not fit its size");
  SCALAI_RETURN_IF_ERROR(check_numbers(header));
  const int64_t file_bytes = sums_offset(header, columns_of(header.format));
  if (file_bytes != sizes.file_bytes) return broken("its counts do not fit its size");
  if (file_bytes - sums_offset(header, 0) > kMostSumsBytes) return broken("more rows than can be");
  return header;
}

std::string checksum_of(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string block_sum_of(std::string_view block) {
  const XXH128_hash_t hash = XXH3_128bits(block.data(), block.size());
  std::string sum;
  put(sum, uint64_t{hash.high64});
  put(sum, uint64_t{hash.low64});
  return sum;
}

std::string block_sums_of(std::string_view column) {
  std::string sums;
  for (; !column.empty(); column.remove_prefix(std::min(column.size(), static_cast<size_t>(kBlockBytes)))) {
    sums += block_sum_of(column.substr(0, static_cast<size_t>(kBlockBytes)));
  }
  return sums;
}

}  // namespace scalai::datasets
