#pragma once
// Built-in steps (transform.h) computed by a device, such as a GPU, in place of the host. What they read goes up in
// chunks of bounded size, all steps of a tensor are computed where the chunk is, and what they give comes down:
//
//   source ─► pinned host memory of a chunk ─► device: step ─► step ─► … ─► pinned host memory ─► reader
//             (the host fills one of two chunks while the device works at the other)
//
// So the state may be larger than the device's memory. Results are those of the host, bit by bit (step_core.h). Steps
// of users, and all steps before one, stay on the host. The interface knows no GPU: executor/cuda has one.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/state/transform/step_core.h"
#include "ptc/state/transform/transform.h"

namespace scalai::transform {

// Memory of both kinds, and a queue of work on it. One thread at a time.
class Chunk {
 public:
  static constexpr int64_t kAlign = 256;
  virtual ~Chunk() = default;
  // Memory of this chunk, at a multiple of kAlign, until clear(). CHECK: at most Device::chunk_bytes() of each kind, in
  // multiples of kAlign. Host memory is what copies begin and end at.
  virtual std::byte* host(int64_t bytes) = 0;
  virtual std::byte* device(int64_t bytes) = 0;
  // Queued, one after the other. Errors of the work come out of finish().
  virtual absl::Status copy_up(std::byte* device, const std::byte* host, int64_t bytes) = 0;
  virtual absl::Status copy_down(std::byte* host, const std::byte* device, int64_t bytes) = 0;
  virtual absl::Status set_to_zero(std::byte* device, int64_t bytes) = 0;
  virtual absl::Status run(const step_core::Work& work) = 0;
  // Waits until all is done.
  virtual absl::Status finish() = 0;
  // All memory is free again. Nothing is on its way.
  virtual void clear() = 0;
};

// Two chunks of a device, lent to one thread. The destructor waits for their work.
class ChunkPair {
 public:
  virtual ~ChunkPair() = default;
  virtual Chunk& chunk(int number) = 0;  // 0 or 1
};

// Thread-safe. Outlives what it lends.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;     // "GPU 0, NVIDIA H200"
  virtual int64_t chunk_bytes() const = 0;  // of either kind of memory
  virtual int64_t host_bytes() const = 0;   // most host memory that all chunks together take
  // Waits until a pair is free; a thread that has one does not ask for another. Errors: no memory, a GPU that is lost.
  virtual absl::StatusOr<std::unique_ptr<ChunkPair>> lend() = 0;
};

// One chunk's way through the steps of a tensor.
struct Run {
  Chunk& chunk;
  const Origin& origin;
  std::vector<std::function<bool()>> checks{};  // once all is done: that the host would have had no error
};
// How a device makes a tensor (Tensor::on_device).
struct OnDevice {
  // Queues what leaves the elements of a box, dense, at the address that it returns.
  std::function<absl::StatusOr<std::byte*>(const Box& box, Run& run)> make;
  // Bound of what this takes of a chunk's memory of either kind: for each element of the origin, and beside these.
  int64_t element_bytes = 0;
  int64_t fixed_bytes = 0;
  Shape origin;
};

// Whether chunks of this size are large enough. InvalidArgument: why not, for behind a tensor's name.
absl::Status check_fits(const Tensor& tensor, int64_t chunk_bytes);

// Makes a box of a tensor, which has on_device and fits, part by part. `take` gets each part where the device has it,
// at the latest when this returns; the memory is its own during the call only. Errors: of the device, of reading, of
// `take`; and those that the host's steps have.
using TakePart = std::function<absl::Status(const Box& part, const std::byte* on_device)>;
absl::Status make_on(Device& device, const Tensor& tensor, const Box& box, const Origin& origin, const TakePart& take);

// Reads of tensors with steps compute on the device from now on, which lives as long as they do. They take the device's
// memory beside their scratch_bytes. Returns why some stay on the host, a line each.
std::vector<std::string> compute_on(const std::shared_ptr<Device>& device, std::span<Tensor> tensors);

}  // namespace scalai::transform
