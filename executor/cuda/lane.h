#pragma once
// Lane: a stream of one GPU with its launch buffers. Slots carry the descriptors of a launch to the GPU; halves carry
// bytes that no kernel can access. All of them are allocated with the lane and do not grow: batches whose descriptors
// do not fit a slot become several launches.
//
// Internal to the back end. One thread at a time. Submitted work reads and writes memory until synchronize() returns.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/cuda/kernels/batch.h"
#include "executor/cuda/runtime.h"
#include "executor/device/backend.h"

namespace scalai::executor::cuda {

struct LaneOptions {
  int gpu = 0;
  int multiprocessors = 1;
  int slots = 3;                          // launches in flight: one running, one being copied, one being written
  int64_t slot_bytes = int64_t{2} << 20;  // descriptors of a launch: about eight thousand boxes
  int64_t pinned_half = 0;                // bytes of a half in host memory; 0: none
  int64_t device_half = 0;                // bytes of each of its two buffers on the GPU
};

class Lane {
 public:
  struct Half {
    PinnedBuffer host;
    DeviceBuffer out;  // bytes that leave this GPU
    DeviceBuffer in;   // bytes that arrived
    Event busy;        // passed: the buffers are free
    Event filled;      // passed: `out` has the bytes
  };

  static absl::StatusOr<std::unique_ptr<Lane>> create(const LaneOptions& options);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane();  // waits for the stream

  int gpu() const { return options_.gpu; }
  const Stream& stream() const { return stream_; }
  Half& half(size_t chunk) { return halves_[chunk % 2]; }

  // Submit kernels to the stream; block for a free slot only. The spans may end after the call, their memory not before
  // synchronize(). This GPU must have access to all addresses.
  absl::Status copy(std::span<const device::BoxCopy> copies);
  absl::Status fill(std::span<const device::BoxFill> fills);
  absl::Status synchronize() { return stream_.synchronize(); }

  // Return when done, with one entry per box.
  absl::StatusOr<std::vector<kernels::CheckResult>> check(std::span<const device::BoxCheck> checks);
  absl::StatusOr<std::vector<uint64_t>> hash(std::span<const device::BoxHash> boxes);
  // Copies a few bytes of this GPU to pageable memory. bytes <= kMaxRead (CHECK).
  static constexpr int64_t kMaxRead = 64;
  absl::Status read(void* to, const std::byte* from, int64_t bytes);

 private:
  struct Slot {
    PinnedBuffer host;
    DeviceBuffer device;
    Event busy;
  };
  Lane(const LaneOptions& options, Stream stream, std::vector<Slot> slots, std::vector<Half> halves);
  absl::StatusOr<Slot*> take_slot();
  size_t room() const { return static_cast<size_t>(options_.slot_bytes); }
  uint32_t blocks(uint32_t tiles) const { return kernels::blocks_for(tiles, options_.multiprocessors); }
  template <class Piece, class Result, class Launch>
  absl::Status collect(const kernels::Pieces<Piece>& pieces, std::span<Result> results, Launch launch);

  LaneOptions options_;
  Stream stream_;
  std::vector<Slot> slots_;
  std::vector<Half> halves_;  // two, or none
  size_t next_slot_ = 0;
};

}  // namespace scalai::executor::cuda
