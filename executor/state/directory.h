#pragma once
// What a place holds, by job, version and tensor; and the directory, the same as bytes in a segment, so that readers in
// other processes find boxes without asking.
//
// A piece is a part of a buffer that may be read. Most pieces are whole buffers; a kept box of a larger one, and what is
// left after early frees, are parts. Pieces of one tensor and version are disjoint. Values; free threaded while const.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/state/view.h"
#include "ptc/base/ids.h"

namespace scalai::executor {

// A version of a job's state at a place: the epoch of its collection, or the number of a snapshot.
struct VersionKey {
  int32_t job = 0;
  int64_t version = 0;
  friend auto operator<=>(const VersionKey&, const VersionKey&) = default;
};

struct Piece {
  Box part;             // what may be read: inside box
  Box box;              // what the buffer covers, dense and row-major
  uint64_t offset = 0;  // of the buffer in its segment
  DType dtype = DType::kF32;
  // The whole buffer, for a segment mapped at `base`; read `part` of it only.
  Source source(const std::byte* base) const { return {box, dtype, base + offset}; }
  friend bool operator==(const Piece&, const Piece&) = default;
};

// Pieces of each tensor, sorted by part.
using TensorPieces = std::map<TensorId, std::vector<Piece>>;

// The pieces that have something in common with `box`, each with `part` cut down to that. Pieces of another rank than
// the box's do not match.
std::vector<Piece> overlapping(std::span<const Piece> pieces, const Box& box);
// Whether such disjoint pieces are all of `box`.
bool cover(std::span<const Piece> found, const Box& box);

class Directory {
 public:
  Directory() = default;
  // Reads what encode wrote; no bytes are an empty directory. Every piece lies inside `capacity` bytes then, so that its
  // source may be read. Error (InvalidArgument): another version of the format, or bytes that make no sense.
  static absl::StatusOr<Directory> parse(std::span<const std::byte> bytes, int64_t capacity);
  std::vector<std::byte> encode() const;

  TensorPieces& edit(const VersionKey& key) { return versions_[key]; }  // begins empty
  void erase(const VersionKey& key) { versions_.erase(key); }
  bool contains(const VersionKey& key) const { return versions_.contains(key); }
  std::vector<Piece> find(const VersionKey& key, TensorId tensor, const Box& box) const;
  const std::map<VersionKey, TensorPieces>& versions() const { return versions_; }

 private:
  std::map<VersionKey, TensorPieces> versions_;
};

}  // namespace scalai::executor
