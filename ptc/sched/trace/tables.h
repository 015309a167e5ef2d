#pragma once
// Throughput tables of public traces as throughput sources.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/sched/throughput.h"

namespace scalai::sched {

// What a source says about GPUs that it has no row for. Between two rows: kNearest takes the lower one, kLinear and kSqrt
// the line between the two. A row of 0 says that the job cannot run there, and no rule reaches past it.
enum class Beyond : uint8_t {
  kRefuse,   // cannot run; a job that no row covers is an error before the run
  kNearest,  // more GPUs run as the largest row; on fewer than the smallest it cannot run
  kLinear,   // in proportion to GPUs, from the nearest row
  kSqrt,     // with their square root
};

// "refuse", "nearest", "linear", "sqrt". Error: InvalidArgument with those.
absl::StatusOr<Beyond> beyond_of(const std::string& name);
const char* name_of(Beyond beyond);

// Every job at its trace's own speed: work / duration_s a second on the GPUs asked for (1 where the trace knows no run time);
// other numbers of GPUs by the rule. The type of GPU makes no difference.
std::unique_ptr<Throughput> duration_throughput(Beyond beyond);

// `format`:
// - "gavel": a JSON file of gavel_table.h. GPUs on more hosts than they need run at the table's "_unconsolidated" rates (where
//   it has them, else as on few), two jobs on the same GPUs at its pairs.
// - "elasticflow": a folder of one CSV a model (named after it), rows are global batch sizes, columns GPUs; the folder ends in
//   "_" and the GPU type ("throughputs_A100"), or holds several such.
// - "scalai": a CSV with the columns type, gpu, gpus, iterations_per_s.
// A GPU type of the fleet is the table's of the same name in any case, or of the name before its first "-" ("v100-16g": v100).
// Errors, all at once: unreadable or bad tables, GPU types the table lacks, job types and GPUs that no row covers on any type.
absl::StatusOr<std::unique_ptr<Throughput>> table_throughput(const std::string& format, const std::string& path,
                                                             const Fleet& fleet, const Workload& workload,
                                                             Beyond beyond);

}  // namespace scalai::sched
