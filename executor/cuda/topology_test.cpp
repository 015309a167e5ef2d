#include "executor/cuda/topology.h"

#include <gtest/gtest.h>

#include "executor/cuda/cuda_backend.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {
namespace {

GpuInfo h200(int index) {
  return {.index = index,
          .name = "NVIDIA H200",
          .pci_bus = "0000:1b:00.0",
          .memory_bytes = 150000000000,
          .free_bytes = 149000000000,
          .capability_major = 9,
          .capability_minor = 0,
          .multiprocessors = 132,
          .clock_hz = 1980e6,
          .memory_clock_hz = 3201e6,
          .ecc = true,
          .virtual_memory = true};
}

TEST(Topology, TextOfOneGpu) {
  const GpuReport report = {"580.65.06", "13.0", "13.0", {h200(0)}, {{{}}}};
  EXPECT_EQ(
      text_of(report),
      "driver 580.65.06 (CUDA 13.0), runtime CUDA 13.0\n"
      "  0  NVIDIA H200, 150 GB (149 GB free), compute 9.0, 132 SMs, 1980 MHz, memory 3201 MHz, 0000:1b:00.0, ECC\n");
}

TEST(Topology, TextOfLinks) {
  GpuReport report = {"", "12.8", "13.0", {h200(0), h200(1), h200(2)}, {}};
  report.gpus[1].virtual_memory = false;
  const GpuLink none;
  const GpuLink nvlink{true, true, "NVLink"};
  const GpuLink peer{true, false, "peer access"};
  report.links = {{none, nvlink, peer}, {nvlink, none, none}, {peer, none, none}};
  const std::string text = text_of(report);
  EXPECT_NE(text.find("driver of unknown version (CUDA 12.8)"), std::string::npos);
  EXPECT_NE(text.find("ECC, no virtual memory management\n"), std::string::npos);
  EXPECT_NE(text.find("\n  to   0            1            2\n"
                      "  0    -            NVLink       peer access\n"
                      "  1    NVLink       -            -\n"
                      "  2    peer access  -            -\n"),
            std::string::npos)
      << text;
}

// Wherever GPUs cannot be used, both say why, and what to do.
TEST(Topology, WithoutAGpuTheReasonIsTold) {
  const absl::StatusOr<GpuReport> report = gpu_report();
  if (report.ok()) GTEST_SKIP() << "there is a GPU: " << report->gpus.front().name;
  EXPECT_EQ(report.status().code(), absl::StatusCode::kNotFound) << report.status();
  EXPECT_GT(message_of(report.status()).size(), 40u);
  const absl::Status made = make_cuda_backend({}).status();
  EXPECT_EQ(made.code(), absl::StatusCode::kNotFound) << made;
  EXPECT_EQ(exit_code_of(made), 4);
}

}  // namespace
}  // namespace scalai::executor::cuda
