#include "ptc/cost/change/maxmin.h"

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"

namespace scalai::change {
namespace {

std::vector<int> distinct_sorted(std::vector<int> links) {
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

// Distinct links and what a flow weighs on each; no weights where all are 1.
std::pair<std::vector<int>, std::vector<int64_t>> route_between(const EndpointSpec& src, const EndpointSpec& dst) {
  std::vector<int> links = src.up;
  links.insert(links.end(), dst.down.begin(), dst.down.end());
  links = distinct_sorted(std::move(links));
  if (src.up_weights.empty()) return {std::move(links), std::vector<int64_t>()};
  std::vector<int64_t> weights(links.size(), 1);
  for (size_t i = 0; i < src.up.size(); ++i) {
    const auto at = std::lower_bound(links.begin(), links.end(), src.up[i]);
    weights[static_cast<size_t>(at - links.begin())] = src.up_weights[i];
  }
  return {std::move(links), std::move(weights)};
}

std::vector<double> capacities_of(const NetworkSpec& spec) {
  std::vector<double> capacities;
  for (const LinkSpec& link : spec.links) capacities.push_back(link.bandwidth_bytes_per_s);
  return capacities;
}

// Flows that end this close to the first one end with it. The first term covers the rounding of one step, the second
// that of absolute dates.
double coincidence_limit(double first_s, double now_s) { return first_s + 1e-12 * (first_s - now_s) + 1e-14 * first_s; }

}  // namespace

std::vector<double> maxmin_rates(std::span<const double> capacities, std::span<const std::vector<int>> routes) {
  FairShares shares({capacities.begin(), capacities.end()});
  std::vector<double> rates(routes.size(), std::numeric_limits<double>::infinity());
  std::vector<size_t> flow_of_class;
  for (size_t flow = 0; flow < routes.size(); ++flow) {
    if (routes[flow].empty()) continue;
    shares.set_count(shares.add_class(distinct_sorted(routes[flow])), 1);
    flow_of_class.push_back(flow);
  }
  for (int class_id : shares.update()) rates[flow_of_class[class_id]] = shares.rate(class_id);
  return rates;
}

MaxMinBackend::MaxMinBackend(const NetworkSpec& spec, double resolution_s)
    : spec_(spec),
      resolution_s_(resolution_s),
      shares_(capacities_of(spec)),
      link_down_(spec.links.size(), false),
      told_rates_(spec.links.size(), 0),
      noted_(spec.links.size(), false) {}

bool MaxMinBackend::later(const Target& a, const Target& b) {
  return a.service_bytes != b.service_bytes ? a.service_bytes > b.service_bytes : a.flow > b.flow;
}

FlowId MaxMinBackend::start(int src_endpoint, int dst_endpoint, double bytes) {
  SCALAI_CHECK(bytes >= 0 && std::isfinite(bytes));
  const FlowId flow = static_cast<FlowId>(class_of_flow_.size());
  class_of_flow_.push_back(kEnded);
  const int class_id = class_between(src_endpoint, dst_endpoint);
  const bool failed = class_id >= 0 && is_down(class_id);
  if (class_id < 0 || bytes == 0 || failed) {
    end_now(flow, failed);
  } else {
    enter(class_id, flow, bytes);
  }
  return flow;
}

// The class of a pair of endpoints, or -1 when there is no link between them.
int MaxMinBackend::class_between(int src_endpoint, int dst_endpoint) {
  const auto endpoints = static_cast<int64_t>(spec_.endpoints.size());
  SCALAI_CHECK(src_endpoint >= 0 && src_endpoint < endpoints && dst_endpoint >= 0 && dst_endpoint < endpoints);
  const auto [pair, is_new_pair] = class_of_pair_.try_emplace(src_endpoint * endpoints + dst_endpoint, -1);
  if (!is_new_pair) return pair->second;
  auto route = route_between(spec_.endpoints[src_endpoint], spec_.endpoints[dst_endpoint]);
  if (route.first.empty()) return -1;
  const auto [known, is_new_route] = class_of_route_.try_emplace(std::move(route), -1);
  if (is_new_route) {
    known->second = shares_.add_class(known->first.first, known->first.second);
    services_.emplace_back();
  }
  return pair->second = known->second;
}

bool MaxMinBackend::is_down(int class_id) const {
  const std::span<const int> links = shares_.links(class_id);
  return std::any_of(links.begin(), links.end(), [this](int link) { return link_down_[link]; });
}

void MaxMinBackend::enter(int class_id, FlowId flow, double bytes) {
  Service& service = services_[class_id];
  if (shares_.count(class_id) == 0) {
    service.bytes = service.rate = 0;
    service.at_s = now_s_;
    service.cancelled = 0;
    service.targets.clear();
    set_active(class_id, true);
  }
  serve_until_now(class_id);
  service.targets.push_back({.service_bytes = service.bytes + bytes, .flow = flow});
  std::push_heap(service.targets.begin(), service.targets.end(), later);
  service.first_target = service.targets.front().service_bytes;
  class_of_flow_[flow] = class_id;
  set_count(class_id, shares_.count(class_id) + 1);
  touched_.push_back(class_id);
}

void MaxMinBackend::set_count(int class_id, int64_t flows) {
  shares_.set_count(class_id, flows);
  note_links(class_id);
}

void MaxMinBackend::note_links(int class_id) {
  for (const int link : shares_.links(class_id)) {
    if (noted_[link]) continue;
    noted_[link] = true;
    noted_links_.push_back(link);
  }
}

void MaxMinBackend::leave(int class_id, int64_t flows) {
  set_count(class_id, shares_.count(class_id) - flows);
  if (shares_.count(class_id) == 0) {
    set_active(class_id, false);
  } else {
    touched_.push_back(class_id);
  }
}

void MaxMinBackend::end_now(FlowId flow, bool failed) {
  class_of_flow_[flow] = kPending;
  pending_.push_back({.flow = flow, .at_s = now_s_, .failed = failed});
}

void MaxMinBackend::cancel(FlowId flow) {
  SCALAI_CHECK(flow >= 0 && flow < static_cast<FlowId>(class_of_flow_.size()));
  const int class_id = class_of_flow_[flow];
  class_of_flow_[flow] = kEnded;
  if (class_id == kPending) std::erase_if(pending_, [flow](const FlowEnd& end) { return end.flow == flow; });
  if (class_id < 0) return;
  ++services_[class_id].cancelled;
  leave(class_id, 1);
}

void MaxMinBackend::set_bandwidth(int link, double bytes_per_s) {
  SCALAI_CHECK(link >= 0 && link < static_cast<int>(spec_.links.size()));
  SCALAI_CHECK(bytes_per_s >= 0 && std::isfinite(bytes_per_s));
  link_down_[link] = bytes_per_s == 0;
  if (link_down_[link]) {
    for (int class_id : shares_.classes_on(link)) fail_class(class_id);
  } else {
    shares_.set_capacity(link, bytes_per_s);
  }
}

void MaxMinBackend::fail_class(int class_id) {
  for (const Target& target : services_[class_id].targets) {
    if (class_of_flow_[target.flow] == class_id) end_now(target.flow, true);
  }
  leave(class_id, shares_.count(class_id));
}

void MaxMinBackend::set_active(int class_id, bool active) {
  int& position = services_[class_id].active_position;
  if (active) {
    position = static_cast<int>(active_.size());
    active_.push_back(class_id);
    end_dates_.push_back(0);
    return;
  }
  active_[position] = active_.back();
  end_dates_.set(static_cast<size_t>(position), end_dates_[end_dates_.size() - 1]);
  services_[active_.back()].active_position = position;
  active_.pop_back();
  end_dates_.pop_back();
  position = -1;
}

void MaxMinBackend::serve_until_now(int class_id) {
  Service& service = services_[class_id];
  service.bytes += service.rate * (now_s_ - service.at_s);
  service.at_s = now_s_;
}

void MaxMinBackend::update_rates() {
  constexpr size_t kAhead = 8;  // services that are on their way from memory
  const std::span<const int> changed = shares_.update();
  for (size_t i = 0; i < changed.size(); ++i) {
    if (i + kAhead < changed.size()) __builtin_prefetch(&services_[changed[i + kAhead]], 1);
    const int class_id = changed[i];
    serve_until_now(class_id);
    services_[class_id].rate = shares_.rate(class_id);
    note_links(class_id);
    touched_.push_back(class_id);
  }
  for (int class_id : touched_) update_end_date(class_id);
  touched_.clear();
}

void MaxMinBackend::update_end_date(int class_id) {
  Service& service = services_[class_id];
  if (service.active_position < 0) return;
  drop_cancelled(service);
  const double left_bytes = service.first_target - service.bytes;
  end_dates_.set(static_cast<size_t>(service.active_position),
                 std::max(now_s_, service.at_s + left_bytes / service.rate));
}

void MaxMinBackend::drop_cancelled(Service& service) {
  if (service.cancelled == 0) return;
  while (!service.targets.empty() && class_of_flow_[service.targets.front().flow] == kEnded) {
    drop_first(service);
    --service.cancelled;
  }
}

void MaxMinBackend::drop_first(Service& service) {
  std::pop_heap(service.targets.begin(), service.targets.end(), later);
  service.targets.pop_back();
  if (!service.targets.empty()) service.first_target = service.targets.front().service_bytes;
}

std::vector<FlowEnd> MaxMinBackend::advance_to(double until_s) {
  SCALAI_CHECK(until_s >= now_s_);
  if (!pending_.empty()) return take_pending();
  update_rates();
  const double first_s = end_dates_.first();
  if (first_s > until_s || std::isinf(first_s)) {
    SCALAI_CHECK(std::isfinite(until_s), "no flow is active and there is no time to stop at");
    now_s_ = until_s;
    return {};
  }
  double limit_s = coincidence_limit(first_s, now_s_);
  now_s_ = first_s;
  if (resolution_s_ > 0) {  // all ends from the first one on are one moment, the last of them
    for (const size_t position : end_dates_.until(std::min(first_s + resolution_s_, until_s)))
      now_s_ = std::max(now_s_, end_dates_[position]);
    limit_s = std::max(limit_s, now_s_);
  }
  std::vector<int> due;
  for (const size_t position : end_dates_.until(limit_s)) due.push_back(active_[position]);
  for (int class_id : due) end_due_flows(class_id, limit_s);
  return take_pending();
}

// A flow is due by its own end date, so the first one of a class always goes, whatever the rounding of its service.
void MaxMinBackend::end_due_flows(int class_id, double limit_s) {
  Service& service = services_[class_id];
  const double limit_bytes = service.bytes + service.rate * (limit_s - service.at_s);
  int64_t ended = 0;
  do {
    const FlowId flow = service.targets.front().flow;
    drop_first(service);
    end_now(flow, false);
    ++ended;
    drop_cancelled(service);
  } while (!service.targets.empty() && service.first_target <= limit_bytes);
  serve_until_now(class_id);
  leave(class_id, ended);
}

std::vector<FlowEnd> MaxMinBackend::take_pending() {
  std::sort(pending_.begin(), pending_.end(), [](const FlowEnd& a, const FlowEnd& b) { return a.flow < b.flow; });
  for (const FlowEnd& end : pending_) class_of_flow_[end.flow] = kEnded;
  return std::exchange(pending_, {});
}

double MaxMinBackend::next_end_s() {
  if (!pending_.empty()) return now_s_;
  update_rates();
  return end_dates_.first();
}

double MaxMinBackend::bytes_left(FlowId flow) const {
  const int class_id = class_of_flow_[flow];
  if (class_id < 0) return 0;
  const Service& service = services_[class_id];
  const auto target = std::find_if(service.targets.begin(), service.targets.end(),
                                   [flow](const Target& one) { return one.flow == flow; });
  const double served = service.bytes + service.rate * (now_s_ - service.at_s);
  return std::max(0.0, target->service_bytes - served);
}

std::vector<double> MaxMinBackend::link_rates() {
  update_rates();
  std::vector<double> rates;
  for (size_t link = 0; link < spec_.links.size(); ++link) rates.push_back(shares_.load(static_cast<int>(link)));
  return rates;
}

std::vector<LinkRate> MaxMinBackend::changed_link_rates() {
  update_rates();
  std::sort(noted_links_.begin(), noted_links_.end());
  std::vector<LinkRate> changed;
  for (const int link : noted_links_) {
    noted_[link] = false;
    const double rate = shares_.load(link);
    if (std::exchange(told_rates_[link], rate) != rate) changed.push_back({.link = link, .bytes_per_s = rate});
  }
  noted_links_.clear();
  return changed;
}

}  // namespace scalai::change
