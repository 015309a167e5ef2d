#include "sim/jobs/planned/fabric.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "ptc/base/status.h"

namespace scalai::sched {
namespace {

// What a group puts on each link of a cluster; the links of ptc/change/platform.h but for copies on a device and emulated
// hosts.
class LinkLoads {
 public:
  LinkLoads(const cluster::Cluster& cluster, std::span<const HostId> hosts) : cluster_(cluster), hosts_(hosts) {}

  void add(const FlowGroup::Flow& flow) {
    const auto bytes = static_cast<double>(flow.bytes);
    if (flow.src.host == flow.dst.host && flow.src.host >= 0) {
      add_inside(flow, bytes);
      return;
    }
    const bool spine = leaves_leaf(flow.src, flow.dst);
    add_end(flow.src, flow.src_process, 0, spine, bytes);
    add_end(flow.dst, flow.dst_process, 1, spine, bytes);
    if (cluster_.fabric == cluster::FabricKind::kStar) load(kFabric, 0, 0, cluster_.backbone_bytes_per_s, bytes);
  }

  double seconds() const { return longest_; }

 private:
  enum Kind { kGpu, kPcie, kStore, kCard, kUplink, kFabric, kStorage };

  const cluster::Host& host(const Place& place) const {
    return cluster_.hosts[static_cast<size_t>(hosts_[static_cast<size_t>(place.host)].value)];
  }
  int host_id(const Place& place) const { return hosts_[static_cast<size_t>(place.host)].value; }
  int card_of(const Place& place) const { return place.gpu < 0 ? 0 : place.gpu * host(place).nics / host(place).gpus; }

  void add_inside(const FlowGroup::Flow& flow, double bytes) {
    const cluster::Rates rates = cluster::reached(host(flow.src));
    if (flow.src == flow.dst && flow.src.gpu >= 0) return;
    const bool over_pcie = flow.src.gpu < 0 || flow.dst.gpu < 0;
    for (const auto& [place, process, down] :
         {std::tuple(flow.src, flow.src_process, 0), std::tuple(flow.dst, flow.dst_process, 1)}) {
      if (place.gpu < 0) {
        add_store(place, process, down, bytes);
      } else {
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

  void add_end(const Place& place, bool process, int down, bool spine, double bytes) {
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
    load(kCard, host_id(place) * 64 + card_of(place), down, rates.nic_bytes_per_s, bytes);
    if (spine) load(kUplink, uplink(place), down, uplink_rate(place), bytes);
  }

  int64_t device(const Place& place) const { return host(place).first_device + place.gpu; }
  int uplink(const Place& place) const {
    return cluster_.fabric == cluster::FabricKind::kRail ? card_of(place) : host_id(place) / cluster_.leaf_hosts;
  }
  bool leaves_leaf(const Place& a, const Place& b) const {
    if (cluster_.fabric == cluster::FabricKind::kStar) return false;
    return a.host < 0 || b.host < 0 || uplink(a) != uplink(b);
  }
  // Of a leaf: its hosts' cards over the oversubscription. Of a rail: one card of each host.
  double uplink_rate(const Place& place) const {
    double sum = 0;
    const bool rail = cluster_.fabric == cluster::FabricKind::kRail;
    const size_t first = rail ? 0 : static_cast<size_t>(uplink(place) * cluster_.leaf_hosts);
    const size_t end = rail ? cluster_.hosts.size()
                            : std::min(first + static_cast<size_t>(cluster_.leaf_hosts), cluster_.hosts.size());
    for (size_t h = first; h < end; ++h) {
      const cluster::Host& one = cluster_.hosts[h];
      const double card = cluster::reached(one).nic_bytes_per_s;
      if (card == 0) return 0;
      sum += rail ? (one.nics > card_of(place) ? card : 0) : one.nics * card;
    }
    return sum / cluster_.oversubscription;
  }

  void load(Kind kind, int64_t index, int down, double rate, double bytes) {
    if (rate <= 0) return;
    double& seconds = seconds_[{kind, index, down}];
    seconds += bytes / rate;
    longest_ = std::max(longest_, seconds);
  }

  const cluster::Cluster& cluster_;
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
  double next_end_s() const override { return ends_.empty() ? kNever : ends_.begin()->first; }
  std::vector<End> advance(double to_s) override {
    std::vector<End> ended;
    while (!ends_.empty() && ends_.begin()->first <= to_s) {
      ended.push_back({.group = ends_.begin()->second, .at_s = ends_.begin()->first});
      ends_.erase(ends_.begin());
    }
    now_s_ = std::max(now_s_, to_s);
    return ended;
  }
  void train(JobId, std::shared_ptr<const TrainingTraffic>, std::vector<HostId>, double) override {}
  void stop(JobId, double) override {}
  double pace(JobId) const override { return 1; }
  uint64_t pace_version() const override { return 0; }

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

}  // namespace scalai::sched
