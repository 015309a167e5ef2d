#pragma once
// The content of a place, by job, version and tensor; and its encoding as bytes in a segment, so that readers in other
// processes find boxes without a request.
//
// A piece is a readable part of a buffer. Most pieces are whole buffers; a kept box of a larger buffer, or the rest
// after an early free, is a part. Pieces of one tensor and version are disjoint. Values; concurrent reads are safe.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/state/state_version.h"
#include "executor/state/view.h"
#include "ptc/base/ids.h"

namespace scalai::executor::state {

// One version of one job's state.
struct VersionKey {
  int32_t job = 0;  // index in the scenario
  StateVersion version = StateVersion::epoch(0);
  std::string str() const;  // "job 3, epoch 5"
  friend auto operator<=>(const VersionKey&, const VersionKey&) = default;
};

struct Piece {
  Box part;             // the readable part, inside box
  Box box;              // extent of the buffer, dense and row-major
  uint64_t offset = 0;  // of the buffer in its segment, bytes
  DType dtype = DType::kF32;
  // The whole buffer, for a segment mapped at `base`; read only `part`. Valid as long as the mapping.
  Source source(const std::byte* base) const { return {box, dtype, base + offset}; }
  friend bool operator==(const Piece&, const Piece&) = default;
};

// Pieces of each tensor, sorted by part.
using TensorPieces = std::map<TensorId, std::vector<Piece>>;

// The pieces that intersect `box`, each with `part` reduced to the intersection. A piece with another number of
// dimensions does not match.
std::vector<Piece> overlapping(std::span<const Piece> pieces, const Box& box);
// True if these disjoint pieces cover `box`.
bool cover(std::span<const Piece> found, const Box& box);

class Directory {
 public:
  Directory() = default;
  // Parses the output of encode(); no bytes give an empty directory. All pieces of the result lie inside `capacity`
  // bytes, so that their sources may be read. InvalidArgument: another format version, or corrupt bytes.
  static absl::StatusOr<Directory> parse(std::span<const std::byte> bytes, int64_t capacity);
  std::vector<std::byte> encode() const;

  // Inserts an empty entry if there is none. The reference is valid until erase().
  TensorPieces& edit(const VersionKey& key) { return versions_[key]; }
  void erase(const VersionKey& key) { versions_.erase(key); }
  bool contains(const VersionKey& key) const { return versions_.contains(key); }
  // overlapping() of the tensor's pieces; none where the version or the tensor is not held.
  std::vector<Piece> find(const VersionKey& key, TensorId tensor, const Box& box) const;
  // Valid as long as this object.
  const std::map<VersionKey, TensorPieces>& versions() const { return versions_; }

 private:
  std::map<VersionKey, TensorPieces> versions_;
};

}  // namespace scalai::executor::state
