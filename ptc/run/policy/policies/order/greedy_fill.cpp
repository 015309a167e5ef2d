#include "ptc/run/policy/policies/order/greedy_fill.h"

#include <algorithm>
#include <limits>

#include "ptc/base/status.h"

namespace scalai::policy::order {
namespace {

constexpr Rank kFirst{-std::numeric_limits<double>::infinity(), -1};

}  // namespace

Rank GreedyFill::rank_of(int32_t id) const {
  const Entry& it = entry(id);
  return Rank{it.runs ? it.key - it.fall_per_s * now_s_ : it.key, id};
}

int64_t GreedyFill::used_before(Rank rank) const {
  int64_t sum = 0;
  for (const auto& [fall_per_s, tree] : running_) sum += tree.sum_before(Rank{rank.key + fall_per_s * now_s_, rank.id});
  return sum;
}

int32_t GreedyFill::first_displaced() const {
  if (running_.size() == 1) return running_.begin()->second.first_over(capacity_);
  std::vector<Rank> all;  // keys of different rates pass each other: their order is made anew
  for (const auto& [fall_per_s, tree] : running_) {
    for (const int32_t id : tree.ids()) all.push_back(rank_of(id));
  }
  std::sort(all.begin(), all.end());
  int64_t sum = 0;
  for (const Rank& rank : all) {
    sum += entry(rank.id).gpus;
    if (sum > capacity_) return rank.id;
  }
  return -1;
}

// The first waiting job at or after a place that fits where it stands (preemptive), or into what is free at all.
int32_t GreedyFill::first_fit(Rank from) const {
  Rank best{std::numeric_limits<double>::infinity(), std::numeric_limits<int32_t>::max()};
  bool found = false;
  const int64_t most = capacity_ - (preemptive() ? used_before(from) : used_);
  for (const auto& [gpus, line] : waiting_) {
    if (gpus > most) break;
    const auto it = line.lower_bound(from);
    if (it == line.end() || (found && best < *it)) continue;
    if (preemptive() && gpus > capacity_ - used_before(*it)) continue;
    best = *it;
    found = true;
  }
  return found ? best.id : -1;
}

void GreedyFill::unline(int32_t id) {
  const auto line = waiting_.find(entry(id).gpus);
  line->second.erase(Rank{entry(id).key, id});
  if (line->second.empty()) waiting_.erase(line);
}

void GreedyFill::start(int32_t id) {
  Entry& it = entry(id);
  unline(id);
  it.runs = true;
  it.key += it.fall_per_s * now_s_;
  running_[it.fall_per_s].insert(Rank{it.key, id}, it.gpus);
  used_ += it.gpus;
  changed_.push_back(id);
}

void GreedyFill::stop(int32_t id) {
  Entry& it = entry(id);
  const auto tree = running_.find(it.fall_per_s);
  tree->second.erase(id);
  it.key = rank_of(id).key;
  it.runs = false;
  waiting_[it.gpus].insert(Rank{it.key, id});
  used_ -= it.gpus;
  changed_.push_back(id);
}

int32_t GreedyFill::first_waiting() const {
  Rank best;
  for (const auto& [gpus, line] : waiting_) {
    if (best.id < 0 || *line.begin() < best) best = *line.begin();
  }
  return best.id >= 0 && entry(best.id).gpus <= capacity_ - used_ ? best.id : -1;
}

// From a place on, before which so many more GPUs are taken than when all was in order (or fewer: < 0).
void GreedyFill::settle(Rank from, int64_t more_taken) {
  while (more_taken != 0) {
    const int32_t id = more_taken > 0 ? first_displaced() : first_fit(from);
    if (id < 0) return;
    from = rank_of(id);
    if (more_taken > 0) {
      stop(id);
      more_taken -= entry(id).gpus;
    } else {
      start(id);
      more_taken += entry(id).gpus;
    }
  }
}

void GreedyFill::fill_up() {
  while (!preemptive() && used_ < capacity_) {
    const int32_t id = mode_ == FillMode::kStrict ? first_waiting() : first_fit(kFirst);
    if (id < 0) return;
    start(id);
  }
}

void GreedyFill::set_capacity(int64_t gpus) {
  const int64_t more_taken = capacity_ - gpus;
  capacity_ = gpus;
  if (preemptive()) settle(kFirst, more_taken);
}

void GreedyFill::add(int32_t id, double key, int gpus, double fall_per_s) {
  SCALAI_CHECK(gpus > 0 && !has(id));
  if (static_cast<size_t>(id) >= jobs_.size()) jobs_.resize(static_cast<size_t>(id) + 1);
  entry(id) = Entry{.key = key, .fall_per_s = fall_per_s, .gpus = gpus, .runs = false};
  const Rank rank{key, id};
  waiting_[gpus].insert(rank);
  if (preemptive() && gpus <= capacity_ - used_before(rank)) {
    start(id);
    settle(rank, gpus);
  }
}

void GreedyFill::add_running(int32_t id, double key, int gpus) {
  SCALAI_CHECK(gpus > 0 && !has(id) && !preemptive());
  if (static_cast<size_t>(id) >= jobs_.size()) jobs_.resize(static_cast<size_t>(id) + 1);
  entry(id) = Entry{.key = key, .fall_per_s = 0, .gpus = gpus, .runs = false};
  waiting_[gpus].insert(Rank{key, id});
  start(id);
}

void GreedyFill::remove(int32_t id) {
  SCALAI_CHECK(has(id));
  const Rank rank = rank_of(id);
  const int gpus = entry(id).gpus;
  const bool ran = entry(id).runs;
  if (ran) stop(id);
  unline(id);
  entry(id) = Entry{};
  if (preemptive() && ran) settle(rank, -gpus);
}

void GreedyFill::set_key(int32_t id, double key) {
  SCALAI_CHECK(has(id));
  const Entry was = entry(id);
  const Rank rank = rank_of(id);
  if (was.runs && !preemptive()) return;
  if (!was.runs || key < rank.key) {
    remove(id);
    add(id, key, was.gpus, was.fall_per_s);
    return;
  }
  stop(id);
  unline(id);
  entry(id).key = key;
  waiting_[was.gpus].insert(Rank{key, id});
  settle(rank, -was.gpus);
}

std::vector<int32_t> GreedyFill::take_changed() {
  std::vector<int32_t> list = std::move(changed_);
  changed_.clear();
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

}  // namespace scalai::policy::order
