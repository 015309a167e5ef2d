#include "ptc/plan/catalogue.h"

namespace scalai::plan {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kGB = 1'000'000'000;
constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
// PCIe x16 per direction, as the data sheets round it.
constexpr double kPcie3 = 16e9;
constexpr double kPcie4 = 32e9;
constexpr double kPcie5 = 64e9;

// A GpuKind and where its constants are published.
struct GpuRow {
  std::string_view name;
  int64_t memory_bytes = 0;
  double peak_flops = 0;
  double memory_bandwidth_bytes_per_s = 0;
  double link_bytes_per_s = 0;
  double pcie_bytes_per_s = 0;
  double peak_flops_fp8 = 0;
  double peak_flops_tf32 = 0;
  double peak_flops_fp32 = 0;
  double power_w = 0;
  int multiprocessors = 0;
  bool in_switch_reduction = false;
  double matrix_efficiency = 0, matrix_efficiency_fp8 = 0, memory_efficiency = 0;
  double link_efficiency = 0, network_efficiency = 0;
  std::string_view source;
};

// Peaks are dense rates (half of a figure quoted "with sparsity"); a `peak_flops` is of 16-bit inputs added up in fp32
// where the sheet tells them apart. Link figures are quoted for both directions together, so half of them counts here.
// Cards without NVLink switches or bridges between all of them reach their peers over PCIe. (RTX A6000 has its bridge's
// rate, which joins pairs: results were published with it. Cluster files of larger hosts give gpu_link.) Memory: HBM kinds have the
// sheet's number of GiB, less what drivers show as missing (H200 143,771 MiB, B200 183,359 MiB, H20 97,871 MiB, H100
// NVL 95,830 MiB); GDDR kinds with ECC on have what is left of theirs, the sheet's number of 10^9 bytes.
constexpr GpuRow kGpus[] = {
    {.name = "k80-12g",
     .memory_bytes = 12 * kGB,
     .peak_flops = 4.37 * kTera,
     .memory_bandwidth_bytes_per_s = 240 * kGiga,
     .link_bytes_per_s = kPcie3,
     .pcie_bytes_per_s = kPcie3,
     .peak_flops_fp32 = 4.37 * kTera,
     .power_w = 150,
     .multiprocessors = 13,
     .source =
         "NVIDIA Tesla K80 data sheet, one of its two GK210: 8.74 TFLOPS fp32 with boost, 480 GB/s, 300 W for both; no "
         "faster 16-bit rate"},
    {.name = "p100-16g",
     .memory_bytes = 16 * kGiB,
     .peak_flops = 21.2 * kTera,
     .memory_bandwidth_bytes_per_s = 732 * kGiga,
     .link_bytes_per_s = 80 * kGiga,
     .pcie_bytes_per_s = kPcie3,
     .peak_flops_fp32 = 10.6 * kTera,
     .power_w = 300,
     .multiprocessors = 56,
     .source = "NVIDIA Tesla P100 data sheet, SXM2: 21.2 TFLOPS half precision, NVLink 160 GB/s"},
    {.name = "v100-16g",
     .memory_bytes = 16 * kGiB,
     .peak_flops = 125 * kTera,
     .memory_bandwidth_bytes_per_s = 900 * kGiga,
     .link_bytes_per_s = 150 * kGiga,
     .pcie_bytes_per_s = kPcie3,
     .peak_flops_fp32 = 15.7 * kTera,
     .power_w = 300,
     .multiprocessors = 80,
     .source = "NVIDIA V100 data sheet, SXM2: 125 TFLOPS tensor, NVLink 300 GB/s"},
    {.name = "v100-32g",
     .memory_bytes = 32 * kGiB,
     .peak_flops = 125 * kTera,
     .memory_bandwidth_bytes_per_s = 900 * kGiga,
     .link_bytes_per_s = 150 * kGiga,
     .pcie_bytes_per_s = kPcie3,
     .peak_flops_fp32 = 15.7 * kTera,
     .power_w = 300,
     .multiprocessors = 80,
     .source = "NVIDIA V100 data sheet, SXM2 with 32 GB"},
    {.name = "v100-pcie-16g",
     .memory_bytes = 16 * kGiB,
     .peak_flops = 112 * kTera,
     .memory_bandwidth_bytes_per_s = 900 * kGiga,
     .link_bytes_per_s = kPcie3,
     .pcie_bytes_per_s = kPcie3,
     .peak_flops_fp32 = 14 * kTera,
     .power_w = 250,
     .multiprocessors = 80,
     .source = "NVIDIA V100 data sheet, PCIe: 112 TFLOPS tensor"},
    {.name = "t4-16g",
     .memory_bytes = 16 * kGB,
     .peak_flops = 65 * kTera,
     .memory_bandwidth_bytes_per_s = 320 * kGiga,
     .link_bytes_per_s = kPcie3,
     .pcie_bytes_per_s = kPcie3,
     .peak_flops_fp32 = 8.1 * kTera,
     .power_w = 70,
     .multiprocessors = 40,
     .source = "NVIDIA T4 data sheet: 65 TFLOPS mixed precision, 320 GB/s"},
    {.name = "l4-24g",
     .memory_bytes = 24 * kGB,
     .peak_flops = 121 * kTera,
     .memory_bandwidth_bytes_per_s = 300 * kGiga,
     .link_bytes_per_s = kPcie4,
     .pcie_bytes_per_s = kPcie4,
     .peak_flops_fp8 = 242.5 * kTera,
     .peak_flops_tf32 = 60 * kTera,
     .peak_flops_fp32 = 30.3 * kTera,
     .power_w = 72,
     .multiprocessors = 58,
     .source = "NVIDIA L4 data sheet: with sparsity 242 TFLOPS of 16 bits, 485 of FP8, 120 of TF32"},
    {.name = "a6000-48g",
     .memory_bytes = 48 * kGiB,
     .peak_flops = 154.8 * kTera,
     .memory_bandwidth_bytes_per_s = 768 * kGiga,
     .link_bytes_per_s = 56.25 * kGiga,
     .pcie_bytes_per_s = kPcie4,
     .peak_flops_tf32 = 77.4 * kTera,
     .peak_flops_fp32 = 38.7 * kTera,
     .power_w = 300,
     .multiprocessors = 84,
     .source =
         "NVIDIA RTX A6000 data sheet: 309.7 TFLOPS with sparsity; NVLink bridge between two cards 112.5 GB/s, right "
         "for hosts of two alone (others: gpu_link); ECC is off unless asked for"},
    {.name = "a10g-24g",
     .memory_bytes = 24 * kGB,
     .peak_flops = 70 * kTera,
     .memory_bandwidth_bytes_per_s = 600 * kGiga,
     .link_bytes_per_s = kPcie4,
     .pcie_bytes_per_s = kPcie4,
     .peak_flops_tf32 = 35 * kTera,
     .peak_flops_fp32 = 35 * kTera,
     .power_w = 300,
     .multiprocessors = 80,
     .source = "NVIDIA A10G data sheet for AWS (2022): 70 TFLOPS of 16 bits and 35 of TF32 without sparsity"},
    {.name = "l40s-48g",
     .memory_bytes = 48 * kGB,
     .peak_flops = 362.05 * kTera,
     .memory_bandwidth_bytes_per_s = 864 * kGiga,
     .link_bytes_per_s = kPcie4,
     .pcie_bytes_per_s = kPcie4,
     .peak_flops_fp8 = 733 * kTera,
     .peak_flops_tf32 = 183 * kTera,
     .peak_flops_fp32 = 91.6 * kTera,
     .power_w = 350,
     .multiprocessors = 142,
     .source = "NVIDIA L40S data sheet: 362.05 TFLOPS of 16 bits, 733 of FP8, 183 of TF32 without sparsity"},
    {.name = "rtx4090-24g",
     .memory_bytes = 24 * kGiB,
     .peak_flops = 165.2 * kTera,
     .memory_bandwidth_bytes_per_s = 1008 * kGiga,
     .link_bytes_per_s = kPcie4,
     .pcie_bytes_per_s = kPcie4,
     .peak_flops_fp8 = 330.3 * kTera,
     .peak_flops_tf32 = 82.6 * kTera,
     .peak_flops_fp32 = 82.6 * kTera,
     .power_w = 450,
     .multiprocessors = 128,
     .source =
         "NVIDIA Ada GPU architecture white paper, RTX 4090 with fp32 accumulation: 165.2 TFLOPS of 16 bits, 330.3 of "
         "FP8"},
    {.name = "a100-40g",
     .memory_bytes = 40 * kGiB,
     .peak_flops = 312 * kTera,
     .memory_bandwidth_bytes_per_s = 1555 * kGiga,
     .link_bytes_per_s = 300 * kGiga,
     .pcie_bytes_per_s = kPcie4,
     .peak_flops_tf32 = 156 * kTera,
     .peak_flops_fp32 = 19.5 * kTera,
     .power_w = 400,
     .multiprocessors = 108,
     .matrix_efficiency = 0.76,
     .link_efficiency = 0.778,
     .source = "NVIDIA A100 data sheet, SXM4: 312 TFLOPS of 16 bits, 156 of TF32, NVLink 600 GB/s"},
    {.name = "a100-80g",
     .memory_bytes = 80 * kGiB,
     .peak_flops = 312 * kTera,
     .memory_bandwidth_bytes_per_s = 2039 * kGiga,
     .link_bytes_per_s = 300 * kGiga,
     .pcie_bytes_per_s = kPcie4,
     .peak_flops_tf32 = 156 * kTera,
     .peak_flops_fp32 = 19.5 * kTera,
     .power_w = 400,
     .multiprocessors = 108,
     .matrix_efficiency = 0.76,
     .link_efficiency = 0.778,
     .source = "NVIDIA A100 data sheet, SXM4 with 80 GB"},
    {.name = "a100-pcie-40g",
     .memory_bytes = 40 * kGiB,
     .peak_flops = 312 * kTera,
     .memory_bandwidth_bytes_per_s = 1555 * kGiga,
     .link_bytes_per_s = kPcie4,
     .pcie_bytes_per_s = kPcie4,
     .peak_flops_tf32 = 156 * kTera,
     .peak_flops_fp32 = 19.5 * kTera,
     .power_w = 250,
     .multiprocessors = 108,
     .source = "NVIDIA A100 data sheet, PCIe; bridges join pairs only and do not count"},
    {.name = "a100-pcie-80g",
     .memory_bytes = 80 * kGiB,
     .peak_flops = 312 * kTera,
     .memory_bandwidth_bytes_per_s = 1935 * kGiga,
     .link_bytes_per_s = kPcie4,
     .pcie_bytes_per_s = kPcie4,
     .peak_flops_tf32 = 156 * kTera,
     .peak_flops_fp32 = 19.5 * kTera,
     .power_w = 300,
     .multiprocessors = 108,
     .source = "NVIDIA A100 data sheet, PCIe with 80 GB; bridges join pairs only and do not count"},
    {.name = "h100-80g",
     .memory_bytes = 80 * kGiB,
     .peak_flops = 989.5 * kTera,
     .memory_bandwidth_bytes_per_s = 3350 * kGiga,
     .link_bytes_per_s = 450 * kGiga,
     .pcie_bytes_per_s = kPcie5,
     .peak_flops_fp8 = 1979 * kTera,
     .peak_flops_tf32 = 494.5 * kTera,
     .peak_flops_fp32 = 67 * kTera,
     .power_w = 700,
     .multiprocessors = 132,
     .in_switch_reduction = true,
     .matrix_efficiency = 0.57,
     .matrix_efficiency_fp8 = 0.56,
     .link_efficiency = 0.822,
     .source =
         "NVIDIA H100 data sheet, SXM5: with sparsity 1,979 TFLOPS of 16 bits, 3,958 of FP8, 989 of TF32; NVLink 900 "
         "GB/s"},
    {.name = "h100-pcie-80g",
     .memory_bytes = 80 * kGiB,
     .peak_flops = 756.5 * kTera,
     .memory_bandwidth_bytes_per_s = 2000 * kGiga,
     .link_bytes_per_s = kPcie5,
     .pcie_bytes_per_s = kPcie5,
     .peak_flops_fp8 = 1513 * kTera,
     .peak_flops_tf32 = 378 * kTera,
     .peak_flops_fp32 = 51 * kTera,
     .power_w = 350,
     .multiprocessors = 114,
     .source = "NVIDIA H100 data sheet, PCIe: with sparsity 1,513 TFLOPS of 16 bits; bridges join pairs only and do "
               "not count"},
    {.name = "h100-nvl-94g",
     .memory_bytes = 93 * kGiB,
     .peak_flops = 835.5 * kTera,
     .memory_bandwidth_bytes_per_s = 3900 * kGiga,
     .link_bytes_per_s = kPcie5,
     .pcie_bytes_per_s = kPcie5,
     .peak_flops_fp8 = 1670.5 * kTera,
     .peak_flops_tf32 = 417.5 * kTera,
     .peak_flops_fp32 = 60 * kTera,
     .power_w = 400,
     .multiprocessors = 132,
     .source =
         "NVIDIA H100 data sheet, NVL: with sparsity 1,671 TFLOPS of 16 bits, 3,341 of FP8, 835 of TF32; bridges join "
         "pairs "
         "only and do not count"},
    {.name = "h800-80g",
     .memory_bytes = 80 * kGiB,
     .peak_flops = 989.5 * kTera,
     .memory_bandwidth_bytes_per_s = 3350 * kGiga,
     .link_bytes_per_s = 200 * kGiga,
     .pcie_bytes_per_s = kPcie5,
     .peak_flops_fp8 = 1979 * kTera,
     .peak_flops_tf32 = 494.5 * kTera,
     .peak_flops_fp32 = 67 * kTera,
     .power_w = 700,
     .multiprocessors = 132,
     .in_switch_reduction = true,
     .source = "NVIDIA H800 SXM5 specifications: H100 with NVLink at 400 GB/s"},
    {.name = "h20-96g",
     .memory_bytes = 95 * kGiB,
     .peak_flops = 148 * kTera,
     .memory_bandwidth_bytes_per_s = 4000 * kGiga,
     .link_bytes_per_s = 450 * kGiga,
     .pcie_bytes_per_s = kPcie5,
     .peak_flops_fp8 = 296 * kTera,
     .peak_flops_tf32 = 74 * kTera,
     .peak_flops_fp32 = 44 * kTera,
     .power_w = 400,
     .multiprocessors = 78,
     .in_switch_reduction = true,
     .source = "NVIDIA HGX H20 specifications: 148 TFLOPS of 16 bits, 296 of FP8, 4.0 TB/s, NVLink 900 GB/s"},
    {.name = "h200-141g",
     .memory_bytes = 140 * kGiB,
     .peak_flops = 989.5 * kTera,
     .memory_bandwidth_bytes_per_s = 4800 * kGiga,
     .link_bytes_per_s = 450 * kGiga,
     .pcie_bytes_per_s = kPcie5,
     .peak_flops_fp8 = 1979 * kTera,
     .peak_flops_tf32 = 494.5 * kTera,
     .peak_flops_fp32 = 67 * kTera,
     .power_w = 700,
     .multiprocessors = 132,
     .in_switch_reduction = true,
     .matrix_efficiency = 0.57,
     .matrix_efficiency_fp8 = 0.56,
     .link_efficiency = 0.822,
     .source = "NVIDIA H200 data sheet, SXM: H100 with 141 GB at 4.8 TB/s"},
    {.name = "b200-180g",
     .memory_bytes = 179 * kGiB,
     .peak_flops = 2250 * kTera,
     .memory_bandwidth_bytes_per_s = 8000 * kGiga,
     .link_bytes_per_s = 900 * kGiga,
     .pcie_bytes_per_s = kPcie5,
     .peak_flops_fp8 = 4500 * kTera,
     .peak_flops_tf32 = 1125 * kTera,
     .peak_flops_fp32 = 75 * kTera,
     .power_w = 1000,
     .multiprocessors = 148,
     .in_switch_reduction = true,
     .source =
         "NVIDIA DGX B200 and HGX B200 data sheets, an eighth: with sparsity 36 PFLOPS of 16 bits, 72 of FP8, 18 of "
         "TF32; "
         "1,440 GB, 64 TB/s, NVLink 1.8 TB/s a GPU"},
    {.name = "gb200-186g",
     .memory_bytes = 185 * kGiB,
     .peak_flops = 2500 * kTera,
     .memory_bandwidth_bytes_per_s = 8000 * kGiga,
     .link_bytes_per_s = 900 * kGiga,
     .pcie_bytes_per_s = 225 * kGiga,
     .peak_flops_fp8 = 5000 * kTera,
     .peak_flops_tf32 = 1250 * kTera,
     .peak_flops_fp32 = 80 * kTera,
     .power_w = 1200,
     .multiprocessors = 148,
     .in_switch_reduction = true,
     .source =
         "NVIDIA GB200 NVL72 data sheet, one of 72 GPUs: with sparsity 360 PFLOPS of 16 bits, 720 of FP8, 180 of TF32; "
         "two GPUs share NVLink-C2C at 900 GB/s to their CPU"},
    {.name = "mi300x-192g",
     .memory_bytes = 192 * kGiB,
     .peak_flops = 1307.4 * kTera,
     .memory_bandwidth_bytes_per_s = 5300 * kGiga,
     .link_bytes_per_s = 448 * kGiga,
     .pcie_bytes_per_s = kPcie5,
     .peak_flops_fp8 = 2614.9 * kTera,
     .peak_flops_tf32 = 653.7 * kTera,
     .peak_flops_fp32 = 163.4 * kTera,
     .power_w = 750,
     .multiprocessors = 304,
     .source =
         "AMD Instinct MI300X data sheet, without sparsity: seven Infinity Fabric links of 128 GB/s, one to each peer"},
};

GpuKind kind_of(const GpuRow& row) {
  return {.name = std::string(row.name),
          .memory_bytes = row.memory_bytes,
          .peak_flops = row.peak_flops,
          .memory_bandwidth_bytes_per_s = row.memory_bandwidth_bytes_per_s,
          .link_bytes_per_s = row.link_bytes_per_s,
          .pcie_bytes_per_s = row.pcie_bytes_per_s,
          .peak_flops_fp8 = row.peak_flops_fp8,
          .peak_flops_tf32 = row.peak_flops_tf32,
          .peak_flops_fp32 = row.peak_flops_fp32,
          .power_w = row.power_w,
          .multiprocessors = row.multiprocessors,
          .in_switch_reduction = row.in_switch_reduction,
          .matrix_efficiency = row.matrix_efficiency,
          .matrix_efficiency_fp8 = row.matrix_efficiency_fp8,
          .memory_efficiency = row.memory_efficiency,
          .link_efficiency = row.link_efficiency,
          .network_efficiency = row.network_efficiency};
}

const std::vector<GpuKind>& gpu_table() {
  static const std::vector<GpuKind> table = [] {
    std::vector<GpuKind> kinds;
    for (const GpuRow& row : kGpus) kinds.push_back(kind_of(row));
    return kinds;
  }();
  return table;
}

}  // namespace

const GpuKind* find_gpu_kind(std::string_view name) {
  for (const GpuKind& kind : gpu_table()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::vector<std::string> gpu_kind_names() {
  std::vector<std::string> names;
  for (const GpuRow& row : kGpus) names.emplace_back(row.name);
  return names;
}

std::string_view gpu_kind_source(std::string_view name) {
  for (const GpuRow& row : kGpus) {
    if (row.name == name) return row.source;
  }
  return "";
}

}  // namespace scalai::plan
