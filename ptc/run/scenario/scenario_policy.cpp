#include "ptc/run/scenario/internal/scenario_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ptc/base/status.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/run/policy/policies/catalogue.h"

namespace scalai::scenario::internal {
namespace {

const policy::PolicyInfo* find_policy(const std::string& name) {
  const std::vector<policy::PolicyInfo>& all = policy::policies();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const policy::PolicyInfo& info) { return info.name == name; });
  return found == all.end() ? nullptr : &*found;
}

template <class Infos>
std::vector<std::string> names_of(const Infos& infos) {
  std::vector<std::string> names;
  for (const auto& info : infos) names.push_back(info.name);
  return names;
}

void check_setting(const policy::PolicyInfo& info, const std::string& text, const std::string& path, Source& source) {
  const std::string name = text.substr(0, text.find('='));
  const std::vector<std::string> known = names_of(info.parameters);
  if (text.find('=') == std::string::npos) {
    source.error(path, fmt::format("\"{}\" gives no value", text), "write it like set: \"name=value\"");
  } else if (std::find(known.begin(), known.end(), name) == known.end()) {
    source.error_unknown(path, "parameter", name, known);
  } else {
    const auto made = policy::make_policy(info.name, std::vector<std::string>{text}, 0);
    if (!made.ok()) report_lines(source, path, message_of(made.status()));
  }
}

void check_settings(const proto::Policy& message, const policy::PolicyInfo& info, const std::string& path,
                    Source& source) {
  const int before = source.errors();
  std::map<std::string, int> first_use;
  for (int i = 0; i < message.set_size(); ++i) {
    const std::string at = fmt::format("{}.set[{}]", path, i);
    check_setting(info, message.set(i), at, source);
    const std::string name = message.set(i).substr(0, message.set(i).find('='));
    const auto [first, fresh] = first_use.emplace(name, i);
    if (fresh) continue;
    source.error(at, fmt::format("parameter \"{}\" is set twice", name), "",
                 {{fmt::format("{}.set[{}]", path, first->second), "the first is here"}});
  }
  if (source.errors() > before) return;
  const auto made =
      policy::make_policy(info.name, std::vector<std::string>(message.set().begin(), message.set().end()), 0);
  if (!made.ok()) report_lines(source, path + ".set", message_of(made.status()));
}

}  // namespace

std::optional<PolicySpec> build_policy(const proto::Policy& message, const std::string& path, const std::string& folder,
                                       Source& source, const std::string& otherwise) {
  const int before = source.errors();
  PolicySpec policy{.name = message.name(),
                    .set = {message.set().begin(), message.set().end()},
                    .exec = message.exec(),
                    .folder = folder};
  const bool named = source.given(path + ".name"), program = source.given(path + ".exec");
  if (!named && !program) policy.name = otherwise;
  if (named && program) {
    source.error(path + ".exec", "\"name\" and \"exec\" exclude each other", "",
                 {{path + ".name", "the policy is named here"}});
  } else if (!named && !program && otherwise.empty()) {
    source.missing(path + ".name", "name one of `scalai policies`, or give a program with exec");
  } else if (program) {
    if (message.exec().empty()) source.error(path + ".exec", "\"exec\" is empty", "write it like \"python3 my.py\"");
    if (message.set_size() > 0)
      source.error(path + ".set[0]", "a program has no parameters", "give them on its command line");
  } else if (const policy::PolicyInfo* info = find_policy(policy.name); info != nullptr) {
    check_settings(message, *info, path, source);
  } else if (const std::string why = policy::left_out(message.name()); !why.empty()) {
    source.error(path + ".name", why, "`scalai policies` lists those that it has");
  } else {
    source.error_unknown(path + ".name", "policy", message.name(), names_of(policy::policies()));
  }
  if (source.given(path + ".timeout")) {
    policy.timeout_s = source.seconds(path + ".timeout", message.timeout()).value_or(1);
    if (policy.timeout_s == 0) source.error(path + ".timeout", "no program answers in no time");
    if (!program) source.error(path + ".timeout", "only a program has a timeout", "leave it out");
  }
  if (source.errors() != before || source.broken_inside(path)) return std::nullopt;
  return policy;
}

std::optional<policy::PolicyTraits> traits_of(const PolicySpec& policy) {
  const policy::PolicyInfo* info = find_policy(policy.name);
  return info == nullptr ? std::nullopt : std::optional(info->traits);
}

namespace {

void build_range(const proto::Job& message, const std::string& path, Context& context, JobSpec& job) {
  Source& source = context.source;
  const std::string low = path + ".min_gpus", high = path + ".max_gpus";
  job.min_gpus = job.max_gpus = job.gpus;
  if (source.given(low) && source.at_least(low, message.min_gpus(), 1)) job.min_gpus = message.min_gpus();
  if (source.given(high) && source.at_least(high, message.max_gpus(), 1)) job.max_gpus = message.max_gpus();
  if (job.gpus < 1) return;
  const Note wanted{path + (job.devices.empty() ? ".gpus" : ".devices"), "it asks for so many here"};
  if (job.min_gpus > job.gpus) {
    source.error(low,
                 fmt::format("\"min_gpus\" is {}, more than the {} GPUs that the job asks for", job.min_gpus, job.gpus),
                 "", {wanted});
  }
  if (job.max_gpus < job.gpus) {
    source.error(
        high, fmt::format("\"max_gpus\" is {}, fewer than the {} GPUs that the job asks for", job.max_gpus, job.gpus),
        "", {wanted});
  }
  if (context.cluster.has_value() && job.max_gpus > context.cluster->device_count()) {
    source.error(high, fmt::format("job \"{}\" would take {} GPUs", job.name, job.max_gpus), "",
                 {cluster_note(context)});
  }
}

// With fewer than its smallest configuration needs it could do nothing.
void check_smallest(const std::string& path, Context& context, const JobSpec& job) {
  if (job.choose || job.configs.empty() || job.min_gpus < 1) return;
  int smallest = job.configs.front().config.world();
  for (const ParallelChoice& choice : job.configs) smallest = std::min(smallest, choice.config.world());
  if (smallest <= job.min_gpus) return;
  const std::string at = path + (context.source.given(path + ".min_gpus") ? ".min_gpus" : ".gpus");
  context.source.error(at, fmt::format("job \"{}\" has no config for {} GPUs or fewer", job.name, job.min_gpus), "",
                       {{path + ".configs", fmt::format("its smallest config needs {}", smallest)}});
}

}  // namespace

void build_schedule(const proto::Job& message, const std::string& path, Context& context, JobSpec& job) {
  Source& source = context.source;
  if (source.given(path + ".submit")) job.submit_s = source.seconds(path + ".submit", message.submit()).value_or(0);
  build_range(message, path, context, job);
  if (source.given(path + ".weight")) {
    job.weight = message.weight();
    constexpr double kLeast = 1e-9, kMost = 1e9;
    if (!(message.weight() > 0))
      source.error(path + ".weight", fmt::format("\"weight\" must be greater than 0, found {}", message.weight()));
    else if (message.weight() < kLeast || message.weight() > kMost)
      source.error(path + ".weight",
                   fmt::format("\"weight\" must be from {} to {}, found {}", kLeast, kMost, message.weight()));
  }
  if (source.given(path + ".deadline")) {
    job.deadline_s = source.seconds(path + ".deadline", message.deadline());
    if (job.deadline_s && *job.deadline_s <= job.submit_s) {
      source.error(path + ".deadline", "the deadline is not after the job comes", "it counts from the scenario's start",
                   {{path + ".submit", "it comes here"}});
    }
  }
  const bool policy = source.given("policy");
  for (const std::string field : {".min_gpus", ".max_gpus", ".weight"}) {
    if (!policy && source.given(path + field))
      source.error(path + field, fmt::format("\"{}\" is for a policy, and the scenario has none", field.substr(1)),
                   "add policy { name: \"afs-l\" }");
  }
  if (!policy) return;
  check_smallest(path, context, job);
  if (!job.devices.empty()) {
    source.error(path + ".devices", "the policy says which GPUs a job gets", "give gpus instead of devices",
                 {{"policy", "the policy is chosen here"}});
  }
}

void check_policy(Context& context, const Scenario& scenario) {
  Source& source = context.source;
  for (size_t j = 0; j < scenario.jobs.size(); ++j) {
    const JobSpec& job = scenario.jobs[j];
    if (scenario.until_s && job.submit_s > *scenario.until_s) {
      source.error(fmt::format("jobs[{}].submit", j), "this job comes after the end of the scenario", "",
                   {{"until", "the scenario ends here"}});
    }
  }
  if (!scenario.policy) return;
  const std::optional<policy::PolicyTraits> traits = traits_of(*scenario.policy);
  for (size_t j = 0; j < scenario.jobs.size(); ++j) {
    if (!traits || !traits->needs_durations || scenario.jobs[j].steps > 0) continue;
    source.error(fmt::format("jobs[{}].steps", j),
                 fmt::format("policy \"{}\" has to know how long jobs are, and job \"{}\" has no \"steps\"",
                             scenario.policy->name, scenario.jobs[j].name),
                 "add steps: 1000 to the job", {{"policy.name", "the policy is chosen here"}});
  }
}

void write_schedule(const JobSpec& job, proto::Job& out) {
  if (job.submit_s > 0) out.set_submit(seconds_text(job.submit_s));
  if (job.min_gpus != job.gpus) out.set_min_gpus(job.min_gpus);
  if (job.max_gpus != job.gpus) out.set_max_gpus(job.max_gpus);
  if (job.weight != 1) out.set_weight(job.weight);
  if (job.deadline_s) out.set_deadline(seconds_text(*job.deadline_s));
}

void write_policy(const PolicySpec& policy, proto::Policy& out) {
  if (policy.exec.empty()) {
    out.set_name(policy.name);
  } else {
    out.set_exec(policy.exec);
    out.set_timeout(seconds_text(policy.timeout_s));
  }
  for (const std::string& one : policy.set) out.add_set(one);
}

}  // namespace scalai::scenario::internal
