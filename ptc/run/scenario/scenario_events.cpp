#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ptc/proto/scenario.pb.h"
#include "ptc/run/scenario/internal/scenario_availability.h"
#include "ptc/run/scenario/scenario_parts.h"

namespace scalai::scenario::internal {
namespace {

constexpr double kLeastFactor = 1e-6;  // of a speed

class EventBuilder {
 public:
  EventBuilder(Context& context, const Scenario& scenario, const std::vector<std::string>& links, int index)
      : context_(context),
        source_(context.source),
        message_(context.message.events(index)),
        scenario_(scenario),
        links_(links),
        path_(fmt::format("events[{}]", index)) {}

  ScenarioEvent build() { return {build_when(), build_what()}; }

 private:
  std::string at(const std::string& field) const { return path_ + "." + field; }
  When build_when();
  When build_at();
  When build_at_step();
  When build_during();
  What build_what();
  What build_resize();
  What build_redeploy();
  What build_degrade();
  What build_preempt();
  Fail checked_leave(Fail fail);
  std::optional<int> job_at(const std::string& path, const std::string& name);
  using Numbers = google::protobuf::RepeatedField<int32_t>;
  using Texts = google::protobuf::RepeatedPtrField<std::string>;
  std::vector<DeviceId> expand(const std::string& path, const Numbers& hosts, const Numbers& devices,
                               const Numbers& racks = {});
  std::vector<DeviceId> expand_racks(const std::string& path, const Numbers& racks);
  std::vector<DeviceId> expand_hosts(const std::string& path, const Numbers& hosts, const Numbers& racks);
  std::vector<std::string> known_links(const std::string& path, const Texts& names, const Texts& switches = {});
  std::vector<std::string> expand_switches(const std::string& path, const Texts& names);
  void need_target(const std::string& path, bool any, const std::string& what);
  void forbid_with_policy(const std::string& field);
  bool cluster_known() const { return context_.cluster.has_value(); }
  // Its configurations are known, all of them; one that is to be found may be of any size.
  bool lists_configs(int job) const {
    return context_.configs_ok[static_cast<size_t>(job)] != 0 && !scenario_.jobs[static_cast<size_t>(job)].choose;
  }

  Context& context_;
  Source& source_;
  const proto::ScenarioEvent& message_;
  const Scenario& scenario_;
  const std::vector<std::string>& links_;
  const std::string path_;
};

// The job an event names; with a single job the name may be left out.
std::optional<int> EventBuilder::job_at(const std::string& path, const std::string& name) {
  std::vector<std::string> names;
  for (const JobSpec& job : scenario_.jobs) names.push_back(job.name);
  if (!source_.given(path)) {
    if (names.size() == 1) return 0;
    if (names.size() > 1) source_.missing(path, fmt::format("there are several jobs: {}", fmt::join(names, ", ")));
    return std::nullopt;
  }
  const auto job = std::find(names.begin(), names.end(), name);
  if (job != names.end()) return static_cast<int>(job - names.begin());
  source_.error_unknown(path, "job", name, names);
  return std::nullopt;
}

When EventBuilder::build_when() {
  std::vector<std::string> given;
  bool broken = false;
  for (const std::string field : {"at", "at_step", "during"}) {
    if (source_.given(at(field))) given.push_back(field);
    broken = broken || source_.broken(at(field));
  }
  if (given.empty() && !broken) source_.error(path_, "this event has no time", "give one of at, at_step, during");
  if (given.size() > 1) {
    source_.error(at(given[1]), fmt::format("\"{}\" and \"{}\" exclude each other", given[0], given[1]),
                  "an event happens at one time", {{at(given[0]), "the first is here"}});
  }
  if (given.empty()) return AtTime{};
  if (given[0] == "at_step") return build_at_step();
  return given[0] == "during" ? build_during() : build_at();
}

When EventBuilder::build_at() {
  const std::optional<double> time = source_.seconds(at("at"), message_.at());
  if (time.has_value() && scenario_.until_s.has_value() && *time > *scenario_.until_s) {
    source_.error(at("at"), "this event comes after the end of the scenario", "",
                  {{"until", "the scenario ends here"}});
  }
  return AtTime{time.value_or(0)};
}

When EventBuilder::build_at_step() {
  const std::string path = at("at_step");
  const std::optional<int> job = job_at(path + ".job", message_.at_step().job());
  const int64_t step = message_.at_step().step();
  source_.at_least(path + ".step", step, 1);
  if (job.has_value()) {
    const JobSpec& spec = scenario_.jobs[static_cast<size_t>(*job)];
    if (spec.steps > 0 && step > spec.steps) {
      source_.error(path + ".step", fmt::format("job \"{}\" never reaches step {}", spec.name, step), "",
                    {{fmt::format("jobs[{}].steps", *job), fmt::format("it is complete after {}", spec.steps)}});
    }
  }
  return AtStep{job.value_or(0), step};
}

When EventBuilder::build_during() {
  const std::string path = at("during");
  const proto::During& given = message_.during();
  During when;
  when.job = job_at(path + ".job", given.job()).value_or(0);
  when.reconfiguration = source_.given(path + ".reconfiguration") ? given.reconfiguration() : 1;
  source_.at_least(path + ".reconfiguration", when.reconfiguration, 1);
  when.after_round = given.after_round();
  source_.at_least(path + ".after_round", when.after_round, 0);
  if (source_.given(path + ".delay")) when.delay_s = source_.seconds(path + ".delay", given.delay()).value_or(0);
  return when;
}

std::vector<DeviceId> EventBuilder::expand_racks(const std::string& path, const Numbers& racks) {
  std::vector<DeviceId> devices;
  const cluster::Cluster& cluster = *context_.cluster;
  const int count = cluster.rack_count();
  if (count == 0 && !racks.empty()) {
    source_.error(fmt::format("{}.racks[0]", path), "the cluster has no racks",
                  "give it rack_hosts, the number of hosts of a rack, or a LEAF_SPINE or FAT_TREE fabric",
                  {cluster_note(context_)});
    return devices;
  }
  for (int i = 0; i < racks.size(); ++i) {
    const std::string entry = fmt::format("{}.racks[{}]", path, i);
    if (racks[i] < 0 || racks[i] >= count) {
      source_.error(entry, fmt::format("there is no rack {}", racks[i]),
                    count == 1 ? "the only rack is 0" : fmt::format("racks are numbered 0 to {}", count - 1),
                    {cluster_note(context_)});
    } else if (std::find(racks.begin(), racks.begin() + i, racks[i]) != racks.begin() + i) {
      source_.error(entry, fmt::format("rack {} is listed twice", racks[i]));
    } else {
      for (const HostId host : cluster.hosts_of_rack(racks[i])) {
        const std::vector<DeviceId> all = cluster.devices_of(host);
        devices.insert(devices.end(), all.begin(), all.end());
      }
    }
  }
  return devices;
}

std::vector<DeviceId> EventBuilder::expand_hosts(const std::string& path, const Numbers& hosts, const Numbers& racks) {
  std::vector<DeviceId> devices;
  const auto host_count = static_cast<int>(context_.cluster->hosts.size());
  for (int i = 0; i < hosts.size(); ++i) {
    const std::string entry = fmt::format("{}.hosts[{}]", path, i);
    if (hosts[i] < 0 || hosts[i] >= host_count) {
      source_.error(entry, fmt::format("there is no host {}", hosts[i]),
                    host_count == 1 ? "the only host is 0" : fmt::format("hosts are numbered 0 to {}", host_count - 1),
                    {cluster_note(context_)});
    } else if (std::find(hosts.begin(), hosts.begin() + i, hosts[i]) != hosts.begin() + i) {
      source_.error(entry, fmt::format("host {} is listed twice", hosts[i]));
    } else if (const int rack = context_.cluster->rack_of(HostId(hosts[i]));
               std::find(racks.begin(), racks.end(), rack) != racks.end()) {
      source_.error(entry, fmt::format("host {} is in rack {}, which is listed, too", hosts[i], rack));
    } else {
      const std::vector<DeviceId> all = context_.cluster->devices_of(HostId(hosts[i]));
      devices.insert(devices.end(), all.begin(), all.end());
    }
  }
  return devices;
}

// The devices of the racks, those of the hosts, then the devices; each once.
std::vector<DeviceId> EventBuilder::expand(const std::string& path, const Numbers& hosts, const Numbers& devices,
                                           const Numbers& racks) {
  if (!cluster_known()) return {};
  std::vector<DeviceId> result = expand_racks(path, racks);
  const std::vector<DeviceId> of_hosts = expand_hosts(path, hosts, racks);
  result.insert(result.end(), of_hosts.begin(), of_hosts.end());
  std::set<DeviceId> known(result.begin(), result.end());
  for (int i = 0; i < devices.size(); ++i) {
    const std::string entry = fmt::format("{}.devices[{}]", path, i);
    if (devices[i] < 0 || devices[i] >= context_.cluster->device_count()) {
      source_.error(entry, fmt::format("there is no device {}", devices[i]),
                    fmt::format("devices are numbered 0 to {}", context_.cluster->device_count() - 1),
                    {cluster_note(context_)});
    } else if (!known.insert(DeviceId(devices[i])).second) {
      source_.error(entry, fmt::format("device {} is named twice here", devices[i]));
    } else {
      result.emplace_back(devices[i]);
    }
  }
  return result;
}

// The links of the switches, each once: a link between two switches belongs to both.
std::vector<std::string> EventBuilder::expand_switches(const std::string& path, const Texts& names) {
  std::vector<std::string> links;
  const std::vector<cluster::NamedSwitch> all = cluster::switches_of(*context_.cluster);
  std::vector<std::string> known;
  for (const cluster::NamedSwitch& one : all) known.push_back(one.name);
  for (int i = 0; i < names.size(); ++i) {
    const std::string entry = fmt::format("{}.switches[{}]", path, i);
    const auto found = std::find(known.begin(), known.end(), names[i]);
    if (found == known.end()) {
      source_.error_unknown(entry, "switch", names[i], known);
      continue;
    }
    if (std::find(names.begin(), names.begin() + i, names[i]) != names.begin() + i) {
      source_.error(entry, fmt::format("switch \"{}\" is named twice here", names[i]));
      continue;
    }
    const std::vector<std::string>& of_switch = all[static_cast<size_t>(found - known.begin())].links;
    if (of_switch.empty()) {
      source_.error(entry, fmt::format("switch \"{}\" has no link with a rate", names[i]),
                    "links without a rate cannot fail", {cluster_note(context_)});
    }
    for (const std::string& link : of_switch) {
      if (std::find(links.begin(), links.end(), link) == links.end()) links.push_back(link);
    }
  }
  return links;
}

// The links of the switches, then the links; each once.
std::vector<std::string> EventBuilder::known_links(const std::string& path, const Texts& names, const Texts& switches) {
  if (!cluster_known()) return {names.begin(), names.end()};
  std::vector<std::string> result = expand_switches(path, switches);
  const std::set<std::string> of_switches(result.begin(), result.end());
  for (int i = 0; i < names.size(); ++i) {
    const std::string entry = fmt::format("{}.links[{}]", path, i);
    if (!std::binary_search(links_.begin(), links_.end(), names[i])) {
      source_.error_unknown(entry, "link", names[i], links_);
    } else if (of_switches.contains(names[i])) {
      source_.error(entry, fmt::format("link \"{}\" belongs to a switch that is named, too", names[i]));
    } else if (std::find(names.begin(), names.begin() + i, names[i]) != names.begin() + i) {
      source_.error(entry, fmt::format("link \"{}\" is named twice here", names[i]));
    }
    result.push_back(names[i]);
  }
  return result;
}

void EventBuilder::need_target(const std::string& path, bool any, const std::string& what) {
  bool broken = false;
  for (const char* field : {".devices", ".hosts", ".links", ".racks", ".switches"})
    broken = broken || source_.broken(path + field);
  if (!any && !broken) source_.error(path, fmt::format("\"{}\" names nothing", field_of(path)), "give " + what);
}

// It says which GPUs a job gets, so nobody else does.
void EventBuilder::forbid_with_policy(const std::string& field) {
  if (!source_.given("policy")) return;
  source_.error(at(field), fmt::format("a {} is the policy's to decide", field), "leave the event out, or the policy",
                {{"policy", "the policy is chosen here"}});
}

What EventBuilder::build_resize() {
  forbid_with_policy("resize");
  const std::string path = at("resize");
  const std::optional<int> job = job_at(path + ".job", message_.resize().job());
  const int gpus = message_.resize().gpus();
  const Resize resize{job.value_or(0), gpus};
  if (!source_.at_least(path + ".gpus", gpus, 1)) return resize;
  if (cluster_known() && gpus > context_.cluster->device_count()) {
    source_.error(path + ".gpus", fmt::format("a resize to {} GPUs goes beyond the cluster", gpus), "",
                  {cluster_note(context_)});
  } else if (job.has_value() && lists_configs(*job)) {
    const JobSpec& spec = scenario_.jobs[static_cast<size_t>(*job)];
    int smallest = spec.configs.front().config.world();
    for (const ParallelChoice& choice : spec.configs) smallest = std::min(smallest, choice.config.world());
    if (gpus < smallest) {
      source_.error(path + ".gpus", fmt::format("job \"{}\" has no config for {} GPUs or fewer", spec.name, gpus), "",
                    {{fmt::format("jobs[{}].configs", *job), fmt::format("its smallest config needs {}", smallest)}});
    }
  }
  return resize;
}

What EventBuilder::build_redeploy() {
  forbid_with_policy("redeploy");
  const std::string path = at("redeploy");
  const proto::Redeploy& given = message_.redeploy();
  const std::optional<int> job = job_at(path + ".job", given.job());
  const int before = source_.errors();
  Redeploy redeploy{job.value_or(0), expand(path, given.hosts(), given.devices())};
  need_target(path, given.hosts_size() + given.devices_size() > 0, "hosts or devices");
  const bool comparable = cluster_known() && job.has_value() && lists_configs(*job);
  if (!comparable || source_.errors() != before) return redeploy;
  const JobSpec& spec = scenario_.jobs[static_cast<size_t>(*job)];
  std::vector<int> sizes;
  for (const ParallelChoice& choice : spec.configs) sizes.push_back(choice.config.world());
  if (std::find(sizes.begin(), sizes.end(), static_cast<int>(redeploy.devices.size())) == sizes.end()) {
    std::sort(sizes.begin(), sizes.end());
    source_.error(
        path, fmt::format("job \"{}\" has no config for {} GPUs", spec.name, redeploy.devices.size()), "",
        {{fmt::format("jobs[{}].configs", *job), fmt::format("its configs need {}", fmt::join(sizes, ", "))}});
  }
  return redeploy;
}

What EventBuilder::build_degrade() {
  const std::string path = at("degrade");
  const proto::Degrade& given = message_.degrade();
  Degrade degrade{known_links(path, given.links()), expand(path, {}, given.devices()), given.factor()};
  need_target(path, given.links_size() + given.devices_size() > 0, "links or devices");
  if (!source_.given(path + ".factor")) {
    source_.missing(path + ".factor", "write it like factor: 0.5, a share of the nominal speed");
  } else if (!(given.factor() > 0 && given.factor() <= 1)) {
    source_.error(path + ".factor",
                  fmt::format("\"factor\" must be greater than 0 and at most 1, found {}", given.factor()),
                  given.factor() == 0 ? "to take a link or device down, write fail" : "");
  } else if (given.factor() < kLeastFactor) {
    source_.error(path + ".factor",
                  fmt::format("\"factor\" must be at least {}, found {}", kLeastFactor, given.factor()),
                  "to take a link or device down, write fail");
  }
  return degrade;
}

What EventBuilder::build_preempt() {
  const std::string path = at("preempt");
  const proto::Preempt& given = message_.preempt();
  Preempt preempt{expand(path, given.hosts(), given.devices(), given.racks()), 0};
  need_target(path, given.hosts_size() + given.devices_size() + given.racks_size() > 0, "hosts, devices or racks");
  if (!source_.given(path + ".notice")) {
    source_.missing(path + ".notice", "write it like notice: \"2min\"; a loss without notice is a fail");
  } else if (const std::optional<double> notice = source_.seconds(path + ".notice", given.notice());
             notice.has_value()) {
    preempt.notice_s = *notice;
    if (*notice == 0)
      source_.error(path + ".notice", "a preemption needs a notice > 0", "a loss without notice is a fail");
  }
  return preempt;
}

Fail EventBuilder::checked_leave(Fail fail) {
  const std::string leave = at("fail") + ".leave", expected = at("fail") + ".expected";
  const bool policy = source_.given("policy");
  fail.leave = message_.fail().has_leave() ? message_.fail().leave() : !fail.links.empty() && !policy;
  if (fail.leave && policy) {
    source_.error(leave, "which hosts a job leaves is the policy's to decide", "leave it out, or the policy",
                  {{"policy", "the policy is chosen here"}});
  }
  if (fail.leave && fail.links.empty())
    source_.error(leave, "jobs leave what links cut off, and none is named", "name links or switches, or leave it out");
  if (!source_.given(expected)) return fail;
  fail.expected_s = source_.seconds(expected, message_.fail().expected());
  if (fail.expected_s == 0.0)
    source_.error(expected, "a failure lasts longer than 0 s", "leave it out if nobody knows");
  if (!fail.leave)
    source_.error(expected, "only jobs that may leave weigh how long it lasts",
                  policy ? "leave it out, or the policy" : "leave out leave: false");
  return fail;
}

What EventBuilder::build_what() {
  const auto target = [&](const std::string& field, const auto& given) {
    const int named =
        given.hosts_size() + given.devices_size() + given.links_size() + given.racks_size() + given.switches_size();
    need_target(at(field), named > 0, "devices, hosts, racks, links or switches");
    return std::pair{expand(at(field), given.hosts(), given.devices(), given.racks()),
                     known_links(at(field), given.links(), given.switches())};
  };
  switch (message_.what_case()) {
    case proto::ScenarioEvent::kResize: return build_resize();
    case proto::ScenarioEvent::kRedeploy: return build_redeploy();
    case proto::ScenarioEvent::kDegrade: return build_degrade();
    case proto::ScenarioEvent::kPreempt: return build_preempt();
    case proto::ScenarioEvent::kFail: {
      auto [devices, links] = target("fail", message_.fail());
      if (message_.fail().hangs() && devices.empty())
        source_.error(at("fail") + ".hangs", "a link does not hang", "name devices or hosts, or leave hangs out");
      return checked_leave(Fail{std::move(devices), std::move(links), message_.fail().hangs()});
    }
    case proto::ScenarioEvent::kRepair: {
      auto [devices, links] = target("repair", message_.repair());
      return Repair{std::move(devices), std::move(links)};
    }
    case proto::ScenarioEvent::WHAT_NOT_SET: break;
  }
  bool broken = false;
  for (const std::string field : {"resize", "redeploy", "fail", "repair", "degrade", "preempt"})
    broken = broken || source_.broken(at(field));
  if (!broken)
    source_.error(path_, "this event has no action", "give one of resize, redeploy, fail, repair, degrade, preempt");
  return Fail{};
}

}  // namespace

void build_events(Context& context, Scenario& scenario) {
  std::vector<std::string> links;
  if (context.cluster.has_value() && context.message.events_size() > 0) {
    for (cluster::NamedLink& link : cluster::links_of(*context.cluster)) links.push_back(std::move(link.name));
    std::sort(links.begin(), links.end());
  }
  const int before = context.source.errors();
  const std::vector<ScenarioEvent> of_hosts = build_host_events(context, scenario);
  for (int i = 0; i < context.message.events_size(); ++i) {
    scenario.events.push_back(EventBuilder(context, scenario, links, i).build());
  }
  scenario.events.insert(scenario.events.end(), of_hosts.begin(), of_hosts.end());
  // With an event not understood, or hosts unknown, "never failed" could be wrong.
  if (!context.cluster.has_value() || context.source.errors() != before || context.source.broken("events")) return;
  check_repairs(context, scenario);
}

}  // namespace scalai::scenario::internal
