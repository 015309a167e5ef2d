#include "sim/jobs/recovery/steady.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "ptc/base/status.h"
#include "sim/jobs/recovery/internal/host_events.h"
#include "sim/jobs/recovery/internal/ledger.h"

namespace scalai::jobs {
namespace {

using recovery::internal::HostEvent;

constexpr double kRiskOfPairs = 0.05;  // Bamboo's threshold
constexpr double kMargin = 1.1;        // of a job that leaves in time, as in ptc/run/control

class Steady {
 public:
  explicit Steady(const RecoverySetup& setup)
      : setup_(setup),
        events_(recovery::internal::host_events(*setup.availability, setup.hosts, setup.costs.host_ready_s)),
        until_s_(setup.until_s > 0 ? setup.until_s : recovery::internal::last_event_s(*setup.availability)),
        usable_(static_cast<size_t>(setup.hosts), 0),
        leaving_(static_cast<size_t>(setup.hosts), 0),
        taken_s_(static_cast<size_t>(setup.hosts), policy::kNever),
        member_(static_cast<size_t>(setup.hosts), 0),
        ledger_(setup) {}

  absl::StatusOr<policy::RecoveryResult> run() {
    if (!(until_s_ > 0)) return invalid("recovery: the host trace has no events; say how long it runs: until=…");
    size_t next = 0;
    while (problem_.ok()) {
      const double event_s = next < events_.size() ? events_[next].at_s : policy::kNever;
      const double at_s = std::min({event_s, action_s_, until_s_});
      ledger_.advance(at_s);
      if (at_s >= until_s_) break;
      if (leaves_ && action_s_ <= at_s) {  // before what happens at the same instant
        leave_in_time(/*acts=*/true);
        ledger_.note();
        continue;
      }
      int lost = 0;
      bool noticed = false;
      for (; next < events_.size() && events_[next].at_s <= at_s; ++next) apply(events_[next], &lost, &noticed);
      const bool acts = action_s_ <= at_s;
      if (acts) action_s_ = policy::kNever;
      if (lost > 0) {
        on_loss(lost);
      } else if (noticed && setup_.on_notice == OnNotice::kLeave && setup_.costs.leave_s) {
        leave_in_time(/*acts=*/false);
      } else if ((noticed && setup_.on_notice != OnNotice::kWait) || (acts && saving_)) {
        if (saved_first(acts)) change(target(), {.from = used(), .to = target(), .lost = 0}, 0);
      } else {
        consider(acts);
      }
      ledger_.note();
    }
    SCALAI_RETURN_IF_ERROR(problem_);
    return ledger_.result();
  }

 private:
  bool redundancy() const { return setup_.design == RecoveryDesign::kRedundancy; }
  int used() const { return static_cast<int>(members_.size()); }
  bool paused() const { return ledger_.paused(); }

  void apply(const HostEvent& event, int* lost, bool* noticed) {
    const size_t host = static_cast<size_t>(event.host);
    const bool member = member_[host] != 0;
    switch (event.kind) {
      case HostEvent::Kind::kCome: return ledger_.set_live(ledger_.live() + 1);
      case HostEvent::Kind::kUsable: return (void)(usable_[host] = 1);
      case HostEvent::Kind::kNotice:
        leaving_[host] = 1;
        taken_s_[host] = event.until_s;
        *noticed = *noticed || member;
        return;
      case HostEvent::Kind::kGone: break;
    }
    ledger_.set_live(ledger_.live() - 1);
    ledger_.host_lost();
    usable_[host] = leaving_[host] = 0;
    if (!member || replaced(event.host)) return;
    gone_.push_back(event.host);
    ++*lost;
  }

  // Redundancy: a host that was lost and is back waits, as another computes in its place.
  bool replaced(int host) const {
    const size_t place = static_cast<size_t>(std::find(members_.begin(), members_.end(), host) - members_.begin());
    return place < dead_.size() && dead_[place] != 0;
  }

  bool selectable(int host) const {
    const bool leaves = leaving_[static_cast<size_t>(host)] != 0 && setup_.on_notice != OnNotice::kWait;
    return usable_[static_cast<size_t>(host)] != 0 && !leaves;
  }

  double throughput(int hosts) {
    if (hosts < std::max(1, setup_.min_hosts)) return 0;
    const double rate = setup_.samples_per_s(hosts);
    if (!(rate >= 0) || std::isinf(rate)) {
      problem_ = invalid(fmt::format("recovery: throughput on {} hosts is {}; it must be a number >= 0", hosts, rate));
      return 0;
    }
    return rate;
  }

  // How many hosts the design wants of those it can have; 0 = stands still.
  int target() {
    int available = 0;
    for (int host = 0; host < setup_.hosts; ++host) available += selectable(host);
    if (setup_.design == RecoveryDesign::kSpareSwap) {
      const int size = setup_.hosts - setup_.spares;
      return available >= size ? size : 0;
    }
    if (redundancy() && available < setup_.stages) return 0;
    if (setup_.design != RecoveryDesign::kReshard) return throughput(available) > 0 ? available : 0;
    return fastest(available);
  }

  int fastest(int available) {
    while (static_cast<int>(fastest_.size()) <= available) {
      const int hosts = static_cast<int>(fastest_.size());
      if (hosts == 0) {
        fastest_.push_back({0, 0.0});
        continue;
      }
      const double rate = throughput(hosts);
      fastest_.push_back(rate > fastest_.back().second ? std::pair(hosts, rate) : fastest_.back());
    }
    return fastest_[static_cast<size_t>(available)].first;
  }

  // A change that nothing was lost for, of a design that restarts from checkpoints: false while one is written.
  bool saved_first(bool acts) {
    if (acts && std::exchange(saving_, false)) {
      ledger_.written();  // not a rounding later
      return true;
    }
    if (setup_.on_notice != OnNotice::kSave || paused() || ledger_.rate() <= 0) return true;
    if (!std::exchange(saving_, true)) action_s_ = ledger_.now_s() + ledger_.write_now();
    return false;
  }

  // `acts`: it has waited for this moment.
  void leave_in_time(bool acts) {
    std::vector<int> places;
    double deadline_s = policy::kNever;
    for (int place = 0; place < used(); ++place) {
      const auto host = static_cast<size_t>(members_[static_cast<size_t>(place)]);
      if (leaving_[host] == 0) continue;
      places.push_back(place);
      deadline_s = std::min(deadline_s, taken_s_[host]);
    }
    const int to = target(), going = static_cast<int>(places.size());
    const HostChange planned{.from = used(), .to = to, .lost = 0};
    const HostChange without{.from = used(), .to = to, .lost = going, .lost_places = std::move(places)};
    const bool others_have_it = !setup_.costs.state_survives || setup_.costs.state_survives(without);
    const double needed_s = others_have_it || to == 0 || paused() ? 0 : setup_.costs.leave_s(planned);
    const double left_s = deadline_s - ledger_.now_s();
    if (needed_s > left_s && !acts) {
      ledger_.fatal();
      ledger_.roll_back();
      return change(to, without, 0);
    }
    const bool waits = setup_.design == RecoveryDesign::kReshard && !paused() && !acts && kMargin * needed_s < left_s;
    if (!waits) return change(to, planned, 0);
    leaves_ = true;
    action_s_ = deadline_s - kMargin * needed_s;
  }

  void on_loss(int lost) {
    saving_ = false;
    const int before = used();
    if (redundancy()) return redundancy_loss();
    std::vector<int> places;
    for (int place = 0; place < before; ++place) {
      const int host = members_[static_cast<size_t>(place)];
      if (std::find(gone_.begin(), gone_.end(), host) != gone_.end()) places.push_back(place);
    }
    std::erase_if(members_, [this](int host) { return usable_[static_cast<size_t>(host)] == 0; });
    for (const int host : gone_) member_[static_cast<size_t>(host)] = usable(host) ? 1 : 0;
    gone_.clear();
    const int to = target();
    const HostChange what{.from = before, .to = to, .lost = lost, .lost_places = std::move(places)};
    const bool by_checkpoint = setup_.design == RecoveryDesign::kCheckpointRestart ||
                               setup_.design == RecoveryDesign::kSpareSwap ||
                               (setup_.costs.state_survives && !setup_.costs.state_survives(what));
    if (by_checkpoint) {
      ledger_.fatal();
      ledger_.roll_back();
    } else if (setup_.costs.step_lost) {
      ledger_.lose_step();
    }
    change(to, what, setup_.costs.detect_s);
  }

  // Members that went: the one before each in its pipeline takes over, or all start again.
  void redundancy_loss() {
    bool fatal = false;
    for (const int host : gone_) {
      const size_t place = static_cast<size_t>(std::find(members_.begin(), members_.end(), host) - members_.begin());
      if (place >= grid()) continue;  // it waited outside the pipelines
      const size_t stages = static_cast<size_t>(setup_.stages);
      const size_t before = place % stages == 0 ? place + stages - 1 : place - 1;
      dead_[place] = 1;
      fatal = fatal || doubled_[place] != 0 || doubled_[before] != 0 || dead_[before] != 0;
      doubled_[before] = 1;
    }
    const bool in_grid = std::find(dead_.begin(), dead_.end(), 1) != dead_.end();
    gone_.clear();
    if (fatal) {
      ledger_.fatal();
      ledger_.roll_back();
      const int to = target();
      const HostChange restart{.from = 0, .to = to, .lost = 0, .lost_places = {}, .resumes = true};
      const double fatal_s = setup_.costs.fatal_s;
      return change(to, restart, setup_.costs.detect_s, fatal_s < 0 ? std::nullopt : std::optional(fatal_s));
    }
    if (paused()) return change(target(), {.from = used(), .to = target(), .lost = 1}, setup_.costs.detect_s);
    ledger_.set_used(static_cast<int>(
        std::count_if(members_.begin(), members_.end(), [this](int h) { return usable(h) && !replaced(h); })));
    if (!in_grid) return;
    ledger_.set_rate(grid_rate_ / setup_.fallback_slowdown);
    plan_rebalance();
  }

  bool usable(int host) const { return usable_[static_cast<size_t>(host)] != 0; }
  size_t grid() const { return static_cast<size_t>(used() / setup_.stages * setup_.stages); }

  void plan_rebalance() {
    const auto count = [](const std::vector<uint8_t>& flags) { return std::count(flags.begin(), flags.end(), 1); };
    const int64_t doubled = count(dead_);
    const int64_t active = static_cast<int64_t>(grid()) - doubled;
    int64_t waiting = 0;
    for (int host = 0; host < setup_.hosts; ++host) waiting += usable(host) ? 1 : 0;
    waiting -= active;
    const bool due = doubled > 0 && (waiting >= doubled ||
                                     2.0 * static_cast<double>(doubled) > kRiskOfPairs * static_cast<double>(active));
    if (due) action_s_ = std::min(action_s_, ledger_.now_s() + ledger_.step_left_s());
  }

  // Nothing was lost: the end of a pause or of a step, or hosts came.
  void consider(bool acts) {
    if (paused()) return;
    if (redundancy() && std::find(dead_.begin(), dead_.end(), 1) != dead_.end()) {
      if (!acts) return plan_rebalance();
      const int to = target();
      return change(to, {.from = used(), .to = to, .lost = 0}, 0);
    }
    const int to = target();
    if (to == 0 || (to == used() && ledger_.rate() > 0)) return;
    const HostChange what{.from = used(), .to = to, .lost = 0, .lost_places = {}, .resumes = used() == 0 && trained_};
    const std::optional<double> cost = cost_s(what);
    if (!cost) return;
    const double now = ledger_.rate();
    const double then = throughput(to);
    const bool pays = now == 0 ? then > 0 : (then - now) * (setup_.join_horizon_s - *cost) > now * *cost;
    if (pays && then > now && saved_first(false)) change(to, what, 0);
  }

  std::optional<double> cost_s(const HostChange& what) {
    const double cost = setup_.costs.change_s(what);
    if (cost >= 0 && !std::isinf(cost)) return cost;
    problem_ = invalid(fmt::format("recovery: a change from {} to {} hosts ({} lost) costs {} seconds; it must be >= 0",
                                   what.from, what.to, what.lost, cost));
    return std::nullopt;
  }

  // Trains on `hosts` hosts from now on, after the pause. 0: stands still until there are enough.
  void change(int hosts, const HostChange& what, double detect_s, std::optional<double> fixed_s = std::nullopt) {
    pick(hosts);
    leaves_ = false;
    dead_.assign(members_.size(), 0);
    doubled_.assign(members_.size(), 0);
    const double rate = hosts > 0 ? throughput(hosts) : 0;
    grid_rate_ = rate;
    if (hosts > 0 && std::exchange(ran_, true)) ledger_.restarted();
    ledger_.set_used(used());
    ledger_.set_rate(rate);
    action_s_ = policy::kNever;
    trained_ = trained_ || hosts > 0;
    if (hosts == 0 || !problem_.ok()) return ledger_.stop();
    const std::optional<double> cost = fixed_s ? fixed_s : cost_s(what);
    if (!cost) return;
    const double pause_s = detect_s + *cost;
    ledger_.pause(pause_s);
    action_s_ = ledger_.now_s() + pause_s;  // not before the pause ends, by a rounding
  }

  // Keeps who is there, then takes the lowest numbers.
  void pick(int hosts) {
    std::vector<int> chosen;
    for (const int host : members_) {
      if (static_cast<int>(chosen.size()) < hosts && selectable(host)) chosen.push_back(host);
    }
    for (int host = 0; host < setup_.hosts && static_cast<int>(chosen.size()) < hosts; ++host) {
      if (member_[static_cast<size_t>(host)] == 0 && selectable(host)) chosen.push_back(host);
    }
    SCALAI_CHECK(static_cast<int>(chosen.size()) == hosts);
    members_ = std::move(chosen);
    member_.assign(member_.size(), 0);
    for (const int host : members_) member_[static_cast<size_t>(host)] = 1;
  }

  const RecoverySetup& setup_;
  std::vector<HostEvent> events_;
  double until_s_;
  std::vector<uint8_t> usable_;   // by host: up and ready
  std::vector<uint8_t> leaving_;  // by host: under notice
  std::vector<double> taken_s_;   // by host: when it will be taken
  std::vector<int> members_;      // hosts of the job; of redundancy: pipeline by pipeline, then those that wait
  std::vector<uint8_t> member_;   // by host: in members_
  std::vector<int> gone_;         // members lost at this instant
  std::vector<uint8_t> dead_;     // by place in members_: lost, its neighbour works for it
  std::vector<uint8_t> doubled_;  // by place: works for two
  std::vector<std::pair<int, double>> fastest_;  // by hosts available: how many to use, samples/s
  double grid_rate_ = 0;
  bool ran_ = false;  // it has started once
  bool trained_ = false;
  bool leaves_ = false;               // at action_s_, hosts under notice
  bool saving_ = false;               // until action_s_, for a change then
  double action_s_ = policy::kNever;  // look again then
  absl::Status problem_;
  recovery::internal::Ledger ledger_;
};

}  // namespace

absl::StatusOr<policy::RecoveryResult> simulate_steady(const RecoverySetup& setup) {
  SCALAI_CHECK(setup.design != RecoveryDesign::kProactive);
  return Steady(setup).run();
}

}  // namespace scalai::jobs
