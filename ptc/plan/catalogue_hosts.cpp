#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/plan/catalogue.h"

namespace scalai::plan {
namespace {

constexpr double kGbps = 1e9 / 8;

// Lists that several rows quote. Prices are of a host an hour, on demand, in US dollars, with Linux.
constexpr const char* kEc2 = "AWS EC2 on-demand price list, us-east-1, Linux, September 2026";
constexpr const char* kEc2Old = "AWS EC2 on-demand price list, us-east-1, Linux, 2024, the last with this family";
constexpr const char* kEc2UpTo = "AWS EC2 on-demand price list, us-east-1, Linux, September 2026; network \"up to\"";
constexpr const char* kAzure = "Azure retail prices, East US, Linux, pay as you go, 2026";
constexpr const char* kGcp = "Google Cloud accelerator-optimised machine prices, us-central1, 2025";

struct Row {
  std::string name;
  std::string gpu;
  int gpus = 0;
  int nics = 1;
  double nic_gbps = 0;  // each; 0 = the seller leaves it open
  double price_per_hour = 0;
  std::string source;
  double pcie_bytes_per_s = 0;  // 0 = the GPU's own
};

// More cards than GPUs count as one a GPU of their joint rate: p5 has 32 of 100 Gbps, p5en 16 of 200 Gbps.
const std::vector<Row>& rows() {
  constexpr double kGen3 = 16e9;  // Cascade Lake hosts
  static const std::vector<Row> table = {
      {"dgx-1p", "p100-16g", 8, 4, 100, 0, "NVIDIA DGX-1 data sheet, P100: four EDR cards"},
      {"dgx-1v", "v100-16g", 8, 4, 100, 0, "NVIDIA DGX-1 data sheet, V100: four EDR cards"},
      {"dgx-1v-32g", "v100-32g", 8, 4, 100, 0, "NVIDIA DGX-1 data sheet, V100 with 32 GB: four EDR cards"},
      {"dgx-2", "v100-32g", 16, 8, 100, 0, "NVIDIA DGX-2 data sheet: NVSwitch, eight EDR cards"},
      {"dgx-a100-40g", "a100-40g", 8, 8, 200, 0, "NVIDIA DGX A100 data sheet, 320 GB: eight HDR cards for computing"},
      {"dgx-a100-80g", "a100-80g", 8, 8, 200, 0, "NVIDIA DGX A100 data sheet, 640 GB: eight HDR cards for computing"},
      {"dgx-h100", "h100-80g", 8, 8, 400, 0, "NVIDIA DGX H100 data sheet: eight NDR cards"},
      {"dgx-h200", "h200-141g", 8, 8, 400, 0, "NVIDIA DGX H200 data sheet: eight NDR cards"},
      {"dgx-b200", "b200-180g", 8, 8, 400, 0, "NVIDIA DGX B200 data sheet: eight NDR cards"},
      {"hgx-a100-40g", "a100-40g", 8, 1, 0, 0, "NVIDIA HGX A100 data sheet, board of eight"},
      {"hgx-a100-80g", "a100-80g", 8, 1, 0, 0, "NVIDIA HGX A100 data sheet, board of eight"},
      {"hgx-h100", "h100-80g", 8, 1, 0, 0, "NVIDIA HGX H100 data sheet, board of eight"},
      {"hgx-h200", "h200-141g", 8, 1, 0, 0, "NVIDIA HGX H200 data sheet, board of eight"},
      {"hgx-b200", "b200-180g", 8, 1, 0, 0, "NVIDIA HGX B200 data sheet, board of eight"},

      {"p2.xlarge", "k80-12g", 1, 1, 0, 0.90, kEc2Old},
      {"p2.8xlarge", "k80-12g", 8, 1, 10, 7.20, kEc2Old},
      {"p2.16xlarge", "k80-12g", 16, 1, 25, 14.40, kEc2Old},
      {"p3.2xlarge", "v100-16g", 1, 1, 10, 3.06, kEc2UpTo},
      {"p3.8xlarge", "v100-16g", 4, 1, 10, 12.24, kEc2},
      {"p3.16xlarge", "v100-16g", 8, 1, 25, 24.48, kEc2},
      {"p3dn.24xlarge", "v100-32g", 8, 1, 100, 31.212, kEc2},
      {"p4d.24xlarge", "a100-40g", 8, 4, 100, 21.957642, kEc2, kGen3},
      {"p4de.24xlarge", "a100-80g", 8, 4, 100, 27.44705, kEc2, kGen3},
      {"p5.48xlarge", "h100-80g", 8, 8, 400, 55.04, kEc2},
      {"p5e.48xlarge", "h200-141g", 8, 8, 400, 0, "AWS EC2 P5 instances; sold in capacity blocks, no on-demand price"},
      {"p5en.48xlarge", "h200-141g", 8, 8, 400, 63.296, kEc2},
      {"p6-b200.48xlarge", "b200-180g", 8, 8, 400, 113.9328, kEc2},
      {"g4dn.xlarge", "t4-16g", 1, 1, 25, 0.526, kEc2UpTo},
      {"g4dn.2xlarge", "t4-16g", 1, 1, 25, 0.752, kEc2UpTo},
      {"g4dn.4xlarge", "t4-16g", 1, 1, 25, 1.204, kEc2UpTo},
      {"g4dn.8xlarge", "t4-16g", 1, 1, 50, 2.176, kEc2},
      {"g4dn.12xlarge", "t4-16g", 4, 1, 50, 3.912, kEc2},
      {"g4dn.16xlarge", "t4-16g", 1, 1, 50, 4.352, kEc2},
      {"g4dn.metal", "t4-16g", 8, 1, 100, 7.824, kEc2},
      {"g5.xlarge", "a10g-24g", 1, 1, 10, 1.006, kEc2UpTo},
      {"g5.2xlarge", "a10g-24g", 1, 1, 10, 1.212, kEc2UpTo},
      {"g5.4xlarge", "a10g-24g", 1, 1, 25, 1.624, kEc2UpTo},
      {"g5.8xlarge", "a10g-24g", 1, 1, 25, 2.448, kEc2},
      {"g5.12xlarge", "a10g-24g", 4, 1, 40, 5.672, kEc2},
      {"g5.16xlarge", "a10g-24g", 1, 1, 25, 4.096, kEc2},
      {"g5.24xlarge", "a10g-24g", 4, 1, 50, 8.144, kEc2},
      {"g5.48xlarge", "a10g-24g", 8, 1, 100, 16.288, kEc2},
      {"g6.xlarge", "l4-24g", 1, 1, 10, 0.8048, kEc2UpTo},
      {"g6.2xlarge", "l4-24g", 1, 1, 10, 0.9776, kEc2UpTo},
      {"g6.4xlarge", "l4-24g", 1, 1, 25, 1.3232, kEc2UpTo},
      {"g6.8xlarge", "l4-24g", 1, 1, 25, 2.0144, kEc2},
      {"g6.12xlarge", "l4-24g", 4, 1, 40, 4.6016, kEc2},
      {"g6.16xlarge", "l4-24g", 1, 1, 25, 3.3968, kEc2},
      {"g6.24xlarge", "l4-24g", 4, 1, 50, 6.6752, kEc2},
      {"g6.48xlarge", "l4-24g", 8, 1, 100, 13.3504, kEc2},
      {"g6e.xlarge", "l40s-48g", 1, 1, 20, 1.861, kEc2UpTo},
      {"g6e.12xlarge", "l40s-48g", 4, 1, 100, 10.49264, kEc2},
      {"g6e.24xlarge", "l40s-48g", 4, 1, 200, 15.06559, kEc2},
      {"g6e.48xlarge", "l40s-48g", 8, 1, 400, 30.13118, kEc2},

      {"Standard_NC24s_v3", "v100-pcie-16g", 4, 1, 24, 12.24, kAzure},
      {"Standard_ND40rs_v2", "v100-32g", 8, 1, 100, 22.032, kAzure},
      {"Standard_ND96asr_v4", "a100-40g", 8, 8, 200, 27.197, kAzure},
      {"Standard_ND96amsr_A100_v4", "a100-80g", 8, 8, 200, 32.77, kAzure},
      {"Standard_ND96isr_H100_v5", "h100-80g", 8, 8, 400, 98.32, kAzure},

      {"a2-highgpu-1g", "a100-40g", 1, 1, 24, 3.673385, kGcp, kGen3},
      {"a2-highgpu-8g", "a100-40g", 8, 1, 100, 29.38708, kGcp, kGen3},
      {"a2-ultragpu-8g", "a100-80g", 8, 1, 100, 40.550383, kGcp, kGen3},
      {"a3-highgpu-8g", "h100-80g", 8, 4, 200, 88.49, kGcp},
      {"a3-megagpu-8g", "h100-80g", 8, 8, 200, 0, "Google Cloud A3 Mega machine type; no price here"},
  };
  return table;
}

HostKind kind_of(const Row& row) {
  const GpuKind* gpu = find_gpu_kind(row.gpu);
  SCALAI_CHECK(gpu != nullptr, row.name + " has unknown GPUs: " + row.gpu);
  HostKind kind{.name = row.name, .source = row.source};
  kind.host.gpus = row.gpus;
  kind.host.gpu = *gpu;
  kind.host.gpu_link_bytes_per_s = gpu->link_bytes_per_s;
  kind.host.pcie_bytes_per_s = row.pcie_bytes_per_s > 0 ? row.pcie_bytes_per_s : gpu->pcie_bytes_per_s;
  kind.host.nics = row.nics;
  kind.host.nic_bytes_per_s = row.nic_gbps * kGbps;
  kind.host.kind = row.name;
  kind.host.price_per_hour = row.price_per_hour;
  return kind;
}

const std::vector<HostKind>& host_table() {
  static const std::vector<HostKind> table = [] {
    std::vector<HostKind> kinds;
    for (const Row& row : rows()) kinds.push_back(kind_of(row));
    return kinds;
  }();
  return table;
}

}  // namespace

const HostKind* find_host_kind(std::string_view name) {
  for (const HostKind& kind : host_table()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::vector<std::string> host_kind_names() {
  std::vector<std::string> names;
  for (const HostKind& kind : host_table()) names.push_back(kind.name);
  return names;
}

std::string hint_for_unknown(std::string_view name, const std::vector<std::string>& known) {
  std::vector<std::string> meant;
  for (const std::string& one : known) {
    const bool longer = !name.empty() && one.size() > name.size() && one.starts_with(name);
    if (longer && (one[name.size()] == '-' || one[name.size()] == '.')) meant.push_back("\"" + one + "\"");
  }
  const std::string near = closest(name, known);
  if (meant.empty() && !near.empty()) meant.push_back("\"" + near + "\"");
  return meant.empty() ? "\"scalai machines\" lists them" : fmt::format("did you mean {}?", fmt::join(meant, " or "));
}

}  // namespace scalai::plan
