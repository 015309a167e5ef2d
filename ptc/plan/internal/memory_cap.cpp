#include "ptc/plan/internal/memory_cap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/plan/internal/round_load.h"
#include "ptc/plan/internal/rounds.h"

namespace scalai::plan::internal {
namespace {

using tensor::Box;

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();  // no order was found

// Cuts a box in halves along its longest leading dimensions until each part has at most so many elements.
void cut_to(const Box& box, int64_t elements, std::vector<Box>& parts) {
  if (box.volume() <= elements || box.volume() <= 1) {
    parts.push_back(box);
    return;
  }
  int dim = 0;
  while (box.extent(dim) < 2) ++dim;
  const auto at = static_cast<size_t>(dim);
  const int64_t row = box.volume() / box.extent(dim);
  const int64_t rows = std::max<int64_t>(1, elements / row);
  for (int64_t lo = box.lo[at]; lo < box.hi[at]; lo += rows) {
    Box part = box;
    part.lo[at] = lo;
    part.hi[at] = std::min(lo + rows, box.hi[at]);
    if (rows == 1) {
      cut_to(part, elements, parts);
    } else {
      parts.push_back(part);
    }
  }
}

// How many parts cut_to() makes; none is made.
int64_t count_parts(const Box& box, int64_t elements) {
  int64_t parts = 1, volume = box.volume();
  for (int dim = 0; dim < box.rank && volume > elements && volume > 1; ++dim) {
    const int64_t extent = box.extent(dim);
    if (extent < 2) continue;
    volume /= extent;  // of a row
    const int64_t rows = std::max<int64_t>(1, elements / volume);
    parts *= (extent + rows - 1) / rows;
    if (rows > 1) break;
  }
  return parts;
}

class MemoryScheduler {
 public:
  MemoryScheduler(PlanDraft& plan, const cluster::Cluster& cluster)
      : plan_(plan),
        cluster_(cluster),
        rated_(std::any_of(cluster.hosts.begin(), cluster.hosts.end(),
                           [](const cluster::Host& host) { return host.nic_bytes_per_s > 0; })),
        index_(plan.memory),
        most_parts_(std::max<int64_t>(kMostInstances, std::ssize(plan.instances))) {
    for (const DeviceMemory& memory : plan.memory) {
      limit_.push_back(std::max(memory.before, memory.after) + plan.memory_cap);
      before_.push_back(memory.before);
    }
  }

  // The peak; kUnknown when no order with less than kMostInstances was found.
  int64_t run() {
    const std::vector<Instance> whole = plan_.instances;
    if (const int64_t least = least_for_rounds(); least > plan_.memory_cap) return least;
    if (const int64_t least = least_to_cut(whole); least > plan_.memory_cap) {
      by_progress();
      const int64_t peak = greedy(0);  // devices that only receive need no cuts
      if (peak > plan_.memory_cap) return least;
      try_even_rounds();
      return peak;
    }
    int64_t best = kUnknown;
    for (int64_t piece = largest_piece(plan_.memory_cap); piece > 0; piece /= 4) {
      if (!cut_instances(whole, piece)) break;
      by_progress();
      const int64_t peak = greedy(0);
      best = std::min(best, peak);
      if (peak > plan_.memory_cap) continue;
      try_even_rounds();
      return peak;
    }
    return std::min(best, sliced(whole));
  }

 private:
  static int64_t largest_piece(int64_t cap) { return std::max<int64_t>(cap / 16, 1); }

  // The smallest cap for which boxes of the largest piece, or the slices, are not too many: the bound of all work below
  // it.
  int64_t least_to_cut(const std::vector<Instance>& whole) const {
    std::vector<int64_t> brought(plan_.memory.size(), 0);
    for_each_arrival([&](size_t, size_t device, int64_t bytes) { brought[device] += bytes; });
    const int64_t most = *std::max_element(brought.begin(), brought.end());
    const auto works = [&](int64_t cap) {
      const int64_t slices = most / std::max<int64_t>(1, cap) + 1;
      return can_slice(slices, whole.size()) || can_cut(whole, largest_piece(cap));
    };
    int64_t fails = 0, least = 1;
    while (!works(least)) fails = least, least *= 2;
    while (least - fails > 1) {
      const int64_t middle = fails + (least - fails) / 2;
      (works(middle) ? least : fails) = middle;
    }
    return least == 1 ? 0 : least;
  }
  bool can_slice(int64_t rounds, size_t instances) const {
    return rounds <= kMostRounds && rounds * static_cast<int64_t>(instances) <= most_parts_;
  }
  bool can_cut(const std::vector<Instance>& whole, int64_t piece) const {
    int64_t parts = 0;
    for (const Instance& instance : whole) {
      parts += parts_of(instance, piece);
      if (parts > most_parts_) return false;
    }
    return true;
  }

  // How many parts cut_instance() makes.
  int64_t parts_of(const Instance& instance, int64_t most_bytes) const {
    const auto legs = plan_.patterns.legs(instance.pattern);
    const int64_t bytes = std::max(new_bytes(plan_, instance), old_bytes(plan_, instance));
    if (bytes <= most_bytes || std::none_of(legs.begin(), legs.end(), brings)) return 1;
    const auto count = static_cast<int64_t>(plan_.tensors_of(instance).size());
    const int64_t each = bytes / count, together = std::clamp<int64_t>(most_bytes / each, 1, count);
    const int64_t sets = (count + together - 1) / together;
    return each <= most_bytes ? sets : sets * count_parts(instance.box, elements_of(instance, each, most_bytes));
  }

  // How many elements of one tensor have so many bytes.
  static int64_t elements_of(const Instance& instance, int64_t tensor_bytes, int64_t bytes) {
    return std::max<int64_t>(1, bytes / (tensor_bytes / instance.box.volume()));
  }

  // Into parts of at most so many bytes (or an element of one tensor): by tensors, then by boxes. What only keeps or
  // frees stays whole.
  void cut_instance(const Instance& instance, int64_t most_bytes, std::vector<Instance>& parts) {
    const auto legs = plan_.patterns.legs(instance.pattern);
    const int64_t bytes = std::max(new_bytes(plan_, instance), old_bytes(plan_, instance));
    if (bytes <= most_bytes || std::none_of(legs.begin(), legs.end(), brings)) {
      parts.push_back(instance);
      return;
    }
    const auto count = static_cast<int64_t>(plan_.tensors_of(instance).size());
    const int64_t each = bytes / count;  // tensors of a set are alike
    for (const int32_t set : subsets(instance.tensors, std::clamp<int64_t>(most_bytes / each, 1, count))) {
      if (each <= most_bytes) {
        parts.push_back({instance.round, instance.pattern, set, instance.box});
        continue;
      }
      std::vector<Box> boxes;
      cut_to(instance.box, elements_of(instance, each, most_bytes), boxes);
      for (const Box& box : boxes) parts.push_back({instance.round, instance.pattern, set, box});
    }
  }

  // A tensor set as sets of so many tensors.
  const std::vector<int32_t>& subsets(int32_t set, int64_t count) {
    const auto [entry, fresh] = subsets_.try_emplace({set, count});
    if (!fresh) return entry->second;
    const std::vector<TensorId> tensors = plan_.tensor_sets[static_cast<size_t>(set)];
    for (size_t begin = 0; begin < tensors.size(); begin += static_cast<size_t>(count)) {
      const size_t end = std::min(begin + static_cast<size_t>(count), tensors.size());
      entry->second.push_back(static_cast<int32_t>(plan_.tensor_sets.size()));
      plan_.tensor_sets.emplace_back(tensors.begin() + static_cast<std::ptrdiff_t>(begin),
                                     tensors.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return entry->second;
  }

  // False if there would be too many.
  bool cut_instances(const std::vector<Instance>& whole, int64_t piece) {
    if (!can_cut(whole, piece)) return false;
    plan_.instances.clear();
    for (const Instance& instance : whole) cut_instance(instance, piece, plan_.instances);
    return true;
  }

  // A device that holds as much as it may receives at most the cap in a round: the cap under which all is done in
  // kMostRounds.
  int64_t least_for_rounds() const {
    std::vector<int64_t> brought(plan_.memory.size(), 0);
    for_each_arrival([&](size_t, size_t device, int64_t bytes) { brought[device] += bytes; });
    int64_t least = 0;
    for (size_t device = 0; device < brought.size(); ++device) {
      const int64_t room = limit_[device] - plan_.memory_cap - before_[device];
      least = std::max(least, (brought[device] - room) / kMostRounds);
    }
    return least;
  }

  // By how far the devices that receive an instance have come with it, as a fraction of all they receive.
  void by_progress() {
    std::vector<int64_t> total(plan_.memory.size(), 0), sofar(plan_.memory.size(), 0);
    for_each_arrival([&](size_t, size_t device, int64_t bytes) { total[device] += bytes; });
    std::vector<double> progress(plan_.instances.size(), 0);
    for_each_arrival([&](size_t i, size_t device, int64_t bytes) {
      sofar[device] += bytes;
      progress[i] = std::max(progress[i], static_cast<double>(sofar[device]) / static_cast<double>(total[device]));
    });
    std::vector<size_t> order(plan_.instances.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return progress[a] < progress[b]; });
    std::vector<Instance> ordered;
    ordered.reserve(order.size());
    for (const size_t i : order) ordered.push_back(plan_.instances[i]);
    plan_.instances = std::move(ordered);
  }

  template <class Visit>  // (instance, device, bytes)
  void for_each_arrival(Visit visit) const {
    for (size_t i = 0; i < plan_.instances.size(); ++i) {
      for (const Leg& leg : plan_.patterns.legs(plan_.instances[i].pattern)) {
        if (brings(leg)) visit(i, index_[leg.dst], new_bytes(plan_, plan_.instances[i]));
      }
    }
  }

  // The fewest rounds let devices with room receive everything at once while others wait. Going on evenly, in as many
  // rounds or some more, keeps links busy in all of them; taken where it is shorter and keeps the cap, too.
  void try_even_rounds() {
    if (plan_.rounds > kMostPaced) return;
    std::vector<Instance> best = plan_.instances;
    const int32_t fewest = plan_.rounds;
    int32_t best_rounds = fewest;
    double shortest_s = span();
    for (const int32_t rounds : {fewest, 3 * fewest / 2, 2 * fewest, 3 * fewest, 4 * fewest, 6 * fewest, 8 * fewest}) {
      if (greedy(rounds) > plan_.memory_cap) continue;
      const double span_s = span();
      if (span_s >= shortest_s) continue;
      shortest_s = span_s;
      best = plan_.instances;
      best_rounds = plan_.rounds;
    }
    plan_.instances = std::move(best);
    plan_.rounds = best_rounds;
    measure_memory(plan_);
  }

  // Predicted seconds. Where the cluster tells no rates, all links have the same.
  double span() const {
    if (rated_) return span_on(cluster_);
    cluster::Cluster cluster = cluster_;
    for (cluster::Host& host : cluster.hosts) {
      host.nics = host.gpus;
      host.nic_bytes_per_s = host.gpu_link_bytes_per_s = 1e9;
    }
    return span_on(cluster);
  }
  double span_on(const cluster::Cluster& cluster) const {
    const std::vector<double> seconds = round_seconds(plan_, cluster);
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
  }

  size_t ends() const { return (plan_.memory.size() + cluster_.hosts.size()) * 2; }

  // Ends of links: of devices, then of hosts, first for what they receive, then for what they send. Bytes count as on a
  // device's share of its host's network links; inside a host they go faster by a whole number.
  template <class Visit>
  void for_each_end(const Instance& instance, Visit visit) const {
    const int64_t bytes = new_bytes(plan_, instance);
    const auto visit_host = [&](HostId host, size_t direction) {
      const auto at = static_cast<size_t>(host.value);
      visit((plan_.memory.size() + at) * 2 + direction, bytes / cluster_.hosts[at].gpus);
    };
    for (const Leg& leg : plan_.patterns.legs(instance.pattern)) {
      if (!brings(leg) || leg.src == Location::device(leg.dst)) continue;
      const bool device = leg.src.kind == Location::Kind::kDevice;
      const bool crosses = leg.transfer_class == TransferClass::kCrossHost;
      const HostId to = cluster_.host_of(leg.dst);
      const int64_t here = crosses ? bytes : bytes / faster_inside(cluster_.hosts[static_cast<size_t>(to.value)]);
      visit(index_[leg.dst] * 2, here);
      if (device) visit(index_[DeviceId(leg.src.index)] * 2 + 1, here);
      if (!crosses) continue;
      visit_host(to, 0);
      visit_host(device ? cluster_.host_of(DeviceId(leg.src.index)) : HostId(leg.src.index), 1);
    }
  }

  static int64_t faster_inside(const cluster::Host& host) {
    const double share = host.nics * host.nic_bytes_per_s / host.gpus;
    if (share <= 0 || host.gpu_link_bytes_per_s <= share) return 1;
    return std::llround(host.gpu_link_bytes_per_s / share);
  }

  // Round by round: every waiting instance, in order, whose receivers all have room. Returns the peak; when none has
  // room, what the one would need that needs least. With `evenly` rounds, nobody sends or receives more in one of them
  // than the busiest device would, going on evenly.
  int64_t greedy(int32_t evenly) {
    std::vector<int64_t> total(ends(), 0);
    for (const Instance& instance : plan_.instances)
      for_each_end(instance, [&](size_t end, int64_t bytes) { total[end] += bytes; });
    const int64_t quota =
        evenly == 0 ? std::numeric_limits<int64_t>::max() : *std::max_element(total.begin(), total.end()) / evenly + 1;
    std::vector<int64_t> done;  // in the round, by end
    const auto below_quota = [&](const Instance& instance) {
      bool below = true;
      for_each_end(instance, [&](size_t end, int64_t) { below = below && done[end] < quota; });
      return below;
    };
    std::vector<int64_t> held = before_;
    std::vector<size_t> waiting(plan_.instances.size());
    std::iota(waiting.begin(), waiting.end(), size_t{0});
    for (int32_t round = 0; !waiting.empty(); ++round) {
      if (round > kMostRounds) return kUnknown;
      std::vector<int64_t> freed(held.size(), 0);
      std::vector<size_t> later;
      done.assign(total.size(), 0);
      size_t taken = 0;
      const std::vector<int64_t> at_start = held;
      for (const size_t i : waiting) {
        Instance& instance = plan_.instances[i];
        const bool look = taken == 0 || later.size() <= kMostWaiting;
        if (look && below_quota(instance) && has_room(instance, held)) {
          take(instance, round, held, freed);
          ++taken;
          for_each_end(instance, [&](size_t end, int64_t bytes) { done[end] += bytes; });
        } else {
          later.push_back(i);
        }
      }
      if (later.size() == waiting.size()) return least_need(waiting, at_start);
      for (size_t device = 0; device < held.size(); ++device) held[device] -= freed[device];
      waiting = std::move(later);
      plan_.rounds = round + 1;
    }
    derive_last(plan_);
    return measure_memory(plan_);
  }

  bool has_room(const Instance& instance, const std::vector<int64_t>& held) const {
    const int64_t bytes = new_bytes(plan_, instance);
    const auto legs = plan_.patterns.legs(instance.pattern);
    return std::all_of(legs.begin(), legs.end(), [&](const Leg& leg) {
      const size_t device = index_[leg.dst];
      return !brings(leg) || held[device] + bytes <= limit_[device];
    });
  }

  int64_t least_need(const std::vector<size_t>& waiting, const std::vector<int64_t>& held) const {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const size_t i : waiting) {
      const int64_t bytes = new_bytes(plan_, plan_.instances[i]);
      int64_t need = 0;
      for (const Leg& leg : plan_.patterns.legs(plan_.instances[i].pattern)) {
        const size_t device = index_[leg.dst];
        if (brings(leg)) need = std::max(need, held[device] + bytes - limit_[device] + plan_.memory_cap);
      }
      least = std::min(least, need);
    }
    return least;
  }

  void take(Instance& instance, int32_t round, std::vector<int64_t>& held, std::vector<int64_t>& freed) {
    instance.round = round;
    const int64_t bytes = new_bytes(plan_, instance);
    for (const Leg& leg : plan_.patterns.legs(instance.pattern)) {
      if (brings(leg)) held[index_[leg.dst]] += bytes;
    }
    const int64_t given_back = old_bytes(plan_, instance);
    for (const DeviceId device : plan_.patterns.frees(instance.pattern)) freed[index_[device]] += given_back;
  }

  // The order that always exists: every instance in as many slices as there are rounds.
  int64_t sliced(const std::vector<Instance>& whole) {
    std::vector<int64_t> brought(plan_.memory.size(), 0);
    plan_.instances = whole;
    for_each_arrival([&](size_t, size_t device, int64_t bytes) { brought[device] += bytes; });
    const int64_t most = *std::max_element(brought.begin(), brought.end());
    int64_t best = kUnknown;
    for (int64_t rounds = most / std::max<int64_t>(1, plan_.memory_cap) + 1; can_slice(rounds, whole.size());
         rounds *= 2) {
      plan_.instances.clear();
      for (const Instance& instance : whole) {
        std::vector<Instance> parts;
        const int64_t bytes = std::max(new_bytes(plan_, instance), old_bytes(plan_, instance));
        cut_instance(instance, (bytes + rounds - 1) / rounds, parts);
        // Slices spread over all rounds, also when there are fewer elements than rounds.
        for (size_t i = 0; i < parts.size(); ++i) {
          parts[i].round = static_cast<int32_t>(static_cast<int64_t>(i) * rounds / std::ssize(parts));
          plan_.instances.push_back(parts[i]);
        }
      }
      plan_.rounds = static_cast<int32_t>(rounds);
      derive_last(plan_);
      best = std::min(best, measure_memory(plan_));
      if (best <= plan_.memory_cap) break;
    }
    return best;
  }

  static constexpr int32_t kMostPaced = 128;       // rounds: with more, nobody waits long
  static constexpr size_t kMostWaiting = 1 << 18;  // instances passed over before a round ends that has some

  PlanDraft& plan_;
  const cluster::Cluster& cluster_;
  const bool rated_;
  const DeviceIndex index_;
  const int64_t most_parts_;  // uncut boxes are never too many
  std::vector<int64_t> limit_, before_;
  std::map<std::pair<int32_t, int64_t>, std::vector<int32_t>> subsets_;  // by set and size
};

}  // namespace

int64_t cap_memory(PlanDraft& plan, const cluster::Cluster& cluster) {
  if (plan.memory.empty()) return 0;
  const std::vector<Instance> instances = plan.instances;
  const std::vector<std::vector<TensorId>> tensor_sets = plan.tensor_sets;
  const int64_t asked = plan.memory_cap;
  for (;;) {
    const int64_t need = MemoryScheduler(plan, cluster).run();
    if (need <= plan.memory_cap) return std::exchange(plan.memory_cap, asked);
    // Boxes are cut for the cap: whether it works under this one has to be seen.
    const int64_t quarter = plan.memory_cap + plan.memory_cap / 4 + 1, twice = 2 * plan.memory_cap + 1;
    plan.memory_cap = need == kUnknown ? twice : std::max(need, quarter);
    plan.instances = instances;
    plan.tensor_sets = tensor_sets;
  }
}

}  // namespace scalai::plan::internal
