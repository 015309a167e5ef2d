#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/csv.h"
#include "ptc/run/scenario/trace/gavel_table.h"
#include "ptc/run/scenario/trace/internal/formats.h"
#include "ptc/run/scenario/trace/internal/values.h"

namespace scalai::trace {
namespace {

const std::vector<std::string> kNewFields{
    "job_type",    "command",      "working_directory", "num_steps_arg", "needs_data_dir",
    "total_steps", "scale_factor", "priority_weight",   "SLO",           "arrival_time"};
const std::vector<std::string> kOldFields{"job_type",    "command",      "num_steps_arg", "needs_data_dir",
                                          "total_steps", "arrival_time", "scale_factor"};

// "ResNet-18 (batch size 128)" → 128; 0 where a type does not say.
int64_t batch_of(std::string_view type) {
  constexpr std::string_view kWords = "(batch size ";
  const size_t at = type.rfind(kWords);
  if (at == std::string_view::npos || type.back() != ')') return 0;
  const auto batch = whole_of(type.substr(at + kWords.size(), type.size() - at - kWords.size() - 1));
  return batch && *batch > 0 ? *batch : 0;
}

// How long a job runs alone on the reference GPUs, where a table was given.
struct Reference {
  const GavelTable* table = nullptr;
  std::string worker;
  // Seconds, or < 0 when the table has no rate for it.
  double seconds(const policy::Job& job) const {
    const auto jobs = table->find(worker);
    if (jobs == table->end()) return -1;
    const auto rates = jobs->second.find(GavelKey{job.type, job.gpus});
    if (rates == jobs->second.end() || rates->second.alone <= 0) return -1;
    return job.work / rates->second.alone;
  }
};

// SLO: -1 is none, else the deadline in run times of the job alone after its arrival (Gavel's simulator).
void set_deadline(Csv& csv, double ratio, const Reference& reference, policy::Job& job, Reading& reading) {
  if (reference.table != nullptr) {
    job.duration_s = reference.seconds(job);
    if (job.duration_s < 0 && ratio > 0) {
      csv.problem("SLO", fmt::format("no rate of {} on {} {} GPUs to count it in", in_quotes(job.type), job.gpus,
                                     reference.worker));
    }
  }
  if (ratio <= 0) return;
  if (reference.table == nullptr) {
    ++reading.left_deadlines;
  } else {
    job.deadline_s = job.submit_s + ratio * job.duration_s;
  }
}

void read_row(Csv& csv, const Reference& reference, Reading& reading) {
  const bool old = csv.fields().size() == kOldFields.size();
  csv.set_header(old ? kOldFields : kNewFields);
  const auto type = csv.name("job_type");
  const auto steps = csv.number("total_steps", kWork);
  const auto gpus = csv.count("scale_factor", kGpuCount);
  const auto arrival = csv.number("arrival_time", kAnyTime);
  const auto weight = old ? std::optional<double>(1) : csv.number("priority_weight", {1e-9, 1e9});
  const auto ratio = old ? std::optional<double>(-1) : csv.number("SLO", {-1, 1e9});
  if (!type || !steps || !gpus || !arrival || !weight || !ratio) return;
  policy::Job job;
  job.name = fmt::format("job-{}", reading.summary.rows + csv.rows() - 1);  // Gavel numbers jobs by row, from 0
  job.type = *type;
  job.submit_s = *arrival;
  job.gpus = job.min_gpus = job.max_gpus = static_cast<int>(*gpus);
  job.work = *steps;
  job.weight = *weight;
  job.batch = batch_of(*type);
  set_deadline(csv, *ratio, reference, job, reading);
  reading.add(csv.place(), std::move(job));
}

absl::Status read_gavel(const std::string& path, Reading& reading) {
  GavelTable table;
  Reference reference;
  if (reading.options.given("throughputs")) {
    SCALAI_ASSIGN_OR_RETURN(table, read_gavel_table(reading.options.text("throughputs")));
    reference = {&table, reading.options.text("reference")};
    if (table.count(reference.worker) == 0) {
      return invalid(
          fmt::format("{}: has no worker type {}", reading.options.text("throughputs"), in_quotes(reference.worker)));
    }
  }
  SCALAI_ASSIGN_OR_RETURN(Csv csv, Csv::open(path, reading.problems, '\t', reading.bytes_read));
  csv.set_free();
  int64_t old_rows = 0;
  while (csv.next()) {
    const size_t width = csv.fields().size();
    if (width != kOldFields.size() && width != kNewFields.size()) {
      csv.problem("", fmt::format("has {} tab-separated fields; the format has 10, its old form 7", width));
      continue;
    }
    old_rows += width == kOldFields.size() ? 1 : 0;
    read_row(csv, reference, reading);
  }
  reading.summary.rows += csv.rows();
  if (old_rows > 0) reading.note(fmt::format("{} rows of the old form of 7 fields: weight 1, no deadline", old_rows));
  if (reading.left_deadlines > 0) {
    reading.note(fmt::format("{} jobs have an SLO ratio that no deadline was made of; throughputs=FILE makes them",
                             reading.left_deadlines));
    reading.left_deadlines = 0;
  }
  return csv.status();
}

}  // namespace

std::vector<Format> gavel_formats() {
  return {{{"gavel", TraceContent::kJobs,
            "job traces of Gavel, 10 fields and the old 7 (github.com/stanford-futuredata/gavel scheduler/traces)",
            with_job_options({{"throughputs", "", "a Gavel throughput table, for durations and deadlines"},
                              {"reference", "v100", "worker type whose rate durations and SLO ratios count in"}},
                             "file")},
           read_gavel}};
}

}  // namespace scalai::trace
