#pragma once
// Memory: the memory of the buffers of one place. A host's place is a Segment (segment.h), which other processes of the
// machine map; a GPU's place is that GPU's memory, which only this process can access. Store manages the buffers of
// either.
//
// Offsets count from data(0). Addresses on a GPU are GPU addresses: a Backend (executor/device/backend.h) accesses
// them, the CPU does not.
//
// Thread rules: one thread at a time (Store holds a lock around it); data() from any thread.

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/file_descriptor.h"
#include "ptc/base/status.h"

namespace scalai::executor::state {

// Identifies a segment for other processes of the machine; plain numbers, sent over the control plane.
struct SegmentAddress {
  int32_t pid = 0;
  int32_t fd = -1;     // −1: other processes cannot map this memory
  uint64_t token = 0;  // random: proves that pid and fd still refer to this segment
  friend bool operator==(const SegmentAddress&, const SegmentAddress&) = default;
};

// A part of a memory, for another process of this machine that gets the descriptor: on a GPU a shareable handle
// (executor/cuda/peer_memory.h maps it).
struct SharedPart {
  uint64_t offset = 0;  // of its first byte
  int64_t bytes = 0;
  FileDescriptor descriptor;
};

class Memory {
 public:
  virtual ~Memory() = default;

  // Reserves this number of bytes beyond the present allocations for allocate(), which then requests nothing from the
  // machine or the driver. ResourceExhausted, with numbers: not enough memory.
  virtual absl::Status reserve(int64_t bytes) = 0;
  // Allocates whole grains, zeroed; returns the offset. bytes > 0. ResourceExhausted, with numbers; nothing has changed
  // then.
  virtual absl::StatusOr<uint64_t> allocate(int64_t bytes) = 0;
  // `offset` is a result of allocate() (CHECK).
  virtual void free(uint64_t offset) = 0;
  // Frees the whole grains inside [offset, offset + bytes), a part of one allocation (CHECK); nobody may read them
  // afterwards. Freed grains stay free. Returns the bytes that this call freed.
  virtual int64_t free_range(uint64_t offset, int64_t bytes) = 0;
  virtual int64_t grain_bytes() const = 0;
  // Moves memory that overflowed to another place back, as far as there is room now. Addresses and content do not
  // change. No access to the memory during the call. After an error the remaining memory is where it was.
  virtual absl::Status settle() { return absl::OkStatus(); }

  // Publish the content to other processes, if they can map this memory; otherwise without effect.
  virtual absl::Status publish(std::span<const std::byte> directory) = 0;
  virtual void raise_epoch() = 0;
  virtual void begin_rewrite() = 0;
  virtual void end_rewrite() = 0;

  // Valid until the allocation is freed. CHECK: offset inside the memory.
  virtual std::byte* data(uint64_t offset) const = 0;
  virtual SegmentAddress address() const = 0;
  // The part that has the byte at `offset`, which is allocated (CHECK): for memory without an address. It stays in
  // memory until this object and all processes that have mapped it have let go of it. Errors: InvalidArgument (it
  // cannot be shared), those of the driver.
  virtual absl::StatusOr<SharedPart> share(uint64_t offset) const;
  virtual int64_t bytes_in_use() const = 0;
  virtual int64_t bytes_peak() const = 0;
  // Of those in use, in this process's page tables.
  virtual int64_t bytes_on_huge_pages() const { return 0; }
};

inline absl::StatusOr<SharedPart> Memory::share(uint64_t) const {
  return invalid("this memory is mapped by its address, not by parts");
}

}  // namespace scalai::executor::state
