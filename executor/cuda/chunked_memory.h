#pragma once
// ChunkedMemory: the state of one device in chunks of memory. Addresses are reserved at the start, for the options'
// capacity, and allocated by best fit with a grain of 4 KiB. A chunk (2 MiB on today's GPUs) is mapped when its first
// grain is allocated and unmapped when its last one is freed, so early frees in the rounds of a plan return memory
// although the buffers around them live on. Owns its source.
//
// reserve() acquires chunks before they are needed. From then on freed chunks are kept, up to the total number at that
// moment; so work between reserve(n) and reserve(0) neither takes memory from the driver nor returns any.
//
// If the GPU's memory, or the options' limit on it, is exhausted, chunks come from pinned host memory, up to the
// options' host_overflow, at addresses of the same range: callers see no difference except speed. settle() moves them
// to the GPU when it has room.
//
// Thread rules of Memory: one thread at a time, data() from any thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/state/free_space.h"
#include "executor/state/memory.h"
#include "executor/state/segment.h"

namespace scalai::executor::cuda {

// Source of chunks: a GPU (cuda_memory.h), or host memory in tests. One thread at a time. Its destructor returns all
// mapped and acquired chunks.
class ChunkSource {
 public:
  using Chunk = uint64_t;  // memory without an address
  enum class Where : uint8_t { kDevice, kHost };
  struct Move {
    int64_t slot = 0;
    Chunk to = 0;
  };
  static constexpr size_t kMostMoves = 64;  // of one call

  virtual ~ChunkSource() = default;
  virtual std::string name() const = 0;  // for messages: "GPU 0"
  virtual int64_t chunk_bytes() const = 0;
  // Called once, with a multiple of chunk_bytes().
  virtual absl::StatusOr<std::byte*> reserve_addresses(int64_t bytes) = 0;

  virtual absl::StatusOr<int64_t> bytes_free(Where where) const = 0;  // for all users of the memory together
  // ResourceExhausted: no memory left. NotFound: the driver has no chunks of host memory.
  virtual absl::StatusOr<Chunk> acquire(Where where) = 0;
  virtual void release(Chunk chunk) = 0;  // the chunk is not mapped
  // For another process, which maps it by a driver of its own. InvalidArgument: this chunk, or this GPU's memory,
  // cannot be shared.
  virtual absl::StatusOr<FileDescriptor> share(Chunk chunk) const = 0;

  // Maps chunks, readable and writable, at consecutive slots from number `first` on. Their content is undefined. After
  // an error none of them is mapped.
  virtual absl::Status map(int64_t first, std::span<const Chunk> chunks) = 0;
  virtual void unmap(int64_t first, int64_t count) = 0;  // all of them are mapped
  // Replaces mapped chunks by acquired ones and copies their content; the old ones are unmapped then. At most
  // kMostMoves. Nobody may access the slots meanwhile. After an error nothing has changed.
  virtual absl::Status move(std::span<const Move> moves) = 0;
  // Zeros mapped bytes; done on return.
  virtual absl::Status clear(std::byte* begin, int64_t bytes) = 0;
};

class ChunkedMemory final : public state::Memory {
 public:
  static constexpr int64_t kGrain = 4096;

  // Uses of the options: `limit` bounds the device's own memory; `leave_free` stays free of the source's and of the
  // machine's memory; `name` is ignored. Errors of reserve_addresses and, with host_overflow, of a first chunk of host
  // memory.
  static absl::StatusOr<std::unique_ptr<ChunkedMemory>> create(std::unique_ptr<ChunkSource> source,
                                                               const state::SegmentOptions& options);
  ~ChunkedMemory() override;

  // `bytes`: sum of the later allocations, each rounded up to grains. If the free addresses are fragmented, allocations
  // may touch more chunks; those are acquired then. 0 returns all unused chunks.
  absl::Status reserve(int64_t bytes) override;
  absl::StatusOr<uint64_t> allocate(int64_t bytes) override;
  void free(uint64_t offset) override;
  int64_t free_range(uint64_t offset, int64_t bytes) override;
  // Errors of the driver; chunks that were not moved stay on the host.
  absl::Status settle() override;
  int64_t grain_bytes() const override { return kGrain; }

  // No other process maps this memory but by parts.
  absl::Status publish(std::span<const std::byte>) override { return {}; }
  void raise_epoch() override {}
  void begin_rewrite() override {}
  void end_rewrite() override {}
  state::SegmentAddress address() const override { return {}; }
  absl::StatusOr<state::SharedPart> share(uint64_t offset) const override;  // a chunk

  std::byte* data(uint64_t offset) const override;
  int64_t bytes_in_use() const override { return in_use_; }  // multiple of the grain
  int64_t bytes_peak() const override { return peak_; }
  int64_t bytes_held() const;  // chunks on device and host: mapped, or kept for later
  int64_t bytes_on_host() const { return acquired_[1] * chunk_bytes_; }  // part of bytes_held()
  int64_t capacity() const { return capacity_; }

 private:
  using Where = ChunkSource::Where;
  struct Held {
    ChunkSource::Chunk chunk = 0;
    Where where = Where::kDevice;
  };
  struct Slot {  // a chunk's worth of addresses
    Held held;
    int32_t grains = 0;  // in use; 0: nothing is mapped
  };
  struct Split {  // chunks
    int64_t on_device = 0;
    int64_t on_host = 0;
  };
  struct Allocation {
    int64_t bytes = 0;
    state::internal::Ranges returned;  // grains given back early
  };
  ChunkedMemory(std::unique_ptr<ChunkSource> source, const state::SegmentOptions& options);

  absl::Status try_host();
  absl::Status within_limit(int64_t bytes) const;
  absl::StatusOr<int64_t> source_room(Where where) const;
  absl::StatusOr<int64_t> device_room(int64_t bytes) const;
  absl::StatusOr<int64_t> host_room() const;
  absl::StatusOr<Split> split(int64_t chunks, int64_t bytes) const;
  absl::Status acquire_one(Where where);
  absl::Status acquire_spare(int64_t chunks, int64_t bytes);
  void put_spare(const Held& held);
  void trim_spare();
  absl::StatusOr<size_t> move_some(std::span<const int64_t> slots);
  absl::Status map_slots(int64_t first, int64_t count);
  void unmap_slots(int64_t first, int64_t count);
  absl::Status commit(uint64_t begin, uint64_t end);
  void uncommit(uint64_t begin, uint64_t end);
  template <class Visit>
  void for_each_slot(uint64_t begin, uint64_t end, Visit visit) const;

  std::unique_ptr<ChunkSource> source_;
  state::SegmentOptions options_;
  int64_t chunk_bytes_ = 0;
  int64_t capacity_ = 0;
  std::byte* base_ = nullptr;
  state::internal::FreeSpace space_;
  std::map<uint64_t, Allocation> allocations_;
  std::vector<Slot> slots_;
  std::deque<Held> spare_;             // acquired, not mapped: those of the host first, taken from the back
  std::array<int64_t, 2> acquired_{};  // chunks, by Where
  int64_t spare_on_device_ = 0;
  int64_t kept_ = 0;  // so many chunks, mapped ones included, do not go back to the source
  int64_t in_use_ = 0;
  int64_t peak_ = 0;
};

}  // namespace scalai::executor::cuda
