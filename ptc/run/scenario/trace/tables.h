#pragma once
// Throughput sources made from tables of public traces. The functions keep no references to their arguments; any thread
// may call them.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/run/policy/throughput.h"

namespace scalai::trace {

// Rule for numbers of GPUs without a row. Between two rows kNearest takes the lower one, kLinear and kSqrt interpolate
// linearly. A row of 0 means that the job cannot run there, and no rule extends beyond it.
enum class Beyond : uint8_t {
  kRefuse,   // cannot run, also between rows; a job that no row covers is an error before the run
  kNearest,  // above the largest row: its rate; below the smallest: cannot run
  kLinear,   // proportional to GPUs, from the nearest row
  kSqrt,     // proportional to the square root of GPUs, from the nearest row
};

// "refuse", "nearest", "linear", "sqrt". InvalidArgument: another name; the message lists these. name_of returns static
// storage.
absl::StatusOr<Beyond> beyond_of(const std::string& name);
const char* name_of(Beyond beyond);

// Each job at the speed of its trace: work / duration_s per second on the requested GPUs (1 if the trace has no run
// time); other numbers of GPUs by the rule. The type of GPU has no effect.
std::unique_ptr<policy::Throughput> duration_throughput(Beyond beyond);

// `format`:
// - "gavel": a JSON file of gavel_table.h. GPUs on more hosts than needed run at the table's "_unconsolidated" rates
//   (if it has them, else as on few hosts); two jobs on the same GPUs at the rates of its pairs.
// - "elasticflow": a folder with one CSV for each model, named after it: rows are global batch sizes, columns GPUs. The
//   folder name ends in "_" and the GPU type ("throughputs_A100"), or the folder holds several such folders.
// - "scalai": a CSV with the columns type, gpu, gpus, iterations_per_s.
// A GPU type of the fleet matches the table's type of the same name in any case, or of the name before its first "-"
// ("v100-16g": v100). Errors, all at once: unreadable or bad tables, GPU types that the table lacks, job types and GPU
// numbers that no row covers on any type.
absl::StatusOr<std::unique_ptr<policy::Throughput>> table_throughput(const std::string& format, const std::string& path,
                                                                     const policy::Fleet& fleet,
                                                                     const policy::Workload& workload, Beyond beyond);

}  // namespace scalai::trace
