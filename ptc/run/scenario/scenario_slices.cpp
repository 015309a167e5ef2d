// Jobs that ask for parts of GPUs (MIG): what can serve them, and fleet and jobs counted in slices.

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/units.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/slices.h"
#include "ptc/run/scenario/scenario_parts.h"

namespace scalai::scenario::internal {
namespace {

void check_gpus(Context& context, const std::vector<policy::TypeSpec>& types, int64_t jobs) {
  const std::string who = fmt::format("{} {} for a part of a GPU", counted(jobs, "job"), jobs == 1 ? "asks" : "ask");
  const auto without = std::find_if(types.begin(), types.end(),
                                    [](const policy::TypeSpec& type) { return !policy::has_slices(type.name); });
  if (without != types.end()) {
    context.source.error("workload", fmt::format("{}, and \"{}\" has none", who, without->name),
                         "A100, H100, H200, B200 and their supersets are cut in slices (MIG)");
  } else if (types.size() > 1) {
    context.source.error("workload", fmt::format("{}, on a cluster of {} GPU kinds", who, types.size()),
                         "parts of GPUs need a cluster of one kind");
  }
}

void check_serves(Context& context, const PolicySpec& policy, uint64_t seed) {
  std::string able;
  for (const policy::PolicyInfo& info : policy::policies()) {
    if (info.traits.slices) able += (able.empty() ? "" : ", ") + info.name;
  }
  const std::string hint = fmt::format("these do, without elastic and packing: {}", able);
  if (!policy.exec.empty()) {
    context.source.error("policy.exec", "policy programs do not serve jobs that ask for parts of GPUs", hint);
    return;
  }
  const auto made = policy::make_policy(policy.name, policy.set, seed);
  if (!made.ok() || (*made)->traits().slices) return;
  context.source.error(context.source.given("policy.name") ? "policy.name" : "workload",
                       fmt::format("{} does not serve jobs that ask for parts of GPUs{}", policy.name,
                                   policy.set.empty() ? "" : " (so set)"),
                       hint);
}

void check_rest(Context& context, const ManyJobs& many) {
  const auto refuse = [&](const std::string& path, const std::string& what, const std::string& hint) {
    context.source.error(path, fmt::format("{} with jobs that ask for parts of GPUs", what), hint);
  };
  const proto::Scenario& given = context.message;
  const std::string& source = given.throughputs().source();
  if (source == "analytic" || source == "simulated")
    refuse("throughputs.source", "step times of models are of whole GPUs: not", "use \"duration\" or a table");
  if (given.throughputs().format() == "pollux")
    refuse("throughputs.format", "profiles of Pollux are of whole GPUs: not", "use \"duration\" or another table");
  if (!given.changes().strategy().empty())
    refuse("changes.strategy", "plans are not made", "changes { seconds: \"30s\" }");
  if (!given.changes().preset().empty())
    refuse("changes.preset", "presets count whole GPUs: not", "changes { seconds: \"30s\" }");
  if (many.quotas) refuse("virtual_clusters", "quotas count whole GPUs: not", "");
}

}  // namespace

bool build_slices(Context& context, Scenario& scenario) {
  ManyJobs& many = *scenario.many_jobs;
  std::vector<policy::Job>& jobs = many.workload.jobs;
  const int64_t parts = std::count_if(jobs.begin(), jobs.end(), [](const policy::Job& job) { return job.slices > 0; });
  if (parts == 0 || !context.fleet_ok) return false;
  const int before = context.source.errors();
  check_gpus(context, many.fleet.types, parts);
  if (scenario.policy) check_serves(context, *scenario.policy, scenario.seed);
  check_rest(context, many);
  if (context.source.errors() > before) return false;
  many.fleet.per_gpu = policy::kSlicesOfGpu;
  for (policy::HostSpec& host : many.fleet.hosts) host.gpus *= policy::kSlicesOfGpu;
  for (policy::Job& job : jobs) {
    job.per_gpu = policy::kSlicesOfGpu;
    const auto count = [&](int gpus) { return job.slices > 0 ? job.slices : gpus * policy::kSlicesOfGpu; };
    job.min_gpus = count(job.min_gpus);
    job.max_gpus = count(job.max_gpus);
    job.gpus = count(job.gpus);
  }
  context.notes.push_back(
      fmt::format("{} {} for parts of GPUs (MIG); a grant that finds no GPU with its slices free waits, and "
                  "those after it wait behind it",
                  counted(parts, "job"), parts == 1 ? "asks" : "ask"));
  return true;
}

}  // namespace scalai::scenario::internal
