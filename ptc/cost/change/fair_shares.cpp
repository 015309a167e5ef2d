// Who gets how much of each link: FairShares of maxmin.h. Flows over time are in maxmin.cpp.
#include <algorithm>
#include <limits>

#include "ptc/base/status.h"
#include "ptc/cost/change/maxmin.h"

namespace scalai::change {
namespace {

constexpr double kClearlyLess = 1 - 1e-9;  // of two capacities, whatever sums are rounded to

}  // namespace

FairShares::FairShares(std::vector<double> capacities)
    : links_(capacities.size()),
      changed_(capacities.size(), 0),
      never_full_(capacities.size(), 0),
      queued_(capacities.size()) {
  for (size_t i = 0; i < capacities.size(); ++i) links_[i].capacity = capacities[i];
}

int FairShares::add_class(const std::vector<int>& links, const std::vector<int64_t>& weights) {
  SCALAI_CHECK(!links.empty() && (weights.empty() || weights.size() == links.size()));
  Class added;
  added.first_slot = static_cast<int>(slot_links_.size());
  added.links = static_cast<int>(links.size());
  slot_links_.insert(slot_links_.end(), links.begin(), links.end());
  slot_weights_.insert(slot_weights_.end(), weights.begin(), weights.end());
  slot_weights_.resize(slot_links_.size(), 1);
  slot_positions_.resize(slot_links_.size());
  added.plain = std::all_of(weights.begin(), weights.end(), [](int64_t weight) { return weight == 1; });
  if (added.links <= kNear) std::copy(links.begin(), links.end(), added.near.begin());
  classes_.push_back(added);
  return static_cast<int>(classes_.size()) - 1;
}

std::span<const int> FairShares::links(int class_id) const {
  const Class& c = classes_[class_id];
  return {c.links <= kNear ? c.near.data() : slot_links_.data() + c.first_slot, static_cast<size_t>(c.links)};
}

std::span<const int64_t> FairShares::weights(int class_id) const {
  const Class& c = classes_[class_id];
  return {slot_weights_.data() + c.first_slot, static_cast<size_t>(c.links)};
}

double FairShares::load(int link) const {
  double total = 0;
  for (const Member& member : links_[link].members) __builtin_prefetch(&classes_[member.class_id]);
  for (const Member& member : links_[link].members) {
    const Class& c = classes_[member.class_id];
    total += static_cast<double>(weight_of(c, static_cast<size_t>(member.slot))) * c.rate;
  }
  return total;
}

std::vector<int> FairShares::classes_on(int link) const {
  std::vector<int> ids;
  for (const Member& member : links_[link].members) ids.push_back(member.class_id);
  return ids;
}

void FairShares::set_count(int class_id, int64_t flows) {
  Class& c = classes_[class_id];
  SCALAI_CHECK(flows >= 0);
  if (c.flows == flows) return;
  if (c.flows == 0) join_links(class_id);
  if (flows == 0) leave_links(class_id);
  c.flows = flows;
  for (const int link : links(class_id)) mark_changed(link);
}

void FairShares::set_capacity(int link, double bytes_per_s) {
  links_[link].capacity = bytes_per_s;
  mark_changed(link);
  judge(link);
  for (const Member& member : links_[link].members) {
    for (const int other : links(member.class_id)) judge(other);  // those that it guards are among them
  }
}

int FairShares::add_link(double capacity) {
  links_.emplace_back().capacity = capacity;
  changed_.push_back(0);
  never_full_.push_back(0);
  queued_.emplace_back();
  return static_cast<int>(links_.size()) - 1;
}

void FairShares::mark_changed(int link) {
  if (changed_[link] != 0) return;
  changed_[link] = 1;
  changed_links_.push_back(link);
}

void FairShares::join_links(int class_id) {
  Class& c = classes_[class_id];
  c.rate = kNoRate;
  for (int slot = 0; slot < c.links; ++slot) {
    const int link_id = slot_links_[c.first_slot + slot];
    Link& link = links_[link_id];
    slot_positions_[c.first_slot + slot] = static_cast<int>(link.members.size());
    if (link.members.empty()) choose_guard(link_id, c);
    link.members.push_back({.class_id = class_id, .slot = slot});
    if (!is_guarded(c, slot)) ++link.outside;
    judge(link_id);
  }
}

void FairShares::leave_links(int class_id) {
  Class& c = classes_[class_id];
  if (c.bottleneck >= 0) --links_[c.bottleneck].frozen;
  c.bottleneck = -1;
  for (int slot = 0; slot < c.links; ++slot) {
    const int link_id = slot_links_[c.first_slot + slot], position = slot_positions_[c.first_slot + slot];
    Link& link = links_[link_id];
    if (!is_guarded(c, slot)) --link.outside;
    const Member last = link.members.back();
    link.members[position] = last;
    slot_positions_[classes_[last.class_id].first_slot + last.slot] = position;
    link.members.pop_back();
    judge(link_id);
  }
}

// The narrowest other link of the class.
void FairShares::choose_guard(int link, const Class& its_first) {
  int& guard = links_[link].guard;
  guard = -1;
  for (int slot = its_first.first_slot; slot < its_first.first_slot + its_first.links; ++slot) {
    const int other = slot_links_[slot];
    if (other != link && (guard < 0 || links_[other].capacity < links_[guard].capacity)) guard = other;
  }
}

// Whether the class lies on the guard of its slot's link, too, and weighs no less there.
bool FairShares::is_guarded(const Class& c, int slot) const {
  const int guard = links_[slot_links_[c.first_slot + slot]].guard;
  if (guard < 0) return false;
  const auto begin = slot_links_.begin() + c.first_slot, end = begin + c.links;
  const auto found = std::find(begin, end, guard);
  return found != end && slot_weights_[found - slot_links_.begin()] >= slot_weights_[c.first_slot + slot];
}

// A link that froze a class is not left out before that class has another bottleneck.
void FairShares::judge(int link_id) {
  const Link& link = links_[link_id];
  never_full_[link_id] = link.guard >= 0 && link.outside == 0 && link.frozen == 0 &&
                         links_[link.guard].capacity < link.capacity * kClearlyLess;
}

void FairShares::push(Event event) {
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end(), Later());
}

FairShares::Event FairShares::pop() {
  std::pop_heap(events_.begin(), events_.end(), Later());
  const Event event = events_.back();
  events_.pop_back();
  return event;
}

std::span<const int> FairShares::update() {
  SCALAI_CHECK(sweep_ < std::numeric_limits<int32_t>::max());
  ++sweep_;
  level_ = 0;
  changed_classes_.clear();
  for (int link : changed_links_) {
    changed_[link] = 0;
    if (!is_affected(link)) affect(link);
  }
  changed_links_.clear();
  while (!events_.empty()) {
    const Event event = pop();
    level_ = std::max(level_, event.level);
    if (event.id >= 0) {
      reach_saturation(event.id, event.level);
    } else {
      reach_old_rates(event);
    }
  }
  for (const int link : to_judge_) judge(link);
  to_judge_.clear();
  return changed_classes_;
}

// The exact value is never below the level the sweep has reached; rounding could put it there.
double FairShares::saturation_level(const Link& link) const {
  return std::max(link.free / static_cast<double>(link.unsettled), level_);
}

void FairShares::affect(int link_id) {
  if (never_full_[link_id] != 0) return;
  Link& link = links_[link_id];
  link.affected_in = sweep_;
  link.free = link.capacity;
  link.unsettled = 0;
  // The classes of a link lie anywhere: they are all asked for before the first is looked at.
  for (const Member& member : link.members) __builtin_prefetch(&classes_[member.class_id], 1);
  for (const Member& member : link.members) take_member(link, member);
  if (link.unsettled > 0) push({.level = saturation_level(link), .id = link_id});
}

void FairShares::take_member(Link& link, Member member) {
  Class& c = classes_[member.class_id];
  if (c.settled_in != sweep_ && c.rate < level_) c.settled_in = sweep_;
  const int64_t weight = weight_of(c, static_cast<size_t>(member.slot));
  if (c.settled_in == sweep_) {
    link.free -= static_cast<double>(weight) * c.rate;
    return;
  }
  link.unsettled += weight;
  if (c.queued_in != sweep_ && c.rate != kNoRate) queue(member.class_id);
}

void FairShares::queue(int class_id) {
  Class& c = classes_[class_id];
  c.queued_in = sweep_;
  const Event event{.level = c.rate, .id = ~class_id, .bottleneck = c.bottleneck};
  std::vector<Event>& queued = queued_[c.bottleneck];
  queued.push_back(event);
  std::push_heap(queued.begin(), queued.end(), Later());
  if (queued.front().id == event.id) push(event);
}

// The class of the event, and others that its bottleneck froze as long as no other event comes before them.
void FairShares::reach_old_rates(Event event) {
  std::vector<Event>& queued = queued_[event.bottleneck];
  while (!queued.empty() && queued.front().id == event.id) {
    std::pop_heap(queued.begin(), queued.end(), Later());
    queued.pop_back();
    level_ = std::max(level_, event.level);
    reach_old_rate(~event.id);
    if (queued.empty()) return;
    event = queued.front();
    if (!events_.empty() && Later()(event, events_.front())) return push(event);
  }
}

// A queued level can be too low, because classes that settled since then left more for the others: never too high.
void FairShares::reach_saturation(int link_id, double level) {
  const Link& link = links_[link_id];
  if (link.unsettled == 0) return;
  if (const double current = saturation_level(link); current > level) {
    push({.level = current, .id = link_id});
    return;
  }
  for (const Member& member : link.members) {
    if (!is_settled(member.class_id)) settle(member.class_id, level, link_id);
  }
}

void FairShares::reach_old_rate(int class_id) {
  if (is_settled(class_id)) return;
  const Class& c = classes_[class_id];
  if (!is_affected(c.bottleneck)) {
    settle(class_id, c.rate, c.bottleneck);
    return;
  }
  for (const int link : links(class_id)) __builtin_prefetch(&links_[link], 1);
  for (const int link : links(class_id)) {
    if (!is_affected(link)) affect(link);
  }
}

void FairShares::settle(int class_id, double rate, int bottleneck) {
  Class& c = classes_[class_id];
  const bool changed = c.rate != rate;
  if (changed) changed_classes_.push_back(class_id);
  if (c.bottleneck != bottleneck) {
    if (c.bottleneck >= 0 && --links_[c.bottleneck].frozen == 0) to_judge_.push_back(c.bottleneck);
    if (links_[bottleneck].frozen++ == 0) to_judge_.push_back(bottleneck);
    c.bottleneck = bottleneck;
  }
  c.rate = rate;
  c.settled_in = sweep_;
  const std::span<const int> own = links(class_id);
  for (const int link : own) __builtin_prefetch(&links_[link], 1);
  for (size_t i = 0; i < own.size(); ++i) {
    if (never_full_[own[i]] != 0) continue;
    Link& link = links_[own[i]];
    if (link.affected_in == sweep_) {
      const int64_t weight = weight_of(c, i);
      link.free -= static_cast<double>(weight) * rate;
      link.unsettled -= weight;
    } else if (changed) {
      affect(own[i]);
    }
  }
}

}  // namespace scalai::change
