#include "executor/state/directory.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>
#include <optional>

#include "ptc/base/status.h"

namespace scalai::executor::state {
namespace {
constexpr uint64_t kMagic = 0x5343414c41494452;  // "SCALAIDR"
constexpr uint32_t kSchemaVersion = 1;

// Plain little-endian structures of whole words: both sides run on one machine.
struct Head {
  uint64_t magic = kMagic;
  uint32_t schema_version = kSchemaVersion;
  uint32_t head_bytes = sizeof(Head);
  uint64_t pieces = 0;
  uint64_t checksum = 0;  // XXH3 of all that follows
};
// Followed by lo and hi of box, then of part: 4·rank words.
struct Entry {
  int32_t job = 0;
  int32_t tensor = 0;
  int64_t version = 0;  // StateVersion::wire
  uint64_t offset = 0;
  uint32_t dtype = 0;
  uint32_t rank = 0;
};

template <class T>
void append(std::vector<std::byte>& bytes, const T* values, size_t count) {
  const auto* begin = reinterpret_cast<const std::byte*>(values);
  bytes.insert(bytes.end(), begin, begin + count * sizeof(T));
}

template <class T>
bool take(std::span<const std::byte>& bytes, T* values, size_t count) {
  const size_t size = count * sizeof(T);
  if (bytes.size() < size) return false;
  std::memcpy(values, bytes.data(), size);
  bytes = bytes.subspan(size);
  return true;
}

absl::Status bad(const std::string& what) { return invalid("the directory of a state segment is damaged: " + what); }

bool take_box(std::span<const std::byte>& bytes, uint32_t rank, Box& box) {
  box = Box();
  box.rank = static_cast<int8_t>(rank);
  return take(bytes, box.lo.data(), rank) && take(bytes, box.hi.data(), rank);
}

// Whether lo <= hi in every dimension, and the bytes from `offset` on lie within the capacity. Counts with care: these
// are numbers of another process.
bool fits(const Box& box, DType dtype, uint64_t offset, int64_t capacity) {
  int64_t bytes = tensor::size_of(dtype);
  for (int dim = 0; dim < box.rank; ++dim) {
    const auto d = static_cast<size_t>(dim);
    if (box.lo[d] < 0 || box.hi[d] <= box.lo[d]) return false;
    if (__builtin_mul_overflow(bytes, box.extent(dim), &bytes)) return false;
  }
  return bytes <= capacity && offset <= static_cast<uint64_t>(capacity - bytes);
}

absl::Status take_entry(std::span<const std::byte>& bytes, int64_t capacity, std::map<VersionKey, TensorPieces>& into) {
  Entry entry;
  Piece piece;
  if (!take(bytes, &entry, 1)) return bad("it ends early");
  if (entry.rank > tensor::kMaxRank || entry.dtype > static_cast<uint32_t>(DType::kU64) || entry.tensor < 0) {
    return bad(fmt::format("tensor {}, rank {}, type {}", entry.tensor, entry.rank, entry.dtype));
  }
  if (!take_box(bytes, entry.rank, piece.box) || !take_box(bytes, entry.rank, piece.part)) return bad("it ends early");
  piece.offset = entry.offset;
  piece.dtype = static_cast<DType>(entry.dtype);
  if (!fits(piece.box, piece.dtype, piece.offset, capacity) || !fits(piece.part, piece.dtype, 0, capacity) ||
      !piece.box.contains(piece.part)) {
    return bad(
        fmt::format("tensor {}, box {}, part {} at {}", entry.tensor, piece.box.str(), piece.part.str(), entry.offset));
  }
  const absl::StatusOr<StateVersion> version = StateVersion::from_wire(entry.version);
  if (!version.ok()) return bad(message_of(version.status()));
  into[{entry.job, *version}][TensorId(entry.tensor)].push_back(piece);
  return {};
}
}  // namespace

std::string VersionKey::str() const { return fmt::format("job {}, {}", job, version.str()); }

std::vector<Piece> overlapping(std::span<const Piece> pieces, const Box& box) {
  std::vector<Piece> found;
  for (const Piece& piece : pieces) {
    if (piece.part.rank != box.rank) continue;
    const std::optional<Box> common = tensor::intersect(piece.part, box);
    if (!common) continue;
    found.push_back(piece);
    found.back().part = *common;
  }
  return found;
}

bool cover(std::span<const Piece> found, const Box& box) {
  int64_t elements = 0;
  for (const Piece& piece : found) elements += piece.part.volume();
  return elements == box.volume();
}

absl::StatusOr<Directory> Directory::parse(std::span<const std::byte> bytes, int64_t capacity) {
  Directory directory;
  if (bytes.empty()) return directory;
  Head head;
  if (!take(bytes, &head, 1)) return bad("it ends early");
  if (head.magic != kMagic) return bad("it begins with other bytes");
  if (head.schema_version != kSchemaVersion || head.head_bytes != sizeof(Head)) {
    return invalid(
        fmt::format("the directory of a state segment has version {}, this program reads version {}; use the "
                    "same program for all workers",
                    head.schema_version, kSchemaVersion));
  }
  if (head.checksum != XXH3_64bits(bytes.data(), bytes.size())) return bad("its checksum is wrong");
  if (head.pieces > bytes.size() / sizeof(Entry)) return bad(fmt::format("it cannot hold {} pieces", head.pieces));
  for (uint64_t i = 0; i < head.pieces; ++i) SCALAI_RETURN_IF_ERROR(take_entry(bytes, capacity, directory.versions_));
  if (!bytes.empty()) return bad(fmt::format("{} bytes too many", bytes.size()));
  return directory;
}

std::vector<std::byte> Directory::encode() const {
  std::vector<std::byte> bytes(sizeof(Head));
  Head head;
  for (const auto& [key, tensors] : versions_) {
    for (const auto& [tensor, pieces] : tensors) {
      for (const Piece& piece : pieces) {
        const auto rank = static_cast<size_t>(piece.box.rank);
        const Entry entry{key.job,
                          tensor.value,
                          key.version.wire(),
                          piece.offset,
                          static_cast<uint32_t>(piece.dtype),
                          static_cast<uint32_t>(rank)};
        append(bytes, &entry, 1);
        append(bytes, piece.box.lo.data(), rank);
        append(bytes, piece.box.hi.data(), rank);
        append(bytes, piece.part.lo.data(), rank);
        append(bytes, piece.part.hi.data(), rank);
        ++head.pieces;
      }
    }
  }
  head.checksum = XXH3_64bits(bytes.data() + sizeof(Head), bytes.size() - sizeof(Head));
  std::memcpy(bytes.data(), &head, sizeof(Head));
  return bytes;
}

std::vector<Piece> Directory::find(const VersionKey& key, TensorId tensor, const Box& box) const {
  const auto version = versions_.find(key);
  if (version == versions_.end()) return {};
  const auto pieces = version->second.find(tensor);
  if (pieces == version->second.end()) return {};
  return overlapping(pieces->second, box);
}

}  // namespace scalai::executor::state
