#include "ptc/run/policy/policies/order/intervals.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

class AtIntervals final : public Policy {
 public:
  AtIntervals(std::unique_ptr<Policy> policy, double interval_s)
      : policy_(std::move(policy)), interval_s_(interval_s) {}

  PolicyTraits traits() const override { return policy_->traits(); }
  absl::Status begin(const View& view) override { return policy_->begin(view); }
  std::string remarks() const override { return policy_->remarks(); }

  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override {
    // Our own wake-ups are no news to it unless it asked for one.
    for (const Event& event : events) {
      if (event.kind != Event::Kind::kTimer) kept_.push_back(event);
    }
    const double ticks = std::floor(view.now_s() / interval_s_ + 1e-9);
    if (view.now_s() - ticks * interval_s_ >= 1e-6) {
      Decision later;
      later.wake_at_s = kept_.empty() ? wake_at_s_ : (ticks + 1) * interval_s_;
      return later;
    }
    if (wake_at_s_ <= view.now_s()) kept_.push_back({Event::Kind::kTimer, JobId()});
    SCALAI_ASSIGN_OR_RETURN(Decision decision, policy_->decide(view, kept_));
    kept_.clear();
    wake_at_s_ =
        decision.wake_at_s < kNever ? std::ceil(decision.wake_at_s / interval_s_ - 1e-9) * interval_s_ : kNever;
    decision.wake_at_s = wake_at_s_;
    return decision;
  }

 private:
  std::unique_ptr<Policy> policy_;
  double interval_s_;
  std::vector<Event> kept_;    // since it was asked
  double wake_at_s_ = kNever;  // it asked for, rounded up
};

}  // namespace

std::unique_ptr<Policy> at_intervals(std::unique_ptr<Policy> policy, double interval_s) {
  SCALAI_CHECK(interval_s > 0);
  return std::make_unique<AtIntervals>(std::move(policy), interval_s);
}

std::vector<PolicyInfo> with_interval(std::vector<PolicyInfo> list) {
  for (PolicyInfo& info : list) {
    info.parameters.push_back(
        {.name = "interval",
         .default_value = "0s",
         .unit = "time",
         .help = "decides at its multiples only, as simulators of fixed steps; 0 = at each event"});
    info.make = [make = std::move(info.make)](const Parameters& parameters, uint64_t seed) {
      const double interval_s = parameters.seconds("interval");
      std::unique_ptr<Policy> policy = make(parameters, seed);
      return interval_s > 0 ? at_intervals(std::move(policy), interval_s) : std::move(policy);
    };
  }
  return list;
}

}  // namespace scalai::policy
