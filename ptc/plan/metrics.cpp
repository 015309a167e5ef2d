#include "ptc/plan/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace scalai::plan {
namespace {

using tensor::Box;

// The ends of links, at one of two levels: hosts, or devices and host memories.
class Places {
 public:
  Places(const Cluster& cluster, bool hosts) : cluster_(cluster), hosts_(hosts) {}

  Location of(const Location& location) const {
    const bool device = location.kind == Location::Kind::kDevice;
    return hosts_ && device ? Location::host_memory(cluster_.host_of(DeviceId(location.index))) : location;
  }
  std::string name_of(const Location& place) const {
    return hosts_ ? fmt::format("h{}.nic", place.index) : place.str();
  }

 private:
  const Cluster& cluster_;
  bool hosts_;
};

struct LinkLoad {
  Location place;
  bool up = false;
  int64_t bytes = 0;
};

std::optional<LinkLoad> most_loaded(const Plan& plan, const Places& places) {
  std::map<std::pair<Location, bool>, int64_t> loads;
  plan.for_each_operation([&](const Operation& operation) {
    if (operation.src.kind == Location::Kind::kStorage) return;
    const Location src = places.of(operation.src);
    const Location dst = places.of(Location::device(operation.dst));
    if (src == dst) return;
    loads[{src, true}] += operation.bytes;
    loads[{dst, false}] += operation.bytes;
  });
  const auto most =
      std::max_element(loads.begin(), loads.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == loads.end()) return std::nullopt;
  return LinkLoad{most->first.first, most->first.second, most->second};
}

// Tensors that lie alike on both sides: their boxes are the same, so geometry is done once for all of them.
struct Alike {
  TensorId first;
  std::vector<std::pair<Box, HostId>> copies;  // in host memory
  int64_t element_bytes = 0;                   // sum over the tensors
};

bool lie_alike(const collection::LogicalTensor& a, const collection::LogicalTensor& b) {
  return a.shape == b.shape && a.mesh == b.mesh && a.layout == b.layout && a.pins == b.pins;
}

class Optimum {
 public:
  Optimum(const PlannerInput& input, const Places& places) : input_(input), places_(places) {}

  int64_t run() {
    for (const Alike& alike : groups()) add(alike);
    int64_t optimum = 0;
    for (const auto& [place, bytes] : missing_) optimum = std::max(optimum, bytes);
    return std::max(optimum, most_to_send());
  }

 private:
  using Set = std::set<Location>;
  using Boxes = std::map<Box, Set>;

  const collection::LogicalTensor& old_tensor(TensorId id) const {
    return input_.from.tensors[static_cast<size_t>(id.value)];
  }
  const collection::LogicalTensor& new_tensor(TensorId id) const {
    return input_.to.tensors[static_cast<size_t>(id.value)];
  }

  std::vector<Alike> groups() const {
    std::vector<std::vector<std::pair<Box, HostId>>> copies(input_.to.tensors.size());
    for (const collection::ExtraHolder& extra : input_.residency.extra)
      copies[static_cast<size_t>(extra.tensor.value)].emplace_back(extra.box, extra.host);
    std::vector<Alike> found;
    for (size_t i = 0; i < input_.to.tensors.size(); ++i) {
      const TensorId id(static_cast<int64_t>(i));
      const auto same = std::find_if(found.begin(), found.end(), [&](const Alike& alike) {
        return alike.copies == copies[i] && lie_alike(old_tensor(alike.first), old_tensor(id)) &&
               lie_alike(new_tensor(alike.first), new_tensor(id));
      });
      Alike& alike = same != found.end() ? *same : found.emplace_back(Alike{id, copies[i], 0});
      alike.element_bytes += tensor::size_of(new_tensor(id).dtype);
    }
    return found;
  }

  // A collection's boxes of a tensor and where they lie. Two of them are equal or disjoint.
  Boxes boxes_of(const collection::Collection& collection, TensorId id, const std::set<DeviceId>& lost) const {
    Boxes boxes;
    for (int rank = 0; rank < collection.ranks(); ++rank) {
      const DeviceId device = collection.device_of_rank[static_cast<size_t>(rank)];
      if (lost.contains(device)) continue;
      for (const tensor::Piece& piece : collection.pieces(id, LogicalRank(rank)).pieces)
        boxes[piece.box].insert(places_.of(Location::device(device)));
    }
    return boxes;
  }

  // Cuts a box so that each part has one set of holders. Copies in host memory may overlap other holders' boxes.
  static std::vector<std::pair<Box, Set>> by_holders(const Box& box, const Boxes& holders) {
    std::vector<std::pair<Box, Set>> parts = {{box, {}}};
    for (const auto& [held, set] : holders) {
      if (!intersect(held, box)) continue;
      std::vector<std::pair<Box, Set>> finer;
      for (const auto& [part, known] : parts) {
        for (const Box& rest : subtract(part, held)) finer.emplace_back(rest, known);
        if (const auto common = intersect(part, held)) {
          finer.emplace_back(*common, known);
          finer.back().second.insert(set.begin(), set.end());
        }
      }
      parts = std::move(finer);
    }
    return parts;
  }

  void add(const Alike& alike) {
    Boxes holders = boxes_of(input_.from, alike.first, input_.residency.lost);
    for (const auto& [box, host] : alike.copies) holders[box].insert(Location::host_memory(host));
    for (const auto& [box, wanting] : boxes_of(input_.to, alike.first, {})) {
      for (const auto& [part, holding] : by_holders(box, holders)) {
        if (holding.empty()) continue;
        const int64_t bytes = part.volume() * alike.element_bytes;
        Set lacking;
        std::set_difference(wanting.begin(), wanting.end(), holding.begin(), holding.end(),
                            std::inserter(lacking, lacking.end()));
        for (const Location& place : lacking) missing_[place] += bytes;
        if (!lacking.empty()) to_send_[holding] += bytes;
      }
    }
  }

  int64_t most_to_send() const {
    std::set<Set> groups;
    Set all;
    for (const auto& [set, bytes] : to_send_) {
      groups.insert(set);
      all.insert(set.begin(), set.end());
    }
    if (!all.empty()) groups.insert(all);
    int64_t most = 0;
    for (const Set& group : groups) {
      int64_t bytes = 0;
      for (const auto& [set, part] : to_send_) {
        if (std::includes(group.begin(), group.end(), set.begin(), set.end())) bytes += part;
      }
      const auto members = static_cast<int64_t>(group.size());
      most = std::max(most, (bytes + members - 1) / members);
    }
    return most;
  }

  const PlannerInput& input_;
  const Places& places_;
  std::map<Location, int64_t> missing_;  // |M(p)|
  std::map<Set, int64_t> to_send_;       // bytes of elements missing anywhere, by H(x)
};

std::optional<HottestLink> hottest_at(const Plan& plan, const PlannerInput& input, const Places& places) {
  const std::optional<LinkLoad> load = most_loaded(plan, places);
  if (!load) return std::nullopt;
  return HottestLink{.name = places.name_of(load->place) + (load->up ? ".up" : ".down"),
                     .bytes = load->bytes,
                     .optimum_bytes = Optimum(input, places).run()};
}

}  // namespace

std::vector<DeviceTraffic> device_traffic(const Plan& plan) {
  std::map<DeviceId, DeviceTraffic> traffic;
  for (const std::vector<DeviceId>* side : {&plan.src_devices, &plan.dst_devices}) {
    for (const DeviceId device : *side) traffic[device].device = device;
  }
  plan.for_each_operation([&](const Operation& operation) {
    if (operation.src == Location::device(operation.dst)) return;
    traffic[operation.dst].received += operation.bytes;
    if (operation.src.kind == Location::Kind::kDevice) traffic[DeviceId(operation.src.index)].sent += operation.bytes;
  });
  for (const DeviceMemory& memory : plan.memory) traffic[memory.device].peak_extra = memory.peak_extra;
  std::vector<DeviceTraffic> sorted;
  for (const auto& [device, one] : traffic) sorted.push_back(one);
  return sorted;
}

std::optional<HottestLink> hottest_link(const Plan& plan, const PlannerInput& input) {
  const auto across = hottest_at(plan, input, Places(input.cluster, /*hosts=*/true));
  return across ? across : hottest_at(plan, input, Places(input.cluster, /*hosts=*/false));
}

}  // namespace scalai::plan
