#include "executor/cuda/testing/fake_cuda.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace {
using scalai::Random;
constexpr int kGpus = 3;
constexpr size_t kTotal = size_t{2} << 30;
constexpr size_t kContext = size_t{64} << 20;  // what the runtime itself takes
constexpr size_t kChunk = size_t{2} << 20;
constexpr int kHost = -1;
constexpr int kNode = 3;  // of the host's memory, next to all GPUs

struct FakeEvent {
  int64_t recorded = 0;
  int64_t passed = 0;
};
struct Operation {
  std::function<bool()> ready;
  std::function<void()> happen;
};
struct FakeStream {
  int gpu = 0;
  std::deque<Operation> work;
};
struct Range {
  uintptr_t end = 0;
  int gpu = kHost;             // kHost: pinned
  bool mapped = false;         // by the driver's memory management: who reaches it is said there alone
  std::set<int> reached_by{};  // GPUs
};

struct Machine {
  std::recursive_mutex mutex;
  Random random{1};
  int64_t haste = 1;  // 0 and 1: nothing happens before somebody waits for it
  std::set<FakeStream*> streams;
  std::map<uintptr_t, Range> ranges;  // memory that GPUs reach, by begin
  int broken = -1;
  size_t used[kGpus] = {kContext, kContext, kContext};
  std::map<CUmemGenericAllocationHandle, int> chunks;  // memory without an address: handle → GPU, or kHost
  bool node_memory = true;                             // kinds of chunks of host memory that there are
  bool any_memory = true;
  int maps_before_failure = -1;
  std::map<CUdeviceptr, CUmemGenericAllocationHandle> mapped;
  std::set<std::pair<int, int>> enabled;  // (GPU, whose memory it reaches)

  bool step() {
    std::vector<FakeStream*> able;
    for (FakeStream* stream : streams) {
      if (!stream->work.empty() && (!stream->work.front().ready || stream->work.front().ready()))
        able.push_back(stream);
    }
    if (able.empty()) return false;
    FakeStream& stream = *able[static_cast<size_t>(random.below(static_cast<int64_t>(able.size())))];
    const Operation operation = std::move(stream.work.front());
    stream.work.pop_front();
    if (operation.happen) operation.happen();
    return true;
  }
  void until(const std::function<bool()>& done) {
    while (!done()) SCALAI_CHECK(step(), "nothing can happen any more");
  }
  void put(void* to, Operation operation) {
    auto* stream = static_cast<FakeStream*>(to);
    SCALAI_CHECK(streams.count(stream) == 1);
    stream->work.push_back(std::move(operation));
    if (random.below(6) == 0) haste = random.below(5);
    for (int64_t i = haste > 0 ? random.below(haste) : 0; i > 0; --i) (void)step();
  }
  const Range* find(const void* address) const {
    const auto number = reinterpret_cast<uintptr_t>(address);
    const auto next = ranges.upper_bound(number);
    if (next == ranges.begin() || number >= std::prev(next)->second.end) return nullptr;
    return &std::prev(next)->second;
  }
  bool reaches(int gpu, const void* address) const {
    const Range* range = find(address);
    if (range == nullptr) return false;
    if (range->mapped) return range->reached_by.count(gpu) == 1;
    return range->gpu == kHost || range->gpu == gpu || enabled.count({gpu, range->gpu}) == 1;
  }
};
Machine& machine() {
  static Machine one;
  return one;
}
thread_local int current = 0;
using Lock = std::lock_guard<std::recursive_mutex>;
bool pair_reaches(int a, int b) { return a != b && a != 2 && b != 2; }

cudaError_t take(size_t bytes, void** data) {
  Machine& m = machine();
  if (bytes > kTotal - m.used[current]) return cudaErrorMemoryAllocation;
  m.used[current] += bytes;
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*data, 0xab, bytes);
  m.ranges[reinterpret_cast<uintptr_t>(*data)] = {reinterpret_cast<uintptr_t>(*data) + bytes, current};
  return cudaSuccess;
}
}  // namespace

void scalai::executor::cuda::break_fake_gpu(int gpu) {
  const Lock lock(machine().mutex);
  machine().broken = gpu;
}
void scalai::executor::cuda::allow_fake_host_memory(bool of_node, bool of_any) {
  const Lock lock(machine().mutex);
  machine().node_memory = of_node;
  machine().any_memory = of_any;
}
void scalai::executor::cuda::fail_fake_map_after(int count) {
  const Lock lock(machine().mutex);
  machine().maps_before_failure = count;
}
scalai::executor::cuda::FakeChunks scalai::executor::cuda::fake_chunks() {
  const Lock lock(machine().mutex);
  FakeChunks all;
  for (const auto& [handle, gpu] : machine().chunks) ++(gpu == kHost ? all.on_host : all.on_gpus);
  return all;
}

// --- the runtime -----------------------------------------------------------------------------------------------------

extern "C" {
cudaError_t cudaGetDeviceCount(int* count) { return *count = kGpus, cudaSuccess; }
cudaError_t cudaGetDevice(int* gpu) { return *gpu = current, cudaSuccess; }
cudaError_t cudaSetDevice(int gpu) {
  if (gpu < 0 || gpu >= kGpus) return cudaErrorInvalidDevice;
  current = gpu;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t code) { return code == cudaSuccess ? "no error" : "an error of the fake"; }
const char* cudaGetErrorName(cudaError_t) { return "fake"; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int gpu) {
  std::memset(static_cast<void*>(properties), 0, sizeof *properties);
  std::strcpy(properties->name, "Fake GPU");
  properties->totalGlobalMem = kTotal;
  properties->major = 9;
  properties->multiProcessorCount = 1;
  properties->pciBusID = gpu;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) { return *value = 1, cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int* can, int gpu, int other) {
  return *can = pair_reaches(gpu, other) ? 1 : 0, cudaSuccess;
}
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr, int from, int to) {
  return *value = pair_reaches(from, to) ? 1 : 0, cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned) {
  const Lock lock(machine().mutex);
  if (!pair_reaches(current, other)) return cudaErrorPeerAccessUnsupported;
  return machine().enabled.insert({current, other}).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  const Lock lock(machine().mutex);
  *free_bytes = kTotal - machine().used[current];
  *total = kTotal;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const Lock lock(machine().mutex);
  const Range* range = machine().find(address);
  *attributes = {};
  if (range == nullptr) return cudaSuccess;
  attributes->type = range->gpu == kHost ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->devicePointer = const_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  const Lock lock(machine().mutex);
  return take(bytes, data);
}
cudaError_t cudaFree(void* data) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  while (m.step()) {
  }
  const auto found = m.ranges.find(reinterpret_cast<uintptr_t>(data));
  SCALAI_CHECK(found != m.ranges.end());
  if (found->second.gpu != kHost) m.used[found->second.gpu] -= found->second.end - found->first;
  m.ranges.erase(found);
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  const Lock lock(machine().mutex);
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  machine().ranges[reinterpret_cast<uintptr_t>(*data)] = {reinterpret_cast<uintptr_t>(*data) + bytes, kHost};
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Lock lock(machine().mutex);
  auto* made = new FakeStream{current, {}};
  machine().streams.insert(made);
  *stream = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(machine().mutex);
  auto* one = reinterpret_cast<FakeStream*>(stream);
  machine().until([one] { return one->work.empty(); });
  return one->gpu == machine().broken ? cudaErrorIllegalAddress : cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(machine().mutex);
  (void)cudaStreamSynchronize(stream);
  auto* one = reinterpret_cast<FakeStream*>(stream);
  machine().streams.erase(one);
  delete one;
  return cudaSuccess;
}
// Events outlive their handles, as streams may still wait for them.
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new std::shared_ptr<FakeEvent>(std::make_shared<FakeEvent>()));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<std::shared_ptr<FakeEvent>*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(machine().mutex);
  const std::shared_ptr<FakeEvent> one = *reinterpret_cast<std::shared_ptr<FakeEvent>*>(event);
  machine().put(stream, {{}, [one, nth = ++one->recorded] { one->passed = nth; }});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(machine().mutex);
  const std::shared_ptr<FakeEvent> one = *reinterpret_cast<std::shared_ptr<FakeEvent>*>(event);
  if (one->passed == one->recorded) return cudaSuccess;
  (void)machine().step();
  return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(machine().mutex);
  const std::shared_ptr<FakeEvent> one = *reinterpret_cast<std::shared_ptr<FakeEvent>*>(event);
  machine().until([one, nth = one->recorded] { return one->passed >= nth; });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(machine().mutex);
  const std::shared_ptr<FakeEvent> one = *reinterpret_cast<std::shared_ptr<FakeEvent>*>(event);
  machine().put(stream, {[one, nth = one->recorded] { return one->passed >= nth; }, {}});
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  const Lock lock(machine().mutex);
  const int gpu = reinterpret_cast<FakeStream*>(stream)->gpu;
  SCALAI_CHECK(machine().reaches(gpu, dst) && machine().reaches(gpu, src), "a copy of pageable memory");
  machine().put(stream, {{}, [=] { std::memcpy(dst, src, bytes); }});
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* dst, int dst_gpu, const void* src, int src_gpu, size_t bytes,
                                cudaStream_t stream) {
  const Lock lock(machine().mutex);
  SCALAI_CHECK(machine().find(dst)->gpu == dst_gpu && machine().find(src)->gpu == src_gpu);
  machine().put(stream, {{}, [=] { std::memcpy(dst, src, bytes); }});
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* dst, int value, size_t bytes, cudaStream_t stream) {
  const Lock lock(machine().mutex);
  SCALAI_CHECK(machine().reaches(reinterpret_cast<FakeStream*>(stream)->gpu, dst));
  machine().put(stream, {{}, [=] { std::memset(dst, value, bytes); }});
  return cudaSuccess;
}
}  // extern "C"

// --- the driver's memory management ----------------------------------------------------------------------------------

namespace {
void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUresult fake_reserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  void* base = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(base);
  return CUDA_SUCCESS;
}
CUresult fake_unreserve(CUdeviceptr address, size_t bytes) { return ::munmap(pointer(address), bytes), CUDA_SUCCESS; }
// A chunk is a memfd: its content outlives a mapping. The handle is the descriptor.
CUresult fake_create(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* kind,
                     unsigned long long) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const bool on_gpu = kind->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const int gpu = on_gpu ? kind->location.id : kHost;
  if (!on_gpu) {
    const bool of_node = kind->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    SCALAI_CHECK(of_node || kind->location.type == CU_MEM_LOCATION_TYPE_HOST);
    SCALAI_CHECK(kind->requestedHandleTypes == 0 && kind->allocFlags.gpuDirectRDMACapable == 0);
    if (of_node ? !m.node_memory : !m.any_memory) return CUDA_ERROR_NOT_SUPPORTED;
    if (of_node && kind->location.id != kNode) return CUDA_ERROR_INVALID_VALUE;
  }
  if (on_gpu && bytes > kTotal - m.used[gpu]) return CUDA_ERROR_OUT_OF_MEMORY;
  const int fd = ::memfd_create("fake chunk", MFD_CLOEXEC);
  SCALAI_CHECK(fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0);
  const std::byte dirt{0xab};
  for (size_t at = 0; at < bytes; at += 4096) SCALAI_CHECK(::pwrite(fd, &dirt, 1, static_cast<off_t>(at)) == 1);
  if (on_gpu) m.used[gpu] += bytes;
  *handle = static_cast<CUmemGenericAllocationHandle>(fd);
  m.chunks[*handle] = gpu;
  return CUDA_SUCCESS;
}
CUresult fake_release(CUmemGenericAllocationHandle handle) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  for (const auto& [address, chunk] : m.mapped) SCALAI_CHECK(chunk != handle, "released while mapped");
  if (const int gpu = m.chunks.at(handle); gpu != kHost) m.used[gpu] -= kChunk;
  m.chunks.erase(handle);
  ::close(static_cast<int>(handle));
  return CUDA_SUCCESS;
}
CUresult fake_share(void* descriptor, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType kind,
                    unsigned long long) {
  const Lock lock(machine().mutex);
  SCALAI_CHECK(machine().chunks.at(handle) != kHost && kind == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  *static_cast<int*>(descriptor) = ::fcntl(static_cast<int>(handle), F_DUPFD_CLOEXEC, 0);
  return CUDA_SUCCESS;
}
CUresult fake_map(CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  SCALAI_CHECK(m.mapped.count(address) == 0 && m.chunks.count(handle) == 1 && bytes == kChunk);
  if (m.maps_before_failure >= 0 && m.maps_before_failure-- == 0) return CUDA_ERROR_UNKNOWN;
  void* at = ::mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, static_cast<int>(handle), 0);
  SCALAI_CHECK(at == pointer(address));
  m.mapped[address] = handle;
  return CUDA_SUCCESS;
}
CUresult fake_set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  // Whether drivers take both kinds in one call is nowhere written.
  const bool first_on_host = m.chunks.at(m.mapped.at(address)) == kHost;
  for (CUdeviceptr at = address; at < address + bytes; at += kChunk) {
    SCALAI_CHECK((m.chunks.at(m.mapped.at(at)) == kHost) == first_on_host);
    SCALAI_CHECK(::mprotect(pointer(at), kChunk, PROT_READ | PROT_WRITE) == 0);
    Range& range = m.ranges[at];
    range = {at + kChunk, m.chunks.at(m.mapped.at(at)), true};
    for (size_t i = 0; i < count; ++i) {
      const int gpu = access[i].location.id;
      SCALAI_CHECK(range.gpu == kHost || gpu == range.gpu || pair_reaches(gpu, range.gpu));
      range.reached_by.insert(gpu);
    }
  }
  return CUDA_SUCCESS;
}
// Takes one mapping at a time, as drivers may.
CUresult fake_unmap(CUdeviceptr address, size_t bytes) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (bytes != kChunk) return CUDA_ERROR_INVALID_VALUE;
  SCALAI_CHECK(m.mapped.erase(address) == 1);
  m.ranges.erase(address);
  void* const kept =
      ::mmap(pointer(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  SCALAI_CHECK(kept != MAP_FAILED);
  return CUDA_SUCCESS;
}
CUresult fake_granularity(size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  return *bytes = kChunk, CUDA_SUCCESS;
}
CUresult fake_attribute(int* value, CUdevice_attribute which, CUdevice) {
  return *value = which == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID ? kNode : 1, CUDA_SUCCESS;
}
CUresult fake_error_name(CUresult, const char** name) { return *name = "fake driver error", CUDA_SUCCESS; }

template <class Function>
void* address_of_function(Function function) {
  return reinterpret_cast<void*>(function);
}
}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                        unsigned long long, cudaDriverEntryPointQueryResult* found) {
  static const std::map<std::string, void*> all = {
      {"cuMemAddressReserve", address_of_function(fake_reserve)},
      {"cuMemAddressFree", address_of_function(fake_unreserve)},
      {"cuMemCreate", address_of_function(fake_create)},
      {"cuMemRelease", address_of_function(fake_release)},
      {"cuMemMap", address_of_function(fake_map)},
      {"cuMemUnmap", address_of_function(fake_unmap)},
      {"cuMemSetAccess", address_of_function(fake_set_access)},
      {"cuMemExportToShareableHandle", address_of_function(fake_share)},
      {"cuMemGetAllocationGranularity", address_of_function(fake_granularity)},
      {"cuDeviceGetAttribute", address_of_function(fake_attribute)},
      {"cuGetErrorName", address_of_function(fake_error_name)}};
  const auto at = all.find(symbol);
  *function = at == all.end() ? nullptr : at->second;
  *found = at == all.end() ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// --- kernels ---------------------------------------------------------------------------------------------------------

void scalai::executor::cuda::put_fake_kernel(void* stream, const void* descriptors, std::function<void()> happen) {
  const Lock lock(machine().mutex);
  const int gpu = reinterpret_cast<FakeStream*>(stream)->gpu;
  SCALAI_CHECK(current == gpu, "the current GPU is not the stream's");
  SCALAI_CHECK(descriptors == nullptr || machine().find(descriptors)->gpu == gpu);
  machine().put(stream, {{}, std::move(happen)});
}
bool scalai::executor::cuda::fake_reaches(void* stream, const void* address) {
  const Lock lock(machine().mutex);
  return machine().reaches(reinterpret_cast<FakeStream*>(stream)->gpu, address);
}
