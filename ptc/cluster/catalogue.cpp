#include "ptc/cluster/catalogue.h"

#include "ptc/cluster/internal/tables.h"

namespace scalai::cluster {
namespace {

struct GpuRow {
  GpuKind kind;
  std::string source;
};

// "80 GiB", "12 GB".
int64_t memory(std::string_view text) {
  const size_t blank = text.find(' ');
  const int64_t unit = text.substr(blank + 1) == "GiB" ? int64_t{1} << 30 : 1'000'000'000;
  return static_cast<int64_t>(number(text.substr(0, blank))) * unit;
}

// Columns as in gpus.csv.
GpuRow row_of(std::string_view line) {
  constexpr double kTera = 1e12, kGiga = 1e9;
  GpuRow row;
  GpuKind& kind = row.kind;
  kind.name = next_cell(line);
  kind.memory_bytes = memory(next_cell(line));
  kind.peak_flops = number(next_cell(line)) * kTera;
  kind.memory_bandwidth_bytes_per_s = number(next_cell(line)) * kGiga;
  kind.link_bytes_per_s = number(next_cell(line)) * kGiga;
  kind.pcie_bytes_per_s = number(next_cell(line)) * kGiga;
  kind.peak_flops_fp8 = number(next_cell(line)) * kTera;
  kind.peak_flops_fp4 = number(next_cell(line)) * kTera;
  kind.peak_flops_tf32 = number(next_cell(line)) * kTera;
  kind.peak_flops_fp32 = number(next_cell(line)) * kTera;
  kind.power_w = number(next_cell(line));
  kind.multiprocessors = static_cast<int>(number(next_cell(line)));
  kind.in_switch_reduction = number(next_cell(line)) != 0;
  for (double* efficiency : {&kind.matrix_efficiency, &kind.matrix_efficiency_fp8, &kind.memory_efficiency,
                             &kind.link_efficiency, &kind.network_efficiency}) {
    *efficiency = number(next_cell(line));
  }
  row.source = line;
  return row;
}

const std::vector<GpuRow>& gpu_table() {
  static const std::vector<GpuRow> table = rows_of(gpus_csv(), row_of);
  return table;
}

}  // namespace

const GpuKind* find_gpu_kind(std::string_view name) {
  for (const GpuRow& row : gpu_table()) {
    if (row.kind.name == name) return &row.kind;
  }
  return nullptr;
}

std::vector<std::string> gpu_kind_names() {
  std::vector<std::string> names;
  for (const GpuRow& row : gpu_table()) names.push_back(row.kind.name);
  return names;
}

std::string_view gpu_kind_source(std::string_view name) {
  for (const GpuRow& row : gpu_table()) {
    if (row.kind.name == name) return row.source;
  }
  return "";
}

}  // namespace scalai::cluster
