#pragma once
// Memory: what the buffers of one place lie in. A place of a host is a Segment (segment.h), which other processes of the
// machine map; one of a GPU is that GPU's memory, which only this process reaches. Store keeps a place's books over
// either.
//
// Offsets count from data(0). Addresses of a GPU are the GPU's: the CPU does not load from them, a Backend
// (executor/device/backend.h) does.
//
// Thread rules: one thread at a time (Store holds a lock around it); data() from any thread.

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::executor {

// How another process of the machine finds a segment; plain numbers, to be sent over the control plane.
struct SegmentAddress {
  int32_t pid = 0;
  int32_t fd = -1;     // none: this memory cannot be mapped by others
  uint64_t token = 0;  // random: proves that pid and fd still mean this segment
  friend bool operator==(const SegmentAddress&, const SegmentAddress&) = default;
};

class Memory {
 public:
  virtual ~Memory() = default;

  // Sees to it that so many bytes, beyond what is allocated, are there for allocate(): nothing is asked of the machine or
  // the driver later. ResourceExhausted, with numbers: they are not.
  virtual absl::Status reserve(int64_t bytes) = 0;
  // Memory of whole grains, filled with zeros. bytes > 0. ResourceExhausted, with numbers; nothing has changed then.
  virtual absl::StatusOr<uint64_t> allocate(int64_t bytes) = 0;
  // `offset` is one that allocate returned (CHECK).
  virtual void free(uint64_t offset) = 0;
  // Gives back the whole grains inside [offset, offset + bytes), a part of one allocation (CHECK); nobody may read them
  // afterwards. What is given back already stays so. Returns the bytes that this call gave back.
  virtual int64_t free_range(uint64_t offset, int64_t bytes) = 0;
  virtual int64_t grain_bytes() const = 0;
  // Brings what lies elsewhere for lack of room back to where it belongs, as far as there is room now. Addresses and
  // content stay. Nobody reads or writes the memory meanwhile. After an error what was not brought back is where it was.
  virtual absl::Status settle() { return absl::OkStatus(); }

  // What others may read, where they can map this; elsewhere these do nothing.
  virtual absl::Status publish(std::span<const std::byte> directory) = 0;
  virtual void raise_epoch() = 0;
  virtual void begin_rewrite() = 0;
  virtual void end_rewrite() = 0;

  virtual std::byte* data(uint64_t offset) const = 0;  // CHECK: inside
  virtual SegmentAddress address() const = 0;
  virtual int64_t bytes_in_use() const = 0;
  virtual int64_t bytes_peak() const = 0;
};

}  // namespace scalai::executor
