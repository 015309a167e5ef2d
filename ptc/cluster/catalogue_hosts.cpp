#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/cluster/internal/tables.h"

namespace scalai::cluster {
namespace {

// Columns as in hosts.csv.
HostKind row_of_host(std::string_view line) {
  HostKind kind;
  Host& host = kind.host;
  host.kind = kind.name = next_cell(line);
  const std::string_view name = next_cell(line);
  const GpuKind* gpu = find_gpu_kind(name);
  SCALAI_CHECK(gpu != nullptr, fmt::format("{} has unknown GPUs: {}", kind.name, name));
  host.gpu = *gpu;
  host.gpu_link_bytes_per_s = gpu->link_bytes_per_s;
  host.gpus = static_cast<int>(number(next_cell(line)));
  host.nics = static_cast<int>(number(next_cell(line)));
  host.nic_bytes_per_s = number(next_cell(line)) * (1e9 / 8);
  host.price_per_hour = number(next_cell(line));
  const double pcie_bytes_per_s = number(next_cell(line)) * 1e9;
  host.pcie_bytes_per_s = pcie_bytes_per_s > 0 ? pcie_bytes_per_s : gpu->pcie_bytes_per_s;
  host.nvlink_hosts = std::max(1, static_cast<int>(number(next_cell(line))));
  kind.source = line;
  return kind;
}

const std::vector<HostKind>& host_table() {
  static const std::vector<HostKind> table = rows_of(hosts_csv(), row_of_host);
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

std::vector<std::string> machine_names() {
  std::vector<std::string> names = gpu_kind_names();
  for (std::string& host : host_kind_names()) names.push_back(std::move(host));
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

}  // namespace scalai::cluster
