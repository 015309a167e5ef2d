// Jobs that ask for parts of GPUs (MIG): what can serve them, and fleet and jobs counted in slices.

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/units.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/slices.h"
#include "sim/jobs/scenario/internal/sched_parts.h"

namespace scalai::scenario::internal {
namespace {

using policy::kSlicesOfGpu;

// A table says how fast whole GPUs are; a slice has its share of one.
class SlicedTable final : public policy::Throughput {
 public:
  explicit SlicedTable(std::unique_ptr<policy::Throughput> table) : table_(std::move(table)) {}

  policy::Rate rate(const policy::Job& job, policy::GpuType type, int slices, double work_done) const override {
    const int gpus = std::max(1, slices / policy::kSlicesOfGpu);
    policy::Rate rate = table_->rate(whole(job), type, gpus, work_done);
    rate.per_s *= static_cast<double>(slices) / (gpus * policy::kSlicesOfGpu);
    return rate;
  }
  policy::Rate placed_rate(const policy::Job& job, const policy::Placement& placement,
                           double work_done) const override {
    if (job.slices > 0) return rate(job, placement.type, placement.gpus(), work_done);
    policy::Placement gpus{.type = placement.type, .hosts = placement.hosts};
    for (policy::HostShare& share : gpus.hosts) share.gpus /= policy::kSlicesOfGpu;
    return table_->placed_rate(whole(job), gpus, work_done);
  }
  std::string description() const override {
    return table_->description() + "; a part of a GPU: its compute slices, of 7";
  }

 private:
  static policy::Job whole(policy::Job job) {
    job.per_gpu = 1;
    job.gpus = std::max(1, job.gpus / policy::kSlicesOfGpu);
    return job;
  }

  std::unique_ptr<policy::Throughput> table_;
};

void check_gpus(SchedContext& context, int64_t jobs) {
  const auto& types = context.scenario.fleet.types;
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

void check_policy(SchedContext& context) {
  const PolicySpec& policy = context.scenario.policy;
  std::string able;
  for (const policy::PolicyInfo& info : policy::policies()) {
    if (info.traits.slices) able += (able.empty() ? "" : ", ") + info.name;
  }
  const std::string hint = fmt::format("these do, without elastic and packing: {}", able);
  if (!policy.exec.empty()) {
    context.source.error("policy.exec", "policy programs do not serve jobs that ask for parts of GPUs", hint);
    return;
  }
  const auto made = policy::make_policy(policy.name, policy.set, context.scenario.seed);
  if (!made.ok() || (*made)->traits().slices) return;
  context.source.error(context.source.given("policy.name") ? "policy.name" : "workload",
                       fmt::format("{} does not serve jobs that ask for parts of GPUs{}", policy.name,
                                   policy.set.empty() ? "" : " (so set)"),
                       hint);
}

void check_rest(SchedContext& context) {
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
  if (context.scenario.quotas) refuse("virtual_clusters", "quotas count whole GPUs: not", "");
}

}  // namespace

void build_slices(SchedContext& context) {
  ClusterScenario& scenario = context.scenario;
  std::vector<policy::Job>& jobs = scenario.workload.jobs;
  const int64_t parts = std::count_if(jobs.begin(), jobs.end(), [](const policy::Job& job) { return job.slices > 0; });
  if (parts == 0 || !context.cluster_ok) return;
  const int before = context.source.errors();
  check_gpus(context, parts);
  if (!context.source.broken_inside("policy")) check_policy(context);
  check_rest(context);
  if (context.source.errors() > before || !scenario.throughput) return;
  scenario.fleet.per_gpu = policy::kSlicesOfGpu;
  for (policy::HostSpec& host : scenario.fleet.hosts) host.gpus *= policy::kSlicesOfGpu;
  for (policy::Job& job : jobs) {
    job.per_gpu = policy::kSlicesOfGpu;
    const auto count = [&](int gpus) { return job.slices > 0 ? job.slices : gpus * policy::kSlicesOfGpu; };
    job.min_gpus = count(job.min_gpus);
    job.max_gpus = count(job.max_gpus);
    job.gpus = count(job.gpus);
  }
  const std::string& source = context.message.throughputs().source();
  const bool table = source.empty() ? !context.message.throughputs().file().empty() : source == "table";
  if (table) scenario.throughput = std::make_unique<SlicedTable>(std::move(scenario.throughput));
  scenario.notes.push_back(
      fmt::format("{} {} for parts of GPUs (MIG); a grant that finds no GPU with its slices free waits, and "
                  "those after it wait behind it",
                  counted(parts, "job"), parts == 1 ? "asks" : "ask"));
}

}  // namespace scalai::scenario::internal
