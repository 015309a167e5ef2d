#include "labs/validation/model/memory_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "labs/validation/model/internal/printed.h"
#include "ptc/base/status.h"
#include "ptc/cost/step/memory.h"

namespace scalai::step::validation {
namespace {

double state_bytes(const MemoryEstimate& memory) {
  double bytes = 0;
  for (const StageMemory& stage : memory.stages) {
    for (const std::string_view term : {memory_term::kParameters, memory_term::kGradients, memory_term::kOptimizer}) {
      bytes += stage.bytes(term);
    }
  }
  return bytes / static_cast<double>(memory.stages.size());
}

double activation_bytes(const MemoryEstimate& memory) { return memory.stages.front().bytes(memory_term::kActivations); }

// What the two kinds have in common: the row, its run, and the prediction in bytes by `quantity`.
struct MemoryRow {
  RowResult result;
  TrainingRun run;
  std::string quantity;
};

MemoryRow read(RowReader& row, const Models& models, std::string unit) {
  MemoryRow read{
      .result = {.label = row.text("label"), .unit = std::move(unit), .published_text = row.text("published")},
      .run = read_run(row, models),
      .quantity = row.text("quantity")};
  read.result.published = row.number("published");
  if (row.ok() && read.result.published <= 0) row.problem("published", "must be more than 0");
  const std::vector<std::string> known = {"state", "activations", "allocated", "reserved", "peak", "refused"};
  if (row.ok() && std::count(known.begin(), known.end(), read.quantity) == 0) {
    row.problem("quantity", fmt::format("unknown quantity \"{}\"", read.quantity),
                fmt::format("known: {}", fmt::join(known, ", ")));
  }
  if (!row.ok()) return read;
  if (const absl::Status status = check_workload(read.run.workload()); !status.ok()) {
    read.result.problem = message_of(status);
  }
  return read;
}

double bytes_of(const TrainingRun& run, const std::string& quantity) {
  const MemoryEstimate memory = memory_of(run.workload());
  if (quantity == "peak" || quantity == "refused") return memory.bytes();
  if (quantity == "allocated") return memory.worst().bytes();
  if (quantity == "reserved") return memory.worst().bytes() + memory.fragmentation_bytes;
  return quantity == "state" ? state_bytes(memory) : activation_bytes(memory);
}

// A run that needs `predicted` and ran out of what is published.
RowResult refused(RowResult result, double predicted) {
  const double limit = result.published * (1 + kMemoryError);
  result.group = "memory, refused";
  conclude(result, predicted, predicted > limit ? 0 : predicted / limit - 1);
  result.exact = predicted > limit;
  return result;
}

}  // namespace

std::vector<std::string> memory_columns() {
  std::vector<std::string> columns = run_columns();
  columns.insert(columns.end(), {"published", "quantity", "unit"});
  return columns;
}

RowResult memory_result(RowReader& row, const Models& models) {
  const std::string unit = row.text("unit", "GiB");
  if (unit != "GiB" && unit != "GB") row.problem("unit", fmt::format("unknown unit \"{}\"", unit), "known: GiB, GB");
  MemoryRow memory = read(row, models, unit);
  RowResult& result = memory.result;
  if (!row.ok() || !result.problem.empty()) return result;
  const double predicted = bytes_of(memory.run, memory.quantity) / (unit == "GB" ? 1e9 : kGiB);
  const bool part = memory.quantity == "state" || memory.quantity == "activations";
  result.group = "memory, " + (part ? memory.quantity : "peak");
  result.held_out = row.table().held_out(result.label);
  if (memory.quantity == "refused") return refused(std::move(result), predicted);
  conclude(result, predicted, predicted / result.published - 1);
  return result;
}

RowResult ratio_result(RowReader& row, const Models& models) {
  MemoryRow memory = read(row, models, "%");
  RowResult& result = memory.result;
  if (!row.ok() || !result.problem.empty()) return result;
  TrainingRun whole = memory.run;
  whole.training.recompute = Recompute::kNone;
  whole.training.sequence_parallel = false;
  const double predicted = 100 * bytes_of(memory.run, memory.quantity) / bytes_of(whole, memory.quantity);
  conclude(result, predicted, predicted - result.published);
  return result;
}

}  // namespace scalai::step::validation
