// What a run of many jobs counts, and what its policy believes.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/run/policy/fluid.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/scenario/internal/scenario_many_jobs.h"

namespace scalai::scenario::internal {
namespace {

// The jobs by number; nothing when there is a problem, which is reported.
std::optional<policy::Window> window_by_jobs(Context& context, const std::vector<policy::Job>& jobs) {
  const proto::Window& given = context.message.window();
  const int64_t total = std::ssize(jobs);
  const int64_t to_job = context.source.given("window.to_job") ? given.to_job() : total;
  if (given.from_job() < 0 || given.from_job() >= total) {
    context.source.error("window.from_job", fmt::format("there is no job {}", given.from_job()),
                         fmt::format("the workload has {} jobs, 0 to {}", total, total - 1));
    return std::nullopt;
  }
  if (to_job <= given.from_job() || to_job > total) {
    context.source.error(
        "window.to_job", fmt::format("jobs {} to before {} are no window", given.from_job(), to_job),
        fmt::format("it is the first job that does not count any more: {} to {}", given.from_job() + 1, total));
    return std::nullopt;
  }
  policy::Window window;
  window.from_job = static_cast<size_t>(given.from_job());
  window.to_job = static_cast<size_t>(to_job);
  window.from_s = jobs[window.from_job].submit_s;
  return window;
}

std::optional<policy::Window> window_by_time(Context& context, const std::vector<policy::Job>& jobs) {
  Source& source = context.source;
  const proto::Window& given = context.message.window();
  policy::Window window;
  if (source.given("window.from")) {
    const auto from_s = source.seconds("window.from", given.from());
    if (!from_s) return std::nullopt;
    window.from_s = *from_s;
  }
  const bool ends = source.given("window.to");
  double to_s = policy::kNever;
  if (ends) {
    const auto read_s = source.seconds("window.to", given.to());
    if (!read_s) return std::nullopt;
    window.to_s = to_s = *read_s;
  }
  if (to_s <= window.from_s) {
    source.error("window.to", fmt::format("the window ends at {} s, before it begins", to_s));
    return std::nullopt;
  }
  const auto before = [&](double at_s) {
    return static_cast<size_t>(
        std::count_if(jobs.begin(), jobs.end(), [&](const auto& j) { return j.submit_s < at_s; }));
  };
  window.from_job = before(window.from_s);
  window.to_job = before(to_s);
  if (window.from_job < window.to_job) return window;
  source.error(source.given("window.from") ? "window.from" : "window.to", "no job is submitted in the window",
               fmt::format("the {} jobs are submitted from {} s to {} s", jobs.size(), jobs.front().submit_s,
                           jobs.back().submit_s));
  return std::nullopt;
}

}  // namespace

void build_window(Context& context, Scenario& scenario) {
  Source& source = context.source;
  if (!source.given("window") || !context.workload_ok) return;
  const bool first = source.given("window.from_job"), by_job = first || source.given("window.to_job");
  const bool from = source.given("window.from"), by_time = from || source.given("window.to");
  if (by_job && by_time) {
    source.error(from ? "window.from" : "window.to", "a window is of jobs by number or by time, not both", "",
                 {{first ? "window.from_job" : "window.to_job", "a number is here"}});
    return;
  }
  if (!by_job && !by_time) {
    source.error("window", "this window says neither which jobs nor which time counts",
                 "write it like window { from_job: 4000 to_job: 5000 } or window { from: \"10d\" to: \"20d\" }");
    return;
  }
  const std::vector<policy::Job>& jobs = scenario.many_jobs->workload.jobs;
  auto window = by_job ? window_by_jobs(context, jobs) : window_by_time(context, jobs);
  if (!window) return;
  window->run_on = context.message.window().run_on();
  scenario.many_jobs->window = window;
}

namespace {

// Policies without rounds give shares, not GPUs: what wraps them has nothing to hold on to.
void refuse_fluid(Context& context, const std::string& field, const policy::Policy& policy) {
  if (dynamic_cast<const policy::FluidPolicy*>(&policy) == nullptr) return;
  context.source.error(field, fmt::format("\"{}\" has no meaning with shares that are applied continuously", field),
                       "leave out ideal=true of the policy", {{"policy.name", "the policy is here"}});
}

}  // namespace

void build_estimates(Context& context, Scenario& scenario) {
  Source& source = context.source;
  const proto::Estimates& given = context.message.estimates();
  if (!(given.uniform() >= 0 && given.uniform() < 1)) {
    return source.error("estimates.uniform", fmt::format("\"uniform\" is {}, of [0, 1)", given.uniform()),
                        "0.2 means factors between 0.8 and 1.2");
  }
  constexpr double kMost = 10;  // factors of more than e^50 are no estimates
  if (!(given.log_normal() >= 0 && given.log_normal() <= kMost)) {
    return source.error("estimates.log_normal",
                        fmt::format("\"log_normal\" is {}, of 0 to {}", given.log_normal(), kMost),
                        "0.5 means that two in three estimates are within a factor of e^0.5 = 1.65");
  }
  if (given.uniform() > 0 && given.log_normal() > 0) {
    return source.error("estimates.log_normal", "\"uniform\" and \"log_normal\" exclude each other", "",
                        {{"estimates.uniform", "the first is here"}});
  }
  policy::EstimateError& estimates = scenario.many_jobs->estimates;
  estimates = {.uniform = given.uniform(), .log_normal = given.log_normal()};
  if (estimates.none() || !scenario.policy || !scenario.policy->exec.empty()) return;
  const auto policy = policy::make_policy(scenario.policy->name, scenario.policy->set, scenario.seed);
  if (policy.ok()) refuse_fluid(context, "estimates", **policy);
  if (policy.ok() && !(*policy)->traits().needs_durations) {
    context.notes.push_back(
        fmt::format("{} does not ask how long jobs take: estimates change nothing", scenario.policy->name));
  }
}

namespace {

// The GPU type of a quota; -1 when there is a problem, which is reported.
int type_of_quota(Context& context, const std::vector<policy::TypeSpec>& types, int index) {
  const proto::Quota& given = context.message.virtual_clusters().quotas(index);
  const std::string path = fmt::format("virtual_clusters.quotas[{}].gpu", index);
  std::vector<std::string> names;
  for (const policy::TypeSpec& type : types) names.push_back(type.name);
  if (given.gpu().empty()) {
    if (types.size() == 1) return 0;
    context.source.missing(path, fmt::format("the cluster has {}: a quota for each", fmt::join(names, ", ")));
    return -1;
  }
  const auto found = std::find(names.begin(), names.end(), given.gpu());
  if (found != names.end()) return static_cast<int>(found - names.begin());
  context.source.error_unknown(path, "GPU kind", given.gpu(), names);
  return -1;
}

void read_quotas(Context& context, const std::vector<policy::TypeSpec>& types, policy::Quotas* quotas) {
  const auto& given = context.message.virtual_clusters().quotas();
  std::map<std::pair<std::string, int>, int> seen;  // name and type → index
  for (int i = 0; i < given.size(); ++i) {
    const std::string path = fmt::format("virtual_clusters.quotas[{}]", i);
    const proto::Quota& quota = given.Get(i);
    if (quota.name().empty()) context.source.missing(path + ".name", "the entity of jobs; \"*\" is all others");
    if (quota.gpus() < 0) context.source.error(path + ".gpus", fmt::format("{} GPUs are no quota", quota.gpus()));
    const int type = type_of_quota(context, types, i);
    if (type < 0 || quota.gpus() < 0) continue;
    if (const auto [first, fresh] = seen.emplace(std::pair(quota.name(), type), i); !fresh) {
      context.source.error(path, fmt::format("\"{}\" has a quota already", quota.name()), "",
                           {{fmt::format("virtual_clusters.quotas[{}]", first->second), "the first is here"}});
      continue;
    }
    auto at = std::find_if(quotas->clusters.begin(), quotas->clusters.end(),
                           [&](const policy::VirtualCluster& one) { return one.name == quota.name(); });
    if (at == quotas->clusters.end()) {
      at = quotas->clusters.insert(at, {quota.name(), std::vector<int>(types.size(), 0)});
    }
    at->quota[static_cast<size_t>(type)] = quota.gpus();
  }
}

// Quotas promise what is there; what none promises is lent, or idle.
void check_sum(Context& context, const policy::Fleet& fleet, const policy::Quotas& quotas) {
  for (size_t t = 0; t < fleet.types.size(); ++t) {
    int64_t sum = 0;
    for (const policy::VirtualCluster& cluster : quotas.clusters) sum += cluster.quota[t];
    const int there = fleet.gpus(policy::GpuType(static_cast<int64_t>(t)));
    if (sum > there) {
      context.source.error("virtual_clusters.quotas",
                           fmt::format("quotas of {} {} GPUs, the cluster has {}", sum, fleet.types[t].name, there));
    } else if (sum < there && !quotas.borrow) {
      context.notes.push_back(
          fmt::format("{} of {} {} GPUs are in no quota and stay idle", there - sum, there, fleet.types[t].name));
    }
  }
}

// Quotas whose name no job has: a slip, unless all of the trace's jobs of it are left out.
std::vector<std::string> unused_quotas(const std::vector<policy::Job>& jobs, const policy::Quotas& quotas) {
  std::set<std::string> entities;
  for (const policy::Job& job : jobs) entities.insert(job.entity);
  std::vector<std::string> free;  // entities without a quota
  for (const std::string& entity : entities) {
    const auto own = [&](const policy::VirtualCluster& one) { return one.name == entity; };
    if (std::none_of(quotas.clusters.begin(), quotas.clusters.end(), own)) free.push_back(entity);
  }
  std::vector<std::string> unused;
  for (const policy::VirtualCluster& cluster : quotas.clusters) {
    if (cluster.name == "*" || entities.count(cluster.name) > 0) continue;
    const std::string near = closest(cluster.name, free);
    unused.push_back(fmt::format("no job is of the virtual cluster \"{}\"{}", cluster.name,
                                 near.empty() ? "" : fmt::format(": is \"{}\" meant?", near)));
  }
  return unused;
}

// By job the virtual cluster of its entity; those without one are a problem.
void assign_jobs(Context& context, const std::vector<policy::Job>& jobs, policy::Quotas* quotas) {
  std::map<std::string, int> index;
  for (size_t k = 0; k < quotas->clusters.size(); ++k) index[quotas->clusters[k].name] = static_cast<int>(k);
  std::map<std::string, int> without;
  for (const policy::Job& job : jobs) {
    auto at = index.find(job.entity);
    if (at == index.end()) at = index.find("*");
    if (at == index.end()) ++without[job.entity];
    quotas->cluster_of.push_back(at == index.end() ? 0 : at->second);
  }
  const std::vector<std::string> unused = unused_quotas(jobs, *quotas);
  context.notes.insert(context.notes.end(), unused.begin(), unused.end());
  if (without.empty()) return;
  const auto most = std::max_element(without.begin(), without.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  context.source.error(
      "virtual_clusters.quotas",
      fmt::format("{} of jobs without a quota, \"{}\" with {} among them",
                  counted(std::ssize(without), "entity", "entities"), most->first, counted(most->second, "job")),
      unused.empty() ? "give each a quota, or all others together: quotas { name: \"*\" gpus: 8 }" : unused.front());
}

// Quotas say how many GPUs, not which hosts: policies that name hosts cannot keep them.
void check_family(Context& context, const Scenario& scenario) {
  if (!scenario.policy) return;
  const PolicySpec& policy = *scenario.policy;
  if (!policy.exec.empty()) {
    context.source.error("virtual_clusters", "a policy program serves the whole cluster: it has no quotas",
                         "it sees the \"entity\" of each job, and can keep them itself",
                         {{"policy.exec", "it is here"}});
  }
  const auto made = policy::make_policy(policy.name, policy.set, scenario.seed);
  if (made.ok()) refuse_fluid(context, "virtual_clusters", **made);
  for (const policy::PolicyInfo& info : policy::policies()) {
    if (info.name != policy.name || info.family == "order" || info.family == "shares") continue;
    context.source.error("virtual_clusters", fmt::format("{} chooses hosts, and cannot keep to a quota", info.name),
                         "policies of the families order and shares can: `scalai policies`");
  }
}

}  // namespace

void build_virtual_clusters(Context& context, Scenario& scenario) {
  Source& source = context.source;
  if (!source.given("virtual_clusters")) return;
  const proto::VirtualClusters& given = context.message.virtual_clusters();
  const int before = source.errors();
  policy::Quotas quotas{.clusters = {}, .cluster_of = {}, .borrow = given.sharing() == "borrow"};
  if (!given.sharing().empty() && given.sharing() != "borrow" && given.sharing() != "fixed") {
    source.error_unknown("virtual_clusters.sharing", "way of sharing", given.sharing(), {"fixed", "borrow"});
  }
  check_family(context, scenario);
  if (!context.fleet_ok || !context.workload_ok) return;
  ManyJobs& many = *scenario.many_jobs;
  read_quotas(context, many.fleet.types, &quotas);
  if (given.quotas().empty()) source.missing("virtual_clusters.quotas", "quotas { name: \"vision\" gpus: 16 }");
  if (source.errors() > before) return;
  check_sum(context, many.fleet, quotas);
  assign_jobs(context, many.workload.jobs, &quotas);
  if (source.errors() == before) many.quotas = std::move(quotas);
}

}  // namespace scalai::scenario::internal
