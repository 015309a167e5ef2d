#include "sim/jobs/change_fabric.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/cost/change/maxmin.h"
#include "ptc/cost/change/platform.h"
#include "sim/internal/at.h"
#include "sim/jobs/internal/training_shares.h"

namespace scalai::sim {
namespace {

using jobs::FlowGroup;
using jobs::Place;
using jobs::TrainingTraffic;
using policy::JobId;
using policy::kNever;

std::vector<double> bandwidths_of(const change::NetworkSpec& spec) {
  std::vector<double> rates;
  for (const change::LinkSpec& link : spec.links) rates.push_back(link.bandwidth_bytes_per_s);
  return rates;
}

void sort_distinct(std::vector<int>& links) {
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
}

// The flows of one group by themselves, on the links they use.
class AloneNetwork {
 public:
  AloneNetwork(const std::vector<std::vector<int>>& routes, const FlowGroup& group,
               const std::vector<double>& capacities)
      : network_(spec_of(routes, capacities)), flows_(routes.size()) {
    for (size_t f = 0; f < routes.size(); ++f)
      network_.start(static_cast<int>(f) + 1, 0, static_cast<double>(group.flows[f].bytes));
  }

  double run() {
    for (size_t left = flows_; left > 0;) left -= network_.advance_to(policy::kNever).size();
    return network_.now_s();
  }
  // What each flow has still to send after so long.
  std::vector<double> bytes_left_after(double seconds) {
    while (network_.now_s() < seconds && network_.next_end_s() < policy::kNever) network_.advance_to(seconds);
    std::vector<double> left;
    for (size_t f = 0; f < flows_; ++f) left.push_back(network_.bytes_left(static_cast<change::FlowId>(f)));
    return left;
  }

 private:
  static change::NetworkSpec spec_of(const std::vector<std::vector<int>>& routes,
                                     const std::vector<double>& capacities) {
    change::NetworkSpec spec;
    spec.endpoints.emplace_back();  // where all flows go
    std::map<int, int> numbers;
    for (const std::vector<int>& route : routes) {
      change::EndpointSpec& source = spec.endpoints.emplace_back();
      for (const int link : route) {
        const auto [number, fresh] = numbers.emplace(link, static_cast<int>(spec.links.size()));
        if (fresh) spec.links.push_back({.name = "", .bandwidth_bytes_per_s = capacities[at(link)]});
        source.up.push_back(number->second);
      }
    }
    return spec;
  }

  change::MaxMinBackend network_;
  size_t flows_;
};

class SharedFabric final : public ChangeFabric {
 public:
  explicit SharedFabric(const cluster::Cluster& cluster)
      : cluster_(cluster),
        tiers_(cluster::tiers_of(cluster)),
        platform_(cluster, change::LinkRates::kReached),
        capacities_(bandwidths_of(platform_.spec())),
        training_(capacities_),
        groups_on_(capacities_.size()),
        jobs_on_(capacities_.size()) {}

  GroupId start(std::shared_ptr<const FlowGroup> group, std::vector<HostId> hosts, double now_s) override;
  void cancel(GroupId group, double now_s) override;
  double next_end_s() const override;
  std::vector<End> advance(double to_s) override;
  void train(policy::JobId job, std::shared_ptr<const TrainingTraffic> traffic, std::vector<HostId> hosts,
             double now_s) override;
  void stop(policy::JobId job, double now_s) override;
  double step_rate(policy::JobId job) const override { return training_.step_rate(job); }
  uint64_t step_rate_version() const override { return training_.version(); }
  double alone_s(const std::shared_ptr<const FlowGroup>& group, std::span<const HostId> hosts) const override;
  std::string description() const override {
    return "links shared max-min fairly with other changes and with training";
  }
  const FabricCounts& counts() const override { return counts_; }

 private:
  struct Group {
    std::shared_ptr<const FlowGroup> flows;
    std::vector<HostId> hosts;
    std::vector<int> links;  // distinct
    double start_s = 0;
    double end_s = 0;     // of one that is alone
    bool shares = false;  // its flows are in the network
    std::map<change::FlowId, std::vector<int>> under_way;
  };
  struct Training {
    TrainingShares::Job job;
    std::vector<int> links;  // distinct
    int used_links = 0;      // of these, by groups
  };
  using AloneKey = std::pair<const FlowGroup*, std::vector<double>>;  // with the rates of the uplinks above the hosts

  std::vector<int> route(const Place& src, const Place& dst, bool src_process, bool dst_process,
                         std::span<const HostId> hosts, int lane = 0) const;
  std::vector<std::vector<int>> routes_of(const FlowGroup& group, std::span<const HostId> hosts) const;
  std::vector<double> uplink_rates(std::span<const HostId> hosts) const;
  void pass(double now_s);
  void share(GroupId id);
  void occupy(GroupId id);
  void release(GroupId id);
  void leave(Group& group);
  void refresh();
  double next_alone_s() const { return alone_.empty() ? policy::kNever : alone_.begin()->first; }
  void end_flows(const std::vector<change::FlowEnd>& ends, std::vector<End>& ended);
  change::MaxMinBackend& network();

  const cluster::Cluster& cluster_;
  const std::vector<cluster::Tier> tiers_;
  const change::Platform platform_;
  const std::vector<double> capacities_;
  std::unique_ptr<change::MaxMinBackend> network_;  // of all links, once something is shared
  TrainingShares training_;
  std::map<GroupId, Group> groups_;
  std::set<std::pair<double, GroupId>> alone_;  // by end
  std::map<change::FlowId, GroupId> group_of_flow_;
  std::map<policy::JobId, Training> jobs_;
  std::vector<std::vector<GroupId>> groups_on_;      // by link
  std::vector<std::vector<policy::JobId>> jobs_on_;  // by link
  mutable std::map<AloneKey, double> alone_known_;
  mutable std::vector<std::shared_ptr<const FlowGroup>> kept_;  // keys are addresses
  mutable FabricCounts counts_;
  GroupId next_ = 0;
  double now_s_ = 0;
};

// ---- routes ---------------------------------------------------------------------------------------------------------

plan::Location location_of(const Place& place, std::span<const HostId> hosts, const cluster::Cluster& cluster) {
  if (place.host < 0) return plan::Location::storage();
  const HostId host = hosts[at(place.host)];
  if (place.gpu < 0) return plan::Location::host_memory(host);
  return plan::Location::device(DeviceId(cluster.hosts[at(host.value)].first_device + place.gpu));
}

std::vector<int> SharedFabric::route(const Place& src, const Place& dst, bool src_process, bool dst_process,
                                     std::span<const HostId> hosts, int lane) const {
  const auto [from, to] = platform_.route(location_of(src, hosts, cluster_), location_of(dst, hosts, cluster_),
                                          src_process, dst_process, lane);
  std::vector<int> links = platform_.spec().endpoints[at(from)].up;
  const std::vector<int>& down = platform_.spec().endpoints[at(to)].down;
  links.insert(links.end(), down.begin(), down.end());
  sort_distinct(links);
  return links;
}

std::vector<std::vector<int>> SharedFabric::routes_of(const FlowGroup& group, std::span<const HostId> hosts) const {
  std::vector<std::vector<int>> routes;
  routes.reserve(group.flows.size());
  for (const FlowGroup::Flow& flow : group.flows)
    routes.push_back(route(flow.src, flow.dst, flow.src_process, flow.dst_process, hosts, flow.lane));
  return routes;
}

// ---- alone ----------------------------------------------------------------------------------------------------------

// Of the switches of each tier in the order in which the hosts come to them: the last one of a cluster may have fewer
// hosts.
std::vector<double> SharedFabric::uplink_rates(std::span<const HostId> hosts) const {
  std::vector<double> rates;
  for (const cluster::Tier& tier : tiers_) {
    if (tier.hosts == 0) continue;  // all hosts have the same rails
    std::set<int> seen;
    for (const HostId host : hosts) {
      if (!host.valid() || !seen.insert(tier.switch_of(host, 0)).second) continue;
      for (int nic = 0; nic < std::max(1, tier.nics); ++nic) {
        const int link = platform_.link(tier.name + std::to_string(tier.switch_of(host, nic)) + ".up");
        rates.push_back(link < 0 ? 0 : capacities_[at(link)]);
      }
    }
  }
  return rates;
}

double SharedFabric::alone_s(const std::shared_ptr<const FlowGroup>& group, std::span<const HostId> hosts) const {
  const auto [known, fresh] = alone_known_.try_emplace(AloneKey(group.get(), uplink_rates(hosts)), 0);
  if (!fresh) return known->second;
  kept_.push_back(group);
  ++counts_.alone_solved;
  return known->second = AloneNetwork(routes_of(*group, hosts), *group, capacities_).run();
}

// ---- groups ---------------------------------------------------------------------------------------------------------

change::MaxMinBackend& SharedFabric::network() {
  if (network_ == nullptr) network_ = std::make_unique<change::MaxMinBackend>(platform_.spec());
  if (network_->now_s() < now_s_) SCALAI_CHECK(network_->advance_to(now_s_).empty(), "a flow ended unseen");
  return *network_;
}

// Nothing ends on the way: whoever calls has advanced until here.
void SharedFabric::pass(double now_s) {
  SCALAI_CHECK(now_s >= now_s_);
  now_s_ = now_s;
}

jobs::Fabric::GroupId SharedFabric::start(std::shared_ptr<const FlowGroup> group, std::vector<HostId> hosts,
                                          double now_s) {
  pass(now_s);
  const GroupId id = next_++;
  Group& added = groups_[id];
  added.start_s = now_s;
  added.end_s = now_s + alone_s(group, hosts);
  for (const std::vector<int>& links : routes_of(*group, hosts))
    added.links.insert(added.links.end(), links.begin(), links.end());
  sort_distinct(added.links);
  added.flows = std::move(group);
  added.hosts = std::move(hosts);
  ++counts_.groups;
  alone_.emplace(added.end_s, id);
  occupy(id);
  refresh();
  return id;
}

// It takes its links; where they are not its own, it and those that have them share from now on.
void SharedFabric::occupy(GroupId id) {
  Group& group = groups_.at(id);
  std::set<GroupId> others;
  std::set<policy::JobId> jobs;
  for (const int link : group.links) {
    others.insert(groups_on_[at(link)].begin(), groups_on_[at(link)].end());
    jobs.insert(jobs_on_[at(link)].begin(), jobs_on_[at(link)].end());
    if (groups_on_[at(link)].empty()) {
      for (const policy::JobId job : jobs_on_[at(link)]) ++jobs_.at(job).used_links;
    }
    groups_on_[at(link)].push_back(id);
  }
  for (const policy::JobId job : jobs) {
    if (training_.has(job)) continue;
    training_.add(job, jobs_.at(job).job);
  }
  if (others.empty() && jobs.empty()) return;
  share(id);
  for (const GroupId other : others) share(other);
}

// From the moment's state on, its flows are in the network with all others.
void SharedFabric::share(GroupId id) {
  Group& group = groups_.at(id);
  if (group.shares) return;
  group.shares = true;
  ++counts_.contended;
  alone_.erase({group.end_s, id});
  const std::vector<std::vector<int>> routes = routes_of(*group.flows, group.hosts);
  AloneNetwork alone(routes, *group.flows, capacities_);
  const std::vector<double> left = alone.bytes_left_after(now_s_ - group.start_s);
  change::MaxMinBackend& all = network();
  for (size_t f = 0; f < routes.size(); ++f) {
    if (left[f] <= 0 || routes[f].empty()) continue;
    const FlowGroup::Flow& flow = group.flows->flows[f];
    const auto [from, to] =
        platform_.route(location_of(flow.src, group.hosts, cluster_), location_of(flow.dst, group.hosts, cluster_),
                        flow.src_process, flow.dst_process, flow.lane);
    const change::FlowId started = all.start(from, to, left[f]);
    group.under_way.emplace(started, routes[f]);
    group_of_flow_.emplace(started, id);
    training_.add_change(routes[f]);
  }
  // All of it had arrived by now.
  if (group.under_way.empty()) {
    group.end_s = now_s_;
    alone_.emplace(now_s_, id);
  }
}

void SharedFabric::leave(Group& group) {
  for (const auto& [flow, links] : group.under_way) {
    network().cancel(flow);
    training_.remove_change(links);
    group_of_flow_.erase(flow);
  }
  group.under_way.clear();
}

void SharedFabric::release(GroupId id) {
  Group& group = groups_.at(id);
  alone_.erase({group.end_s, id});
  leave(group);
  for (const int link : group.links) {
    std::erase(groups_on_[at(link)], id);
    if (!groups_on_[at(link)].empty()) continue;
    for (const policy::JobId job : jobs_on_[at(link)]) {
      if (--jobs_.at(job).used_links == 0) training_.remove(job);
    }
  }
  groups_.erase(id);
}

void SharedFabric::cancel(GroupId group, double now_s) {
  pass(now_s);
  release(group);
  refresh();
}

// After what began or ended: what training takes, and what that leaves to changes.
void SharedFabric::refresh() {
  if (network_ == nullptr) return;
  for (const change::LinkRate& rate : training_.update()) network().set_bandwidth(rate.link, rate.bytes_per_s);
}

double SharedFabric::next_end_s() const {
  const bool none = network_ == nullptr || group_of_flow_.empty();
  return std::min(next_alone_s(), none ? policy::kNever : network_->next_end_s());
}

void SharedFabric::end_flows(const std::vector<change::FlowEnd>& ends, std::vector<End>& ended) {
  for (const change::FlowEnd& end : ends) {
    const auto known = group_of_flow_.find(end.flow);
    SCALAI_CHECK(known != group_of_flow_.end() && !end.failed, "a flow of nobody ended");
    const GroupId id = known->second;
    group_of_flow_.erase(known);
    Group& group = groups_.at(id);
    training_.remove_change(group.under_way.at(end.flow));
    group.under_way.erase(end.flow);
    if (!group.under_way.empty()) continue;
    ended.push_back({.group = id, .at_s = end.at_s});
    release(id);
  }
}

std::vector<jobs::Fabric::End> SharedFabric::advance(double to_s) {
  std::vector<End> ended;
  for (double next_s = next_end_s(); next_s <= to_s; next_s = next_end_s()) {
    now_s_ = std::max(now_s_, next_s);
    if (!group_of_flow_.empty()) end_flows(network_->advance_to(now_s_), ended);
    while (next_alone_s() <= now_s_) {
      const GroupId id = alone_.begin()->second;
      ended.push_back({.group = id, .at_s = alone_.begin()->first});
      release(id);
    }
    refresh();
  }
  pass(std::max(now_s_, to_s));
  if (!group_of_flow_.empty()) network();
  std::sort(ended.begin(), ended.end(),
            [](const End& a, const End& b) { return std::pair(a.at_s, a.group) < std::pair(b.at_s, b.group); });
  return ended;
}

// ---- training -------------------------------------------------------------------------------------------------------

void SharedFabric::train(policy::JobId job, std::shared_ptr<const TrainingTraffic> traffic, std::vector<HostId> hosts,
                         double now_s) {
  stop(job, now_s);
  if (traffic == nullptr) return;
  Training added{.job = {.flows = {}, .step_s = traffic->step_s, .exposed_s = traffic->exposed_s}, .links = {}};
  for (const TrainingTraffic::Flow& flow : traffic->flows) {
    std::vector<int> links = route(flow.src, flow.dst, false, false, hosts);
    if (links.empty() || flow.bytes <= 0) continue;
    added.links.insert(added.links.end(), links.begin(), links.end());
    added.job.flows.push_back({.links = std::move(links), .bytes = flow.bytes, .bytes_per_s = flow.bytes_per_s});
  }
  if (added.job.flows.empty()) return;
  sort_distinct(added.links);
  std::set<GroupId> disturbed;
  for (const int link : added.links) {
    jobs_on_[at(link)].push_back(job);
    if (!groups_on_[at(link)].empty()) ++added.used_links;
    disturbed.insert(groups_on_[at(link)].begin(), groups_on_[at(link)].end());
  }
  const Training& kept = jobs_.emplace(job, std::move(added)).first->second;
  if (kept.used_links == 0) return;
  training_.add(job, kept.job);
  for (const GroupId group : disturbed) share(group);
  refresh();
}

void SharedFabric::stop(policy::JobId job, double now_s) {
  pass(now_s);
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  for (const int link : found->second.links) std::erase(jobs_on_[at(link)], job);
  if (training_.has(job)) training_.remove(job);
  jobs_.erase(found);
  refresh();
}

}  // namespace

std::unique_ptr<ChangeFabric> make_change_fabric(const cluster::Cluster& cluster) {
  return std::make_unique<SharedFabric>(cluster);
}

}  // namespace scalai::sim
