#pragma once
// Segment: memory of one place that other processes of this machine may read in place. It is a memfd (memfd_create(2)):
// no name in any file system, so that nothing is left behind, however the owner dies. Virtual space is reserved at once,
// memory is committed by allocate() and goes back by free(): a full machine is a Status, never SIGBUS.
//
// The first page tells readers what this is: magic, schema version, a random token, the epoch word, and where the
// directory lies, under a sequence lock. Readers use peer_segment.h.
//
// The epoch word counts changes of bytes that readers may know of. It is odd while the owner rewrites some; to free some,
// the owner publishes a directory without them, raises the epoch by two, then frees. A reader takes the epoch, copies, and
// looks again: when it is even and the same, what was copied is what the owner held.
//
// Thread rules: one thread at a time (Store holds a lock around it); epoch() and data() from any thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/state/internal/free_space.h"
#include "executor/state/memory.h"

namespace scalai::executor {

struct SegmentOptions {
  std::string name = "state";               // shown in /proc/PID/fd and /proc/PID/maps
  int64_t capacity = int64_t{256} << 30;    // bytes of virtual space
  int64_t limit = int64_t{1} << 62;         // bytes of memory this place may use: an emulated device's memory
  int64_t leave_free = int64_t{512} << 20;  // bytes of the machine's memory that are never taken
  int64_t host_overflow = 0;  // bytes of pinned host memory that a GPU's place may use when its own does not suffice
};

class Segment : public Memory {
 public:
  // Errors: ResourceExhausted (virtual space, file size limit, open files) or Unavailable (no memfd), with what to do.
  static absl::StatusOr<Segment> create(const SegmentOptions& options);
  Segment(Segment&&) noexcept;
  Segment& operator=(Segment&&) noexcept;
  ~Segment() override;

  // Commits whole pages, filled with zeros, and returns their offset. bytes > 0. They are in this process's page tables,
  // where the kernel can do that (Linux 5.14): writing them does not fault. ResourceExhausted, with numbers, when
  // the limit, the machine's (or the control group's) memory or the virtual space does not suffice; nothing has changed
  // then.
  absl::StatusOr<uint64_t> allocate(int64_t bytes) override;
  // Looks only: memory is the machine's until allocate() takes it.
  absl::Status reserve(int64_t bytes) override;
  // Gives memory back to the machine at once. `offset` is one that allocate returned (CHECK).
  void free(uint64_t offset) override;
  // Gives back the whole pages inside [offset, offset + bytes), a part of one allocation (CHECK); they read as zeros
  // afterwards. What is given back already stays so. Returns the bytes that this call gave back.
  int64_t free_range(uint64_t offset, int64_t bytes) override;

  // Replaces the directory. Needs memory only when it has outgrown its pages (ResourceExhausted: the old one stays).
  absl::Status publish(std::span<const std::byte> directory) override;
  // Between a directory that no longer names some bytes and free() of them.
  void raise_epoch() override;
  // Around rewriting bytes that readers may know of. Pairs may nest and overlap; the epoch is odd inside.
  void begin_rewrite() override;
  void end_rewrite() override;  // CHECK: begun
  uint64_t epoch() const;

  std::byte* data(uint64_t offset) const override;  // writable; CHECK: inside the segment
  SegmentAddress address() const override;
  int64_t bytes_in_use() const override;  // committed now, directory included, header page not
  int64_t bytes_peak() const override;
  static int64_t page_bytes();
  int64_t grain_bytes() const override { return page_bytes(); }

 private:
  struct Mapping;
  struct Allocation {
    int64_t bytes = 0;          // whole pages
    internal::Ranges returned;  // pages given back early
  };
  explicit Segment(std::unique_ptr<Mapping> mapping);
  absl::StatusOr<uint64_t> take_space(int64_t bytes);
  absl::Status room_for(int64_t bytes);
  void punch(uint64_t begin, uint64_t end);

  SegmentOptions options_;
  std::unique_ptr<Mapping> mapping_;
  std::map<uint64_t, Allocation> allocations_;
  internal::FreeSpace space_;  // free virtual space
  int64_t in_use_ = 0;
  int64_t peak_ = 0;
  int rewrites_ = 0;
  int64_t unchecked_ = 0;   // bytes committed since the machine's memory was last looked at
  uint64_t directory_ = 0;  // offset of its allocation, 0 = none
};

}  // namespace scalai::executor
