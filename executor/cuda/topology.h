#pragma once
// GPUs and their links, for people (`scalai doctor`). Queries the driver; changes nothing and allocates nothing. Any
// thread.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::executor::cuda {

struct GpuInfo {
  int index = 0;
  std::string name;     // "NVIDIA H200"
  std::string pci_bus;  // "0000:1b:00.0"
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;  // 0 if unknown
  int capability_major = 0;
  int capability_minor = 0;
  int multiprocessors = 0;
  double clock_hz = 0;  // highest clocks of the processors and of the memory
  double memory_clock_hz = 0;
  bool ecc = false;
  bool virtual_memory = false;  // required by the CUDA back end
};

struct GpuLink {
  bool reaches = false;  // kernels of one GPU can access the memory of the other
  bool atomics = false;
  // "NVLink", or "peer access" if its medium is unknown; "-" for none, and for a GPU and itself.
  std::string kind = "-";
};

struct GpuReport {
  std::string driver;        // "580.65.06"; empty: unknown
  std::string driver_cuda;   // CUDA version of the driver: "13.0"
  std::string runtime_cuda;  // CUDA version of this build
  std::vector<GpuInfo> gpus;
  std::vector<std::vector<GpuLink>> links;  // [from][to]
};

// NotFound: no driver, no GPU, or built without CUDA; the message says which and what to do.
absl::StatusOr<GpuReport> gpu_report();

// One line per GPU, and a matrix of links if there are several; each line ends in a newline.
std::string text_of(const GpuReport& report);

}  // namespace scalai::executor::cuda
