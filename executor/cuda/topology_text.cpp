#include <fmt/format.h>

#include <algorithm>

#include "executor/cuda/topology.h"
#include "ptc/base/units.h"

namespace scalai::executor::cuda {
namespace {
std::string line_of(const GpuInfo& gpu) {
  return fmt::format("  {}  {}, {} ({} free), compute {}.{}, {} SMs, {:.0f} MHz, memory {:.0f} MHz, {}{}{}\n",
                     gpu.index, gpu.name, format_bytes(gpu.memory_bytes), format_bytes(gpu.free_bytes),
                     gpu.capability_major, gpu.capability_minor, gpu.multiprocessors, gpu.clock_hz / 1e6,
                     gpu.memory_clock_hz / 1e6, gpu.pci_bus, gpu.ecc ? ", ECC" : "",
                     gpu.virtual_memory ? "" : ", no virtual memory management");
}

std::string matrix_of(const GpuReport& report) {
  size_t width = 0;
  for (const auto& row : report.links) {
    for (const GpuLink& link : row) width = std::max(width, link.kind.size());
  }
  std::string text = "  to ";
  for (size_t to = 0; to < report.links.size(); ++to) text += fmt::format("  {:<{}}", to, width);
  for (size_t from = 0; from < report.links.size(); ++from) {
    text += fmt::format("\n  {:<3}", from);
    for (const GpuLink& link : report.links[from]) text += fmt::format("  {:<{}}", link.kind, width);
  }
  std::string trimmed;
  for (const char c : text + "\n") {
    if (c == '\n') trimmed.erase(trimmed.find_last_not_of(' ') + 1);
    trimmed += c;
  }
  return trimmed;
}
}  // namespace

std::string text_of(const GpuReport& report) {
  std::string text = fmt::format("driver {} (CUDA {}), runtime CUDA {}\n",
                                 report.driver.empty() ? "of unknown version" : report.driver, report.driver_cuda,
                                 report.runtime_cuda);
  for (const GpuInfo& gpu : report.gpus) text += line_of(gpu);
  if (report.gpus.size() > 1) text += matrix_of(report);
  return text;
}

}  // namespace scalai::executor::cuda
