#include "labs/validation/model/hardware_rows.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "labs/validation/model/internal/printed.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/cost/step/collectives.h"
#include "ptc/cost/step/hardware.h"
#include "ptc/cost/step/kernels.h"
#include "ptc/cost/step/layer_work.h"

namespace scalai::step::validation {
namespace {

constexpr std::array<std::pair<const char*, Collective>, 4> kOperations = {
    {{"all-reduce", Collective::kAllReduce},
     {"reduce-scatter", Collective::kReduceScatter},
     {"all-gather", Collective::kAllGather},
     {"all-to-all", Collective::kAllToAll}}};

Collective read_operation(RowReader& row) {
  const std::string name = row.text("op", "all-reduce");
  for (const auto& [known, operation] : kOperations) {
    if (name == known) return operation;
  }
  row.problem("op", fmt::format("unknown collective \"{}\"", name),
              "known: all-reduce, reduce-scatter, all-gather, all-to-all");
  return Collective::kAllReduce;
}

double read_size(RowReader& row) {
  const std::string text = row.text("size");
  if (text.empty()) return 0;
  const auto bytes = parse_bytes(text);
  if (bytes.ok() && *bytes > 0) return static_cast<double>(*bytes);
  row.problem("size", fmt::format("\"{}\" is not a size", text), "write it like 512MiB");
  return 0;
}

// Bytes on the bus for each byte of the buffer (nccl-tests, doc/PERFORMANCE.md).
double bus_factor(Collective operation, int ranks) {
  const double once = (ranks - 1.0) / ranks;
  return operation == Collective::kAllReduce ? 2 * once : once;
}

// Seconds where the row reads `value`, and the other way round: both are inverse or proportional.
double converted(double value, const std::string& unit, double bus_bytes) {
  return unit == "us" ? value : bus_bytes / (value * 1e9) * 1e6;
}

// A kernel of `op`, added to `time`.
void add_kernel(RowReader& row, const std::string& op, bool fp8, KernelTime& time) {
  if (op == "product") {
    time.product({.m = row.number("m"),
                  .n = row.number("n"),
                  .k = row.number("k"),
                  .count = row.number("count", 1),
                  .element_bytes = fp8 ? 1.0 : 2.0});
  } else if (op == "attention-forward" || op == "attention-backward") {
    const bool backward = op == "attention-backward";
    FusedAttention attention{.heads = row.number("batch") * row.number("heads"),
                             .queries = row.number("length"),
                             .keys = row.number("length"),
                             .head_size = row.count("head_size")};
    // Query, key, value and output; backward the gradients of these as well.
    attention.bytes =
        (backward ? 8 : 4) * 2 * attention.heads * attention.queries * static_cast<double>(attention.head_size);
    if (row.ok()) time.flash(attention, backward);
  } else if (op == "memory") {
    time.memory(read_size(row));
  } else {
    row.problem("op", fmt::format("unknown kernel \"{}\"", op),
                "known: product, attention-forward, attention-backward, memory");
  }
}

}  // namespace

std::vector<std::string> collective_columns() {
  return {"label", "gpu",  "gpus_per_host", "nics",      "nic_gbps", "ranks", "op",
          "size",  "unit", "in_switch",     "published", "fitted",   "note"};
}

RowResult collective_result(RowReader& row) {
  cluster::Host host = read_host(row);
  host.gpu.in_switch_reduction = host.gpu.in_switch_reduction && row.flag("in_switch", true);
  const Collective operation = read_operation(row);
  const double size = read_size(row);
  const int ranks = row.count("ranks");
  RowResult result{.label = row.text("label"),
                   .unit = row.text("unit", "GB/s"),
                   .published_text = row.text("published"),
                   .published = row.number("published"),
                   .fitted = row.flag("fitted", false)};
  result.machine = fmt::format("{} collectives", host.gpu.name);
  result.group = "collectives";
  if (result.unit != "GB/s" && result.unit != "us") row.problem("unit", "collectives are in GB/s or us");
  if (row.ok() && ranks < 2) row.problem("ranks", "a collective needs at least 2 ranks");
  if (row.ok() && result.published <= 0) row.problem("published", "must be more than 0");
  if (!row.ok()) return result;

  collection::ParallelConfig config;
  config.dp = ranks;
  const Hardware hardware = uniform_hardware(host, config);
  const double predicted_us = 1e6 * collective(links_of(hardware), operation, hardware.dp, size).seconds;
  const double bus_bytes = bus_factor(operation, ranks) * size;
  conclude(result, converted(predicted_us, result.unit, bus_bytes),
           predicted_us / converted(result.published, result.unit, bus_bytes) - 1);
  return result;
}

std::vector<std::string> layer_columns() {
  std::vector<std::string> columns = run_columns();
  columns.insert(columns.end(), {"published", "quantity", "fitted"});
  return columns;
}

RowResult layer_result(RowReader& row, const Models& models) {
  const TrainingRun run = read_run(row, models);
  const std::string quantity = row.text("quantity");
  RowResult result{.label = fmt::format("{} {}", row.text("label"), quantity),
                   .unit = "ms",
                   .published_text = row.text("published"),
                   .published = row.number("published"),
                   .fitted = row.flag("fitted", false)};
  if (row.ok() && quantity != "forward" && quantity != "backward" && quantity != "total") {
    row.problem("quantity", fmt::format("unknown quantity \"{}\"", quantity), "known: forward, backward, total");
  }
  if (row.ok() && result.published <= 0) row.problem("published", "must be more than 0");
  if (!row.ok()) return result;
  if (const absl::Status status = check_workload(run.workload()); !status.ok()) {
    result.problem = message_of(status);
    return result;
  }
  const Hardware hardware = uniform_hardware(run.host, run.config);
  const LayerWork layer = layer_work(run.workload(), hardware, hardware.stage(0));
  double seconds = 0;
  if (quantity != "backward") seconds += layer.forward.seconds();
  if (quantity != "forward") seconds += layer.backward.seconds();
  conclude(result, 1000 * seconds, 1000 * seconds / result.published - 1);
  return result;
}

std::vector<std::string> kernel_columns() {
  return {"label", "gpu",       "op",   "m",    "n",       "k",         "count",  "batch",    "length",
          "heads", "head_size", "size", "unit", "kernels", "precision", "fitted", "published"};
}

RowResult kernel_result(RowReader& row) {
  const std::string gpu = row.text("gpu"), op = row.text("op"), precision = row.text("precision", "bf16");
  const cluster::GpuKind* kind = cluster::find_gpu_kind(gpu);
  if (kind == nullptr) row.problem("gpu", fmt::format("unknown GPU kind \"{}\"", gpu));
  const auto kernels = find_kernels(row.text("kernels", "fused"));
  if (!kernels.ok()) row.problem("kernels", message_of(kernels.status()));
  if (precision != "bf16" && precision != "fp8") row.problem("precision", "kernels are in bf16 or fp8");
  RowResult result{.label = row.text("label"),
                   .unit = row.text("unit", "us"),
                   .published_text = row.text("published"),
                   .published = row.number("published"),
                   .fitted = row.flag("fitted", false)};
  if (result.unit != "us") row.problem("unit", "kernels are in us");
  if (row.ok() && result.published <= 0) row.problem("published", "must be more than 0");
  if (!row.ok()) return result;
  result.machine = fmt::format("{} kernels", gpu);
  result.group = "kernels";
  const bool fp8 = precision == "fp8";
  GpuRates rates = rates_of({.gpu = *kind}, fp8 ? Math::kFP8 : Math::kBF16, *kernels);
  rates.graphs = true;
  KernelTime time(rates);
  add_kernel(row, op, fp8, time);
  if (row.ok()) conclude(result, 1e6 * time.seconds(), 1e6 * time.seconds() / result.published - 1);
  return result;
}

}  // namespace scalai::step::validation
