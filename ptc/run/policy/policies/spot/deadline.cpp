#include "ptc/run/policy/policies/spot/deadline.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/spot/market.h"

namespace scalai::policy::spot {
namespace {

class DeadlinePolicy : public Policy {
 public:
  DeadlinePolicy(DeadlineRule rule, std::string on_demand) : rule_(rule), name_(std::move(on_demand)) {}

  PolicyTraits traits() const override {
    const bool looks_ahead = rule_ == DeadlineRule::kGreedy || rule_ == DeadlineRule::kUniformProgress;
    return {.preemptive = looks_ahead, .needs_durations = looks_ahead, .heterogeneous = true};
  }

  absl::Status begin(const View& view) override {
    SCALAI_ASSIGN_OR_RETURN(on_demand_, on_demand_type(view, name_));
    return absl::OkStatus();
  }

  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> /*events*/) override {
    Decision decision;
    Market market(view, on_demand_);
    for (const JobId id : ordered(view, market)) {
      if (never_runs(view, market, id)) {
        decision.refused.push_back(id);
        ++refused_;
        continue;
      }
      const GpuType type = choose(view, market, id, decision.wake_at_s);
      settle(view, market, id, type, decision);
    }
    return decision;
  }

  std::string remarks() const override {
    const std::string refused = refused_ > 0 ? fmt::format("; {} jobs too large for it refused", refused_) : "";
    return fmt::format("{} jobs went on demand for their deadline{}", static_cast<int64_t>(saved_.size()), refused);
  }

 private:
  bool has_net() const { return rule_ == DeadlineRule::kGreedy || rule_ == DeadlineRule::kUniformProgress; }
  bool saved(JobId id) const { return std::binary_search(saved_.begin(), saved_.end(), id); }

  // Jobs the safety net has caught, those on demand first, then on spot; then others with GPUs, then the rest.
  std::vector<JobId> ordered(const View& view, const Market& market) {
    std::vector<std::pair<int, JobId>> keyed;
    for (const JobId id : view.active()) {
      if (has_net() && !saved(id)) {
        const Clock clock = clock_of(view, market, id);
        const bool caught =
            clock.has_deadline() && clock.slack_s() < kInstant_s && market.serves(view.job(id), on_demand_);
        if (caught) saved_.insert(std::upper_bound(saved_.begin(), saved_.end(), id), id);
      }
      const bool holds = market.holds(id);
      const bool stays = holds && view.progress(id).placement.type == on_demand_;
      keyed.emplace_back((saved(id) ? 0 : 3) + (stays && saved(id) ? 0 : holds ? 1 : 2), id);
    }
    std::sort(keyed.begin(), keyed.end());
    std::vector<JobId> ids;
    for (const auto& [key, id] : keyed) ids.push_back(id);
    return ids;
  }

  bool never_runs(const View& view, const Market& market, JobId id) const {
    const Job& job = view.job(id);
    if (rule_ == DeadlineRule::kOnDemandOnly) return !market.serves(job, on_demand_);
    if (rule_ != DeadlineRule::kSpotOnly) return false;
    for (size_t i = 0; i < view.fleet().types.size(); ++i) {
      const GpuType type(static_cast<int64_t>(i));
      if (market.is_spot(type) && market.serves(job, type)) return false;
    }
    return true;
  }

  // The type the job is to be on; none = it waits. Lowers `wake_at_s` to when the answer may change by itself.
  GpuType choose(const View& view, const Market& market, JobId id, double& wake_at_s) const {
    const GpuType now = market.holds(id) ? view.progress(id).placement.type : GpuType();
    const bool demand_fits = market.free(on_demand_) >= view.job(id).gpus;
    const GpuType demand = demand_fits && market.rate(id, on_demand_) > 0 ? on_demand_ : GpuType();
    if (rule_ == DeadlineRule::kOnDemandOnly || (saved(id) && demand.valid())) return demand;
    const bool keeps = now.valid() && market.is_spot(now) && market.free(now) >= view.job(id).gpus;
    const GpuType spot = keeps ? now : market.cheapest_spot(id);
    // Late or nearly so, and nothing left on demand: spot is better than to wait.
    if (rule_ == DeadlineRule::kSpotOnly || saved(id)) return spot;
    const Clock clock = clock_of(view, market, id);
    if (!clock.has_deadline()) return spot.valid() ? spot : demand;
    const GpuType next = rule_ == DeadlineRule::kGreedy ? spot : uniform(view, clock, now, {spot, demand}, wake_at_s);
    // A change begins now, which uses up slack whatever the job did until now.
    const bool moves = next.valid() && next != now;
    wake_at_s = std::min(
        wake_at_s, view.now_s() + (moves ? std::max(kInstant_s, clock.slack_s()) : slack_wake_s(view, clock, id)));
    return next;
  }

  // Until the slack is used up, where it is. A job that trains evenly at the reference rate or faster uses up none; one
  // that is held up now and then (a change, checkpoints) uses up less than the clock says, so that looking once a
  // second will do.
  static double slack_wake_s(const View& view, const Clock& clock, JobId id) {
    const Progress progress = view.progress(id);
    const double used_up = 1 - progress.even_per_s * clock.work_s / view.job(id).work;
    if (used_up <= kEven) return kNever;
    const bool held_up = !progress.placement.empty() && progress.even_per_s <= 0;
    return std::max(held_up ? kGlance_s : kInstant_s, clock.slack_s() / used_up);
  }

  struct Offers {
    GpuType spot, demand;
  };

  GpuType uniform(const View& view, const Clock& clock, GpuType now, const Offers& offers, double& wake_at_s) const {
    const double due_rate = clock.work_s / clock.total_s;  // of e(t)
    const auto wake_in = [&](double seconds) {
      wake_at_s = std::min(wake_at_s, view.now_s() + std::max(kInstant_s, seconds));
    };
    const bool on_demand = now.valid() && now == on_demand_;
    if (!on_demand || offers.spot == on_demand_) {
      if (offers.spot.valid()) return offers.spot;
      if (clock.done_s <= clock.expected_s()) return offers.demand;
      wake_in(clock.done_s / due_rate - clock.elapsed_s);
      return GpuType();
    }
    const double ahead = clock.done_s - clock.expected_s(2 * clock.changeover_s);
    if (ahead >= 0 && offers.spot.valid()) return offers.spot;
    if (offers.spot.valid() && due_rate < 1) wake_in(-ahead / (1 - due_rate));
    return offers.demand;
  }

  void settle(const View& view, Market& market, JobId id, GpuType type, Decision& decision) const {
    const int gpus = view.job(id).gpus;
    const Placement placement = view.progress(id).placement;
    if (!type.valid()) {
      // Under notice and nothing else to be had: it trains until its hosts go. Without a notice, it gives up what it
      // has.
      if (!placement.empty() && market.holds(id))
        decision.grants.push_back({.job = id, .type = {}, .gpus = 0, .hosts = {}, .beside = {}});
      return;
    }
    market.take(type, gpus);
    if (placement.type == type && market.holds(id)) return;
    decision.grants.push_back({.job = id, .type = type, .gpus = gpus, .hosts = {}, .beside = {}});
  }

  DeadlineRule rule_;
  std::string name_;
  GpuType on_demand_;
  std::vector<JobId> saved_;  // caught by the safety net; sorted
  int64_t refused_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_deadline_policy(DeadlineRule rule, const std::string& on_demand) {
  return std::make_unique<DeadlinePolicy>(rule, on_demand);
}

}  // namespace scalai::policy::spot
