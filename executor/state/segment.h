#pragma once
// Segment: the memory of one place, mapped read-only by other processes of this machine (peer_segment.h). It is a memfd
// (memfd_create(2)). A memfd has no name in any file system, so nothing is left behind, however the owner dies.
// create() reserves virtual space; allocate() commits memory and free() gives it back. A full machine is a Status,
// never SIGBUS.
//
// The first page tells readers about the segment: magic, schema version, a random token, the epoch word, and the place
// of the directory, under a sequence lock.
//
// The epoch word counts changes of bytes that readers may know of. It is odd while the owner rewrites some of them. To
// free some of them the owner publishes a directory without them, raises the epoch by two, then frees. A reader notes
// the epoch, copies, and reads the epoch again: if it is even and the same, the copy is what the owner held.
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
#include "executor/state/free_space.h"
#include "executor/state/huge_pages.h"
#include "executor/state/memory.h"

namespace scalai::executor::state {

struct SegmentOptions {
  std::string name = "state";               // shown in /proc/PID/fd and /proc/PID/maps
  int64_t capacity = int64_t{256} << 30;    // bytes of virtual space
  int64_t limit = int64_t{1} << 62;         // most bytes of memory: the size of an emulated device's memory
  int64_t leave_free = int64_t{512} << 20;  // bytes of the machine's memory that stay free
  int64_t host_overflow = 0;  // most bytes of pinned host memory for a place on a GPU whose own memory is full
  HugePages huge_pages =
      HugePages::kAuto;  // for allocations of at least one; memory is counted in small pages all the same
};

class Segment : public Memory {
 public:
  // Errors: ResourceExhausted (virtual space, file size limit, open files), Unavailable (no memfd, no huge pages). The
  // text has a remedy.
  static absl::StatusOr<Segment> create(const SegmentOptions& options);
  Segment(Segment&&) noexcept;
  Segment& operator=(Segment&&) noexcept;
  ~Segment() override;

  // Commits whole pages of zeros and returns their offset. bytes > 0. Linux 5.14 and later also enter the pages into
  // this process's page tables, so that the first writes do not fault. ResourceExhausted, with numbers: the place's
  // limit, the machine's (or the control group's) memory or the virtual space does not suffice, or it is not on the
  // huge pages that are required. After an error nothing has changed.
  absl::StatusOr<uint64_t> allocate(int64_t bytes) override;
  // Checks that the bytes are available. It takes none: the machine can lose them before allocate().
  absl::Status reserve(int64_t bytes) override;
  // Gives the memory of one allocation back to the machine at once. CHECK: allocate() returned `offset`.
  void free(uint64_t offset) override;
  // Gives back the whole pages inside [offset, offset + bytes). CHECK: the range is a part of one allocation. The pages
  // read as zeros afterwards. Pages that were given back earlier are skipped. Returns the bytes that this call gave
  // back.
  int64_t free_range(uint64_t offset, int64_t bytes) override;

  // Replaces the directory. It needs memory only when the directory outgrows its pages. ResourceExhausted: the old
  // directory stays.
  absl::Status publish(std::span<const std::byte> directory) override;
  // Adds two to the epoch: after a publish() that removes bytes from the directory, before free() of these bytes.
  void raise_epoch() override;
  // Enclose writes to bytes that readers may know of. Pairs may nest and overlap. The epoch is odd inside.
  void begin_rewrite() override;
  void end_rewrite() override;  // CHECK: begun
  uint64_t epoch() const;

  // Writable memory, valid while the segment lives and the bytes at `offset` are allocated. CHECK: inside the segment.
  std::byte* data(uint64_t offset) const override;
  SegmentAddress address() const override;
  int64_t bytes_in_use() const override;  // committed now: with the directory, without the header page
  int64_t bytes_peak() const override;
  // Asks the kernel, which looks at every page.
  int64_t bytes_on_huge_pages() const override;
  static int64_t page_bytes();
  int64_t grain_bytes() const override { return page_bytes(); }

 private:
  struct Mapping;
  struct Allocation {
    int64_t bytes = 0;                 // whole pages
    std::shared_ptr<const void> told;  // its huge pages to the kernel; null: they are not
    internal::Ranges returned;         // pages that free_range gave back
  };
  explicit Segment(std::unique_ptr<Mapping> mapping);
  absl::StatusOr<uint64_t> take_space(int64_t bytes);
  absl::Status room_for(int64_t bytes);
  absl::Status commit(uint64_t begin, int64_t bytes, bool told);
  void tell(uint64_t begin, int64_t bytes, int advice);
  void punch(uint64_t begin, uint64_t end);

  SegmentOptions options_;
  int64_t huge_ = 0;    // bytes of a huge page; 0: none are used
  bool tells_ = false;  // the kernel which ranges may be on huge pages
  std::unique_ptr<Mapping> mapping_;
  std::map<uint64_t, Allocation> allocations_;
  internal::FreeSpace space_;  // free virtual space
  int64_t in_use_ = 0;
  int64_t peak_ = 0;
  int rewrites_ = 0;
  int64_t unchecked_ = 0;   // bytes committed since the last look at the machine's memory
  uint64_t directory_ = 0;  // offset of the directory's allocation, 0 = none
};

}  // namespace scalai::executor::state
