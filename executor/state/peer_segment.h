#pragma once
// PeerSegment: a segment of another process of this machine, mapped read-only, so that boxes are copied out of it by
// plain loads.
//
// It is opened through /proc/PID/fd/N. That takes the right to *read* the owner's state (ptrace(2), PTRACE_MODE_READ):
// the same user and a dumpable owner. Yama's ptrace_scope limits attaching only, so siblings without privileges need
// nothing else; pidfd_getfd(2) would need the right to attach, and a Unix socket another connection per pair.
//
// Reading contract. The memory stays mapped whatever the owner does, even after its death, so a load proves nothing:
//   epoch = peer.epoch(); find the box in peer.directory(); copy it; peer.still_valid(epoch)
// Only when the last is true do the copied bytes count. A dead owner's still-mapped memory never counts. Do not touch
// bytes that the directory no longer names: the kernel would commit fresh pages for them.
//
// Thread rules: const members from any thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/state/segment.h"

namespace scalai::executor {

class PeerSegment {
 public:
  // Errors: Unavailable (the process is gone), NotFound (no such descriptor, or another process by now),
  // PermissionDenied (with what to do), InvalidArgument (not a segment, or of another version; both are named),
  // ResourceExhausted (no address space, too many files).
  static absl::StatusOr<PeerSegment> open(const SegmentAddress& address);
  PeerSegment(PeerSegment&&) noexcept;
  PeerSegment& operator=(PeerSegment&&) noexcept;
  ~PeerSegment();

  bool alive() const;  // whether the owner runs; never blocks
  uint64_t epoch() const;
  // Whether nothing was being rewritten at that epoch, nothing has changed since, and the owner lives.
  bool still_valid(uint64_t epoch_seen) const;

  // A copy of the directory, whole and of one moment. Unavailable when the owner has died or does not come to an end of
  // changing it; Aborted when the words of the header make no sense.
  absl::StatusOr<std::vector<std::byte>> directory() const;

  int64_t capacity() const;
  const std::byte* base() const;  // capacity() bytes, to be read only where the directory points
  const SegmentAddress& address() const;

 private:
  struct Mapping;
  explicit PeerSegment(std::unique_ptr<Mapping> mapping);
  std::unique_ptr<Mapping> mapping_;
};

}  // namespace scalai::executor
