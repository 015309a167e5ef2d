#pragma once
// What there is of GPUs, for people: `scalai doctor` prints it. Asks the driver; changes nothing and takes no memory.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::executor::cuda {

struct GpuInfo {
  int index = 0;
  std::string name;     // "NVIDIA H200"
  std::string pci_bus;  // "0000:1b:00.0"
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;  // 0 where it cannot be asked
  int capability_major = 0;
  int capability_minor = 0;
  int multiprocessors = 0;
  double clock_hz = 0;  // the highest of the processors, and of the memory
  double memory_clock_hz = 0;
  bool ecc = false;
  bool virtual_memory = false;  // what the CUDA back end needs
};

struct GpuLink {
  bool reaches = false;  // kernels of the one read and write memory of the other
  bool atomics = false;
  // "NVLink", or "peer access" where nobody says what it runs over; "-" for none, and for a GPU and itself.
  std::string kind = "-";
};

struct GpuReport {
  std::string driver;        // "580.65.06"; empty: not known
  std::string driver_cuda;   // the CUDA version that the driver has: "13.0"
  std::string runtime_cuda;  // and that this was built with
  std::vector<GpuInfo> gpus;
  std::vector<std::vector<GpuLink>> links;  // [from][to]
};

// NotFound: no driver, no GPU, or built without CUDA; the message says which and what to do.
absl::StatusOr<GpuReport> gpu_report();

// One line a GPU, and a matrix of links where there are several; each line ends in a newline.
std::string text_of(const GpuReport& report);

}  // namespace scalai::executor::cuda
