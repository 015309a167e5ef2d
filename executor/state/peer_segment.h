#pragma once
// PeerSegment: a segment of another process of this machine, mapped read-only, for copies of its boxes by plain loads.
// Owns the mapping.
//
// It is opened through /proc/PID/fd/N. This needs the right to *read* the owner's state (ptrace(2), PTRACE_MODE_READ):
// the same user and a dumpable owner. Yama's ptrace_scope limits attaching only, so siblings without privileges need
// nothing else. pidfd_getfd(2) would need the right to attach, and a Unix socket one more connection per pair.
//
// Reading contract. The memory stays mapped after any action of the owner, even after its death, so a load proves
// nothing:
//   epoch = peer.epoch(); find the box in peer.directory(); copy it; peer.still_valid(epoch)
// The copied bytes are valid only if the last call returns true. Bytes of a dead owner are never valid. Do not touch
// bytes that the directory no longer lists: the kernel would commit new pages for them.
//
// Thread rules: const members are thread-safe.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/state/segment.h"

namespace scalai::executor::state {

class PeerSegment {
 public:
  // Unavailable: the process is gone. NotFound: no such descriptor, or another process by now. PermissionDenied, with
  // what to do. InvalidArgument: not a segment, or of another version (the message names both). ResourceExhausted: no
  // address space, or too many files.
  static absl::StatusOr<PeerSegment> open(const SegmentAddress& address);
  PeerSegment(PeerSegment&&) noexcept;
  PeerSegment& operator=(PeerSegment&&) noexcept;
  ~PeerSegment();

  bool alive() const;  // true if the owner runs; never blocks
  uint64_t epoch() const;
  // True if no rewrite was under way at that epoch, nothing has changed since, and the owner lives.
  bool still_valid(uint64_t epoch_seen) const;

  // A consistent copy of the directory. Unavailable: the owner died, or does not finish a change of it. Aborted: the
  // header is corrupt.
  absl::StatusOr<std::vector<std::byte>> directory() const;

  int64_t capacity() const;
  // capacity() bytes, valid as long as this object. Read only boxes that the directory lists.
  const std::byte* base() const;
  const SegmentAddress& address() const;

 private:
  struct Mapping;
  explicit PeerSegment(std::unique_ptr<Mapping> mapping);
  std::unique_ptr<Mapping> mapping_;
};

}  // namespace scalai::executor::state
