#include "ptc/store/torch/zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/torch/internal/zip_format.h"

namespace scalai::store {
namespace {

using internal::kEnd;
using internal::kEnd64;
using internal::kEnd64Bytes;
using internal::kEnd64Place;
using internal::kEntry;
using internal::kEntryBytes;
using internal::kExtra64;
using internal::kIn64Bits;
using internal::kListed;
using internal::kMoreThan16Bits;

constexpr int64_t kListedBytes = 46, kEndBytes = 22, kEnd64PlaceBytes = 20;
constexpr int64_t kMostComment = 65535;
constexpr int64_t kMostEntries = int64_t{1} << 20;
constexpr int64_t kMostTableBytes = int64_t{1} << 28;

// Little-endian numbers in a stretch of bytes; beyond its end everything is 0 and `broken`.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}
  uint64_t number(int64_t at, int size) {
    if (at < 0 || at + size > static_cast<int64_t>(bytes_.size())) {
      broken = true;
      return 0;
    }
    uint64_t value = 0;
    for (int i = size - 1; i >= 0; --i)
      value = value << 8 | static_cast<uint8_t>(bytes_[static_cast<size_t>(at) + static_cast<size_t>(i)]);
    return value;
  }
  uint16_t u16(int64_t at) { return static_cast<uint16_t>(number(at, 2)); }
  uint32_t u32(int64_t at) { return static_cast<uint32_t>(number(at, 4)); }
  uint64_t u64(int64_t at) { return number(at, 8); }

  bool broken = false;

 private:
  std::string_view bytes_;
};

absl::StatusOr<std::string> read_bytes(const ByteSource& source, int64_t offset, int64_t bytes) {
  if (offset < 0 || bytes < 0 || offset > source.size() - bytes)
    return invalid(fmt::format("{}: damaged zip archive: a table lies beyond the end", source.name()));
  std::string text(static_cast<size_t>(bytes), '\0');
  SCALAI_RETURN_IF_ERROR(source.read(offset, std::as_writable_bytes(std::span(text))));
  return text;
}

struct Table {
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t entries = 0;
};

absl::Status damaged(const ByteSource& source, std::string_view what) {
  return invalid(fmt::format("{}: damaged zip archive: {}", source.name(), what));
}

absl::StatusOr<Table> find_table(const ByteSource& source) {
  const int64_t tail_bytes = std::min(source.size(), kEndBytes + kMostComment);
  const int64_t tail_begin = source.size() - tail_bytes;
  SCALAI_ASSIGN_OR_RETURN(const std::string tail, read_bytes(source, tail_begin, tail_bytes));
  Fields fields(tail);
  int64_t end = tail_bytes - kEndBytes;
  while (end >= 0 && fields.u32(end) != kEnd) --end;
  if (end < 0) return damaged(source, "it has no table of contents (cut off?)");
  Table table{.offset = fields.u32(end + 16), .bytes = fields.u32(end + 12), .entries = fields.u16(end + 10)};
  if (fields.u16(end + 4) != 0 && fields.u16(end + 4) != kMoreThan16Bits)
    return damaged(source, "it is one of several");
  const bool large = table.offset == kIn64Bits || table.bytes == kIn64Bits || table.entries == kMoreThan16Bits;
  if (large) {
    const int64_t place = tail_begin + end - kEnd64PlaceBytes;
    SCALAI_ASSIGN_OR_RETURN(const std::string at, read_bytes(source, place, kEnd64PlaceBytes));
    Fields place_fields(at);
    if (place_fields.u32(0) != kEnd64Place) return damaged(source, "its 64-bit table is missing");
    SCALAI_ASSIGN_OR_RETURN(const std::string text,
                            read_bytes(source, static_cast<int64_t>(place_fields.u64(8)), kEnd64Bytes));
    Fields end64(text);
    if (end64.u32(0) != kEnd64) return damaged(source, "its 64-bit table is not where it should be");
    table = {.offset = static_cast<int64_t>(end64.u64(48)),
             .bytes = static_cast<int64_t>(end64.u64(40)),
             .entries = static_cast<int64_t>(end64.u64(32))};
  }
  if (table.entries < 0 || table.entries > kMostEntries)
    return damaged(source, fmt::format("more than {} entries", kMostEntries));
  if (table.bytes < 0 || table.bytes > kMostTableBytes) return damaged(source, "its table is too large");
  return table;
}

// What an entry's extra fields say of the sizes that do not fit into 32 bits, in the order of the format.
absl::Status read_extra(const ByteSource& source, Fields& fields, int64_t at, int64_t bytes,
                        std::initializer_list<int64_t*> numbers) {
  for (int64_t field = at; field + 4 <= at + bytes;) {
    const int64_t size = fields.u16(field + 2);
    if (fields.u16(field) == kExtra64) {
      int64_t next = field + 4;
      for (int64_t* const number : numbers) {
        if (*number != kIn64Bits) continue;
        if (next + 8 > field + 4 + size) return damaged(source, "an entry's 64-bit sizes are missing");
        *number = static_cast<int64_t>(fields.u64(next));
        next += 8;
      }
      return absl::OkStatus();
    }
    field += 4 + size;
  }
  return absl::OkStatus();
}

// Where the bytes of an entry begin: behind its own header, which is not in the table.
absl::StatusOr<int64_t> data_begin(const ByteSource& source, const std::string& name, int64_t header) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_bytes(source, header, kEntryBytes));
  Fields fields(text);
  if (fields.u32(0) != kEntry)
    return damaged(source, fmt::format("\"{}\" is not where its table says", clipped(name, 80)));
  return header + kEntryBytes + fields.u16(26) + fields.u16(28);
}

absl::Status check_overlaps(const ByteSource& source, std::vector<ZipEntry> entries) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i - 1].offset + entries[i - 1].bytes > entries[i].offset)
      return damaged(source, fmt::format("\"{}\" and \"{}\" overlap", clipped(entries[i - 1].name, 80),
                                         clipped(entries[i].name, 80)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> is_zip(const ByteSource& source) {
  if (source.size() < kEndBytes) return false;
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_bytes(source, 0, 4));
  return Fields(text).u32(0) == kEntry;
}

absl::StatusOr<std::vector<ZipEntry>> zip_entries(const ByteSource& source) {
  SCALAI_ASSIGN_OR_RETURN(const Table table, find_table(source));
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_bytes(source, table.offset, table.bytes));
  Fields fields(text);
  std::vector<ZipEntry> entries;
  std::set<std::string> names;
  int64_t at = 0;
  for (int64_t i = 0; i < table.entries; ++i) {
    if (fields.u32(at) != kListed) return damaged(source, fmt::format("entry {} of its table is damaged", i));
    const int64_t name_bytes = fields.u16(at + 28), extra_bytes = fields.u16(at + 30),
                  comment_bytes = fields.u16(at + 32);
    int64_t packed = fields.u32(at + 20), bytes = fields.u32(at + 24), header = fields.u32(at + 42);
    if (at + kListedBytes + name_bytes + extra_bytes + comment_bytes > table.bytes)
      return damaged(source, fmt::format("entry {} of its table is cut off", i));
    const std::string name = text.substr(static_cast<size_t>(at + kListedBytes), static_cast<size_t>(name_bytes));
    SCALAI_RETURN_IF_ERROR(
        read_extra(source, fields, at + kListedBytes + name_bytes, extra_bytes, {&bytes, &packed, &header}));
    const std::string shown = clipped(name, 80);
    if ((fields.u16(at + 8) & 1) != 0) return damaged(source, fmt::format("\"{}\" is encrypted", shown));
    if (fields.u16(at + 10) != 0 || packed != bytes)
      return invalid(fmt::format("{}: \"{}\" is compressed; torch.save writes it as it is", source.name(), shown));
    if (!names.insert(name).second) return damaged(source, fmt::format("\"{}\" is in it twice", shown));
    SCALAI_ASSIGN_OR_RETURN(const int64_t begin, data_begin(source, name, header));
    if (bytes < 0 || begin > source.size() - bytes) return damaged(source, fmt::format("\"{}\" is cut off", shown));
    entries.push_back({name, begin, bytes, fields.u32(at + 16)});
    at += kListedBytes + name_bytes + extra_bytes + comment_bytes;
  }
  if (fields.broken) return damaged(source, "its table is cut off");
  SCALAI_RETURN_IF_ERROR(check_overlaps(source, entries));
  return entries;
}

}  // namespace scalai::store
