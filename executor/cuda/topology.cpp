#include "executor/cuda/topology.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "executor/cuda/internal/cuda_status.h"
#include "executor/cuda/runtime.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {
namespace {
using internal::cuda_status;

// NVIDIA's management library, where it is installed: it knows the driver's version, and NVLink from PCI Express.
class Nvml {
 public:
  Nvml() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const auto init = find<int (*)()>("nvmlInit_v2");
    ready_ = init != nullptr && init() == kOk;
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() {
    if (ready_) {
      if (const auto shutdown = find<int (*)()>("nvmlShutdown")) (void)shutdown();
    }
    if (library_ != nullptr) ::dlclose(library_);
  }

  std::string driver_version() const {
    const auto ask = find<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
    std::array<char, 96> text{};
    if (!ready_ || ask == nullptr || ask(text.data(), static_cast<unsigned>(text.size() - 1)) != kOk) return {};
    return text.data();
  }
  bool nvlink(const std::string& bus_a, const std::string& bus_b) const {
    const auto ask = find<int (*)(void*, void*, int, int*)>("nvmlDeviceGetP2PStatus");
    void* a = device(bus_a);
    void* b = device(bus_b);
    int status = -1;
    constexpr int kNvlink = 2;  // NVML_P2P_CAPS_INDEX_NVLINK
    return ask != nullptr && a != nullptr && b != nullptr && ask(a, b, kNvlink, &status) == kOk && status == 0;
  }

 private:
  static constexpr int kOk = 0;
  template <class Function>
  Function find(const char* name) const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(library_, name));
  }
  void* device(const std::string& bus) const {
    const auto ask = find<int (*)(const char*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    void* handle = nullptr;
    return ready_ && ask != nullptr && ask(bus.c_str(), &handle) == kOk ? handle : nullptr;
  }

  void* library_ = nullptr;
  bool ready_ = false;
};

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// 0 where the driver does not say.
int attribute_or_zero(cudaDeviceAttr which, int gpu) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, gpu) == cudaSuccess) return value;
  (void)cudaGetLastError();
  return 0;
}

int pair_attribute(cudaDeviceP2PAttr which, int from, int to) {
  int value = 0;
  if (cudaDeviceGetP2PAttribute(&value, which, from, to) == cudaSuccess) return value;
  (void)cudaGetLastError();
  return 0;
}

bool virtual_memory(int gpu) {
  PFN_cuDeviceGetAttribute_v2000 ask = nullptr;
  int supported = 0;
  return internal::find_driver_function("cuDeviceGetAttribute", 2000, ask).ok() &&
         ask(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, gpu) == CUDA_SUCCESS &&
         supported != 0;
}

absl::StatusOr<GpuInfo> info_of(int gpu) {
  cudaDeviceProp properties;
  SCALAI_RETURN_IF_ERROR(cuda_status(cudaGetDeviceProperties(&properties, gpu), fmt::format("asking for GPU {}", gpu)));
  GpuInfo info;
  info.index = gpu;
  info.name = properties.name;
  info.pci_bus =
      fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID);
  info.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  // A GPU that another process has to itself says nothing.
  if (const absl::StatusOr<GpuBytes> bytes = gpu_bytes(gpu); bytes.ok()) info.free_bytes = bytes->free;
  info.capability_major = properties.major;
  info.capability_minor = properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  info.clock_hz = 1e3 * attribute_or_zero(cudaDevAttrClockRate, gpu);
  info.memory_clock_hz = 1e3 * attribute_or_zero(cudaDevAttrMemoryClockRate, gpu);
  info.ecc = properties.ECCEnabled != 0;
  info.virtual_memory = virtual_memory(gpu);
  return info;
}

GpuLink link_of(const Nvml& nvml, const GpuInfo& from, const GpuInfo& to) {
  GpuLink link;
  if (from.index == to.index) return link;
  link.reaches = pair_attribute(cudaDevP2PAttrAccessSupported, from.index, to.index) != 0;
  link.atomics = pair_attribute(cudaDevP2PAttrNativeAtomicSupported, from.index, to.index) != 0;
  if (nvml.nvlink(from.pci_bus, to.pci_bus)) {
    link.kind = "NVLink";
  } else if (link.reaches) {
    link.kind = "peer access";
  }
  return link;
}
}  // namespace

absl::StatusOr<GpuReport> gpu_report() {
  SCALAI_ASSIGN_OR_RETURN(const int count, gpu_count());
  int driver = 0;
  int runtime = 0;
  SCALAI_RETURN_IF_ERROR(cuda_status(cudaDriverGetVersion(&driver), "asking for the driver's version"));
  SCALAI_RETURN_IF_ERROR(cuda_status(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version"));
  const Nvml nvml;
  GpuReport report;
  report.driver = nvml.driver_version();
  report.driver_cuda = version_text(driver);
  report.runtime_cuda = version_text(runtime);
  for (int gpu = 0; gpu < count; ++gpu) {
    SCALAI_ASSIGN_OR_RETURN(GpuInfo info, info_of(gpu));
    report.gpus.push_back(std::move(info));
  }
  for (const GpuInfo& from : report.gpus) {
    report.links.emplace_back();
    for (const GpuInfo& to : report.gpus) report.links.back().push_back(link_of(nvml, from, to));
  }
  return report;
}

}  // namespace scalai::executor::cuda
