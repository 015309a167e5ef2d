#include "sim/testing/network_cases.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::sim {
namespace {

constexpr double kNeverEnds = std::numeric_limits<double>::infinity();

class ScriptMaker {
 public:
  explicit ScriptMaker(uint64_t seed) : random_(seed) { script_.name = fmt::format("seed {}", seed); }

  FlowScript make() {
    make_network();
    const int flows = between(1, 40);
    for (int flow = 0; flow < flows; ++flow) add_start();
    const int changes = between(0, 8);
    for (int i = 0; i < changes; ++i) add_bandwidth_change();
    std::stable_sort(script_.actions.begin(), script_.actions.end(), earlier);
    add_cancels(flows);
    return std::move(script_);
  }

 private:
  static bool earlier(const FlowAction& a, const FlowAction& b) { return a.at_s < b.at_s; }

  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  bool chance(double probability) { return uniform(0, 1) < probability; }

  double any_bandwidth() { return chance(0.5) ? 1e8 * between(1, 10) : uniform(1e8, 1e9); }
  double any_time() { return chance(0.3) ? between(0, 5) : uniform(0, 20); }

  void make_network() {
    const int links = between(2, 20);
    for (int i = 0; i < links; ++i) {
      script_.network.links.push_back({.name = fmt::format("l{}", i), .bandwidth_bytes_per_s = any_bandwidth()});
    }
    const int endpoints = between(2, 10);
    for (int i = 0; i < endpoints; ++i) {
      script_.network.endpoints.push_back({.name = fmt::format("e{}", i), .up = any_links(), .down = any_links()});
    }
  }

  std::vector<int> any_links() {
    std::vector<int> links(chance(0.1) ? 0 : between(1, 3));
    for (int& link : links) link = between(0, static_cast<int>(script_.network.links.size()) - 1);
    return links;
  }

  void add_start() {
    const int last = static_cast<int>(script_.network.endpoints.size()) - 1;
    FlowAction start{.at_s = any_time(), .kind = FlowAction::kStart, .src = between(0, last), .dst = between(0, last)};
    start.bytes = chance(0.03) ? 0 : chance(0.4) ? 1e9 * between(1, 3) : uniform(1e8, 5e9);
    script_.actions.push_back(start);
  }

  void add_bandwidth_change() {
    FlowAction change{.at_s = any_time(), .kind = FlowAction::kBandwidth};
    change.link = between(0, static_cast<int>(script_.network.links.size()) - 1);
    change.bytes_per_s = chance(0.2) ? 0 : any_bandwidth();
    script_.actions.push_back(change);
  }

  void add_cancels(int flows) {
    for (int i = between(0, 5); i > 0; --i) {
      const int flow = between(0, flows - 1);
      script_.actions.push_back({.at_s = uniform(20, 30), .kind = FlowAction::kCancel, .flow = flow});
    }
    std::stable_sort(script_.actions.begin(), script_.actions.end(), earlier);
  }

  std::mt19937_64 random_;
  FlowScript script_;
};

// `hosts` hosts with one link up and one down each: link 2h is up, 2h + 1 is down.
change::NetworkSpec star(int hosts, double bytes_per_s) {
  change::NetworkSpec network;
  for (int h = 0; h < hosts; ++h) {
    network.links.push_back({.name = fmt::format("h{}.up", h), .bandwidth_bytes_per_s = bytes_per_s});
    network.links.push_back({.name = fmt::format("h{}.down", h), .bandwidth_bytes_per_s = bytes_per_s});
    network.endpoints.push_back({.name = fmt::format("h{}", h), .up = {2 * h}, .down = {2 * h + 1}});
  }
  return network;
}

FlowAction start_at(double at_s, int src, int dst, double bytes) {
  return {.at_s = at_s, .kind = FlowAction::kStart, .src = src, .dst = dst, .bytes = bytes};
}

FlowAction cancel_at(double at_s, int flow) { return {.at_s = at_s, .kind = FlowAction::kCancel, .flow = flow}; }

FlowAction bandwidth_at(double at_s, int link, double bytes_per_s) {
  return {.at_s = at_s, .kind = FlowAction::kBandwidth, .link = link, .bytes_per_s = bytes_per_s};
}

// A replay in progress.
class Player {
 public:
  Player(const FlowScript& script, change::NetworkBackend& backend, ScriptOffset offset)
      : script_(script), backend_(backend), offset_(offset), begin_s_(backend.now_s()) {
    for (const change::LinkSpec& link : script.network.links) capacities_.push_back(link.bandwidth_bytes_per_s);
  }

  Replay play() {
    for (const FlowAction& action : script_.actions) {
      advance_past(begin_s_ + action.at_s);
      apply(action);
      measure_load();
    }
    while (running() > 0) take(backend_.advance_to(kNeverEnds));
    return std::move(replay_);
  }

 private:
  // Returns once the time is reached, all ends up to then taken.
  void advance_past(double until_s) {
    std::vector<change::FlowEnd> ends;
    do {
      ends = backend_.advance_to(until_s);
      take(ends);
    } while (!ends.empty());
    ASSERT_EQ(backend_.now_s(), until_s);
  }

  void take(const std::vector<change::FlowEnd>& ends) {
    for (const change::FlowEnd& end : ends) {
      EXPECT_EQ(end.at_s, backend_.now_s());
      FlowOutcome& outcome = replay_.outcomes.at(end.flow - first_id_);
      EXPECT_LT(outcome.at_s, 0) << "flow " << end.flow << " ended twice";
      outcome = {.at_s = end.at_s - begin_s_, .failed = end.failed};
      ++ended_;
    }
    if (!ends.empty()) measure_load();
  }

  void apply(const FlowAction& action) {
    if (action.kind == FlowAction::kStart) {
      const change::FlowId id =
          backend_.start(offset_.first_endpoint + action.src, offset_.first_endpoint + action.dst, action.bytes);
      if (replay_.outcomes.empty()) first_id_ = id;
      EXPECT_EQ(id, first_id_ + static_cast<change::FlowId>(replay_.outcomes.size()));
      replay_.outcomes.emplace_back();
    } else if (action.kind == FlowAction::kBandwidth) {
      capacities_[action.link] = action.bytes_per_s;
      backend_.set_bandwidth(offset_.first_link + action.link, action.bytes_per_s);
    } else if (replay_.outcomes.at(action.flow).at_s < 0 && cancelled_.insert(action.flow).second) {
      backend_.cancel(first_id_ + action.flow);
    }
  }

  size_t running() const { return replay_.outcomes.size() - ended_ - cancelled_.size(); }

  void measure_load() {
    const std::vector<double> rates = backend_.link_rates();
    for (const change::LinkRate& changed : backend_.changed_link_rates()) {
      const auto known = told_.find(changed.link);
      SCALAI_CHECK(changed.bytes_per_s != (known == told_.end() ? 0 : known->second), "told, and had not changed");
      told_[changed.link] = changed.bytes_per_s;
    }
    for (size_t link = 0; link < rates.size(); ++link) {
      const auto known = told_.find(static_cast<int>(link));
      SCALAI_CHECK(rates[link] == (known == told_.end() ? 0 : known->second), "changed, and was not told");
    }
    for (size_t i = 0; i < capacities_.size(); ++i) {
      const double rate = rates[offset_.first_link + i];
      if (rate > 0) replay_.worst_load = std::max(replay_.worst_load, rate / capacities_[i]);
    }
  }

  const FlowScript& script_;
  change::NetworkBackend& backend_;
  ScriptOffset offset_;
  double begin_s_ = 0;
  change::FlowId first_id_ = 0;
  size_t ended_ = 0;
  std::set<int> cancelled_;
  std::vector<double> capacities_;
  std::map<int, double> told_;  // by link
  Replay replay_;
};

// The naive event loop: all rates after every event, all flows moved by every step.
class Oracle {
 public:
  explicit Oracle(const FlowScript& script) : script_(script) {
    for (const change::LinkSpec& link : script.network.links) capacities_.push_back(link.bandwidth_bytes_per_s);
  }

  std::vector<FlowOutcome> run() {
    for (const FlowAction& action : script_.actions) {
      while (now_s_ < action.at_s) step(action.at_s);
      apply(action);
    }
    while (active_count() > 0) step(kNeverEnds);
    return outcomes_;
  }

 private:
  struct Flow {
    std::vector<int> route;
    double left_bytes = 0;
    bool active = false;
  };

  size_t active_count() const {
    return std::count_if(flows_.begin(), flows_.end(), [](const Flow& flow) { return flow.active; });
  }

  void apply(const FlowAction& action) {
    if (action.kind == FlowAction::kStart) {
      start(action);
    } else if (action.kind == FlowAction::kCancel) {
      flows_[action.flow].active = false;
    } else {
      capacities_[action.link] = action.bytes_per_s;
      fail_flows_over_down_links();
    }
  }

  void start(const FlowAction& action) {
    std::set<int> links;
    for (int link : script_.network.endpoints[action.src].up) links.insert(link);
    for (int link : script_.network.endpoints[action.dst].down) links.insert(link);
    flows_.push_back({.route = {links.begin(), links.end()}, .left_bytes = action.bytes, .active = true});
    outcomes_.emplace_back();
    fail_flows_over_down_links();
    if (flows_.back().active && (links.empty() || action.bytes == 0)) end(flows_.size() - 1, false);
  }

  void fail_flows_over_down_links() {
    for (size_t i = 0; i < flows_.size(); ++i) {
      for (int link : flows_[i].route) {
        if (flows_[i].active && capacities_[link] == 0) end(i, true);
      }
    }
  }

  void end(size_t flow, bool failed) {
    flows_[flow].active = false;
    outcomes_[flow] = {.at_s = now_s_, .failed = failed};
  }

  // To the next end of a flow, or to until_s.
  void step(double until_s) {
    std::vector<size_t> active;
    std::vector<std::vector<int>> routes;
    for (size_t i = 0; i < flows_.size(); ++i) {
      if (!flows_[i].active) continue;
      active.push_back(i);
      routes.push_back(flows_[i].route);
    }
    const std::vector<double> rates = oracle_rates(capacities_, routes);
    double step_s = until_s - now_s_;
    for (size_t k = 0; k < active.size(); ++k) step_s = std::min(step_s, flows_[active[k]].left_bytes / rates[k]);
    const bool reaches_end = step_s == until_s - now_s_;
    now_s_ = reaches_end ? until_s : now_s_ + step_s;
    for (size_t k = 0; k < active.size(); ++k) {
      Flow& flow = flows_[active[k]];
      const bool ends = flow.left_bytes / rates[k] <= step_s * (1 + 1e-12);
      flow.left_bytes -= rates[k] * step_s;
      if (ends) end(active[k], false);
    }
  }

  const FlowScript& script_;
  std::vector<double> capacities_;
  std::vector<Flow> flows_;
  std::vector<FlowOutcome> outcomes_;
  double now_s_ = 0;
};

}  // namespace

FlowScript random_script(uint64_t seed) { return ScriptMaker(seed).make(); }

std::vector<KnownScript> known_scripts() {
  return {
      {{"one flow alone", star(2, 100), {start_at(0, 0, 1, 1000)}}, {{10}}},
      {{"two flows share a link, then one has it alone",
        star(3, 100),
        {start_at(0, 0, 1, 1000), start_at(0, 0, 2, 500)}},
       {{15}, {10}}},
      {{"a flow held back elsewhere leaves its share",
        star(4, 90),
        {start_at(0, 0, 1, 300), start_at(0, 0, 1, 300), start_at(0, 0, 2, 300), start_at(0, 3, 2, 600)}},
       {{10}, {10}, {10}, {10}}},
      {{"a later flow slows the first", star(3, 100), {start_at(0, 0, 1, 1000), start_at(5, 2, 1, 250)}},
       {{12.5}, {10}}},
      {{"half the bandwidth", star(2, 100), {start_at(0, 0, 1, 1000), bandwidth_at(5, 0, 50)}}, {{15}}},
      {{"twice the bandwidth",
        star(2, 100),
        {start_at(0, 0, 1, 1000), bandwidth_at(4, 0, 200), bandwidth_at(4, 3, 200)}},
       {{7}}},
      {{"a cancelled flow frees its share",
        star(3, 100),
        {start_at(0, 0, 1, 1000), start_at(0, 0, 2, 1000), cancel_at(4, 1)}},
       {{12}, {-1}}},
      {{"a link down fails its flows, also new ones, until it is up",
        star(3, 100),
        {start_at(0, 0, 1, 1000), start_at(0, 0, 2, 1000), bandwidth_at(2, 3, 0), start_at(3, 0, 1, 10),
         bandwidth_at(4, 3, 100), start_at(4, 0, 1, 100)}},
       {{2, true}, {12}, {3, true}, {6}}},
      {{"no bytes and no links end at once",
        {{{"l", 100}}, {{"a", {}, {0}}, {"b", {0}, {}}}},
        {start_at(1, 0, 1, 1000), start_at(2, 1, 0, 0), start_at(3, 1, 0, 100)}},
       {{1}, {2}, {4}}},
      {{"a flow to oneself takes both links", star(2, 100), {start_at(0, 0, 0, 1000), start_at(0, 0, 1, 1000)}},
       {{20}, {20}}},
      {{"a link that occurs twice counts once", {{{"l", 100}}, {{"a", {0, 0}, {0}}}}, {start_at(0, 0, 0, 1000)}},
       {{10}}},
  };
}

Replay replay(const FlowScript& script, change::NetworkBackend& backend, ScriptOffset offset) {
  return Player(script, backend, offset).play();
}

std::vector<double> oracle_rates(const std::vector<double>& capacities, const std::vector<std::vector<int>>& routes) {
  std::vector<double> rates(routes.size(), kNeverEnds);
  std::vector<double> left = capacities;
  std::set<size_t> rising;
  for (size_t i = 0; i < routes.size(); ++i) {
    if (!routes[i].empty()) rising.insert(i);
  }
  while (!rising.empty()) {
    std::vector<int> users(capacities.size(), 0);
    for (size_t i : rising)
      for (int link : routes[i]) ++users[link];
    int tightest = -1;
    for (int link = 0; link < static_cast<int>(users.size()); ++link) {
      if (users[link] == 0) continue;
      if (tightest < 0 || left[link] / users[link] < left[tightest] / users[tightest]) tightest = link;
    }
    const double share = left[tightest] / users[tightest];
    for (size_t i : std::set<size_t>(rising)) {
      if (std::find(routes[i].begin(), routes[i].end(), tightest) == routes[i].end()) continue;
      rates[i] = share;
      for (int link : routes[i]) left[link] -= share;
      rising.erase(i);
    }
  }
  return rates;
}

std::vector<FlowOutcome> oracle_outcomes(const FlowScript& script) { return Oracle(script).run(); }

void expect_same_outcomes(const std::vector<FlowOutcome>& actual, const std::vector<FlowOutcome>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t flow = 0; flow < actual.size(); ++flow) {
    EXPECT_NEAR(actual[flow].at_s, expected[flow].at_s, 1e-6 * std::abs(expected[flow].at_s) + 1e-8) << "flow " << flow;
    EXPECT_EQ(actual[flow].failed, expected[flow].failed) << "flow " << flow;
  }
}

}  // namespace scalai::sim
