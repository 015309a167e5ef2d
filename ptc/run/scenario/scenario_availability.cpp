#include "ptc/run/scenario/internal/scenario_availability.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <utility>

#include "ptc/proto/scenario.pb.h"
#include "ptc/run/scenario/internal/scenario_many_jobs.h"

namespace scalai::scenario::internal {
namespace {

std::vector<DeviceId> devices_on(const std::vector<HostId>& hosts, const cluster::Cluster& cluster) {
  std::vector<DeviceId> devices;
  for (const HostId host : hosts) {
    const std::vector<DeviceId> all = cluster.devices_of(host);
    devices.insert(devices.end(), all.begin(), all.end());
  }
  return devices;
}

// Which hosts are up or have been given notice, while events go by.
class Hosts {
 public:
  Hosts(const policy::Availability& availability, const cluster::Cluster& cluster) : cluster_(cluster) {
    for (const DeviceId device : absent_in(availability, cluster)) down_.insert(cluster.host_of(device));
  }

  // Of these hosts the ones for which this changes something.
  std::vector<HostId> come(const std::vector<HostId>& hosts) {
    return those(hosts, [&](HostId host) { return down_.erase(host) + noticed_.erase(host) > 0; });
  }
  std::vector<HostId> go(const std::vector<HostId>& hosts, bool after_notice) {
    return those(hosts, [&](HostId host) {
      const bool noticed = noticed_.erase(host) > 0;
      return down_.insert(host).second && !(after_notice && noticed);
    });
  }
  std::vector<HostId> notice(const std::vector<HostId>& hosts) {
    return those(hosts, [&](HostId host) { return down_.count(host) == 0 && noticed_.insert(host).second; });
  }

 private:
  template <class Changes>
  std::vector<HostId> those(const std::vector<HostId>& hosts, Changes changes) {
    std::vector<HostId> changed;
    for (const HostId host : hosts) {
      const bool known = host.value >= 0 && host.value < static_cast<int64_t>(cluster_.hosts.size());
      if (known && changes(host)) changed.push_back(host);
    }
    return changed;
  }

  const cluster::Cluster& cluster_;
  std::set<HostId> down_, noticed_;
};

}  // namespace

std::vector<DeviceId> absent_in(const policy::Availability& availability, const cluster::Cluster& cluster) {
  std::vector<HostId> hosts;
  for (size_t host = 0; host < std::min(availability.up.size(), cluster.hosts.size()); ++host) {
    if (availability.up[host] == 0) hosts.emplace_back(static_cast<int64_t>(host));
  }
  return devices_on(hosts, cluster);
}

std::vector<ScenarioEvent> events_of(const policy::Availability& availability, const cluster::Cluster& cluster) {
  using Kind = policy::FleetEvent::Kind;
  Hosts hosts(availability, cluster);
  std::vector<ScenarioEvent> events;
  const auto add = [&](double at_s, What what) { events.push_back({AtTime{at_s}, std::move(what)}); };
  for (const policy::FleetEvent& event : availability.events) {
    std::vector<HostId> changed;
    switch (event.kind) {
      case Kind::kUp:
        if (changed = hosts.come(event.hosts); !changed.empty())
          add(event.at_s, Repair{.devices = devices_on(changed, cluster), .links = {}});
        break;
      case Kind::kNotice:
        if (!(event.until_s > event.at_s)) break;  // no time to leave: they are taken
        if (changed = hosts.notice(event.hosts); !changed.empty())
          add(event.at_s, Preempt{.devices = devices_on(changed, cluster), .notice_s = event.until_s - event.at_s});
        break;
      case Kind::kTaken:
      case Kind::kFailed:
        if (changed = hosts.go(event.hosts, event.kind == Kind::kTaken); !changed.empty())
          add(event.at_s, Fail{.devices = devices_on(changed, cluster), .links = {}, .hangs = false});
        break;
      case Kind::kPrice: break;
    }
  }
  return events;
}

namespace {

// "hosts=2 3": the generator of resolved scenarios.
std::optional<policy::Availability> absent_hosts(const proto::Availability& given, Context& context) {
  const size_t hosts = context.cluster->hosts.size();
  policy::Availability availability;
  availability.up.assign(hosts, 1);
  const std::string text = given.set_size() == 1 ? given.set(0) : "";
  std::istringstream words(text.starts_with("hosts=") ? text.substr(6) : "?");
  for (std::string word; words >> word;) {
    size_t host = hosts;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), host);
    if (error != std::errc{} || end != word.data() + word.size() || host >= hosts) {
      context.source.error(given.set_size() > 0 ? "availability.set[0]" : "availability.generator",
                           "\"absent\" needs the numbers of hosts that are not there at the start",
                           "write it like set: \"hosts=2 3\"", {cluster_note(context)});
      return std::nullopt;
    }
    availability.up[host] = 0;
  }
  return availability;
}

std::optional<policy::Availability> read_availability(Context& context) {
  const proto::Availability& given = context.message.availability();
  if (given.file().empty() && given.generator() == "absent") return absent_hosts(given, context);
  auto read = read_hosts(context);
  if (!read) return std::nullopt;
  return std::move(read->hosts.availability);
}

}  // namespace

std::vector<ScenarioEvent> build_host_events(Context& context, Scenario& scenario) {
  if (!context.message.has_availability() || !context.cluster.has_value()) return {};
  const std::optional<policy::Availability> availability = read_availability(context);
  if (!availability) return {};
  scenario.absent = absent_in(*availability, *context.cluster);
  std::vector<ScenarioEvent> events = events_of(*availability, *context.cluster);
  if (scenario.until_s) {
    std::erase_if(events,
                  [&](const ScenarioEvent& event) { return std::get<AtTime>(event.when).at_s > *scenario.until_s; });
  }
  return events;
}

void write_absent(const Scenario& scenario, proto::Scenario& out) {
  if (scenario.absent.empty()) return;
  std::set<int64_t> hosts;
  for (const DeviceId device : scenario.absent) hosts.insert(scenario.cluster.host_of(device).value);
  out.mutable_availability()->set_generator("absent");
  out.mutable_availability()->add_set(fmt::format("hosts={}", fmt::join(hosts, " ")));
}

}  // namespace scalai::scenario::internal
