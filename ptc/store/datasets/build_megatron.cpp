// Megatron's .idx, version 1: "MMIDIDX" and two zero bytes, u64 version, u8 dtype code, u64 sequences, u64 length of
// doc_idx; then i32 length in tokens of each sequence, i64 pointer (byte in the .bin) of each, i64 doc_idx: the first
// sequence of each document and, last, the number of sequences.

#include <fmt/format.h>

#include <cstring>

#include "ptc/base/status.h"
#include "ptc/store/datasets/internal/builders.h"
#include "ptc/store/datasets/internal/little_endian.h"

namespace scalai::datasets {
namespace {

constexpr std::string_view kIdxMagic("MMIDIDX\0\0", 9);
constexpr int64_t kHeadBytes = 34;
constexpr int64_t kMostCount = kMostDataBytes / 64;

// The counts of one .idx, and where its arrays lie.
struct IdxHead {
  int dtype_code = 0;
  int64_t sequences = 0;
  int64_t documents = 0;
  int64_t pointers_at() const { return kHeadBytes + 4 * sequences; }
  int64_t doc_idx_at() const { return pointers_at() + 8 * sequences; }
  int64_t end() const { return doc_idx_at() + 8 * (documents + 1); }
};

absl::StatusOr<IdxHead> read_head(const ByteSourcePtr& idx) {
  if (idx->size() < kHeadBytes) return invalid(fmt::format("{}: too short for an .idx", idx->name()));
  Scanner scanner(idx, 0, kHeadBytes, kHeadBytes);
  SCALAI_ASSIGN_OR_RETURN(const auto bytes, scanner.take(kHeadBytes));
  if (std::memcmp(bytes.data(), kIdxMagic.data(), kIdxMagic.size()) != 0) {
    return invalid(fmt::format("{}: is no .idx of Megatron: it does not begin with \"MMIDIDX\"", idx->name()));
  }
  const auto version = number_in<uint64_t>(bytes, 9);
  if (version != 1) return invalid(fmt::format("{}: has version {}, and version 1 is read", idx->name(), version));
  IdxHead head{.dtype_code = number_in<uint8_t>(bytes, 17)};
  if (IndexHeader probe{.dtype_code = head.dtype_code}; probe.token_bytes() == 0) {
    return invalid(fmt::format("{}: there is no dtype code {}", idx->name(), head.dtype_code));
  }
  const auto sequences = number_in<uint64_t>(bytes, 18), doc_idx = number_in<uint64_t>(bytes, 26);
  if (sequences > kMostCount || doc_idx > kMostCount || doc_idx == 0) {
    return invalid(
        fmt::format("{}: says that it has {} sequences and a doc_idx of {}", idx->name(), sequences, doc_idx));
  }
  head.sequences = static_cast<int64_t>(sequences);
  head.documents = static_cast<int64_t>(doc_idx) - 1;
  if (head.end() == idx->size()) return head;
  return invalid(fmt::format("{}: has {} bytes, and {} sequences with {} documents take {}: {}", idx->name(),
                             idx->size(), head.sequences, head.documents, head.end(),
                             idx->size() < head.end() ? "it was cut" : "its multimodal extension is not read"));
}

absl::StatusOr<ByteSourcePtr> open_idx(const Building& building, size_t file) {
  return building.request().opener(megatron_stem(building.path(file)) + ".idx");
}

// Lengths and pointers side by side: the tokens before each sequence, in all files.
absl::Status index_sequences(const Building& building, size_t file, const ByteSourcePtr& idx, const IdxHead& head,
                             int64_t& tokens, IndexWriter& writer) {
  const int64_t token_bytes = building.header.token_bytes(), bin_bytes = building.header.files[file].bytes;
  Scanner lengths(idx, kHeadBytes, head.pointers_at()), pointers(idx, head.pointers_at(), head.doc_idx_at());
  const double share =
      head.sequences > 0 ? static_cast<double>(bin_bytes) / static_cast<double>(8 * head.sequences) : 0;
  pointers.watch([&](int64_t at) {
    building.progress(file, static_cast<int64_t>(static_cast<double>(at - head.pointers_at()) * share));
  });
  int64_t expected = 0;
  for (int64_t i = 0; i < head.sequences; ++i) {
    SCALAI_ASSIGN_OR_RETURN(const auto length_bytes, lengths.take(4));
    const auto length = number_in<int32_t>(length_bytes);
    SCALAI_ASSIGN_OR_RETURN(const auto pointer_bytes, pointers.take(8));
    const auto pointer = number_in<int64_t>(pointer_bytes);
    if (length < 0) return invalid(fmt::format("{}: sequence {} has {} tokens", idx->name(), i, length));
    if (pointer != expected) {
      return invalid(fmt::format("{}: sequence {} begins at byte {} and not at {}, where the one before ends",
                                 idx->name(), i, pointer, expected));
    }
    SCALAI_RETURN_IF_ERROR(writer.add(1, tokens));
    tokens += length;
    expected += length * token_bytes;
    if (expected > bin_bytes) {
      return invalid(fmt::format("{}: sequence {} ends at byte {}, and {} has {}", idx->name(), i, expected,
                                 building.path(file), bin_bytes));
    }
  }
  if (expected == bin_bytes) return absl::OkStatus();
  return invalid(fmt::format("{}: its sequences end at byte {}, and {} has {}: they do not belong together",
                             idx->name(), expected, building.path(file), bin_bytes));
}

// The first sequence of each document, in all files.
absl::Status index_documents(const ByteSourcePtr& idx, const IdxHead& head, int64_t sequences_before,
                             IndexWriter& writer) {
  Scanner scanner(idx, head.doc_idx_at(), head.end());
  int64_t before = 0;
  for (int64_t i = 0; i <= head.documents; ++i) {
    SCALAI_ASSIGN_OR_RETURN(const auto bytes, scanner.take(8));
    const auto first = number_in<int64_t>(bytes);
    if (first < before || first > head.sequences || (i == 0 && first != 0)) {
      return invalid(fmt::format("{}: doc_idx[{}] is {}; it must rise from 0 to the {} sequences", idx->name(), i,
                                 first, head.sequences));
    }
    if (i < head.documents) SCALAI_RETURN_IF_ERROR(writer.add(0, sequences_before + first));
    before = first;
  }
  if (before == head.sequences) return absl::OkStatus();
  return invalid(
      fmt::format("{}: doc_idx ends with {}; it must end with the {} sequences", idx->name(), before, head.sequences));
}

}  // namespace

std::string megatron_stem(const std::string& file) {
  return file.ends_with(".bin") || file.ends_with(".idx") ? file.substr(0, file.size() - 4) : file;
}

absl::Status read_megatron_counts(Building& building) {
  IndexHeader& header = building.header;
  for (size_t i = 0; i < building.files(); ++i) {
    SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr idx, open_idx(building, i));
    SCALAI_ASSIGN_OR_RETURN(const IdxHead head, read_head(idx));
    if (i > 0 && head.dtype_code != header.dtype_code) {
      return invalid(fmt::format("{}: has dtype code {}, and the files before have {}; they cannot be one dataset",
                                 idx->name(), head.dtype_code, header.dtype_code));
    }
    header.dtype_code = head.dtype_code;
    header.documents += head.documents;
    header.sequences += head.sequences;
    if (building.header.files[i].bytes % header.token_bytes() != 0) {
      return invalid(fmt::format("{}: its {} bytes are no multiple of the {} bytes of a token", building.path(i),
                                 building.header.files[i].bytes, header.token_bytes()));
    }
  }
  header.tokens = header.data_bytes() / header.token_bytes();
  return absl::OkStatus();
}

absl::Status index_megatron(Building& building, IndexWriter& writer) {
  int64_t tokens = 0, sequences = 0, documents = 0;
  for (size_t i = 0; i < building.files(); ++i) {
    SCALAI_ASSIGN_OR_RETURN(const ByteSourcePtr idx, open_idx(building, i));
    SCALAI_ASSIGN_OR_RETURN(const IdxHead head, read_head(idx));
    SCALAI_RETURN_IF_ERROR(index_sequences(building, i, idx, head, tokens, writer));
    SCALAI_RETURN_IF_ERROR(index_documents(idx, head, sequences, writer));
    sequences += head.sequences;
    documents += head.documents;
  }
  if (sequences != building.header.sequences || documents != building.header.documents) {
    return invalid("an .idx was changed while it was indexed");
  }
  SCALAI_RETURN_IF_ERROR(writer.add(0, sequences));
  return writer.add(1, tokens);
}

}  // namespace scalai::datasets
