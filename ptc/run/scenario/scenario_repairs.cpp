#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ptc/proto/scenario.pb.h"
#include "ptc/run/scenario/scenario_parts.h"

namespace scalai::scenario::internal {
namespace {

// A repair makes sense only for what some event of the scenario takes away.
class RepairChecker {
 public:
  RepairChecker(Context& context, const Scenario& scenario)
      : context_(context), devices_(scenario.absent.begin(), scenario.absent.end()) {
    for (const ScenarioEvent& event : scenario.events) {
      if (const auto* fail = std::get_if<Fail>(&event.what)) {
        devices_.insert(fail->devices.begin(), fail->devices.end());
        links_.insert(fail->links.begin(), fail->links.end());
      } else if (const auto* preempt = std::get_if<Preempt>(&event.what)) {
        devices_.insert(preempt->devices.begin(), preempt->devices.end());
      }
    }
  }

  void check(const proto::Repair& repair, const std::string& path) {
    const std::string hint = "no fail or preempt event takes it away";
    for (int i = 0; i < repair.racks_size(); ++i) {
      const std::vector<HostId> hosts = context_.cluster->hosts_of_rack(repair.racks(i));
      if (std::any_of(hosts.begin(), hosts.end(), [&](HostId host) { return any_lost(host); })) continue;
      context_.source.error(fmt::format("{}.racks[{}]", path, i),
                            fmt::format("rack {} is repaired but never failed", repair.racks(i)), hint);
    }
    check_switches(repair, path);
    for (int i = 0; i < repair.hosts_size(); ++i) {
      if (any_lost(HostId(repair.hosts(i)))) continue;
      context_.source.error(fmt::format("{}.hosts[{}]", path, i),
                            fmt::format("host {} is repaired but never failed", repair.hosts(i)), hint);
    }
    for (int i = 0; i < repair.devices_size(); ++i) {
      if (devices_.count(DeviceId(repair.devices(i))) != 0) continue;
      context_.source.error(fmt::format("{}.devices[{}]", path, i),
                            fmt::format("device {} is repaired but never failed", repair.devices(i)), hint);
    }
    for (int i = 0; i < repair.links_size(); ++i) {
      if (links_.count(repair.links(i)) != 0) continue;
      context_.source.error(fmt::format("{}.links[{}]", path, i),
                            fmt::format("link \"{}\" is repaired but never failed", repair.links(i)),
                            "no fail event takes it away; a degrade ends with a degrade to factor 1");
    }
  }

  // Of a repaired host, rack or switch, only what it lost counts.
  void keep_lost(Repair& repair) const {
    std::erase_if(repair.devices, [&](DeviceId device) { return devices_.count(device) == 0; });
    std::erase_if(repair.links, [&](const std::string& link) { return links_.count(link) == 0; });
  }

 private:
  void check_switches(const proto::Repair& repair, const std::string& path) {
    const std::vector<cluster::NamedSwitch> all = cluster::switches_of(*context_.cluster);
    for (int i = 0; i < repair.switches_size(); ++i) {
      const auto one = std::find_if(
          all.begin(), all.end(), [&](const cluster::NamedSwitch& known) { return known.name == repair.switches(i); });
      if (std::any_of(one->links.begin(), one->links.end(), [&](const auto& link) { return links_.contains(link); }))
        continue;
      context_.source.error(fmt::format("{}.switches[{}]", path, i),
                            fmt::format("switch \"{}\" is repaired but never failed", repair.switches(i)),
                            "no fail event takes it or a link of it away");
    }
  }

  bool any_lost(HostId host) const {
    const std::vector<DeviceId> all = context_.cluster->devices_of(host);
    return std::any_of(all.begin(), all.end(), [&](DeviceId device) { return devices_.count(device) != 0; });
  }

  Context& context_;
  std::set<DeviceId> devices_;
  std::set<std::string> links_;
};

}  // namespace

void check_repairs(Context& context, Scenario& scenario) {
  RepairChecker repairs(context, scenario);
  for (int i = 0; i < context.message.events_size(); ++i) {
    const proto::ScenarioEvent& event = context.message.events(i);
    if (!event.has_repair()) continue;
    repairs.check(event.repair(), fmt::format("events[{}].repair", i));
    repairs.keep_lost(std::get<Repair>(scenario.events[static_cast<size_t>(i)].what));
  }
}

}  // namespace scalai::scenario::internal
