#include "apps/exec/exec_inputs.h"

#include <fmt/format.h>

#include "apps/common/runs/run_folder.h"
#include "executor/worker/sample_reading.h"
#include "executor/worker/state_source.h"
#include "ptc/base/file.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/job_state.h"

namespace scalai::apps {

namespace ex = scalai::executor;

namespace {

struct JobPath {
  const scenario::JobSpec& job;
  std::string path;
};
// "PATH", or "JOB=PATH" with several jobs; `doubt` is the message about a word that names none of them.
absl::StatusOr<JobPath> job_path(const scenario::Scenario& scenario, const std::string& word,
                                 fmt::format_string<const std::string&, size_t> doubt) {
  for (const scenario::JobSpec& job : scenario.jobs) {
    if (word.starts_with(job.name + "=")) return JobPath{job, word.substr(job.name.size() + 1)};
  }
  if (scenario.jobs.size() > 1) return invalid(fmt::format(doubt, word, scenario.jobs.size()));
  return JobPath{scenario.jobs.front(), word};
}

}  // namespace

absl::StatusOr<ByJob> states_of(const scenario::Scenario& scenario, const std::vector<std::string>& words) {
  ByJob states;
  for (const std::string& word : words) {
    SCALAI_ASSIGN_OR_RETURN(const JobPath given,
                            job_path(scenario, word, "--state={}: which of the {} jobs? (JOB=PATH)"));
    const auto& [job, path] = given;
    const std::string absolute = absolute_path(path);
    SCALAI_ASSIGN_OR_RETURN(const auto source, ex::worker::StateSource::open(job.name, absolute));
    std::vector<DeviceId> devices;
    for (int i = 0; i < job.configs.front().config.world(); ++i) devices.push_back(DeviceId(i));
    SCALAI_ASSIGN_OR_RETURN(const collection::Collection side,
                            scenario::collection_of(job, job.configs.front().config, devices));
    SCALAI_ASSIGN_OR_RETURN(const size_t real, source->match(side));
    say("job {}: {} of {} tensors come from {}, the others are generated\n", job.name, real, side.tensors.size(), path);
    if (!states.emplace(job.name, absolute).second) return invalid(fmt::format("two states of job {}", job.name));
  }
  return states;
}

absl::StatusOr<ByJob> trainers_of(const scenario::Scenario& scenario, const StateOptions& state,
                                  const std::vector<std::string>& words) {
  ByJob trainers;
  for (const std::string& word : words) {
    SCALAI_ASSIGN_OR_RETURN(const JobPath given,
                            job_path(scenario, word, "--train={}: which of the {} jobs? (JOB=COMMAND)"));
    if (given.path.empty()) return invalid("--train: an empty command");
    if (!trainers.emplace(given.job.name, given.path).second)
      return invalid(fmt::format("--train: two programs of job {}", given.job.name));
  }
  if (trainers.empty()) return trainers;
  if (state.host_overflow > 0)
    return invalid("--train: training programs map memory that stays where it is\nhint: leave --host-overflow out");
  if (scenario.memory_cap >= 0)
    return invalid(
        "--train: the scenario has a memory cap, and training programs map whole tensors\n"
        "hint: leave memory_cap out");
  for (const scenario::JobSpec& job : scenario.jobs) {
    if (!trainers.contains(job.name) || !job.choose || job.choose->batch_tolerance == 0) continue;
    return invalid(
        fmt::format("--train: job {} has a batch_tolerance, and nobody tells its program of another batch\n"
                    "hint: leave batch_tolerance out",
                    job.name));
  }
  return trainers;
}

absl::StatusOr<ByJob> datasets_of(const scenario::Scenario& scenario) {
  ByJob datasets;
  for (const scenario::JobSpec& job : scenario.jobs) {
    if (!job.dataset || job.dataset->index.empty()) continue;
    const std::string path = absolute_path(job.dataset->index_path);
    SCALAI_RETURN_IF_ERROR(ex::worker::SampleReading::open(datasets::state_text(job.dataset->state), path).status());
    datasets.emplace(job.name, path);
  }
  return datasets;
}

absl::Status check_apart(const std::string& what, const ByJob& paths, const std::string& out) {
  for (const auto& [job, path] : paths) {
    if (lies_in(path, out))
      return invalid(
          fmt::format("{} {} lies in --out={}, which a run clears when it begins\n"
                      "hint: name another --out, or move it",
                      what, path, out));
  }
  return absl::OkStatus();
}

absl::StatusOr<ByJob> mounts_of(const scenario::Scenario& scenario, const std::vector<std::string>& words) {
  ByJob mounts;
  for (const std::string& word : words) {
    SCALAI_ASSIGN_OR_RETURN(const JobPath given,
                            job_path(scenario, word, "--mount={}: of which of the {} jobs? (JOB=DIR)"));
    const auto& [job, path] = given;
    if (!mounts.emplace(job.name, absolute_path(path)).second)
      return invalid(fmt::format("--mount: two mounts of job {}", job.name));
  }
  return mounts;
}

}  // namespace scalai::apps
