#include "ptc/store/datasets/views/internal/idx_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::datasets::internal {
namespace {

constexpr int64_t kHeaderBytes = 34;
constexpr int64_t kLengthBytes = 4;
constexpr int64_t kPointerBytes = 8;
constexpr int64_t kDocumentBytes = 8;
constexpr int64_t kBlockEntries = 8192;  // computed at a time

void store(int64_t value, int64_t bytes, std::byte* dst) {
  for (int64_t i = 0; i < bytes; ++i) dst[i] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
}

class IdxImage final : public ByteSource {
 public:
  explicit IdxImage(ShardParts parts);

  const std::string& name() const override { return parts_.name; }
  int64_t size() const override { return idx_bytes(sequences_, documents_); }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override;

 private:
  struct Section {
    int64_t begin, entries, entry_bytes;
    absl::Status (IdxImage::*values)(int64_t first, std::span<int64_t> values) const;
  };
  absl::Status read_section(const Section& section, int64_t offset, std::span<std::byte> dst) const;
  void read_header(int64_t offset, std::span<std::byte> dst) const;
  absl::Status lengths(int64_t first, std::span<int64_t> values) const;
  absl::Status pointers(int64_t first, std::span<int64_t> values) const;
  absl::Status documents(int64_t first, std::span<int64_t> values) const;
  int64_t sequences_before(int64_t document) const;
  int64_t document_of(int64_t sequence) const;
  absl::StatusOr<std::vector<int32_t>> lengths_of(int64_t document) const;

  ShardParts parts_;
  int64_t documents_;
  int64_t sequences_;
};

IdxImage::IdxImage(ShardParts parts)
    : parts_(std::move(parts)), documents_(parts_.table->count()), sequences_(sequences_before(documents_)) {}

// A window is one sequence.
int64_t IdxImage::sequences_before(int64_t document) const {
  if (parts_.table->bytes_each > 0) return document;
  return document == 0 ? 0 : parts_.table->sequence_ends[static_cast<size_t>(document - 1)];
}

int64_t IdxImage::document_of(int64_t sequence) const {
  if (parts_.table->bytes_each > 0) return sequence;
  const std::vector<int64_t>& ends = parts_.table->sequence_ends;
  return std::upper_bound(ends.begin(), ends.end(), sequence) - ends.begin();
}

absl::StatusOr<std::vector<int32_t>> IdxImage::lengths_of(int64_t document) const {
  const int64_t sample = parts_.table->samples[static_cast<size_t>(document)];
  std::vector<int32_t> lengths;
  absl::Status status = parts_.samples->sequence_lengths(sample, lengths);
  if (status.ok()) {
    const int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    const ShardTable& table = *parts_.table;
    const bool fits =
        static_cast<int64_t>(lengths.size()) == sequences_before(document + 1) - sequences_before(document) &&
        tokens * parts_.samples->index().token_bytes() == table.begin_of(document + 1) - table.begin_of(document);
    if (!fits) status = invalid("the index was changed while in use");
  }
  if (status.ok()) return lengths;
  return absl::Status(status.code(),
                      fmt::format("{}: {}: {}", parts_.name, parts_.samples->name(sample), message_of(status)));
}

absl::Status IdxImage::lengths(int64_t first, std::span<int64_t> values) const {
  for (size_t done = 0; done < values.size();) {
    const int64_t sequence = first + static_cast<int64_t>(done);
    const int64_t document = document_of(sequence);
    SCALAI_ASSIGN_OR_RETURN(const std::vector<int32_t> of_document, lengths_of(document));
    for (auto i = static_cast<size_t>(sequence - sequences_before(document));
         i < of_document.size() && done < values.size(); ++i) {
      values[done++] = of_document[i];
    }
  }
  return absl::OkStatus();
}

absl::Status IdxImage::pointers(int64_t first, std::span<int64_t> values) const {
  const int64_t token_bytes = parts_.samples->index().token_bytes();
  for (size_t done = 0; done < values.size();) {
    const int64_t document = document_of(first + static_cast<int64_t>(done));
    SCALAI_ASSIGN_OR_RETURN(const std::vector<int32_t> of_document, lengths_of(document));
    int64_t sequence = sequences_before(document);
    int64_t pointer = parts_.table->begin_of(document);
    for (size_t i = 0; i < of_document.size() && done < values.size(); ++i, ++sequence) {
      if (sequence >= first) values[done++] = pointer;
      pointer += of_document[i] * token_bytes;
    }
  }
  return absl::OkStatus();
}

absl::Status IdxImage::documents(int64_t first, std::span<int64_t> values) const {
  for (size_t i = 0; i < values.size(); ++i) values[i] = sequences_before(first + static_cast<int64_t>(i));
  return absl::OkStatus();
}

void IdxImage::read_header(int64_t offset, std::span<std::byte> dst) const {
  std::array<std::byte, kHeaderBytes> header{};
  std::memcpy(header.data(), "MMIDIDX\0\0", 9);
  store(1, 8, header.data() + 9);
  store(parts_.samples->index().dtype_code(), 1, header.data() + 17);
  store(sequences_, 8, header.data() + 18);
  store(documents_ + 1, 8, header.data() + 26);
  std::memcpy(dst.data(), header.data() + offset, dst.size());
}

// Bytes of a section that may begin and end inside an entry.
absl::Status IdxImage::read_section(const Section& section, int64_t offset, std::span<std::byte> dst) const {
  const int64_t end = offset + static_cast<int64_t>(dst.size());
  std::vector<int64_t> values;
  std::vector<std::byte> encoded;
  for (int64_t at = offset; at < end;) {
    const int64_t first = at / section.entry_bytes;
    const int64_t last = std::min(first + kBlockEntries, (end + section.entry_bytes - 1) / section.entry_bytes);
    values.resize(static_cast<size_t>(last - first));
    SCALAI_RETURN_IF_ERROR((this->*section.values)(first, values));
    encoded.resize(values.size() * static_cast<size_t>(section.entry_bytes));
    for (size_t i = 0; i < values.size(); ++i) {
      store(values[i], section.entry_bytes, encoded.data() + i * static_cast<size_t>(section.entry_bytes));
    }
    const int64_t until = std::min(end, last * section.entry_bytes);
    std::memcpy(dst.data() + (at - offset), encoded.data() + (at - first * section.entry_bytes),
                static_cast<size_t>(until - at));
    at = until;
  }
  return absl::OkStatus();
}

absl::Status IdxImage::read(int64_t offset, std::span<std::byte> dst) const {
  const int64_t end = offset + static_cast<int64_t>(dst.size());
  SCALAI_CHECK(offset >= 0 && end <= size(), parts_.name);
  const int64_t pointers_begin = kHeaderBytes + kLengthBytes * sequences_;
  const std::array<Section, 3> sections = {{
      {kHeaderBytes, sequences_, kLengthBytes, &IdxImage::lengths},
      {pointers_begin, sequences_, kPointerBytes, &IdxImage::pointers},
      {pointers_begin + kPointerBytes * sequences_, documents_ + 1, kDocumentBytes, &IdxImage::documents},
  }};
  if (offset < kHeaderBytes) read_header(offset, dst.first(static_cast<size_t>(std::min(end, kHeaderBytes) - offset)));
  for (const Section& section : sections) {
    const int64_t lo = std::max(offset, section.begin);
    const int64_t hi = std::min(end, section.begin + section.entries * section.entry_bytes);
    if (lo >= hi) continue;
    const auto part = dst.subspan(static_cast<size_t>(lo - offset), static_cast<size_t>(hi - lo));
    SCALAI_RETURN_IF_ERROR(read_section(section, lo - section.begin, part));
  }
  return absl::OkStatus();
}

}  // namespace

ByteSourcePtr make_idx_image(ShardParts parts) { return std::make_shared<IdxImage>(std::move(parts)); }

int64_t idx_bytes(int64_t sequences, int64_t documents) {
  return kHeaderBytes + (kLengthBytes + kPointerBytes) * sequences + kDocumentBytes * (documents + 1);
}

}  // namespace scalai::datasets::internal
