#include "executor/cuda/cuda_memory.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "executor/cuda/internal/cuda_status.h"
#include "executor/cuda/runtime.h"
#include "executor/state/available_memory.h"
#include "ptc/base/round_up.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::executor::cuda {
namespace {
using internal::driver_status;
using internal::find_driver_function;

// The handle of a chunk travels as a number.
static_assert(sizeof(CUmemGenericAllocationHandle) == sizeof(ChunkSource::Chunk));

struct Driver {
  PFN_cuMemAddressReserve_v10020 reserve = nullptr;
  PFN_cuMemAddressFree_v10020 unreserve = nullptr;
  PFN_cuMemCreate_v10020 create = nullptr;
  PFN_cuMemRelease_v10020 release = nullptr;
  PFN_cuMemMap_v10020 map = nullptr;
  PFN_cuMemUnmap_v10020 unmap = nullptr;
  PFN_cuMemSetAccess_v10020 set_access = nullptr;
  PFN_cuMemGetAllocationGranularity_v10020 granularity = nullptr;
  PFN_cuMemExportToShareableHandle_v10020 share = nullptr;
  PFN_cuDeviceGetAttribute_v2000 attribute = nullptr;

  static absl::StatusOr<Driver> find() {
    constexpr unsigned kSince = 10020;  // CUDA 10.2
    Driver driver;
    SCALAI_RETURN_IF_ERROR(find_driver_function("cuMemAddressReserve", kSince, driver.reserve));
    SCALAI_RETURN_IF_ERROR(find_driver_function("cuMemAddressFree", kSince, driver.unreserve));
    SCALAI_RETURN_IF_ERROR(find_driver_function("cuMemCreate", kSince, driver.create));
    SCALAI_RETURN_IF_ERROR(find_driver_function("cuMemRelease", kSince, driver.release));
    SCALAI_RETURN_IF_ERROR(find_driver_function("cuMemMap", kSince, driver.map));
    SCALAI_RETURN_IF_ERROR(find_driver_function("cuMemUnmap", kSince, driver.unmap));
    SCALAI_RETURN_IF_ERROR(find_driver_function("cuMemSetAccess", kSince, driver.set_access));
    SCALAI_RETURN_IF_ERROR(find_driver_function("cuMemGetAllocationGranularity", kSince, driver.granularity));
    SCALAI_RETURN_IF_ERROR(find_driver_function("cuMemExportToShareableHandle", kSince, driver.share));
    SCALAI_RETURN_IF_ERROR(find_driver_function("cuDeviceGetAttribute", 2000, driver.attribute));
    return driver;
  }
};

// Memory on the GPU, which network cards may reach where both can do that, and other processes may be given.
absl::StatusOr<CUmemAllocationProp> kind_of_memory(const Driver& driver, int gpu) {
  int managed = 0;
  int rdma = 0;
  SCALAI_RETURN_IF_ERROR(driver_status(
      driver.attribute(&managed, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, gpu), "asking for a GPU"));
  if (managed == 0) {
    return missing(
        fmt::format("GPU {} has no virtual memory management (CUDA's cuMemMap), on which its memory "
                    "is kept; use one with compute capability 8.0 or later, or --backend=host",
                    gpu));
  }
  SCALAI_RETURN_IF_ERROR(driver_status(
      driver.attribute(&rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, gpu), "asking for a GPU"));
  int shared = 0;
  SCALAI_RETURN_IF_ERROR(
      driver_status(driver.attribute(&shared, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, gpu),
                    "asking for a GPU"));
  CUmemAllocationProp kind{};
  kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  kind.requestedHandleTypes = shared != 0 ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  kind.location.id = gpu;
  kind.allocFlags.gpuDirectRDMACapable = rdma != 0 ? 1 : 0;
  return kind;
}

// Pinned memory of the host, the best first: next to the GPU, or anywhere. Which of them a driver has shows when it is
// asked for; it says in advance only of some that it has not.
std::vector<CUmemAllocationProp> kinds_of_host_memory(const Driver& driver, int gpu, int64_t chunk_bytes) {
  const auto ask = [&](CUdevice_attribute which, int otherwise) {
    int value = 0;
    return driver.attribute(&value, which, gpu) == CUDA_SUCCESS ? value : otherwise;
  };
  const auto kind = [](CUmemLocationType type, int id) {
    CUmemAllocationProp made{};
    made.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    made.location.type = type;
    made.location.id = id;
    return made;
  };
  std::vector<CUmemAllocationProp> kinds;
  if (ask(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1) != 0)
    kinds.push_back(kind(CU_MEM_LOCATION_TYPE_HOST_NUMA, std::max(0, ask(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0))));
  if (ask(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1) != 0)
    kinds.push_back(kind(CU_MEM_LOCATION_TYPE_HOST, 0));
  std::erase_if(kinds, [&](const CUmemAllocationProp& one) {
    size_t unit = 0;
    return driver.granularity(&unit, &one, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS || unit == 0 ||
           static_cast<size_t>(chunk_bytes) % unit != 0;
  });
  return kinds;
}

class CudaChunks final : public ChunkSource {
 public:
  CudaChunks(int gpu, const Driver& driver, const CUmemAllocationProp& kind, int64_t chunk_bytes, Stream stream,
             std::span<const int> reached_by, std::shared_ptr<AddressMap> addresses)
      : gpu_(gpu),
        driver_(driver),
        kind_(kind),
        host_kinds_(kinds_of_host_memory(driver, gpu, chunk_bytes)),
        chunk_bytes_(chunk_bytes),
        stream_(std::move(stream)),
        addresses_(std::move(addresses)) {
    add_access(gpu);
    for (const int other : reached_by) {
      if (other != gpu) add_access(other);
    }
  }
  CudaChunks(const CudaChunks&) = delete;
  CudaChunks& operator=(const CudaChunks&) = delete;

  ~CudaChunks() override {
    const absl::StatusOr<DeviceGuard> guard = DeviceGuard::enter(gpu_);
    (void)stream_.synchronize();
    for (const auto& [slot, chunk] : mapped_) (void)driver_.unmap(at(slot), bytes_of(1));
    for (const auto& [chunk, where] : acquired_) (void)driver_.release(chunk);
    if (scratch_ != 0) (void)driver_.unreserve(scratch_, bytes_of(kMostMoves));
    if (base_ == 0) return;
    addresses_->remove(reinterpret_cast<std::byte*>(base_));
    (void)driver_.unreserve(base_, static_cast<size_t>(bytes_));
  }

  std::string name() const override { return fmt::format("GPU {}", gpu_); }
  int64_t chunk_bytes() const override { return chunk_bytes_; }

  absl::StatusOr<std::byte*> reserve_addresses(int64_t bytes) override {
    SCALAI_CHECK(base_ == 0 && bytes > 0 && bytes % chunk_bytes_ == 0);
    SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu_));
    const CUresult code = driver_.reserve(&base_, static_cast<size_t>(bytes), 0, 0, 0);
    if (code != CUDA_SUCCESS) {
      base_ = 0;
      return absl::ResourceExhaustedError(fmt::format(
          "{} of addresses for the memory of GPU {}: {}; raise the limit of address space (ulimit -v) or ask "
          "for less capacity",
          format_bytes(bytes), gpu_, message_of(driver_status(code, "reserving addresses"))));
    }
    bytes_ = bytes;
    auto* base = reinterpret_cast<std::byte*>(base_);
    addresses_->add(base, bytes, gpu_);
    return base;
  }

  absl::StatusOr<int64_t> bytes_free(Where where) const override {
    if (where == Where::kHost) return state::available_memory();
    SCALAI_ASSIGN_OR_RETURN(const GpuBytes bytes, gpu_bytes(gpu_));
    return bytes.free;
  }

  absl::StatusOr<Chunk> acquire(Where where) override {
    SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu_));
    if (where == Where::kHost) return acquire_host();
    CUmemGenericAllocationHandle handle = 0;
    const CUresult code = driver_.create(&handle, bytes_of(1), &kind_, 0);
    SCALAI_RETURN_IF_ERROR(driver_status(code, fmt::format("taking {} of memory", format_bytes(chunk_bytes_))));
    acquired_[handle] = where;
    return handle;
  }

  void release(Chunk chunk) override {
    SCALAI_CHECK(acquired_.erase(chunk) == 1);
    const absl::StatusOr<DeviceGuard> guard = DeviceGuard::enter(gpu_);
    (void)driver_.release(chunk);
  }

  absl::StatusOr<FileDescriptor> share(Chunk chunk) const override {
    if (kind_.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE || acquired_.at(chunk) == Where::kHost)
      return invalid(fmt::format("other processes cannot map this memory of GPU {}: {}", gpu_,
                                 acquired_.at(chunk) == Where::kHost ? "it has overflowed to the host's"
                                                                     : "its driver has no descriptors for it"));
    SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu_));
    int descriptor = -1;
    SCALAI_RETURN_IF_ERROR(driver_status(driver_.share(&descriptor, chunk, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                                         "sharing memory with another process"));
    return FileDescriptor(descriptor);
  }

  absl::Status map(int64_t first, std::span<const Chunk> chunks) override {
    SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu_));
    SCALAI_RETURN_IF_ERROR(map_at(at(first), chunks));
    for (size_t i = 0; i < chunks.size(); ++i) mapped_[first + static_cast<int64_t>(i)] = chunks[i];
    return {};
  }

  void unmap(int64_t first, int64_t count) override {
    const absl::StatusOr<DeviceGuard> guard = DeviceGuard::enter(gpu_);
    for (int64_t i = 0; i < count; ++i) SCALAI_CHECK(mapped_.erase(first + i) == 1);
    unmap_at(at(first), static_cast<size_t>(count));
  }

  absl::Status move(std::span<const Move> moves) override {
    SCALAI_CHECK(!moves.empty() && moves.size() <= kMostMoves);
    SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu_));
    SCALAI_RETURN_IF_ERROR(copy_to_new(moves));
    for (size_t i = 0; i < moves.size(); ++i) {
      const absl::Status status = replace(moves[i].slot, moves[i].to);
      if (status.ok()) continue;
      for (size_t j = 0; j < i; ++j) (void)replace(moves[j].slot, mapped_.at(moves[j].slot));
      return status;
    }
    for (const Move& one : moves) mapped_.at(one.slot) = one.to;
    return {};
  }

  absl::Status clear(std::byte* begin, int64_t bytes) override {
    SCALAI_RETURN_IF_ERROR(stream_.clear(begin, bytes));
    return stream_.synchronize();
  }

 private:
  void add_access(int gpu) {
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = gpu;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    access_.push_back(access);
  }
  CUdeviceptr at(int64_t slot) const { return base_ + static_cast<CUdeviceptr>(slot * chunk_bytes_); }
  size_t bytes_of(size_t count) const { return count * static_cast<size_t>(chunk_bytes_); }

  absl::StatusOr<Chunk> acquire_host() {
    while (!host_kinds_.empty()) {
      CUmemGenericAllocationHandle handle = 0;
      const CUresult code = driver_.create(&handle, bytes_of(1), &host_kinds_.front(), 0);
      if (code == CUDA_SUCCESS) {
        host_works_ = true;
        acquired_[handle] = Where::kHost;
        return handle;
      }
      if (code == CUDA_ERROR_OUT_OF_MEMORY) {
        return absl::ResourceExhaustedError(
            fmt::format("{} of host memory cannot be pinned for GPU {}, with {} available; raise the limit of locked "
                        "memory (ulimit -l) or ask for less overflow (--host-overflow)",
                        format_bytes(chunk_bytes_), gpu_, format_bytes(state::available_memory())));
      }
      if (host_works_) return driver_status(code, "pinning host memory");
      host_kinds_.erase(host_kinds_.begin());
    }
    return missing(
        fmt::format("the driver maps no host memory at addresses of GPU {} (cuMemCreate with a host's location); run "
                    "without --host-overflow, or install a driver from 580 on",
                    gpu_));
  }

  // An error leaves nothing mapped.
  absl::Status map_at(CUdeviceptr begin, std::span<const Chunk> chunks) {
    for (size_t i = 0; i < chunks.size(); ++i) {
      const CUresult code = driver_.map(begin + bytes_of(i), bytes_of(1), 0, chunks[i], 0);
      if (code == CUDA_SUCCESS) continue;
      unmap_at(begin, i);
      return driver_status(code, "mapping memory");
    }
    for (size_t i = 0, end = 0; i < chunks.size(); i = end) {  // neighbours of one kind
      while (end < chunks.size() && acquired_.at(chunks[end]) == acquired_.at(chunks[i])) ++end;
      const CUresult code = driver_.set_access(begin + bytes_of(i), bytes_of(end - i), access_.data(), access_.size());
      if (code == CUDA_SUCCESS) continue;
      unmap_at(begin, chunks.size());
      return driver_status(code, "making memory accessible");
    }
    return {};
  }

  void unmap_at(CUdeviceptr begin, size_t count) {
    if (count == 0 || driver_.unmap(begin, bytes_of(count)) == CUDA_SUCCESS) return;
    // A driver that takes mappings one at a time. That fails only after an error that has broken everything on the GPU;
    // whatever comes next reports it.
    for (size_t i = 0; i < count; ++i) (void)driver_.unmap(begin + bytes_of(i), bytes_of(1));
  }

  // Both have the content; after an error the one from before is there again. A driver that does not map again what was
  // mapped is broken; whatever comes next says so.
  absl::Status replace(int64_t slot, Chunk chunk) {
    unmap_at(at(slot), 1);
    absl::Status status = map_at(at(slot), std::span(&chunk, 1));
    if (!status.ok()) (void)map_at(at(slot), std::span(&mapped_.at(slot), 1));
    return status;
  }

  absl::Status copy_to_new(std::span<const Move> moves) {
    if (scratch_ == 0) {
      CUdeviceptr addresses = 0;
      SCALAI_RETURN_IF_ERROR(
          driver_status(driver_.reserve(&addresses, bytes_of(kMostMoves), 0, 0, 0), "reserving addresses"));
      scratch_ = addresses;
    }
    std::vector<Chunk> chunks;
    for (const Move& one : moves) chunks.push_back(one.to);
    SCALAI_RETURN_IF_ERROR(map_at(scratch_, chunks));
    absl::Status status;
    for (size_t i = 0; status.ok() && i < moves.size(); ++i) {
      status = stream_.copy(reinterpret_cast<void*>(scratch_ + bytes_of(i)),
                            reinterpret_cast<const void*>(at(moves[i].slot)), chunk_bytes_);
    }
    const absl::Status finished = stream_.synchronize();  // also after an error: nothing is mapped away under a copy
    unmap_at(scratch_, chunks.size());
    return status.ok() ? finished : status;
  }

  const int gpu_;
  const Driver driver_;
  const CUmemAllocationProp kind_;
  std::vector<CUmemAllocationProp> host_kinds_;  // the first is used; those that the driver refused are gone
  bool host_works_ = false;
  const int64_t chunk_bytes_;
  Stream stream_;
  std::shared_ptr<AddressMap> addresses_;
  std::vector<CUmemAccessDesc> access_;
  CUdeviceptr base_ = 0;
  int64_t bytes_ = 0;
  CUdeviceptr scratch_ = 0;  // addresses of chunks that are copied to; 0 before the first
  std::unordered_map<Chunk, Where> acquired_;
  std::unordered_map<int64_t, Chunk> mapped_;  // by slot
};
}  // namespace

absl::StatusOr<std::unique_ptr<ChunkSource>> make_cuda_chunks(int gpu, std::span<const int> reached_by,
                                                              std::shared_ptr<AddressMap> addresses,
                                                              int64_t memory_bytes) {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu));
  SCALAI_ASSIGN_OR_RETURN(const Driver driver, Driver::find());
  SCALAI_ASSIGN_OR_RETURN(const CUmemAllocationProp kind, kind_of_memory(driver, gpu));
  size_t granularity = 0;
  SCALAI_RETURN_IF_ERROR(
      driver_status(driver.granularity(&granularity, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "asking for chunks"));
  SCALAI_ASSIGN_OR_RETURN(Stream stream, Stream::create(gpu));
  constexpr int64_t kLeast = int64_t{2} << 20, kMost = int64_t{8} << 20, kShare = 512;
  const int64_t chunk_bytes =
      round_up(std::clamp(memory_bytes / kShare, kLeast, kMost) / kLeast * kLeast, static_cast<int64_t>(granularity));
  return std::make_unique<CudaChunks>(gpu, driver, kind, chunk_bytes, std::move(stream), reached_by,
                                      std::move(addresses));
}

}  // namespace scalai::executor::cuda
