#pragma once
// Owners of CUDA runtime objects: streams, events, memory. Move-only; factories return errors; destructors never fail.
// CUDA's types stay in the .cpp: handles are void pointers here. Memory is copied in a stream only.
//
// Thread rules: one thread at a time per stream or event; different objects are independent. Each function makes its
// GPU the calling thread's current device and restores the previous one.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::executor::cuda {

// Number of GPUs visible to this process. NotFound: no driver or no GPU; the message says what to do.
absl::StatusOr<int> gpu_count();
// "NVIDIA H200".
absl::StatusOr<std::string> gpu_name(int gpu);
absl::StatusOr<int> multiprocessors(int gpu);
struct GpuBytes {
  int64_t free = 0;
  int64_t total = 0;
};
absl::StatusOr<GpuBytes> gpu_bytes(int gpu);
// can_access_peer: true if kernels on `gpu` can access memory of `other`. enable_peer_access: enables that for
// DeviceBuffer memory.
absl::StatusOr<bool> can_access_peer(int gpu, int other);
absl::Status enable_peer_access(int gpu, int other);
// True for host memory that GPUs can access: a PinnedBuffer, or memory registered with the runtime.
bool is_pinned(const std::byte* address);

// Sets the calling thread's current device.
absl::Status choose_gpu(int gpu);
// Sets the calling thread's current device for a scope, on one thread.
class DeviceGuard {
 public:
  static absl::StatusOr<DeviceGuard> enter(int gpu);
  DeviceGuard(DeviceGuard&& other) noexcept : before_(std::exchange(other.before_, -1)) {}
  DeviceGuard& operator=(DeviceGuard&&) = delete;
  ~DeviceGuard();

 private:
  explicit DeviceGuard(int before) : before_(before) {}
  int before_ = -1;  // −1: nothing to restore
};

class Stream;

// A point in a stream. Passed before the first record.
class Event {
 public:
  static absl::StatusOr<Event> create(int gpu);
  Event(Event&& other) noexcept : gpu_(other.gpu_), handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept;
  ~Event();

  absl::Status record(const Stream& stream);  // of the same GPU
  absl::StatusOr<bool> query() const;
  absl::Status wait() const;  // blocks the calling thread
  void* handle() const { return handle_; }

 private:
  Event(int gpu, void* handle) : gpu_(gpu), handle_(handle) {}
  int gpu_ = 0;
  void* handle_ = nullptr;  // cudaEvent_t
};

// Work of one GPU, in order; not ordered with the default stream. The destructor does not wait: call synchronize()
// before the memory of submitted work ends.
class Stream {
 public:
  static absl::StatusOr<Stream> create(int gpu);
  Stream(Stream&& other) noexcept : gpu_(other.gpu_), handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  int gpu() const { return gpu_; }
  void* handle() const { return handle_; }
  absl::Status wait(const Event& event) const;  // later work begins after the event
  // Blocks until all work is done; returns its error.
  absl::Status synchronize() const;

  // Both sides: device or pinned memory. They must live until the stream has passed the copy.
  absl::Status copy(void* dst, const void* src, int64_t bytes) const;
  absl::Status copy_between_gpus(void* dst, int dst_gpu, const void* src, int src_gpu, int64_t bytes) const;
  absl::Status clear(void* dst, int64_t bytes) const;

 private:
  Stream(int gpu, void* handle) : gpu_(gpu), handle_(handle) {}
  int gpu_ = 0;
  void* handle_ = nullptr;  // cudaStream_t
};

// Owns memory of a GPU, rounded up to a multiple of kAlign bytes. bytes > 0.
class DeviceBuffer {
 public:
  static constexpr int64_t kAlign = 256;
  static absl::StatusOr<DeviceBuffer> create(int gpu, int64_t bytes);
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  int gpu() const { return gpu_; }

 private:
  int gpu_ = 0;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Owns host memory that all GPUs can access, rounded up to a multiple of kAlign bytes. bytes > 0.
class PinnedBuffer {
 public:
  static constexpr int64_t kAlign = 256;
  static absl::StatusOr<PinnedBuffer> create(int64_t bytes);
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer();
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace scalai::executor::cuda
