#pragma once
// Store: the state of jobs at one place (a device, or a host's memory). A store owns the place's memory.
//
//   add, keep (from an older version) → fill → publish → peers read → drop
//
// A buffer is dense and row-major over a box. Each buffer belongs to at least one version (VersionKey). keep() makes a
// buffer, or a part of it, belong to a second version without a copy. Memory is freed page by page, as soon as no
// version can read a page any more. Pieces of one tensor and version are disjoint.
//
// Peers see a version as it was at its last publish(). drop() and give_back() first remove pieces from the directory
// that peers see, then raise the memory's epoch, and only then free memory (segment.h).
//
// Thread rules: any thread, several at once. A lock inside the store guards its tables. It does not guard the bytes of
// buffers: a caller that reads or writes a buffer makes sure that nobody drops its version meanwhile.

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

namespace scalai::executor::state {

struct TensorBox {
  TensorId tensor;
  Box box;
};

class Store {
 public:
  // A store whose memory is a new segment. Errors: those of Segment::create.
  static absl::StatusOr<std::unique_ptr<Store>> create(const SegmentOptions& options);
  explicit Store(std::unique_ptr<Memory> memory) : memory_(std::move(memory)) {}

  // Adds a buffer of zeros. The target's memory is valid until no version has a piece of the buffer, and while the
  // store lives. Errors: ResourceExhausted (Memory::allocate), InvalidArgument (the box is empty, or overlaps a piece
  // of the same version and tensor). After an error nothing has changed.
  absl::StatusOr<Target> add(const VersionKey& key, TensorId tensor, const Box& box, DType dtype);
  // Makes `box` of `from` belong to version `to` of the same job as well. Both versions share the bytes. Errors:
  // NotFound (`from` does not hold all of the box), InvalidArgument (`to` holds a part of it).
  absl::Status keep(const VersionKey& from, StateVersion to, TensorId tensor, const Box& box);

  // The pieces that overlap the box, each with `part` cut down to the overlap.
  std::vector<Piece> find(const VersionKey& key, TensorId tensor, const Box& box) const;
  bool holds_all(const VersionKey& key, TensorId tensor, const Box& box) const;
  // All pieces of a version; empty for an unknown version.
  TensorPieces pieces(const VersionKey& key) const;
  std::vector<VersionKey> versions() const;  // in order
  // The whole buffer of a piece that is held (CHECK). A write changes every version that shares the bytes. Valid as the
  // target of add().
  Target target(const Piece& piece) const;
  // Enclose writes into published buffers (training changes state in place). Copies that peers make meanwhile do not
  // count. Pairs may nest and overlap.
  void begin_rewrite();
  void end_rewrite();

  // Shows the version to peers as it is now. Errors: NotFound (nothing of it is held), ResourceExhausted (no memory for
  // the directory; peers see the same as before).
  absl::Status publish(const VersionKey& key);
  // Removes a version and frees the memory that no other version shares. An unknown version is no error.
  void drop(const VersionKey& key);
  // Early frees: removes boxes from a version. Errors: NotFound (a part of them is not held), ResourceExhausted (no
  // memory for the directory, which can grow by pieces cut in two). After an error nothing has changed.
  absl::Status give_back(const VersionKey& key, std::span<const TensorBox> boxes);

  // Memory::reserve: room for `bytes` beyond the buffers of now. Error: ResourceExhausted.
  absl::Status reserve(int64_t bytes);
  // Memory::settle. Nobody may read or write a buffer meanwhile.
  absl::Status settle();

  int64_t bytes_held() const;           // elements that at least one version can read
  int64_t bytes_in_use() const;         // memory: whole pages, with the directory
  int64_t bytes_peak() const;           // the largest value of bytes_in_use() so far
  int64_t bytes_on_huge_pages() const;  // of those in use; asks the kernel
  SegmentAddress address() const;       // tells peers how to map the memory
  // Memory::share.
  absl::StatusOr<SharedPart> share(uint64_t offset) const;
  const std::byte* base() const;  // the pieces' offsets count from here; valid while the store lives

 private:
  struct Buffer {
    Box box;
    DType dtype = DType::kF32;
    std::vector<std::pair<VersionKey, TensorId>> users;  // have pieces of it
    int64_t live_bytes = 0;
    std::vector<int32_t> live_in_page;  // empty while all of the buffer is live
  };
  absl::Status check_free(const VersionKey& key, TensorId tensor, const Box& box) const;
  void add_piece(const VersionKey& key, TensorId tensor, const Piece& piece);
  bool uses(const VersionKey& key, TensorId tensor, uint64_t offset) const;
  void forget(const VersionKey& key, TensorId tensor, std::span<const Piece> removed);
  void release(uint64_t offset, Buffer& buffer, const Box& dead);

  mutable std::mutex mutex_;
  std::unique_ptr<Memory> memory_;
  Directory held_;                                // all versions
  Directory published_;                           // the versions that peers see
  std::unordered_map<uint64_t, Buffer> buffers_;  // by offset
  int64_t live_bytes_ = 0;
};

}  // namespace scalai::executor::state
