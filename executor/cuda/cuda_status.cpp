#include "executor/cuda/internal/cuda_status.h"

#include <cudaTypedefs.h>
#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::executor::cuda::internal {
namespace {
// "GPU 0"; nothing can be said where there is no driver.
std::string current_gpu() {
  int gpu = 0;
  return cudaGetDevice(&gpu) == cudaSuccess ? fmt::format("GPU {}", gpu) : "CUDA";
}

std::string place(SourceLocation where) {
  std::string_view file = where.file_name();
  if (const size_t slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return fmt::format("{}:{}", file, where.line());
}

absl::Status out_of_memory(const std::string& what) {
  size_t free_bytes = 0;
  size_t total = 0;
  std::string numbers = "its memory cannot be asked about";
  if (cudaMemGetInfo(&free_bytes, &total) == cudaSuccess) {
    numbers = fmt::format("{} of {} are free", format_bytes(static_cast<int64_t>(free_bytes)),
                          format_bytes(static_cast<int64_t>(total)));
  }
  return absl::ResourceExhaustedError(fmt::format(
      "{}; {}; use fewer devices on it (--devices-per-gpu), a smaller model or a memory limit in the cluster file",
      what, numbers));
}

// What to do where CUDA cannot be used at all; null: it can.
const char* remedy_of(cudaError_t code) {
  switch (code) {
    case cudaErrorNoDevice: return "no GPU is visible here: see nvidia-smi and CUDA_VISIBLE_DEVICES";
    case cudaErrorInvalidDevice: return "there are fewer GPUs than that: see nvidia-smi and CUDA_VISIBLE_DEVICES";
    case cudaErrorInsufficientDriver:
      return "there is no NVIDIA driver, or it is older than this binary's CUDA: install one from 580 on";
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorStubLibrary: return "the NVIDIA driver does not fit: install one from 580 on";
    case cudaErrorSystemNotReady: return "the GPU's services are not running (nvidia-fabricmanager?)";
    case cudaErrorDevicesUnavailable: return "another process has the GPU to itself (see nvidia-smi, compute mode)";
    case cudaErrorNoKernelImageForDevice: return "this binary has no code for the GPU: it needs compute capability 8.0";
    default: return nullptr;
  }
}
}  // namespace

absl::Status cuda_status(cudaError_t code, std::string_view doing, SourceLocation where) {
  if (code == cudaSuccess) return {};
  (void)cudaGetLastError();
  const std::string what =
      fmt::format("{}: {} ({}, {})", doing, cudaGetErrorString(code), cudaGetErrorName(code), place(where));
  if (const char* remedy = remedy_of(code)) return missing(fmt::format("{}; {}", what, remedy));
  const std::string there = fmt::format("{}: {}", current_gpu(), what);
  return code == cudaErrorMemoryAllocation ? out_of_memory(there) : failed(there);
}

absl::Status driver_status(CUresult code, std::string_view doing, SourceLocation where) {
  if (code == CUDA_SUCCESS) return {};
  if (code == CUDA_ERROR_OUT_OF_MEMORY) return cuda_status(cudaErrorMemoryAllocation, doing, where);
  PFN_cuGetErrorName_v6000 name_of = nullptr;
  const char* name = nullptr;
  if (find_driver_function("cuGetErrorName", 6000, name_of).ok()) (void)name_of(code, &name);
  return failed(fmt::format("{}: {}: {} ({}, {})", current_gpu(), doing, name == nullptr ? "driver error" : name,
                            static_cast<int>(code), place(where)));
}

absl::Status find_driver_symbol(const char* name, unsigned cuda_version, void** function) {
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t code = cudaGetDriverEntryPointByVersion(name, function, cuda_version, cudaEnableDefault, &found);
  SCALAI_RETURN_IF_ERROR(cuda_status(code, fmt::format("looking for {} in the driver", name)));
  if (found == cudaDriverEntryPointSuccess && *function != nullptr) return {};
  return missing(fmt::format("the NVIDIA driver has no {}: install one from 580 on", name));
}

}  // namespace scalai::executor::cuda::internal
