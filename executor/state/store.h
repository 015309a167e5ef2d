#pragma once
// Store: what one place, a device or a host's memory, holds of the state of jobs. It owns the place's memory.
//
//   add, keep (from the version before) → fill → publish → read by peers → drop
//
// A buffer is dense and row-major over a box. keep() makes the same bytes, or a part of them, known under another
// version; memory goes back when no version can read it any more, page by page. Pieces of one tensor and version are
// disjoint.
//
// Peers see a version from publish(version) on, and in the state of the last publish: drop and give_back take it, or
// parts of it, out of their sight, raise the memory's epoch and only then free memory (segment.h).
//
// Thread rules: any thread, all at once; a lock is held inside. It does not cover the bytes of buffers: who copies from
// or into one sees to it that its version is not dropped meanwhile.

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/state/directory.h"
#include "executor/state/memory.h"
#include "executor/state/segment.h"
#include "executor/state/view.h"

namespace scalai::executor {

struct TensorBox {
  TensorId tensor;
  Box box;
};

class Store {
 public:
  // In a segment of its own. Errors of Segment::create.
  static absl::StatusOr<std::unique_ptr<Store>> create(const SegmentOptions& options);
  explicit Store(std::unique_ptr<Memory> memory) : memory_(std::move(memory)) {}

  // A new buffer of zeros. Errors: ResourceExhausted (Memory::allocate), InvalidArgument (an empty box, or one that
  // overlaps what this version holds of the tensor). Nothing has changed then.
  absl::StatusOr<Target> add(const VersionKey& key, TensorId tensor, const Box& box, DType dtype);
  // Makes `box`, wherever it lies in the buffers of `from`, known under version `to` of the same job, without a copy.
  // Errors: NotFound (`from` does not hold all of it), InvalidArgument (`to` holds some of it).
  absl::Status keep(const VersionKey& from, int64_t to, TensorId tensor, const Box& box);

  // Pieces that overlap the box, cut down to it.
  std::vector<Piece> find(const VersionKey& key, TensorId tensor, const Box& box) const;
  bool holds_all(const VersionKey& key, TensorId tensor, const Box& box) const;
  // All that a version holds, by tensor and part; empty for one that is not there.
  TensorPieces pieces(const VersionKey& key) const;
  std::vector<VersionKey> versions() const;  // in order
  // The buffer of a piece that is held. Bytes that are kept are written for all versions that share them.
  Target target(const Piece& piece) const;
  // Around writing bytes that peers may know of (training goes on in place): what they copy meanwhile does not count.
  void begin_rewrite();
  void end_rewrite();

  // Makes the version, as it is now, visible to peers. Errors: NotFound (nothing of it is held), ResourceExhausted (no
  // memory for the directory: peers see what they saw before).
  absl::Status publish(const VersionKey& key);
  // Forgets a version and frees what only it could read. One that is not there is nothing to do.
  void drop(const VersionKey& key);
  // Early frees: these boxes are no longer readable under the version. Errors: NotFound (something of it is not held),
  // ResourceExhausted (no memory for the directory, which has more pieces now). Nothing has changed then.
  absl::Status give_back(const VersionKey& key, std::span<const TensorBox> boxes);

  // Memory for so many bytes more. Error: ResourceExhausted (Memory::reserve).
  absl::Status reserve(int64_t bytes);
  // Memory::settle: nobody reads or writes what is held meanwhile.
  absl::Status settle();

  int64_t bytes_held() const;      // of elements that some version can read
  int64_t bytes_in_use() const;    // of memory: whole pages, and the directory
  int64_t bytes_peak() const;      // the most that bytes_in_use() has been
  SegmentAddress address() const;  // for peers
  const std::byte* base() const;   // where pieces' offsets count from

 private:
  struct Buffer {
    Box box;
    DType dtype = DType::kF32;
    std::vector<std::pair<VersionKey, TensorId>> users;  // who has pieces of it
    int64_t live_bytes = 0;
    std::vector<int32_t> live_in_page;  // empty until a part of the buffer is dead
  };
  absl::Status check_free(const VersionKey& key, TensorId tensor, const Box& box) const;
  void add_piece(const VersionKey& key, TensorId tensor, const Piece& piece);
  bool uses(const VersionKey& key, TensorId tensor, uint64_t offset) const;
  void forget(const VersionKey& key, TensorId tensor, std::span<const Piece> removed);
  void release(uint64_t offset, Buffer& buffer, const Box& dead);

  mutable std::mutex mutex_;
  std::unique_ptr<Memory> memory_;
  Directory held_;                                // all versions
  Directory published_;                           // those that peers see
  std::unordered_map<uint64_t, Buffer> buffers_;  // by offset
  int64_t live_bytes_ = 0;
};

}  // namespace scalai::executor
