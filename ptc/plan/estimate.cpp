#include "ptc/plan/estimate.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "ptc/plan/internal/round_load.h"

namespace scalai::plan {
namespace {

// The boxes and peers of each place in one round.
class Messages {
 public:
  void add(const Leg& leg, int64_t boxes) {
    if (leg.transfer_class == TransferClass::kKept || leg.transfer_class == TransferClass::kDerived) return;
    const int64_t src = key(leg.src), dst = key(Location::device(leg.dst));
    const bool stored = leg.src.kind == Location::Kind::kStorage;
    boxes_[dst] += boxes;
    if (src == dst) return;
    if (!stored) boxes_[src] += boxes;
    if (!pairs_.emplace(src, dst).second) return;
    ++peers_[dst];
    if (!stored) ++peers_[src];
  }

  double seconds(const MessageCosts& costs) const {
    double longest = 0;
    for (const auto& [place, boxes] : boxes_) {
      const auto peers = peers_.find(place);
      longest = std::max(longest, static_cast<double>(boxes) * costs.box_s +
                                      (peers == peers_.end() ? 0 : static_cast<double>(peers->second) * costs.peer_s));
    }
    return longest;
  }

 private:
  static int64_t key(const Location& place) { return (static_cast<int64_t>(place.kind) << 32) + place.index; }

  absl::flat_hash_map<int64_t, int64_t> boxes_, peers_;  // by place
  absl::flat_hash_set<std::pair<int64_t, int64_t>> pairs_;
};

}  // namespace

std::vector<double> round_seconds(const Plan& plan, const cluster::Cluster& cluster) {
  return internal::round_seconds(plan.draft(), cluster);
}

double estimate_seconds(const Plan& plan, const cluster::Cluster& cluster) {
  const std::vector<double> seconds = round_seconds(plan, cluster);
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

std::vector<double> message_seconds(const Plan& plan, const MessageCosts& costs) {
  std::vector<double> seconds(static_cast<size_t>(plan.rounds()), 0);
  if (costs.box_s <= 0 && costs.peer_s <= 0) return seconds;
  std::vector<std::map<int32_t, int64_t>> boxes(seconds.size());  // by round and pattern
  for (const Instance& instance : plan.instances()) {
    boxes[static_cast<size_t>(instance.round)][instance.pattern] +=
        static_cast<int64_t>(plan.tensors_of(instance).size());
  }
  for (size_t round = 0; round < boxes.size(); ++round) {
    Messages messages;
    for (const auto& [pattern, count] : boxes[round]) {
      for (const Leg& leg : plan.patterns().legs(pattern)) messages.add(leg, count);
    }
    seconds[round] = messages.seconds(costs);
  }
  return seconds;
}

int64_t most_allocated_bytes(const Plan& plan) {
  int64_t most = 0;
  for (const DeviceMemory& memory : plan.memory())
    most = std::max(most, std::max(memory.before, memory.after) + memory.peak_extra - memory.before);
  return most;
}

double allocate_seconds(const Plan& plan, double bytes_per_s) {
  return bytes_per_s > 0 ? static_cast<double>(most_allocated_bytes(plan)) / bytes_per_s : 0;
}

bool frees_early(const Plan& plan) {
  for (int32_t pattern = 0; pattern < plan.patterns().size(); ++pattern) {
    if (!plan.patterns().frees(pattern).empty()) return true;
  }
  return false;
}

}  // namespace scalai::plan
