#include "ptc/run/scenario/internal/scenario_many_jobs.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/proto/textproto.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/scenario/internal/scenario_policy.h"

namespace scalai::scenario::internal {
namespace {

std::vector<Engine::Design> policies() {
  std::vector<Engine::Design> choices;
  for (const policy::PolicyInfo& info : policy::policies()) {
    choices.push_back({info.name, {}});
    for (const policy::ParameterInfo& parameter : info.parameters) choices.back().parameters.push_back(parameter.name);
  }
  return choices;
}

bool knows(const Engine::Design& choice, const std::string& assignment) {
  const std::string name = assignment.substr(0, assignment.find('='));
  return std::find(choice.parameters.begin(), choice.parameters.end(), name) != choice.parameters.end();
}

// `set` without the parameters that only others than `chosen` know. A name that nobody knows stays: it is a mistake.
template <class List>
void leave_out(const std::string& chosen, const std::vector<Engine::Design>& choices, const std::string& path,
               Source& source, List& set, std::vector<std::string>& notes) {
  const auto own =
      std::find_if(choices.begin(), choices.end(), [&](const Engine::Design& c) { return c.name == chosen; });
  if (own == choices.end()) return;
  std::vector<std::string> kept;
  std::vector<std::optional<int>> from;
  for (int i = 0; i < set.size(); ++i) {
    const std::string& assignment = set.Get(i);
    const bool known = knows(*own, assignment);
    if (!known &&
        std::any_of(choices.begin(), choices.end(), [&](const Engine::Design& c) { return knows(c, assignment); })) {
      notes.push_back(fmt::format("{}: \"{}\" is left out: {} has no such parameter", path, assignment, chosen));
      continue;
    }
    kept.push_back(assignment);
    from.emplace_back(i);
  }
  if (static_cast<int>(kept.size()) == set.size()) return;
  source.replaced_element(path, "", from);
  set.Clear();
  for (const std::string& assignment : kept) *set.Add() = assignment;
}

// Parts that only the control loop has a use for.
void check_fields(Context& context) {
  const proto::Scenario& message = context.message;
  const std::string who = message.has_recovery() ? "recovery" : "workload";
  const auto refuse = [&](const std::string& field) {
    if (!context.source.given(field)) return;
    context.source.error(field, fmt::format("\"{}\" has no meaning with \"{}\"", field, who), "leave it out",
                         {{who, "this makes it a scenario of many jobs"}});
  };
  for (const char* field : {"events", "planner", "scale_model", "strategy"}) refuse(field);
  if (!message.has_workload()) return;
  refuse("jobs");
  if (message.has_recovery()) {
    context.source.error("recovery", "\"workload\" and \"recovery\" exclude each other", "",
                         {{"workload", "the workload is here"}});
  }
}

// One price for each kind of GPU: the fleet has no other.
bool check_prices(Context& context, const policy::Fleet& fleet) {
  const std::vector<cluster::Host>& hosts = context.cluster->hosts;
  for (size_t h = 0; h < hosts.size(); ++h) {
    const double price = hosts[h].price_per_hour / hosts[h].gpus;
    const double first = fleet.types[static_cast<size_t>(fleet.hosts[h].type.value)].price_per_gpu_hour;
    if (first == price) continue;
    context.source.error(
        context.source.given("cluster") ? "cluster" : "cluster_file",
        fmt::format("GPUs of kind \"{}\" have two prices ({} and {} USD an hour)", hosts[h].gpu.name, first, price),
        fmt::format("call some of them by another name: gpu_kinds {{ name: \"{}-spot\" }}", hosts[h].gpu.name));
    return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> leave_out_foreign_parameters(proto::Scenario& message, const Engine& engine, Source& source) {
  std::vector<std::string> notes;
  if (source.is_replaced("policy.name")) {
    auto& policy = *message.mutable_policy();
    leave_out(policy.name(), policies(), "policy.set", source, *policy.mutable_set(), notes);
  }
  if (source.is_replaced("recovery.design")) {
    auto& recovery = *message.mutable_recovery();
    leave_out(recovery.design(), engine.recovery_designs(), "recovery.set", source, *recovery.mutable_set(), notes);
  }
  return notes;
}

void build_many_jobs(Context& context, Engine& engine, Scenario& scenario) {
  check_fields(context);
  ManyJobs& many = *scenario.many_jobs;
  if (context.cluster) {
    many.fleet = policy::fleet_of(*context.cluster);
    context.fleet_ok = check_prices(context, many.fleet);
  }
  if (context.message.has_workload()) build_workload(context, scenario);
  build_window(context, scenario);
  build_availability(context, scenario);
  if (!context.message.has_recovery()) build_prices(context, scenario);
  build_options(context, scenario);
  if (context.message.has_recovery()) return engine.build_recovery(context, scenario);
  scenario.policy =
      build_policy(context.message.policy(), "policy", folder_of(context.file_name), context.source, "fifo");
  engine.build_throughputs(context, scenario);
  build_estimates(context, scenario);
  build_virtual_clusters(context, scenario);
  engine.build_changes(context, scenario);
}

// The message with the cluster written out, which may lie in another file, and a line for every file that was read.
void resolve_many_jobs(Context& context, Scenario& scenario) {
  ManyJobs& many = *scenario.many_jobs;
  many.notes = std::move(context.notes);
  many.files = std::move(context.files);
  proto::Scenario message = context.message;
  message.clear_cluster();
  write_cluster(scenario.cluster, *message.mutable_cluster());
  message.clear_cluster_file();
  message.clear_folder();
  if (many.estimates.none()) message.clear_estimates();  // as without any
  message.set_schema_version(1);
  if (message.policy().name().empty() && message.policy().exec().empty() && message.has_workload()) {
    message.mutable_policy()->set_name(scenario.policy->name);
  }
  if (!many.files.empty() || !scenario.policy->exec.empty()) scenario.folder = folder_of(context.file_name);
  for (const auto& [name, checksum] : many.files) scenario.resolved_text += fmt::format("# {}: {}\n", name, checksum);
  scenario.resolved_text += proto::print_textproto(message);
  scenario.digest = digest_of(scenario.resolved_text);
}

}  // namespace scalai::scenario::internal
