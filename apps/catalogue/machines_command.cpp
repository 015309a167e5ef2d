#include <fmt/format.h>

#include <vector>

#include "apps/commands.h"
#include "apps/common/output.h"
#include "nlohmann/json.hpp"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/cluster/catalogue.h"

namespace scalai::apps {
namespace {

using cluster::GpuKind;
using cluster::Host;
using nlohmann::ordered_json;

constexpr const char* kUnknown = "-";
constexpr double kTera = 1e12;
constexpr double kGbps = 1e9 / 8;

std::string number_or_unknown(double value, double unit = 1) {
  return value > 0 ? fmt::format("{:.6g}", value / unit) : kUnknown;
}
std::string rate(double bytes_per_s) { return bytes_per_s > 0 ? format_bandwidth(bytes_per_s) : kUnknown; }

// A constant of a machine: for people, and as the number in base units that JSON has.
struct Constant {
  std::string name;
  std::string text;
  std::string key;
  ordered_json value;
};

std::vector<Constant> constants_of(const GpuKind& gpu) {
  const auto tflops = [](double flops) { return flops > 0 ? fmt::format("{:.6g} TFLOPS", flops / kTera) : kUnknown; };
  std::vector<Constant> all = {
      {"memory", fmt::format("{:.4g} GiB", static_cast<double>(gpu.memory_bytes) / (1 << 30)), "memory_bytes",
       gpu.memory_bytes},
      {"16-bit matrix peak", tflops(gpu.peak_flops), "peak_flops", gpu.peak_flops},
      {"FP8 matrix peak", tflops(gpu.peak_flops_fp8), "peak_flops_fp8", gpu.peak_flops_fp8},
      {"FP4 matrix peak", tflops(gpu.peak_flops_fp4), "peak_flops_fp4", gpu.peak_flops_fp4},
      {"TF32 matrix peak", tflops(gpu.peak_flops_tf32), "peak_flops_tf32", gpu.peak_flops_tf32},
      {"fp32 vector peak", tflops(gpu.peak_flops_fp32), "peak_flops_fp32", gpu.peak_flops_fp32},
      {"memory bandwidth", rate(gpu.memory_bandwidth_bytes_per_s), "memory_bandwidth_bytes_per_s",
       gpu.memory_bandwidth_bytes_per_s},
      {"link to other GPUs", rate(gpu.link_bytes_per_s), "link_bytes_per_s", gpu.link_bytes_per_s},
      {"PCIe to the host", rate(gpu.pcie_bytes_per_s), "pcie_bytes_per_s", gpu.pcie_bytes_per_s},
      {"reduction in the switch", gpu.in_switch_reduction ? "yes" : "no", "in_switch_reduction",
       gpu.in_switch_reduction},
      {"board power", gpu.power_w > 0 ? fmt::format("{:g} W", gpu.power_w) : kUnknown, "power_w", gpu.power_w},
      {"multiprocessors", number_or_unknown(gpu.multiprocessors), "multiprocessors", gpu.multiprocessors}};
  // Shares of peaks are measured, not sold: a kind without its own uses typical ones.
  const auto share = [&](const std::string& name, const std::string& key, double value) {
    all.push_back({name, value > 0 ? fmt::format("{:.3g} of the peak", value) : "typical", key, value});
  };
  share("matrix products reach", "matrix_efficiency", gpu.matrix_efficiency);
  share("FP8 products reach", "matrix_efficiency_fp8", gpu.matrix_efficiency_fp8);
  share("memory kernels reach", "memory_efficiency", gpu.memory_efficiency);
  share("collectives on links reach", "link_efficiency", gpu.link_efficiency);
  share("collectives on cards reach", "network_efficiency", gpu.network_efficiency);
  return all;
}

std::string nics(const Host& host) {
  if (host.nic_bytes_per_s == 0) return kUnknown;
  return fmt::format("{} x {:g} Gbps", host.nics, host.nic_bytes_per_s / kGbps);
}
std::string price(const Host& host) {
  return host.price_per_hour > 0 ? fmt::format("{:.3f}", host.price_per_hour) : kUnknown;
}

std::vector<Constant> constants_of(const Host& host) {
  return {{"GPUs", fmt::format("{} x {}", host.gpus, host.gpu.name), "gpus", host.gpus},
          {"link between GPUs", rate(host.gpu_link_bytes_per_s), "gpu_link_bytes_per_s", host.gpu_link_bytes_per_s},
          {"hosts that these links join", fmt::format("{}", host.nvlink_hosts), "nvlink_hosts", host.nvlink_hosts},
          {"PCIe, a GPU", rate(host.pcie_bytes_per_s), "pcie_bytes_per_s", host.pcie_bytes_per_s},
          {"network cards", nics(host), "nics", host.nics},
          {"network card", rate(host.nic_bytes_per_s), "nic_bytes_per_s", host.nic_bytes_per_s},
          {"price", host.price_per_hour > 0 ? fmt::format("{:g} US dollars an hour", host.price_per_hour) : kUnknown,
           "price_per_hour", host.price_per_hour}};
}

// What is unknown or absent is null.
ordered_json json_of(const std::string& name, std::string_view source, const std::vector<Constant>& constants) {
  ordered_json out = {{"name", name}, {"source", source}};
  for (const Constant& constant : constants) {
    const bool known = !constant.value.is_number() || constant.value != 0;
    out[constant.key] = known ? constant.value : ordered_json();
  }
  return out;
}
ordered_json json_of_gpu(const std::string& name) {
  return json_of(name, cluster::gpu_kind_source(name), constants_of(*cluster::find_gpu_kind(name)));
}
ordered_json json_of_host(const cluster::HostKind& kind) {
  ordered_json out = json_of(kind.name, kind.source, constants_of(kind.host));
  out["gpu"] = kind.host.gpu.name;
  return out;
}

Table gpu_table() {
  Table table({"GPU kind", "memory GiB>", "16-bit TFLOPS>", "FP8>", "TF32>", "fp32>", "memory>", "link>", "PCIe>", "W>",
               "SMs>"});
  table.leave_out_first({"SMs", "PCIe", "TF32", "fp32", "W", "FP8"});
  for (const std::string& name : cluster::gpu_kind_names()) {
    const GpuKind& gpu = *cluster::find_gpu_kind(name);
    table.row({name, fmt::format("{:.4g}", static_cast<double>(gpu.memory_bytes) / (1 << 30)),
               number_or_unknown(gpu.peak_flops, kTera), number_or_unknown(gpu.peak_flops_fp8, kTera),
               number_or_unknown(gpu.peak_flops_tf32, kTera), number_or_unknown(gpu.peak_flops_fp32, kTera),
               rate(gpu.memory_bandwidth_bytes_per_s), rate(gpu.link_bytes_per_s), rate(gpu.pcie_bytes_per_s),
               number_or_unknown(gpu.power_w), number_or_unknown(gpu.multiprocessors)});
  }
  return table;
}

Table host_table() {
  Table table({"host or instance", "GPUs>", "GPU kind", "link>", "joins>", "PCIe>", "network cards>", "$/hour>"});
  table.leave_out_first({"joins", "PCIe", "link"});
  for (const std::string& name : cluster::host_kind_names()) {
    const Host& host = cluster::find_host_kind(name)->host;
    table.row({name, fmt::format("{}", host.gpus), host.gpu.name, rate(host.gpu_link_bytes_per_s),
               fmt::format("{}", cluster::joined(host).gpus), rate(host.pcie_bytes_per_s), nics(host), price(host)});
  }
  return table;
}

int list_machines(const std::string& format, const std::string& what) {
  const bool gpus = what != "hosts", hosts = what != "gpus";
  if (format == "csv") {
    if (gpus && hosts) return usage_error("machines", "CSV is one table: say gpus or hosts");
    print(gpus ? gpu_table().csv() : host_table().csv());
    return 0;
  }
  if (format == "json") {
    ordered_json out;
    if (gpus) out["gpus"] = ordered_json::array();
    if (hosts) out["hosts"] = ordered_json::array();
    for (const std::string& name : gpus ? cluster::gpu_kind_names() : std::vector<std::string>{}) {
      out["gpus"].push_back(json_of_gpu(name));
    }
    for (const std::string& name : hosts ? cluster::host_kind_names() : std::vector<std::string>{}) {
      out["hosts"].push_back(json_of_host(*cluster::find_host_kind(name)));
    }
    print("{}\n", json_text(out, {.indent = 2}));
    return 0;
  }
  if (gpus) print(gpu_table().text(stdout_screen()));
  if (gpus && hosts) print("\n");
  if (hosts) print(host_table().text(stdout_screen()));
  note_terms("link = between the GPUs of a host, each way; - = not published",
             "scalai machines NAME: all its constants and where they are from");
  return 0;
}

// One machine: a host has the constants of its GPUs too.
int show_machine(const std::string& name, const std::string& format) {
  const cluster::HostKind* kind = cluster::find_host_kind(name);
  const std::string gpu = kind != nullptr ? kind->host.gpu.name : name;
  Table table({"constant", "value>", "of"});
  const auto add = [&](const std::string& owner, const std::vector<Constant>& constants) {
    for (const Constant& constant : constants) table.row({constant.name, constant.text, owner});
  };
  if (kind != nullptr) add(name, constants_of(kind->host));
  add(gpu, constants_of(*cluster::find_gpu_kind(gpu)));
  if (format == "json") {
    ordered_json out = kind != nullptr ? json_of_host(*kind) : json_of_gpu(gpu);
    if (kind != nullptr) out["gpu"] = json_of_gpu(gpu);
    print("{}\n", json_text(out, {.indent = 2}));
  } else if (format == "csv") {
    print(table.csv());
  } else {
    print(table.text(stdout_screen()));
    if (kind != nullptr) print("\n{}: {}", name, kind->source);
    print("\n{}: {}\n", gpu, cluster::gpu_kind_source(gpu));
  }
  return 0;
}

absl::Status unknown_machine(const std::string& name) {
  const std::vector<std::string> names = cluster::machine_names();
  return invalid(
      fmt::format("there is no machine \"{}\"; {}", clipped(name, 60), cluster::hint_for_unknown(name, names)));
}

int machines(const Arguments& arguments) {
  const std::string format = arguments.text("format");
  const std::string name = arguments.positional().empty() ? "" : arguments.positional().front();
  if (name.empty() || name == "gpus" || name == "hosts") return list_machines(format, name);
  if (cluster::find_host_kind(name) == nullptr && cluster::find_gpu_kind(name) == nullptr) {
    return report_error(unknown_machine(name));
  }
  return show_machine(name, format);
}

}  // namespace

Command machines_command() {
  std::vector<std::string> words = cluster::machine_names();
  words.insert(words.begin(), {"gpus", "hosts"});
  return {{.name = "machines",
           .summary = "list GPU kinds, hosts and cloud instances, or one machine's constants",
           .usage = "scalai machines [gpus | hosts | NAME]",
           .description =
               R"(Without a name: every machine that scenarios may name, a GPU kind as gpu: "h100-80g", a host or
instance as kind: "dgx-h100"; gpus and hosts list one kind. With a name: all of its constants and where
they are published. Rates are per direction, peaks are dense; "-" (in JSON null) is unknown or absent.
Prices are of a whole host, on demand. A cluster file overrides any constant (gpu_kinds, and the fields of a host).)",
           .options = {format_option()},
           .examples = {"scalai machines", "scalai machines hosts --format=csv", "scalai machines dgx-h100",
                        "scalai machines h100-80g --format=json"},
           .max_arguments = 1,
           .operands = std::move(words)},
          machines};
}

}  // namespace scalai::apps
