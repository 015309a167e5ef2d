#include "executor/cuda/peer_memory.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ptc/base/status.h"

namespace scalai::executor::cuda {
namespace {

// cuda.h says so: of types and numbers that CUDA has kept since 10.2.
constexpr int kSuccess = 0;
constexpr int kOutOfMemory = 2;
constexpr int kPosixDescriptor = 1;   // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
constexpr int kOnDevice = 1;          // CU_MEM_LOCATION_TYPE_DEVICE
constexpr int kReadWrite = 3;         // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
constexpr int kKindOfMemory = 2;      // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr unsigned kMemoryOfGpu = 2;  // CU_MEMORYTYPE_DEVICE
struct Access {
  int location_type = kOnDevice;
  int location_id = 0;
  int flags = kReadWrite;
};
using Address = unsigned long long;
using Handle = unsigned long long;

}  // namespace

struct PeerMemory::Driver {
  int (*init)(unsigned) = nullptr;
  int (*get_device)(int*, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*release_context)(int) = nullptr;
  int (*push)(void*) = nullptr;
  int (*pop)(void**) = nullptr;
  int (*synchronize)() = nullptr;
  int (*import_handle)(Handle*, void*, int) = nullptr;
  int (*reserve)(Address*, size_t, size_t, Address, unsigned long long) = nullptr;
  int (*unreserve)(Address, size_t) = nullptr;
  int (*map)(Address, size_t, size_t, Handle, unsigned long long) = nullptr;
  int (*unmap)(Address, size_t) = nullptr;
  int (*set_access)(Address, size_t, const Access*, size_t) = nullptr;
  int (*release)(Handle) = nullptr;
  int (*attribute)(void*, int, Address) = nullptr;
  int (*error_string)(int, const char**) = nullptr;

  // Stays open: a driver cannot be unloaded.
  static absl::StatusOr<std::shared_ptr<const Driver>> open() {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      return missing(fmt::format("the state lies on a GPU, and this process finds no CUDA driver: {}", ::dlerror()));
    auto driver = std::make_shared<Driver>();
    std::string lacking;
    const auto find = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      if (function == nullptr) lacking += fmt::format("{}{}", lacking.empty() ? "" : ", ", name);
    };
    find("cuInit", driver->init);
    find("cuDeviceGet", driver->get_device);
    find("cuDevicePrimaryCtxRetain", driver->retain);
    find("cuDevicePrimaryCtxRelease_v2", driver->release_context);
    find("cuCtxPushCurrent_v2", driver->push);
    find("cuCtxPopCurrent_v2", driver->pop);
    find("cuCtxSynchronize", driver->synchronize);
    find("cuMemImportFromShareableHandle", driver->import_handle);
    find("cuMemAddressReserve", driver->reserve);
    find("cuMemAddressFree", driver->unreserve);
    find("cuMemMap", driver->map);
    find("cuMemUnmap", driver->unmap);
    find("cuMemSetAccess", driver->set_access);
    find("cuMemRelease", driver->release);
    find("cuPointerGetAttribute", driver->attribute);
    find("cuGetErrorString", driver->error_string);
    if (!lacking.empty())
      return missing(fmt::format("the CUDA driver of this machine is too old: it has no {}", lacking));
    SCALAI_RETURN_IF_ERROR(driver->status(driver->init(0), "starting CUDA"));
    return driver;
  }
  absl::Status status(int code, std::string_view doing) const {
    if (code == kSuccess) return absl::OkStatus();
    const char* text = nullptr;
    if (error_string(code, &text) != kSuccess || text == nullptr) text = "an error without a name";
    const std::string message = fmt::format("{}: {} (CUDA driver error {})", doing, text, code);
    return code == kOutOfMemory ? absl::ResourceExhaustedError(message) : failed(message);
  }
};

// The GPU's context is the calling thread's as long as this lives.
class PeerMemory::Current {
 public:
  Current(const Driver& driver, void* context) : driver_(driver), entered_(driver.push(context) == kSuccess) {}
  ~Current() {
    void* left = nullptr;
    if (entered_) (void)driver_.pop(&left);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
  const bool entered_;
};

PeerMemory::PeerMemory(std::shared_ptr<const Driver> driver, int gpu) : driver_(std::move(driver)), gpu_(gpu) {}

absl::StatusOr<std::unique_ptr<PeerMemory>> PeerMemory::reserve(int gpu, uint64_t begin, uint64_t end) {
  if (end <= begin) return invalid(fmt::format("no memory of GPU {}: [{}, {})", gpu, begin, end));
  SCALAI_ASSIGN_OR_RETURN(std::shared_ptr<const Driver> driver, Driver::open());
  std::unique_ptr<PeerMemory> memory(new PeerMemory(std::move(driver), gpu));
  const Driver& calls = *memory->driver_;
  int device = -1;
  SCALAI_RETURN_IF_ERROR(calls.status(calls.get_device(&device, gpu), fmt::format("looking for GPU {}", gpu)));
  SCALAI_RETURN_IF_ERROR(calls.status(calls.retain(&memory->context_, device), fmt::format("using GPU {}", gpu)));
  memory->device_ = device;
  const Current current(calls, memory->context_);
  Address base = 0;
  SCALAI_RETURN_IF_ERROR(calls.status(calls.reserve(&base, end - begin, 0, 0, 0), "reserving addresses"));
  memory->base_ = base;
  memory->begin_ = begin;
  memory->end_ = end;
  return memory;
}

PeerMemory::~PeerMemory() {
  if (device_ < 0) return;
  {
    const Current current(*driver_, context_);
    (void)driver_->synchronize();  // work under way uses the memory
    for (const Part& part : parts_) {
      (void)driver_->unmap(base_ + (part.offset - begin_), part.end - part.offset);
      (void)driver_->release(part.handle);
    }
    if (base_ != 0) (void)driver_->unreserve(base_, end_ - begin_);
  }
  (void)driver_->release_context(device_);
}

std::vector<PeerMemory::Part>::const_iterator PeerMemory::first_beyond(uint64_t offset) const {
  return std::upper_bound(parts_.begin(), parts_.end(), offset,
                          [](uint64_t place, const Part& part) { return place < part.end; });
}

absl::Status PeerMemory::map(uint64_t offset, int64_t bytes, int descriptor) {
  const uint64_t end = offset + static_cast<uint64_t>(bytes);
  const auto next = first_beyond(offset);
  if (bytes <= 0 || offset < begin_ || offset >= end_ || static_cast<uint64_t>(bytes) > end_ - offset ||
      (next != parts_.end() && next->offset < end))
    return invalid(fmt::format("a part [{}, {}) does not fit into memory of GPU {}", offset, end, gpu_));
  const Current current(*driver_, context_);
  Part part{.offset = offset, .end = end};
  SCALAI_RETURN_IF_ERROR(
      driver_->status(driver_->import_handle(&part.handle, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)),
                                             kPosixDescriptor),
                      "taking over memory of the worker"));
  const Address at = base_ + (offset - begin_);
  const size_t size = end - offset;
  absl::Status status = driver_->status(driver_->map(at, size, 0, part.handle, 0), "mapping memory of the worker");
  if (status.ok()) {
    const Access access{.location_id = device_};
    status = driver_->status(driver_->set_access(at, size, &access, 1), "making memory of the worker accessible");
    if (!status.ok()) (void)driver_->unmap(at, size);
  }
  if (!status.ok()) {
    (void)driver_->release(part.handle);
    return status;
  }
  unsigned kind = kMemoryOfGpu;
  if (driver_->attribute(&kind, kKindOfMemory, at) == kSuccess) on_gpu_ = kind == kMemoryOfGpu;
  parts_.insert(next, part);
  return absl::OkStatus();
}

absl::StatusOr<std::byte*> PeerMemory::data(uint64_t offset, int64_t bytes) const {
  const uint64_t end = offset + static_cast<uint64_t>(bytes);
  uint64_t covered = offset;
  for (auto part = first_beyond(offset); part != parts_.end() && part->offset <= covered; ++part) covered = part->end;
  if (bytes <= 0 || covered < end)
    return invalid(fmt::format("[{}, {}) of the worker's memory on GPU {} is not mapped", offset, end, gpu_));
  return reinterpret_cast<std::byte*>(base_ + (offset - begin_));
}

}  // namespace scalai::executor::cuda
