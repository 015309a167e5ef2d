#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/csv.h"
#include "ptc/run/scenario/trace/internal/formats.h"

namespace scalai::trace {
namespace {

using RowReader = void (*)(Csv& csv, Reading& reading);

absl::Status read_rows(const std::string& path, const std::vector<std::string>& columns, RowReader row,
                       Reading& reading) {
  SCALAI_ASSIGN_OR_RETURN(Csv csv, Csv::open(path, reading.problems, ',', reading.bytes_read));
  if (!csv.read_header(columns)) return csv.status();
  while (csv.next()) row(csv, reading);
  reading.summary.rows += csv.rows();
  return csv.status();
}

std::string numbered(const Csv& csv, const Reading& reading) {
  return fmt::format("job-{}", reading.summary.rows + csv.rows() - 1);
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// True when the option is unset or lists the value.
bool wanted(const Reading& reading, const std::string& option, const std::string& value) {
  const std::vector<std::string> items = reading.options.list(option);
  return items.empty() ||
         std::any_of(items.begin(), items.end(), [&](const std::string& item) { return upper(item) == upper(value); });
}

bool absent(std::string_view value) {
  const std::string text = upper(std::string(value));
  return text.empty() || text == "NONE" || text == "NAN" || text == "NAT" || text == "NULL";
}

void read_philly(Csv& csv, Reading& reading) {
  const auto submit = csv.number("submit_s", kAnyTime);
  const auto duration = csv.number("duration_s", kNotNegative);
  const auto gpus = csv.count("num_gpus", {0, kGpuCount.high});
  const auto vc = csv.name("vc");
  if (!submit || !duration || !gpus || !vc) return;
  if (!wanted(reading, "vc", *vc)) return reading.drop("of another virtual cluster");
  if (*gpus == 0) return reading.drop("asks for no GPU");
  if (*duration <= 0) return reading.drop("ran for no time");
  policy::Job job = duration_job(numbered(csv, reading), *submit, *gpus, *duration);
  job.entity = *vc;
  reading.add(csv.place(), std::move(job));
}

// Most GPUs an elastic job may have, as the option says.
int elastic_most(Reading& reading, int64_t gpus) {
  const int64_t most = reading.options.count("elastic-max", 1, 1000000, reading.problems);
  return static_cast<int>(std::max(most, gpus));
}

void read_pollux(Csv& csv, Reading& reading) {
  const auto name = csv.name("name");
  const auto submit = csv.number("time", kAnyTime);
  const auto application = csv.name("application");
  // Sia's newer traces leave size and batch to the policy and have neither column.
  const bool sized = csv.has("num_replicas") && !absent(csv.text("num_replicas"));
  const bool batched = csv.has("batch_size") && !absent(csv.text("batch_size"));
  const auto gpus = sized ? csv.count("num_replicas", kGpuCount) : std::optional<int64_t>(1);
  const auto batch = batched ? csv.count("batch_size", {1, 1e12}) : std::optional<int64_t>(0);
  if (!name || !submit || !application || !gpus || !batch) return;
  policy::Job job;
  job.name = *name;
  job.type = *application;
  job.submit_s = *submit;
  job.gpus = static_cast<int>(*gpus);
  job.max_gpus = elastic_most(reading, *gpus);
  job.batch = *batch;
  reading.add(csv.place(), std::move(job));
}

absl::Status read_pollux_file(const std::string& path, Reading& reading) {
  if (reading.jobs.empty()) {
    reading.note("work is 1, one training of the application: its profile knows how much that is");
  }
  return read_rows(path, {"name", "time", "application"}, read_pollux, reading);
}

void read_elasticflow(Csv& csv, Reading& reading) {
  const auto id = csv.name("job_id");
  const auto submit = csv.number("submit_time", kAnyTime);
  const auto iterations = csv.number("iteration", kWork);
  const auto model = csv.name("model_name");
  const auto deadline = csv.number("ddl", kAnyTime);
  const auto batch = csv.count("batch_size", {1, 1e12});
  const auto gpus = csv.count("num_gpu", kGpuCount);
  const auto duration = csv.number("duration", kNotNegative);
  if (!id || !submit || !iterations || !model || !deadline || !batch || !gpus || !duration) return;
  if (*deadline < *submit) {
    csv.problem("ddl", fmt::format("{} is before the submission", *deadline));
    return;
  }
  policy::Job job;
  job.name = "job-" + *id;
  job.type = *model;
  job.submit_s = *submit;
  job.gpus = static_cast<int>(*gpus);
  job.max_gpus = elastic_most(reading, *gpus);
  job.work = *iterations;
  job.duration_s = *duration;
  job.deadline_s = *deadline;
  job.batch = *batch;
  reading.add(csv.place(), std::move(job));
}

absl::Status read_elasticflow_file(const std::string& path, Reading& reading) {
  return read_rows(path,
                   {"job_id", "submit_time", "iteration", "model_name", "ddl", "batch_size", "num_gpu", "duration"},
                   read_elasticflow, reading);
}

// A job of a Slurm-like log, between its start and its end.
void read_logged(Csv& csv, const char* entity, const char* type, Reading& reading) {
  const auto id = csv.name("job_id");
  const auto gpus = csv.count("gpu_num", {0, kGpuCount.high});
  const auto state = csv.name("state");
  const auto submit = csv.time("submit_time");
  if (!id || !gpus || !state || !submit) return;
  if (*gpus == 0) return reading.drop("asks for no GPU");
  if (!wanted(reading, "state", *state)) return reading.drop("of another state");
  if (absent(csv.text("start_time"))) return reading.drop("never started");
  if (absent(csv.text("end_time"))) return reading.drop("has no end");
  const auto start = csv.time("start_time");
  const auto end = csv.time("end_time");
  const auto owner = csv.name(entity);
  const auto kind = type == nullptr ? std::optional<std::string>("") : csv.name(type);
  if (!start || !end || !owner || !kind) return;
  if (*start < *submit) return csv.problem("start_time", "is before submit_time");
  if (*end < *start) return csv.problem("end_time", "is before start_time");
  if (*end == *start) return reading.drop("ran for no time");
  if (!absent(csv.text("duration"))) {
    const auto stated = csv.number("duration", kAnyTime);
    if (stated && std::abs(*stated - (*end - *start)) > 1) ++reading.other_durations;
  }
  policy::Job job = duration_job(*id, *submit, *gpus, *end - *start);
  job.entity = *owner;
  job.type = *kind;
  reading.add(csv.place(), std::move(job));
}

absl::Status read_log(const std::string& path, RowReader row, const std::string& entity, Reading& reading) {
  SCALAI_RETURN_IF_ERROR(read_rows(
      path, {"job_id", entity, "gpu_num", "state", "submit_time", "start_time", "end_time", "duration"}, row, reading));
  if (reading.other_durations > 0) {
    reading.note(fmt::format("{} jobs with another `duration` than end_time less start_time, which is what is used",
                             reading.other_durations));
    reading.other_durations = 0;
  }
  return absl::OkStatus();
}

void read_helios(Csv& csv, Reading& reading) {
  if (!wanted(reading, "vc", std::string(csv.text("vc")))) return reading.drop("of another virtual cluster");
  read_logged(csv, "vc", nullptr, reading);
}

void read_acme(Csv& csv, Reading& reading) { read_logged(csv, "user", csv.has("type") ? "type" : nullptr, reading); }

// The derived form: completed jobs, times in seconds.
void read_acme_derived(Csv& csv, Reading& reading) {
  const auto submit = csv.number("submit_s", kAnyTime);
  const auto duration = csv.number("duration_s", kNotNegative);
  const auto gpus = csv.count("num_gpus", kGpuCount);
  const auto kind = csv.name("kind");
  if (!submit || !duration || !gpus || !kind) return;
  if (*duration <= 0) return reading.drop("ran for no time");
  policy::Job job = duration_job(numbered(csv, reading), *submit, *gpus, *duration);
  job.type = *kind;
  reading.add(csv.place(), std::move(job));
}

absl::Status read_acme_file(const std::string& path, Reading& reading) {
  Problems unused;
  SCALAI_ASSIGN_OR_RETURN(Csv csv, Csv::open(path, unused));
  (void)csv.read_header({});
  if (!csv.has("submit_s")) return read_log(path, read_acme, "user", reading);
  reading.note("durations of this form count from the submission: they contain queueing");
  return read_rows(path, {"submit_s", "duration_s", "num_gpus", "kind"}, read_acme_derived, reading);
}

void read_openb(Csv& csv, Reading& reading) {
  const auto name = csv.name("name");
  const auto gpus = csv.count("num_gpu", {0, kGpuCount.high});
  const auto share = csv.count("gpu_milli", {0, 1000});
  const auto phase = csv.name("pod_phase");
  const auto created = csv.number("creation_time", kAnyTime);
  if (!name || !gpus || !share || !phase || !created) return;
  if (*gpus == 0) return reading.drop("asks for no GPU");
  if (*share < 1000) return reading.drop("asks for a part of a GPU");
  if (!wanted(reading, "phase", *phase)) return reading.drop("of another phase");
  if (absent(csv.text("scheduled_time"))) return reading.drop("never started");
  if (absent(csv.text("deletion_time"))) return reading.drop("has no end");
  const auto start = csv.number("scheduled_time", kAnyTime);
  const auto end = csv.number("deletion_time", kAnyTime);
  if (!start || !end) return;
  if (*start < *created) return csv.problem("scheduled_time", "is before creation_time");
  if (*end < *start) return csv.problem("deletion_time", "is before scheduled_time");
  if (*end == *start) return reading.drop("ran for no time");
  if (!absent(csv.text("gpu_spec"))) ++reading.type_limits;
  reading.add(csv.place(), duration_job(*name, *created, *gpus, *end - *start));
}

absl::Status read_openb_file(const std::string& path, Reading& reading) {
  SCALAI_RETURN_IF_ERROR(read_rows(
      path,
      {"name", "num_gpu", "gpu_milli", "gpu_spec", "pod_phase", "creation_time", "deletion_time", "scheduled_time"},
      read_openb, reading));
  if (reading.type_limits > 0) {
    reading.note(fmt::format("{} jobs name GPU types they need (gpu_spec), which is not kept", reading.type_limits));
    reading.type_limits = 0;
  }
  return absl::OkStatus();
}

const TraceOption kVc{"vc", "", "only jobs of these virtual clusters, parted by +"};
const TraceOption kState{"state", "", "only jobs that ended so, parted by +: COMPLETED+FAILED"};
const TraceOption kElastic{"elastic-max", "64", "most GPUs an elastic policy may give a job; least is 1"};

}  // namespace

std::vector<Format> table_job_formats() {
  constexpr TraceContent kJobs = TraceContent::kJobs;
  return {
      {{"philly", kJobs, "jobs of Microsoft's Philly as CSV: submit_s, duration_s, num_gpus, vc",
        with_job_options({kVc}, "first")},
       [](const std::string& path, Reading& reading) {
         return read_rows(path, {"submit_s", "duration_s", "num_gpus", "vc"}, read_philly, reading);
       }},
      {{"pollux", kJobs, "workloads of Pollux and Sia (github.com/petuum/adaptdl, siasosp23/artifacts)",
        with_job_options({kElastic}, "file")},
       read_pollux_file},
      {{"elasticflow", kJobs, "jobs with deadlines (github.com/pkusys/ElasticFlow, traces_for_ElasticFlow)",
        with_job_options({kElastic}, "first")},
       read_elasticflow_file},
      {{"helios", kJobs, "SenseTime's cluster_log.csv (github.com/S-Lab-System-Group/HeliosData)",
        with_job_options({kVc, kState}, "first")},
       [](const std::string& path, Reading& reading) { return read_log(path, read_helios, "vc", reading); }},
      {{"acme", kJobs, "trace_seren.csv and trace_kalos.csv (github.com/InternLM/AcmeTrace), or the derived CSV",
        with_job_options({kState}, "first")},
       read_acme_file},
      {{"openb", kJobs, "openb_pod_list*.csv (github.com/alibaba/clusterdata cluster-trace-gpu-v2023)",
        with_job_options({{"phase", "", "only pods of these phases, parted by +: Succeeded+Running"}}, "first")},
       read_openb_file},
  };
}

}  // namespace scalai::trace
