#include "ptc/store/torch/internal/zip_frame.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "ptc/base/hash.h"
#include "ptc/store/torch/internal/little_endian.h"
#include "ptc/store/torch/internal/zip_format.h"

namespace scalai::store::internal {
namespace {

constexpr int64_t kAlignment = 64;
constexpr uint16_t kPadding = 0x4246;  // "FB", as torch names its extra field

uint64_t in_32_bits(int64_t value) { return std::min<uint64_t>(static_cast<uint64_t>(value), kIn64Bits); }

// The field of the numbers that do not fit into 32 bits; "": all do.
std::string extra_of(std::initializer_list<int64_t> numbers) {
  std::string large;
  for (const int64_t number : numbers) {
    if (number >= kIn64Bits) append_number(large, static_cast<uint64_t>(number), 8);
  }
  std::string extra;
  if (large.empty()) return extra;
  append_number(extra, kExtra64, 2);
  append_number(extra, large.size(), 2);
  return extra + large;
}

// What an entry and its line in the table have in common.
std::string fields_of(const std::string& name, int64_t size, uint32_t crc, size_t extra_bytes) {
  std::string fields;
  append_number(fields, size >= kIn64Bits ? 45 : 20, 2);  // version of the format
  append_number(fields, 0, 2);                            // flags
  append_number(fields, 0, 2);                            // stored as it is
  append_number(fields, 0, 4);                            // time
  append_number(fields, crc, 4);
  append_number(fields, in_32_bits(size), 4);
  append_number(fields, in_32_bits(size), 4);
  append_number(fields, name.size(), 2);
  append_number(fields, extra_bytes, 2);
  return fields;
}

}  // namespace

void ZipFrame::write(std::string_view text) {
  std::vector<FileFrame::Text>& texts = frame_.texts;
  const bool behind = !texts.empty() && texts.back().offset + std::ssize(texts.back().bytes) == frame_.bytes;
  if (!behind) texts.push_back({frame_.bytes, ""});
  texts.back().bytes += text;
  frame_.bytes += std::ssize(text);
}

void ZipFrame::begin_entry(const std::string& name, int64_t size, uint32_t crc) {
  const int64_t header = frame_.bytes - begin_;
  std::string extra = extra_of({size, size});
  const int64_t end = header + kEntryBytes + std::ssize(name) + std::ssize(extra) + 4;
  const int64_t padding = (kAlignment - end % kAlignment) % kAlignment;
  append_number(extra, kPadding, 2);
  append_number(extra, static_cast<uint64_t>(padding), 2);
  extra.append(static_cast<size_t>(padding), 'Z');
  std::string text;
  append_number(text, kEntry, 4);
  write(text + fields_of(name, size, crc, extra.size()) + name + extra);

  const std::string listed = extra_of({size, size, header});
  append_number(table_, kListed, 4);
  append_number(table_, 0, 2);  // made by
  table_ += fields_of(name, size, crc, listed.size());
  append_number(table_, 0, 2 + 2 + 2);  // comment, disk, attributes
  append_number(table_, 0, 4);
  append_number(table_, in_32_bits(header), 4);
  table_ += name + listed;
  ++entries_;
}

void ZipFrame::add(const std::string& name, std::string_view text) {
  begin_entry(name, std::ssize(text), crc32_of(text));
  write(text);
}

void ZipFrame::add(const std::string& name, const TensorSpec& tensor) {
  const int64_t bytes =
      std::accumulate(tensor.shape.begin(), tensor.shape.end(), tensor::size_of(tensor.dtype), std::multiplies<>());
  begin_entry(name, bytes, 0);
  frame_.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, frame_.bytes, bytes});
  frame_.bytes += bytes;
}

void ZipFrame::finish() {
  const int64_t table = frame_.bytes - begin_;
  const int64_t table_end = table + std::ssize(table_);
  const bool large = table >= kIn64Bits || std::ssize(table_) >= kIn64Bits || entries_ >= kMoreThan16Bits;
  std::string end;
  if (large) {
    append_number(end, kEnd64, 4);
    append_number(end, kEnd64Bytes - 12, 8);
    append_number(end, 45, 2);
    append_number(end, 45, 2);
    append_number(end, 0, 8);  // disks
    append_number(end, entries_, 8);
    append_number(end, entries_, 8);
    append_number(end, table_.size(), 8);
    append_number(end, static_cast<uint64_t>(table), 8);
    append_number(end, kEnd64Place, 4);
    append_number(end, 0, 4);
    append_number(end, static_cast<uint64_t>(table_end), 8);
    append_number(end, 1, 4);
  }
  append_number(end, kEnd, 4);
  append_number(end, 0, 4);  // disks
  append_number(end, std::min<uint64_t>(entries_, kMoreThan16Bits), 2);
  append_number(end, std::min<uint64_t>(entries_, kMoreThan16Bits), 2);
  append_number(end, in_32_bits(std::ssize(table_)), 4);
  append_number(end, in_32_bits(table), 4);
  append_number(end, 0, 2);  // comment
  write(table_ + end);
  begin_ = frame_.bytes;
  table_.clear();
  entries_ = 0;
}

}  // namespace scalai::store::internal
