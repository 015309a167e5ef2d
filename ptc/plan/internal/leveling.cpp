#include "ptc/plan/internal/leveling.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "ptc/base/status.h"

namespace scalai::plan::internal {
namespace {

constexpr int kSweeps = 4;  // each demand filled anew; beyond that, paths are faster

class Leveling {
 public:
  Leveling(std::vector<int64_t> loads, const std::vector<Demand>& demands, int64_t floor, int64_t tolerance)
      : demands_(demands), tolerance_(tolerance), loads_(std::move(loads)), least_(floor), named_(loads_.size()) {
    for (size_t i = 0; i < demands.size(); ++i) {
      SCALAI_CHECK(!demands[i].places.empty());
      shares_.emplace_back(demands[i].places.size(), 0);
      for (size_t k = 0; k < demands[i].places.size(); ++k) named_[at(demands[i].places[k])].push_back({i, k});
    }
  }

  Leveled run() {
    fill_all();
    while (!hot().empty()) {
      if (!relieve()) raise_bound();
    }
    return {least_, std::move(shares_)};
  }

 private:
  struct Share {
    size_t demand = 0, index = 0;
  };
  static size_t at(int32_t place) { return static_cast<size_t>(place); }
  int64_t target() const { return tolerance_ > 0 ? least_ + least_ / tolerance_ : least_; }

  void fill_all() {
    std::vector<size_t> order(demands_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return demands_[a].places.size() < demands_[b].places.size(); });
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (const size_t demand : order) {
        if (sweep == 0 || demands_[demand].places.size() > 1) fill(demand);
      }
    }
  }

  // Shares a demand so that the places that take part end up level.
  void fill(size_t demand) {
    const std::vector<int32_t>& places = demands_[demand].places;
    std::vector<int64_t>& shares = shares_[demand];
    std::vector<std::tuple<int64_t, int32_t, size_t>> by_load;
    for (size_t k = 0; k < places.size(); ++k) {
      loads_[at(places[k])] -= shares[k];
      shares[k] = 0;
      by_load.emplace_back(loads_[at(places[k])], places[k], k);
    }
    std::sort(by_load.begin(), by_load.end());
    int64_t sum = demands_[demand].bytes;
    int64_t count = 0;
    for (const auto& [load, place, k] : by_load) {
      if (count > 0 && load >= (sum + count - 1) / count) break;
      sum += load;
      ++count;
    }
    const int64_t more = sum % count;
    for (int64_t i = 0; i < count; ++i) {
      const auto& [load, place, k] = by_load[static_cast<size_t>(i)];
      shares[k] = sum / count + (i < more ? 1 : 0) - load;
    }
    for (size_t k = 0; k < places.size(); ++k) loads_[at(places[k])] += shares[k];
  }

  std::vector<int32_t> hot() const {
    std::vector<int32_t> places;
    for (size_t place = 0; place < loads_.size(); ++place) {
      if (loads_[place] > target()) places.push_back(static_cast<int32_t>(place));
    }
    return places;
  }

  // Moves bytes from hot places to one that has room, over demands that both may carry. False: no way leads to one.
  bool relieve() {
    reached_ = hot();
    came_by_.assign(loads_.size(), {demands_.size(), 0});
    std::vector<bool> seen(loads_.size(), false), used(demands_.size(), false);
    for (const int32_t place : reached_) seen[at(place)] = true;
    for (size_t i = 0; i < reached_.size(); ++i) {
      for (const Share& share : named_[at(reached_[i])]) {
        if (used[share.demand] || shares_[share.demand][share.index] == 0) continue;
        used[share.demand] = true;
        for (const int32_t next : demands_[share.demand].places) {
          if (seen[at(next)]) continue;
          seen[at(next)] = true;
          came_by_[at(next)] = share;
          if (loads_[at(next)] < target()) return shift_to(next);
          reached_.push_back(next);
        }
      }
    }
    return false;
  }

  bool shift_to(int32_t end) {
    int64_t bytes = target() - loads_[at(end)];
    int32_t place = end;
    while (came_by_[at(place)].demand < demands_.size()) {
      const Share& share = came_by_[at(place)];
      bytes = std::min(bytes, shares_[share.demand][share.index]);
      place = demands_[share.demand].places[share.index];
    }
    bytes = std::min(bytes, loads_[at(place)] - target());
    loads_[at(place)] -= bytes;
    loads_[at(end)] += bytes;
    for (place = end; came_by_[at(place)].demand < demands_.size();) {
      const Share& share = came_by_[at(place)];
      const std::vector<int32_t>& places = demands_[share.demand].places;
      const auto index = std::lower_bound(places.begin(), places.end(), place) - places.begin();
      shares_[share.demand][static_cast<size_t>(index)] += bytes;
      shares_[share.demand][share.index] -= bytes;
      place = places[share.index];
    }
    return true;
  }

  // What the places reached carry, only they can carry.
  void raise_bound() {
    int64_t sum = 0;
    for (const int32_t place : reached_) sum += loads_[at(place)];
    const auto count = static_cast<int64_t>(reached_.size());
    const int64_t bound = (sum + count - 1) / count;
    SCALAI_CHECK(bound > least_);
    least_ = bound;
  }

  const std::vector<Demand>& demands_;
  const int64_t tolerance_;
  std::vector<int64_t> loads_;
  int64_t least_;
  std::vector<std::vector<Share>> named_;  // by place
  std::vector<std::vector<int64_t>> shares_;
  std::vector<int32_t> reached_;
  std::vector<Share> came_by_;  // by place: the share that may move to it; no demand = it is hot
};

}  // namespace

Leveled level(std::vector<int64_t> loads, const std::vector<Demand>& demands, int64_t floor, int64_t tolerance) {
  return Leveling(std::move(loads), demands, floor, tolerance).run();
}

}  // namespace scalai::plan::internal
