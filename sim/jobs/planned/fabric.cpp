#include "sim/jobs/planned/fabric.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "ptc/base/status.h"

namespace scalai::jobs {
namespace {

// What a group puts on each link of a cluster; the links of ptc/cost/change/platform.h but for copies on a device and
// emulated hosts.
class LinkLoads {
 public:
  LinkLoads(const cluster::Cluster& cluster, std::span<const HostId> hosts)
      : cluster_(cluster), tiers_(cluster::tiers_of(cluster)), hosts_(hosts) {}

  void add(const FlowGroup::Flow& flow) {
    const auto bytes = static_cast<double>(flow.bytes);
    if ((flow.src.host == flow.dst.host && flow.src.host >= 0) || joined(flow.src, flow.dst)) {
      add_inside(flow, bytes);
      return;
    }
    const int src_nic = nic_of(flow.src, flow.dst, flow.lane), dst_nic = nic_of(flow.dst, flow.src, flow.lane);
    const size_t climbs = tiers_climbed(flow.src, src_nic, flow.dst, dst_nic);
    add_end(flow.src, src_nic, flow.src_process, 0, climbs, bytes);
    add_end(flow.dst, dst_nic, flow.dst_process, 1, climbs, bytes);
    if (cluster_.fabric == cluster::FabricKind::kStar) load(kFabric, 0, 0, cluster_.backbone_bytes_per_s, bytes);
  }

  double seconds() const { return longest_; }

 private:
  enum Kind { kGpu, kPcie, kStore, kNic, kUplink, kFabric, kStorage };

  const cluster::Host& host(const Place& place) const {
    return cluster_.hosts[static_cast<size_t>(hosts_[static_cast<size_t>(place.host)].value)];
  }
  int host_id(const Place& place) const { return hosts_[static_cast<size_t>(place.host)].value; }
  int nic_of(const Place& place, const Place& other, int lane) const {
    if (place.host < 0) return 0;
    if (place.gpu >= 0) return place.gpu * host(place).nics / host(place).gpus;
    return (other.gpu >= 0 ? nic_of(other, other, 0) : lane) % std::max(1, host(place).nics);
  }

  void add_inside(const FlowGroup::Flow& flow, double bytes) {
    if (flow.src == flow.dst && flow.src.gpu >= 0) return;
    const bool over_pcie = flow.src.gpu < 0 || flow.dst.gpu < 0;
    for (const auto& [place, process, down] :
         {std::tuple(flow.src, flow.src_process, 0), std::tuple(flow.dst, flow.dst_process, 1)}) {
      if (place.gpu < 0) {
        add_store(place, process, down, bytes);
      } else {
        const cluster::Rates rates = cluster::reached(host(place));
        load(over_pcie ? kPcie : kGpu, device(place), down,
             over_pcie ? rates.pcie_bytes_per_s : rates.gpu_link_bytes_per_s, bytes);
      }
    }
  }

  void add_store(const Place& place, bool process, int down, double bytes) {
    if (process) return;
    const cluster::Host& one = host(place);
    load(kStore, host_id(place), down, down == 1 ? one.store_ingest_bytes_per_s : one.store_serve_bytes_per_s, bytes);
  }

  void add_end(const Place& place, int nic, bool process, int down, size_t climbs, double bytes) {
    if (place.host < 0) {
      load(kStorage, 0, down, down == 1 ? cluster_.storage_write_bytes_per_s : cluster_.storage_read_bytes_per_s,
           bytes);
      return;
    }
    const cluster::Rates rates = cluster::reached(host(place));
    if (place.gpu < 0) {
      add_store(place, process, down, bytes);
    } else {
      load(kPcie, device(place), down, rates.pcie_bytes_per_s, bytes);
    }
    load(kNic, host_id(place) * 64 + nic, down, rates.nic_bytes_per_s, bytes);
    for (size_t t = 0; t < climbs; ++t) {
      const int64_t number = switch_of(tiers_[t], place, nic);
      load(kUplink, number * kMostTiers + static_cast<int64_t>(t), down, uplink_rate(tiers_[t], place, nic), bytes);
    }
  }

  int64_t device(const Place& place) const { return host(place).first_device + place.gpu; }
  static constexpr int64_t kMostTiers = 4;
  int switch_of(const cluster::Tier& tier, const Place& place, int nic) const {
    return tier.switch_of(HostId(host_id(place)), nic);
  }
  bool joined(const Place& a, const Place& b) const {
    return a.gpu >= 0 && b.gpu >= 0 && cluster_.domain_of(HostId(host_id(a))) == cluster_.domain_of(HostId(host_id(b)));
  }
  // Storage hangs off the top.
  size_t tiers_climbed(const Place& a, int a_nic, const Place& b, int b_nic) const {
    size_t climbed = 0;
    if (a.host < 0 || b.host < 0) return tiers_.size();
    while (climbed < tiers_.size() && switch_of(tiers_[climbed], a, a_nic) != switch_of(tiers_[climbed], b, b_nic))
      ++climbed;
    return climbed;
  }
  // The NICs below a switch over its oversubscription. Of a rail: one NIC of each host.
  double uplink_rate(const cluster::Tier& tier, const Place& place, int nic) const {
    const size_t all = cluster_.hosts.size(), each = static_cast<size_t>(tier.hosts);
    const size_t first = each > 0 ? static_cast<size_t>(host_id(place)) / each * each : 0;
    const size_t end = each > 0 ? std::min(first + each, all) : all;
    double sum = 0;
    for (size_t h = first; h < end; ++h) {
      const cluster::Host& one = cluster_.hosts[h];
      if (tier.nics > 0 && one.nics <= nic) continue;
      const double rate = cluster::reached(one).nic_bytes_per_s;
      if (rate == 0) return 0;
      sum += tier.nics > 0 ? rate : one.nics * rate;
    }
    return sum / tier.oversubscription;
  }

  void load(Kind kind, int64_t index, int down, double rate, double bytes) {
    if (rate <= 0) return;
    double& seconds = seconds_[{kind, index, down}];
    seconds += bytes / rate;
    longest_ = std::max(longest_, seconds);
  }

  const cluster::Cluster& cluster_;
  const std::vector<cluster::Tier> tiers_;
  const std::span<const HostId> hosts_;
  std::map<std::tuple<Kind, int64_t, int>, double> seconds_;
  double longest_ = 0;
};

class UnsharedFabric final : public Fabric {
 public:
  explicit UnsharedFabric(const cluster::Cluster& cluster) : cluster_(cluster) {}

  GroupId start(std::shared_ptr<const FlowGroup> group, std::vector<HostId> hosts, double now_s) override {
    SCALAI_CHECK(now_s >= now_s_);
    now_s_ = now_s;
    ends_.emplace(now_s + alone_s(group, hosts), next_);
    return next_++;
  }
  void cancel(GroupId group, double /*now_s*/) override {
    std::erase_if(ends_, [&](const auto& end) { return end.second == group; });
  }
  double next_end_s() const override { return ends_.empty() ? policy::kNever : ends_.begin()->first; }
  std::vector<End> advance(double to_s) override {
    std::vector<End> ended;
    while (!ends_.empty() && ends_.begin()->first <= to_s) {
      ended.push_back({.group = ends_.begin()->second, .at_s = ends_.begin()->first});
      ends_.erase(ends_.begin());
    }
    now_s_ = std::max(now_s_, to_s);
    return ended;
  }
  void train(policy::JobId, std::shared_ptr<const TrainingTraffic>, std::vector<HostId>, double) override {}
  void stop(policy::JobId, double) override {}
  double step_rate(policy::JobId) const override { return 1; }
  uint64_t step_rate_version() const override { return 0; }

  double alone_s(const std::shared_ptr<const FlowGroup>& group, std::span<const HostId> hosts) const override {
    LinkLoads loads(cluster_, hosts);
    for (const FlowGroup::Flow& flow : group->flows) loads.add(flow);
    return loads.seconds();
  }
  std::string description() const override {
    return "changes alone on the network: each takes what its hottest link needs";
  }

 private:
  const cluster::Cluster& cluster_;
  std::set<std::pair<double, GroupId>> ends_;
  GroupId next_ = 0;
  double now_s_ = 0;
};

}  // namespace

std::unique_ptr<Fabric> make_unshared_fabric(const cluster::Cluster& cluster) {
  return std::make_unique<UnsharedFabric>(cluster);
}

}  // namespace scalai::jobs
