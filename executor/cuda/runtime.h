#pragma once
// Owners of what the CUDA runtime gives: streams, events, memory. Move-only; factories say what is wrong; destructors
// never fail. CUDA's types stay in the .cpp: handles are void pointers here. Memory is copied in a stream only.
//
// Thread rules: a stream or an event is for one thread at a time; different ones are free. Each function makes its GPU
// the calling thread's current device and puts back the one before.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::executor::cuda {

// GPUs that this process sees. NotFound: no driver, or no GPU, with what to do.
absl::StatusOr<int> gpu_count();
// "NVIDIA H200".
absl::StatusOr<std::string> gpu_name(int gpu);
absl::StatusOr<int> multiprocessors(int gpu);
struct GpuBytes {
  int64_t free = 0;
  int64_t total = 0;
};
absl::StatusOr<GpuBytes> gpu_bytes(int gpu);
// Whether kernels on `gpu` can read and write memory of `other`; and makes it so for memory of DeviceBuffer.
absl::StatusOr<bool> can_reach(int gpu, int other);
absl::Status enable_reach(int gpu, int other);
// Host memory that GPUs reach: PinnedBuffer's, or what somebody registered with the runtime.
bool is_pinned(const std::byte* address);

// The calling thread's current device from now on.
absl::Status choose_gpu(int gpu);
// … for a scope.
class DeviceGuard {
 public:
  static absl::StatusOr<DeviceGuard> enter(int gpu);
  DeviceGuard(DeviceGuard&& other) noexcept : before_(std::exchange(other.before_, -1)) {}
  DeviceGuard& operator=(DeviceGuard&&) = delete;
  ~DeviceGuard();

 private:
  explicit DeviceGuard(int before) : before_(before) {}
  int before_ = -1;  // −1: nothing to put back
};

class Stream;

// A moment in a stream. Before the first record it has passed.
class Event {
 public:
  static absl::StatusOr<Event> create(int gpu);
  Event(Event&& other) noexcept : gpu_(other.gpu_), handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept;
  ~Event();

  absl::Status record(const Stream& stream);  // of the same GPU
  absl::StatusOr<bool> passed() const;
  absl::Status wait() const;  // blocks the thread
  void* handle() const { return handle_; }

 private:
  Event(int gpu, void* handle) : gpu_(gpu), handle_(handle) {}
  int gpu_ = 0;
  void* handle_ = nullptr;  // cudaEvent_t
};

// Work of one GPU, in order; not ordered with the default stream. The destructor does not wait: whoever put work in that
// uses memory waits before the memory goes.
class Stream {
 public:
  static absl::StatusOr<Stream> create(int gpu);
  Stream(Stream&& other) noexcept : gpu_(other.gpu_), handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  int gpu() const { return gpu_; }
  void* handle() const { return handle_; }
  absl::Status wait(const Event& event) const;  // what comes later begins after the event
  // Blocks the thread until all is done; the error of what failed.
  absl::Status finish() const;

  // Both sides: device memory, or pinned. They stay as they are until the stream is past this.
  absl::Status copy(void* dst, const void* src, int64_t bytes) const;
  absl::Status copy_between_gpus(void* dst, int dst_gpu, const void* src, int src_gpu, int64_t bytes) const;
  absl::Status clear(void* dst, int64_t bytes) const;

 private:
  Stream(int gpu, void* handle) : gpu_(gpu), handle_(handle) {}
  int gpu_ = 0;
  void* handle_ = nullptr;  // cudaStream_t
};

// Memory of a GPU, a whole number of kAlign bytes. bytes > 0.
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

// Host memory that all GPUs reach, a whole number of kAlign bytes. bytes > 0.
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
