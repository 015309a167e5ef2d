#include "ptc/run/policy/policies/spot/price_chaser.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/spot/market.h"

namespace scalai::policy::spot {
namespace {

constexpr double kDay_s = 86400;

class PriceChaser : public Policy {
 public:
  explicit PriceChaser(const ChaserOptions& options) : options_(options) {}

  PolicyTraits traits() const override { return {.preemptive = true, .needs_durations = true, .heterogeneous = true}; }

  absl::Status begin(const View& view) override { return on_demand_type(view, "").status(); }

  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> /*events*/) override {
    Decision decision;
    // No type is on demand here: what counts is price, speed and room.
    Market market(view, GpuType());
    std::vector<std::pair<int, JobId>> ids;
    for (const JobId id : view.active()) ids.emplace_back(market.holds(id) ? 0 : 1, id);
    std::sort(ids.begin(), ids.end());
    for (const auto& [key, id] : ids) {
      if (market.holds(id)) market.take(view.progress(id).placement.type, view.job(id).gpus);
    }
    for (const auto& [key, id] : ids) serve(view, market, id, decision);
    return decision;
  }

  std::string remarks() const override {
    return fmt::format("{} moves for the price, {} for a deadline, {} after losses", moves_, rescues_, replacements_);
  }

 private:
  // Seconds from now to the end of the job on a type, a change included.
  double finish_s(const View& view, const Market& market, JobId id, GpuType type) const {
    const double left = view.job(id).work - view.progress(id).work_done;
    return left / market.rate(id, type) + view.change_cost_s(id, view.job(id).gpus);
  }

  bool in_time(const View& view, const Market& market, JobId id, GpuType type) const {
    const double left_s = view.job(id).deadline_s - view.now_s();
    return finish_s(view, market, id, type) + view.change_cost_s(id, view.job(id).gpus) <= left_s + kInstant_s;
  }

  // Of the types with room (and the one it has): the cheapest that keeps the deadline, else the fastest.
  GpuType best(const View& view, const Market& market, JobId id, GpuType now) const {
    GpuType cheapest, fastest;
    for (size_t i = 0; i < view.fleet().types.size(); ++i) {
      const GpuType type(static_cast<int64_t>(i));
      if (type != now && market.free(type) < view.job(id).gpus) continue;
      if (market.rate(id, type) <= 0) continue;
      if (!fastest.valid() || market.rate(id, type) > market.rate(id, fastest)) fastest = type;
      if (!in_time(view, market, id, type)) continue;
      if (!cheapest.valid() || market.usd_per_work(id, type) < market.usd_per_work(id, cheapest)) cheapest = type;
    }
    return cheapest.valid() ? cheapest : fastest;
  }

  double saving_usd(const View& view, const Market& market, JobId id, GpuType from, GpuType to) const {
    const double left = view.job(id).work - view.progress(id).work_done;
    const double work = std::min(left, market.rate(id, to) * options_.expected_stay_s);
    const double restart_h = view.change_cost_s(id, view.job(id).gpus) / 3600;
    const double cost = options_.state_gb * options_.egress_usd_per_gb + restart_h * view.price(to) * view.job(id).gpus;
    return work * (market.usd_per_work(id, from) - market.usd_per_work(id, to)) - cost;
  }

  void serve(const View& view, Market& market, JobId id, Decision& decision) {
    const bool holds = market.holds(id);
    const GpuType now = holds ? view.progress(id).placement.type : GpuType();
    if (holds && !in_time(view, market, id, now)) return rescue(view, market, id, now, decision);
    const GpuType to = best(view, market, id, now);
    if (!to.valid() || to == now) return note_deadline(view, market, id, now, decision);
    if (!holds) {
      replacements_ += view.progress(id).first_start_s < kNever ? 1 : 0;
      market.take(to, view.job(id).gpus);
      return grant(view, market, id, to, decision);
    }
    if (saving_usd(view, market, id, now, to) <= 0) return note_deadline(view, market, id, now, decision);
    const double again_s = next_move_s(id);
    if (again_s > view.now_s()) {
      decision.wake_at_s = std::min(decision.wake_at_s, again_s);
      return note_deadline(view, market, id, now, decision);
    }
    moved_at_s_[id] = view.now_s();
    ++moves_;
    move(view, market, id, to, decision);
  }

  // Where it is it would be late: to what is faster, if there is any.
  void rescue(const View& view, Market& market, JobId id, GpuType now, Decision& decision) {
    const GpuType to = best(view, market, id, now);
    if (!to.valid() || to == now || finish_s(view, market, id, to) >= finish_s(view, market, id, now)) return;
    ++rescues_;
    move(view, market, id, to, decision);
  }

  void move(const View& view, Market& market, JobId id, GpuType to, Decision& decision) {
    const int gpus = view.job(id).gpus;
    market.take(view.progress(id).placement.type, -gpus);
    market.take(to, gpus);
    grant(view, market, id, to, decision);
  }

  void grant(const View& view, const Market& market, JobId id, GpuType to, Decision& decision) {
    decision.grants.push_back({.job = id, .type = to, .gpus = view.job(id).gpus, .hosts = {}, .beside = {}});
    note_deadline(view, market, id, to, decision);
  }

  // Wakes when staying would begin to endanger the deadline if nothing more got done.
  void note_deadline(const View& view, const Market& market, JobId id, GpuType type, Decision& decision) const {
    if (!type.valid() || view.job(id).deadline_s >= kNever) return;
    const double change_s = view.change_cost_s(id, view.job(id).gpus);
    const double spare_s = view.job(id).deadline_s - view.now_s() - finish_s(view, market, id, type) - change_s;
    // While it trains evenly on this type, the spare time stays what it is.
    const Progress progress = view.progress(id);
    const bool even = progress.placement.type == type && progress.even_per_s >= market.rate(id, type) * (1 - kEven);
    if (spare_s <= kInstant_s || even) return;
    decision.wake_at_s = std::min(decision.wake_at_s, view.now_s() + std::max(kGlance_s, spare_s));
  }

  double next_move_s(JobId id) const {
    if (options_.moves_per_day <= 0) return kNever;
    const auto found = moved_at_s_.find(id);
    return found == moved_at_s_.end() ? 0 : found->second + kDay_s / options_.moves_per_day;
  }

  ChaserOptions options_;
  std::map<JobId, double> moved_at_s_;
  int64_t moves_ = 0, rescues_ = 0, replacements_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_price_chaser(const ChaserOptions& options) {
  return std::make_unique<PriceChaser>(options);
}

}  // namespace scalai::policy::spot
