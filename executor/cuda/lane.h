#pragma once
// Lane: a stream of one GPU with what it needs to start kernels: slots, through which the descriptors of a launch get to
// the GPU, and halves, through which bytes go that no kernel reaches. All of it is made with the lane and does not grow:
// batches whose descriptors do not fit a slot are several launches.
//
// Internal to the back end. Thread rules: one thread at a time. What is put in reads and writes memory until finish()
// has returned.

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
  int slots = 3;  // launches on their way: one whose kernel runs, one that is copied, one that is written
  int64_t slot_bytes = int64_t{2} << 20;  // descriptors of a launch: some eight thousand boxes
  int64_t pinned_half = 0;                // bytes of a half in host memory; 0: none
  int64_t device_half = 0;                // and of each of its two buffers on the GPU
};

class Lane {
 public:
  struct Half {
    PinnedBuffer host;
    DeviceBuffer out;  // what leaves this GPU
    DeviceBuffer in;   // what came
    Event busy;        // passed: nobody uses the buffers
    Event filled;      // `out` has the bytes
  };

  static absl::StatusOr<std::unique_ptr<Lane>> create(const LaneOptions& options);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane();  // waits for the stream

  int gpu() const { return options_.gpu; }
  const Stream& stream() const { return stream_; }
  Half& half(size_t chunk) { return halves_[chunk % 2]; }

  // These put kernels into the stream. They wait for slots only. All addresses are reached from this GPU.
  absl::Status copy(std::span<const BoxCopy> copies);
  absl::Status fill(std::span<const BoxFill> fills);
  absl::Status finish() { return stream_.finish(); }

  // These return when it is done: one entry a box.
  absl::StatusOr<std::vector<kernels::CheckResult>> check(std::span<const BoxCheck> checks);
  absl::StatusOr<std::vector<uint64_t>> hash(std::span<const BoxHash> boxes);
  // A few bytes of this GPU, to pageable memory. bytes <= kMaxRead (CHECK).
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
