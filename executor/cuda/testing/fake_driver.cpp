// A stand-in for libcuda.so.1: what PeerMemory asks of it, for "GPUs" whose memory is files in host memory. A handle is
// a descriptor of such a file, and so is what another process gives of it. Says that the memory is the host's.
//
//   $SCALAI_TEST_DRIVER     full: nothing can be mapped

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#define SCALAI_EXPORT extern "C" __attribute__((visibility("default")))

namespace {
constexpr int kGpus = 8;
constexpr int kSuccess = 0, kInvalid = 1, kOutOfMemory = 2, kNoDevice = 101;
constexpr unsigned kHost = 1;
using Address = unsigned long long;
using Handle = unsigned long long;
thread_local int depth = 0;  // of contexts
int retained = 0;

void* at(Address address) { return reinterpret_cast<void*>(address); }
bool full() {
  const char* const said = std::getenv("SCALAI_TEST_DRIVER");
  return said != nullptr && std::strcmp(said, "full") == 0;
}
}  // namespace

SCALAI_EXPORT int cuInit(unsigned) { return kSuccess; }
SCALAI_EXPORT int cuDeviceGet(int* device, int gpu) {
  *device = gpu;
  return gpu >= 0 && gpu < kGpus ? kSuccess : kNoDevice;
}
SCALAI_EXPORT int cuDevicePrimaryCtxRetain(void** context, int) {
  ++retained;
  *context = &retained;
  return kSuccess;
}
SCALAI_EXPORT int cuDevicePrimaryCtxRelease_v2(int) { return --retained < 0 ? kInvalid : kSuccess; }
SCALAI_EXPORT int cuCtxPushCurrent_v2(void* context) { return context == &retained ? (++depth, kSuccess) : kInvalid; }
SCALAI_EXPORT int cuCtxPopCurrent_v2(void** context) {
  *context = &retained;
  return --depth < 0 ? kInvalid : kSuccess;
}
SCALAI_EXPORT int cuCtxSynchronize() { return depth > 0 ? kSuccess : kInvalid; }

SCALAI_EXPORT int cuMemImportFromShareableHandle(Handle* handle, void* descriptor, int kind) {
  if (depth == 0 || kind != 1) return kInvalid;
  const int own = ::dup(static_cast<int>(reinterpret_cast<intptr_t>(descriptor)));
  *handle = static_cast<Handle>(own);
  return own < 0 ? kInvalid : kSuccess;
}
SCALAI_EXPORT int cuMemAddressReserve(Address* address, size_t bytes, size_t, Address, unsigned long long) {
  void* const base = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *address = reinterpret_cast<Address>(base);
  return base == MAP_FAILED ? kOutOfMemory : kSuccess;
}
SCALAI_EXPORT int cuMemAddressFree(Address address, size_t bytes) {
  return ::munmap(at(address), bytes) == 0 ? kSuccess : kInvalid;
}
SCALAI_EXPORT int cuMemMap(Address address, size_t bytes, size_t, Handle handle, unsigned long long) {
  if (full()) return kOutOfMemory;
  void* const mapped = ::mmap(at(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, static_cast<int>(handle), 0);
  return mapped == at(address) ? kSuccess : kInvalid;
}
SCALAI_EXPORT int cuMemUnmap(Address address, size_t bytes) {
  void* const gone =
      ::mmap(at(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return gone == at(address) ? kSuccess : kInvalid;
}
SCALAI_EXPORT int cuMemSetAccess(Address address, size_t bytes, const void*, size_t count) {
  return count == 1 && ::mprotect(at(address), bytes, PROT_READ | PROT_WRITE) == 0 ? kSuccess : kInvalid;
}
SCALAI_EXPORT int cuMemRelease(Handle handle) { return ::close(static_cast<int>(handle)) == 0 ? kSuccess : kInvalid; }
SCALAI_EXPORT int cuPointerGetAttribute(void* value, int which, Address) {
  if (which != 2) return kInvalid;
  *static_cast<unsigned*>(value) = kHost;
  return kSuccess;
}
SCALAI_EXPORT int cuGetErrorString(int code, const char** text) {
  *text = code == kOutOfMemory ? "out of memory" : code == kNoDevice ? "no such device" : "an error of the stand-in";
  return kSuccess;
}
