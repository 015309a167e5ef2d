#include "ptc/plan/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "ptc/plan/internal/difference.h"
#include "ptc/plan/internal/fan_out.h"
#include "ptc/plan/internal/sharing.h"

namespace scalai::plan {
namespace {

using internal::Difference;
using internal::Exchange;
using internal::Overlap;

// Calls visit(leg, bytes) for every leg of every instance; bytes of all its tensors.
template <class Visit>
void for_each_leg(const Plan& plan, Visit visit) {
  for (const Instance& instance : plan.instances()) {
    std::array<int64_t, kTransferClasses> bytes;
    bytes.fill(-1);
    for (const Leg& leg : plan.patterns().legs(instance.pattern)) {
      int64_t& sum = bytes[static_cast<size_t>(leg.transfer_class)];
      if (sum < 0) {
        sum = 0;
        for (const TensorId id : plan.tensors_of(instance)) sum += plan.tensor(id).element_bytes(leg.transfer_class);
        sum *= instance.box.volume();
      }
      visit(leg, sum);
    }
  }
}

// The ends of links, at one of two levels: hosts, or devices and after them host memories.
class Places {
 public:
  Places(const cluster::Cluster& cluster, bool hosts)
      : cluster_(cluster), devices_(cluster.device_count()), hosts_(hosts) {}

  bool hosts() const { return hosts_; }
  size_t count() const { return cluster_.hosts.size() + static_cast<size_t>(hosts_ ? 0 : devices_); }
  size_t of(const Location& location) const {
    const bool device = location.kind == Location::Kind::kDevice;
    if (!hosts_) return static_cast<size_t>(device ? location.index : devices_ + location.index);
    return static_cast<size_t>(device ? cluster_.host_of(DeviceId(location.index)).value : location.index);
  }
  std::string name_of(size_t place) const {
    if (hosts_) return fmt::format("h{}.nic", place);
    const auto index = static_cast<int>(place);
    return (index < devices_ ? Location::device(DeviceId(index)) : Location::host_memory(HostId(index - devices_)))
        .str();
  }

 private:
  const cluster::Cluster& cluster_;
  const int devices_;
  const bool hosts_;
};

struct LinkLoad {
  size_t place = 0;
  bool up = false;
  int64_t bytes = 0;
};

std::optional<LinkLoad> most_loaded(const Plan& plan, const Places& places) {
  std::vector<int64_t> down(places.count(), 0), up = down;
  for_each_leg(plan, [&](const Leg& leg, int64_t bytes) {
    const bool stored = leg.src.kind == Location::Kind::kStorage;
    if (stored && !places.hosts()) return;
    const size_t dst = places.of(Location::device(leg.dst)), src = stored ? places.count() : places.of(leg.src);
    if (src == dst) return;
    if (!stored) up[src] += bytes;
    down[dst] += bytes;
  });
  LinkLoad most;
  for (size_t place = 0; place < places.count(); ++place) {
    if (down[place] > most.bytes) most = {place, false, down[place]};
    if (up[place] > most.bytes) most = {place, true, up[place]};
  }
  return most.bytes > 0 ? std::optional(most) : std::nullopt;
}

class Optimum {
 public:
  Optimum(const PlannerInput& input, const Places& places)
      : input_(input),
        places_(places),
        flat_(flat(input.cluster)),
        fan_out_(flat_, input.options),
        difference_(internal::difference_of(input)),
        received_(places.count(), 0),
        sent_(received_),
        marked_(static_cast<size_t>(input.cluster.device_count()), false) {}

  int64_t run() {
    for (const auto& group : difference_.groups) {
      for (const Overlap& overlap : group.overlaps) count(group, overlap);
    }
    for (const auto& [key, bytes] : bytes_) add(key, bytes);
    internal::Sharing sharing(sent_, *std::max_element(received_.begin(), received_.end()));
    for (const auto& [exchange, bytes] : shared_) sharing.add({{exchange.first, exchange.second}}, bytes);
    return sharing.solve();
  }

 private:
  using Key = std::array<int32_t, 4>;  // holders, copies, wanting, masters

  // Nothing lies nearer than anything else.
  static cluster::Cluster flat(cluster::Cluster cluster) {
    cluster.fabric = cluster::FabricKind::kStar;
    cluster.rack_hosts = cluster.group_hosts = 0;
    for (cluster::Host& host : cluster.hosts) host.nvlink_domain = -1;
    return cluster;
  }

  void count(const internal::GroupDifference& group, const Overlap& overlap) {
    const bool held = overlap.holders >= 0 || overlap.copies >= 0;
    if (overlap.side == Overlap::Side::kLocal || (!held && !(input_.residency.storage && places_.hosts()))) return;
    int64_t bytes = 0;
    for (const TensorId id : group.tensors) {
      const auto index = static_cast<size_t>(id.value);
      bytes +=
          std::min(tensor::size_of(input_.from.tensors[index].dtype), tensor::size_of(input_.to.tensors[index].dtype));
    }
    const Key key = {overlap.holders, overlap.copies, overlap.wanting, overlap.masters};
    const auto [entry, fresh] = number_of_.try_emplace(key, bytes_.size());
    if (fresh) bytes_.emplace_back(key, 0);
    bytes_[entry->second].second += bytes * overlap.box.volume();
  }

  void add(const Key& key, int64_t bytes) {
    const auto [holders, copies, wanting, masters] = key;
    static const std::vector<DeviceId> kNone;
    const std::vector<DeviceId>& holding = holders >= 0 ? difference_.old_sets[holders] : kNone;
    const std::vector<DeviceId> lacking = lacking_of(holding, wanting, masters);
    if (lacking.empty()) return;
    const auto holding_by_host =
        copies >= 0 ? internal::by_host(holding, flat_, difference_.copy_hosts[static_cast<size_t>(copies)])
                    : internal::by_host(holding, flat_);
    const auto lacking_by_host = internal::by_host(lacking, flat_);
    if (holders < 0 && copies < 0) {  // from storage, once a host
      for (const auto& group : lacking_by_host.groups) received_[static_cast<size_t>(group.host.value)] += bytes;
      return;
    }
    for (Exchange& exchange : fan_out_.exchanges(holding_by_host, lacking_by_host, places_.hosts())) {
      for (const int32_t place : exchange.wanting) received_[static_cast<size_t>(place)] += bytes;
      if (exchange.forced()) {
        sent_[static_cast<size_t>(exchange.holders.front())] += bytes;
      } else {
        shared_[{std::move(exchange.holders), std::move(exchange.wanting)}] += bytes;
      }
    }
  }

  // Devices that neither hold nor derive it; on hosts, where nobody derives it.
  std::vector<DeviceId> lacking_of(const std::vector<DeviceId>& holding, int32_t wanting, int32_t masters) {
    std::vector<DeviceId> lacking;
    mark(holding, true);
    for (const DeviceId device : difference_.new_sets[wanting]) {
      if (!marked_[static_cast<size_t>(device.value)]) lacking.push_back(device);
    }
    mark(holding, false);
    if (masters < 0) return lacking;
    std::set<size_t> served;
    mark(difference_.new_sets[masters], true);
    for (const DeviceId device : lacking) {
      if (marked_[static_cast<size_t>(device.value)]) served.insert(places_.of(Location::device(device)));
    }
    mark(difference_.new_sets[masters], false);
    std::erase_if(lacking, [&](DeviceId device) { return served.contains(places_.of(Location::device(device))); });
    return lacking;
  }

  void mark(const std::vector<DeviceId>& devices, bool value) {
    for (const DeviceId device : devices) marked_[static_cast<size_t>(device.value)] = value;
  }

  const PlannerInput& input_;
  const Places& places_;
  const cluster::Cluster flat_;
  const internal::FanOut fan_out_;
  const Difference difference_;
  std::vector<int64_t> received_, sent_;  // by place; sent where there is no choice
  std::vector<bool> marked_;              // by device: scratch of lacking_of
  std::vector<std::pair<Key, int64_t>> bytes_;
  absl::flat_hash_map<Key, size_t> number_of_;                                       // into bytes_
  std::map<std::pair<std::vector<int32_t>, std::vector<int32_t>>, int64_t> shared_;  // holders and wanting
};

std::optional<HottestLink> hottest_at(const Plan& plan, const PlannerInput& input, const Places& places) {
  const std::optional<LinkLoad> load = most_loaded(plan, places);
  if (!load) return std::nullopt;
  // A plan that could not derive moves everything.
  PlannerInput as_planned = input;
  as_planned.options.derive_params = std::any_of(plan.tensors().begin(), plan.tensors().end(),
                                                 [](const TensorInfo& one) { return one.derived_from.valid(); });
  return HottestLink{.name = places.name_of(load->place) + (load->up ? ".up" : ".down"),
                     .bytes = load->bytes,
                     .optimum_bytes = Optimum(as_planned, places).run()};
}

}  // namespace

std::vector<DeviceTraffic> device_traffic(const Plan& plan) {
  std::map<DeviceId, DeviceTraffic> traffic;
  for (const std::vector<DeviceId>* side : {&plan.src_devices(), &plan.dst_devices()}) {
    for (const DeviceId device : *side) traffic[device].device = device;
  }
  for_each_leg(plan, [&](const Leg& leg, int64_t bytes) {
    if (leg.src == Location::device(leg.dst)) return;
    traffic[leg.dst].received += bytes;
    if (leg.src.kind == Location::Kind::kDevice) traffic[DeviceId(leg.src.index)].sent += bytes;
  });
  for (const DeviceMemory& memory : plan.memory()) traffic[memory.device].peak_extra = memory.peak_extra;
  std::vector<DeviceTraffic> sorted;
  for (const auto& [device, one] : traffic) sorted.push_back(one);
  return sorted;
}

std::optional<HottestLink> hottest_link(const Plan& plan, const PlannerInput& input) {
  const std::vector<cluster::Host>& hosts = input.cluster.hosts;
  const bool domains =
      std::any_of(hosts.begin(), hosts.end(), [](const cluster::Host& host) { return host.nvlink_domain >= 0; });
  if (domains) return std::nullopt;
  const auto across = hottest_at(plan, input, Places(input.cluster, /*hosts=*/true));
  return across ? across : hottest_at(plan, input, Places(input.cluster, /*hosts=*/false));
}

}  // namespace scalai::plan
