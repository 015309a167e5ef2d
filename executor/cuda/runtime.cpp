#include "executor/cuda/runtime.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "executor/cuda/internal/cuda_status.h"
#include "ptc/base/round_up.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {
namespace {
using internal::cuda_status;

cudaStream_t stream_of(void* handle) { return static_cast<cudaStream_t>(handle); }
cudaEvent_t event_of(void* handle) { return static_cast<cudaEvent_t>(handle); }
absl::StatusOr<int> attribute(cudaDeviceAttr which, int gpu) {
  int value = 0;
  SCALAI_RETURN_IF_ERROR(cuda_status(cudaDeviceGetAttribute(&value, which, gpu), "asking for a GPU's attributes"));
  return value;
}
}  // namespace

absl::StatusOr<int> gpu_count() {
  int count = 0;
  SCALAI_RETURN_IF_ERROR(cuda_status(cudaGetDeviceCount(&count), "counting GPUs"));
  if (count == 0) return cuda_status(cudaErrorNoDevice, "counting GPUs");
  return count;
}

absl::StatusOr<std::string> gpu_name(int gpu) {
  cudaDeviceProp properties;
  SCALAI_RETURN_IF_ERROR(cuda_status(cudaGetDeviceProperties(&properties, gpu), fmt::format("asking for GPU {}", gpu)));
  return std::string(properties.name);
}

absl::StatusOr<int> multiprocessors(int gpu) { return attribute(cudaDevAttrMultiProcessorCount, gpu); }

absl::StatusOr<GpuBytes> gpu_bytes(int gpu) {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu));
  size_t free_bytes = 0;
  size_t total = 0;
  SCALAI_RETURN_IF_ERROR(cuda_status(cudaMemGetInfo(&free_bytes, &total), "asking for free memory"));
  return GpuBytes{static_cast<int64_t>(free_bytes), static_cast<int64_t>(total)};
}

absl::StatusOr<bool> can_access_peer(int gpu, int other) {
  if (gpu == other) return true;
  int can = 0;
  SCALAI_RETURN_IF_ERROR(cuda_status(cudaDeviceCanAccessPeer(&can, gpu, other), "asking for peer access"));
  return can != 0;
}

absl::Status enable_peer_access(int gpu, int other) {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu));
  const cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();
    return {};
  }
  return cuda_status(code, fmt::format("enabling access to GPU {}", other));
}

bool is_pinned(const std::byte* address) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, address) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeHost && attributes.devicePointer == address;
}

absl::Status choose_gpu(int gpu) { return cuda_status(cudaSetDevice(gpu), fmt::format("choosing GPU {}", gpu)); }

absl::StatusOr<DeviceGuard> DeviceGuard::enter(int gpu) {
  int before = 0;
  SCALAI_RETURN_IF_ERROR(cuda_status(cudaGetDevice(&before), "asking for the current GPU"));
  // Also where it is the current one: a thread's first choice makes the GPU ready for the driver's functions.
  SCALAI_RETURN_IF_ERROR(choose_gpu(gpu));
  return DeviceGuard(before == gpu ? -1 : before);
}

DeviceGuard::~DeviceGuard() {
  if (before_ >= 0) (void)cudaSetDevice(before_);
}

absl::StatusOr<Event> Event::create(int gpu) {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu));
  cudaEvent_t event = nullptr;
  // A thread that waits sleeps: the CPU has other workers.
  SCALAI_RETURN_IF_ERROR(
      cuda_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync), "making an event"));
  return Event(gpu, event);
}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(handle_, other.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ != nullptr) (void)cudaEventDestroy(event_of(handle_));
}

absl::Status Event::record(const Stream& stream) {
  SCALAI_CHECK(stream.gpu() == gpu_);
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu_));
  return cuda_status(cudaEventRecord(event_of(handle_), stream_of(stream.handle())), "recording an event");
}

absl::StatusOr<bool> Event::query() const {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu_));
  const cudaError_t code = cudaEventQuery(event_of(handle_));
  if (code == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  SCALAI_RETURN_IF_ERROR(cuda_status(code, "work before an event"));
  return true;
}

absl::Status Event::wait() const {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu_));
  return cuda_status(cudaEventSynchronize(event_of(handle_)), "work before an event");
}

absl::StatusOr<Stream> Stream::create(int gpu) {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu));
  cudaStream_t stream = nullptr;
  SCALAI_RETURN_IF_ERROR(cuda_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream"));
  return Stream(gpu, stream);
}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(handle_, other.handle_);
  return *this;
}

Stream::~Stream() {
  if (handle_ != nullptr) (void)cudaStreamDestroy(stream_of(handle_));
}

absl::Status Stream::wait(const Event& event) const {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu_));
  return cuda_status(cudaStreamWaitEvent(stream_of(handle_), event_of(event.handle()), 0), "ordering two streams");
}

absl::Status Stream::synchronize() const {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu_));
  return cuda_status(cudaStreamSynchronize(stream_of(handle_)), "work in a stream");
}

absl::Status Stream::copy(void* dst, const void* src, int64_t bytes) const {
  if (bytes == 0) return {};
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu_));
  return cuda_status(cudaMemcpyAsync(dst, src, static_cast<size_t>(bytes), cudaMemcpyDefault, stream_of(handle_)),
                     "a copy");
}

absl::Status Stream::copy_between_gpus(void* dst, int dst_gpu, const void* src, int src_gpu, int64_t bytes) const {
  if (bytes == 0) return {};
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu_));
  return cuda_status(cudaMemcpyPeerAsync(dst, dst_gpu, src, src_gpu, static_cast<size_t>(bytes), stream_of(handle_)),
                     fmt::format("a copy from GPU {} to GPU {}", src_gpu, dst_gpu));
}

absl::Status Stream::clear(void* dst, int64_t bytes) const {
  if (bytes == 0) return {};
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu_));
  return cuda_status(cudaMemsetAsync(dst, 0, static_cast<size_t>(bytes), stream_of(handle_)), "clearing memory");
}

absl::StatusOr<DeviceBuffer> DeviceBuffer::create(int gpu, int64_t bytes) {
  SCALAI_CHECK(bytes > 0);
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu));
  const int64_t size = round_up(bytes, kAlign);
  void* data = nullptr;
  SCALAI_RETURN_IF_ERROR(
      cuda_status(cudaMalloc(&data, static_cast<size_t>(size)), fmt::format("a buffer of {} bytes", size)));
  DeviceBuffer buffer;
  buffer.gpu_ = gpu;
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.bytes_ = size;
  return buffer;
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) (void)cudaFree(data_);
}

absl::StatusOr<PinnedBuffer> PinnedBuffer::create(int64_t bytes) {
  SCALAI_CHECK(bytes > 0);
  const int64_t size = round_up(bytes, kAlign);
  void* data = nullptr;
  const cudaError_t code = cudaHostAlloc(&data, static_cast<size_t>(size), cudaHostAllocPortable | cudaHostAllocMapped);
  if (code == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return absl::ResourceExhaustedError(fmt::format(
        "{} bytes of host memory cannot be pinned: {}; raise the limit of locked memory (ulimit -l) or ask for less "
        "staging",
        size, cudaGetErrorString(code)));
  }
  SCALAI_RETURN_IF_ERROR(cuda_status(code, fmt::format("pinning {} bytes", size)));
  PinnedBuffer buffer;
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.bytes_ = size;
  return buffer;
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) (void)cudaFreeHost(data_);
}

}  // namespace scalai::executor::cuda
