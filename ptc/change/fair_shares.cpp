// Who gets how much of each link: FairShares of maxmin.h. Flows over time are in maxmin.cpp.
#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/change/maxmin.h"

namespace scalai::change {

FairShares::FairShares(std::vector<double> capacities) : links_(capacities.size()) {
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
  classes_.push_back(added);
  return static_cast<int>(classes_.size()) - 1;
}

std::span<const int> FairShares::links(int class_id) const {
  const Class& c = classes_[class_id];
  return {slot_links_.data() + c.first_slot, static_cast<size_t>(c.links)};
}

std::span<const int64_t> FairShares::weights(int class_id) const {
  const Class& c = classes_[class_id];
  return {slot_weights_.data() + c.first_slot, static_cast<size_t>(c.links)};
}

double FairShares::load(int link) const {
  double total = 0;
  for (const Member& member : links_[link].members) {
    const Class& c = classes_[member.class_id];
    total += static_cast<double>(c.flows * slot_weights_[c.first_slot + member.slot]) * c.rate;
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
  for (int link : links(class_id)) mark_changed(link);
}

void FairShares::set_capacity(int link, double bytes_per_s) {
  links_[link].capacity = bytes_per_s;
  mark_changed(link);
}

int FairShares::add_link(double capacity) {
  links_.emplace_back().capacity = capacity;
  return static_cast<int>(links_.size()) - 1;
}

void FairShares::mark_changed(int link) {
  if (links_[link].changed) return;
  links_[link].changed = true;
  changed_links_.push_back(link);
}

void FairShares::join_links(int class_id) {
  Class& c = classes_[class_id];
  c.rate = kNoRate;
  c.bottleneck = -1;
  for (int slot = 0; slot < c.links; ++slot) {
    std::vector<Member>& members = links_[slot_links_[c.first_slot + slot]].members;
    slot_positions_[c.first_slot + slot] = static_cast<int>(members.size());
    members.push_back({.class_id = class_id, .slot = slot});
  }
}

void FairShares::leave_links(int class_id) {
  const Class& c = classes_[class_id];
  for (int slot = c.first_slot; slot < c.first_slot + c.links; ++slot) {
    std::vector<Member>& members = links_[slot_links_[slot]].members;
    const Member last = members.back();
    members[slot_positions_[slot]] = last;
    slot_positions_[classes_[last.class_id].first_slot + last.slot] = slot_positions_[slot];
    members.pop_back();
  }
}

// Links go before classes at the same level: a link that is still full at its old level then changes nothing.
bool FairShares::later(const Event& a, const Event& b) {
  if (a.level != b.level) return a.level > b.level;
  if ((a.id < 0) != (b.id < 0)) return a.id < 0;
  return a.id > b.id;
}

void FairShares::push(Event event) {
  events_.push_back(event);
  std::push_heap(events_.begin(), events_.end(), later);
}

FairShares::Event FairShares::pop() {
  std::pop_heap(events_.begin(), events_.end(), later);
  const Event event = events_.back();
  events_.pop_back();
  return event;
}

std::span<const int> FairShares::update() {
  ++sweep_;
  level_ = 0;
  changed_classes_.clear();
  for (int link : changed_links_) {
    links_[link].changed = false;
    if (!is_affected(link)) affect(link);
  }
  changed_links_.clear();
  while (!events_.empty()) {
    const Event event = pop();
    level_ = std::max(level_, event.level);
    if (event.id >= 0) {
      reach_saturation(event.id, event.level);
    } else {
      reach_old_rate(~event.id);
    }
  }
  return changed_classes_;
}

// The exact value is never below the level the sweep has reached; rounding could put it there.
double FairShares::saturation_level(const Link& link) const {
  return std::max(link.free / static_cast<double>(link.unsettled), level_);
}

void FairShares::affect(int link_id) {
  Link& link = links_[link_id];
  link.affected_in = sweep_;
  link.free = link.capacity;
  link.unsettled = 0;
  for (const Member& member : link.members) take_member(link, member);
  if (link.unsettled > 0) push({.level = saturation_level(link), .id = link_id});
}

void FairShares::take_member(Link& link, Member member) {
  const int class_id = member.class_id;
  Class& c = classes_[class_id];
  const int64_t weight = c.flows * slot_weights_[c.first_slot + member.slot];
  if (c.settled_in != sweep_ && c.rate < level_) c.settled_in = sweep_;
  if (c.settled_in == sweep_) {
    link.free -= static_cast<double>(weight) * c.rate;
    return;
  }
  link.unsettled += weight;
  if (c.queued_in == sweep_ || c.rate == kNoRate) return;
  c.queued_in = sweep_;
  push({.level = c.rate, .id = ~class_id});
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
  const Class& c = classes_[class_id];
  if (is_settled(class_id)) return;
  if (!is_affected(c.bottleneck)) {
    settle(class_id, c.rate, c.bottleneck);
    return;
  }
  for (int link : links(class_id)) {
    if (!is_affected(link)) affect(link);
  }
}

void FairShares::settle(int class_id, double rate, int bottleneck) {
  Class& c = classes_[class_id];
  const bool changed = c.rate != rate;
  if (changed) changed_classes_.push_back(class_id);
  c.rate = rate;
  c.bottleneck = bottleneck;
  c.settled_in = sweep_;
  for (int slot = c.first_slot; slot < c.first_slot + c.links; ++slot) {
    const int link_id = slot_links_[slot];
    Link& link = links_[link_id];
    if (is_affected(link_id)) {
      const int64_t weight = c.flows * slot_weights_[slot];
      link.free -= static_cast<double>(weight) * rate;
      link.unsettled -= weight;
    } else if (changed) {
      affect(link_id);
    }
  }
}

}  // namespace scalai::change
