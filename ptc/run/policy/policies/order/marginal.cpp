#include "ptc/run/policy/policies/order/marginal.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace scalai::policy::order {
namespace {

// The smallest share each, by length, ties by claim; what is left of the GPUs.
int share_smallest(int gpus, const std::vector<double>& length, std::vector<Claim>* claims) {
  std::vector<size_t> queue(claims->size());
  std::iota(queue.begin(), queue.end(), size_t{0});
  std::stable_sort(queue.begin(), queue.end(), [&](size_t a, size_t b) { return length[a] < length[b]; });
  for (const size_t k : queue) {
    Claim& claim = (*claims)[k];
    if (claim.step() > gpus) continue;
    gpus -= claim.step();
    claim.share = 0;
  }
  return gpus;
}

// Seconds saved by the next share, per GPU.
double gain(const Claim& claim) { return (claim.seconds(claim.share) - claim.seconds(claim.share + 1)) / claim.step(); }

// Whether a, of which `a_shorter` says whether it is the shorter job, is to have the GPU and not b.
bool wins(const Claim& a, const Claim& b, bool a_shorter) {
  const Claim &l = a_shorter ? a : b, &h = a_shorter ? b : a;
  const auto now = [](const Claim& c) { return c.rates[static_cast<size_t>(c.share)]; };
  const auto more = [](const Claim& c) { return c.rates[static_cast<size_t>(c.share + 1)]; };
  const bool l_wins = (more(l) - now(l)) / now(l) > (more(h) - now(h)) / more(h);
  return a_shorter ? l_wins : !l_wins;
}

enum class Rule { kOptimus, kAfsL, kAfsP };

class Marginal : public Policy {
 public:
  Marginal(Rule rule, double epoch_s, PolicyTraits traits, FirstShare first = shortest_first)
      : rule_(rule), epoch_s_(epoch_s), traits_(traits), first_(first) {}
  PolicyTraits traits() const override { return traits_; }

  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> /*events*/) override {
    Decision decision;
    std::vector<std::vector<Claim>> pools = pools_.claims(view);
    std::vector<int> left;
    for (size_t t = 0; t < pools.size(); ++t) {
      const int gpus = view.capacity(GpuType(static_cast<int64_t>(t)));
      left.push_back(rule_ == Rule::kOptimus ? share_optimus(gpus, first_, &pools[t])
                                             : share_afs(gpus, epochs(view, pools[t]), &pools[t]));
    }
    if (pools.size() > 1) pools_.rehome(view, left, &pools);
    std::set<JobId> claimed;
    for (size_t t = 0; t < pools.size(); ++t) {
      for (const Claim& claim : pools[t]) claimed.insert(claim.id);
      grant_shares(view, GpuType(static_cast<int64_t>(t)), pools[t], &decision.grants);
    }
    for (const JobId id : view.active()) {  // those no pool can hold any more give up their GPUs
      if (claimed.count(id) > 0 || view.progress(id).placement.empty()) continue;
      decision.grants.push_back(Grant{.job = id, .type = GpuType(), .gpus = 0, .hosts = {}, .beside = JobId()});
    }
    if (rule_ == Rule::kAfsP) decision.wake_at_s = next_epoch_s(view, pools);
    return decision;
  }

 private:
  // Empty where lengths are known. Half a second: rounding must not put a job that is due for its next epoch into the
  // one before.
  std::vector<double> epochs(const View& view, const std::vector<Claim>& claims) const {
    std::vector<double> epochs;
    for (const Claim& claim : claims) {
      if (rule_ == Rule::kAfsP) epochs.push_back(std::floor((view.progress(claim.id).executed_s + 0.5) / epoch_s_));
    }
    return epochs;
  }

  double next_epoch_s(const View& view, const std::vector<std::vector<Claim>>& pools) const {
    bool any_wants = false;
    double next_s = kNever;
    for (const std::vector<Claim>& claims : pools) {
      for (const Claim& claim : claims) {
        any_wants = any_wants || claim.grows();
        if (claim.gpus() == 0) continue;
        const double executed_s = view.progress(claim.id).executed_s;
        const double end_s = (std::floor((executed_s + 0.5) / epoch_s_) + 1) * epoch_s_;
        next_s = std::min(next_s, view.now_s() + end_s - executed_s);
      }
    }
    return any_wants ? next_s : kNever;
  }

  Rule rule_;
  double epoch_s_;
  PolicyTraits traits_;
  FirstShare first_;
  Pools pools_;
};

constexpr PolicyTraits kKnown = {.preemptive = true, .elastic = true, .work_conserving = true, .needs_durations = true};
constexpr PolicyTraits kUnknown = {.preemptive = true, .elastic = true, .work_conserving = true};

std::unique_ptr<Policy> make_afs_l(const Parameters&, uint64_t) {
  return std::make_unique<Marginal>(Rule::kAfsL, kNever, kKnown);
}
std::unique_ptr<Policy> make_afs_p(const Parameters& parameters, uint64_t) {
  return std::make_unique<Marginal>(Rule::kAfsP, std::max(1.0, parameters.seconds("epoch")), kUnknown);
}

}  // namespace

double shortest_first(const Claim& claim) { return claim.seconds(0); }

std::unique_ptr<Policy> make_optimus(FirstShare first) {
  return std::make_unique<Marginal>(Rule::kOptimus, kNever, kKnown, first);
}

int share_optimus(int gpus, FirstShare first, std::vector<Claim>* claims) {
  std::vector<double> length;
  for (const Claim& claim : *claims) length.push_back(first(claim));
  gpus = share_smallest(gpus, length, claims);
  std::set<std::pair<double, size_t>> gains;  // negative gain: the largest first
  const auto enter = [&](size_t k) {
    const Claim& claim = (*claims)[k];
    if (claim.share >= 0 && claim.grows() && gain(claim) > 0) gains.insert({-gain(claim), k});
  };
  for (size_t k = 0; k < claims->size(); ++k) enter(k);
  while (!gains.empty() && gpus > 0) {
    const size_t k = gains.begin()->second;
    gains.erase(gains.begin());
    Claim& claim = (*claims)[k];
    if (claim.step() > gpus) continue;
    gpus -= claim.step();
    ++claim.share;
    enter(k);
  }
  return gpus;
}

int share_afs(int gpus, const std::vector<double>& epochs, std::vector<Claim>* claims) {
  std::vector<double> length = epochs;
  if (epochs.empty()) {
    for (const Claim& claim : *claims) length.push_back(claim.seconds(0));
  }
  gpus = share_smallest(gpus, length, claims);
  while (gpus > 0) {
    Claim* best = nullptr;
    double best_length = 0;
    for (size_t k = 0; k < claims->size(); ++k) {
      Claim& claim = (*claims)[k];
      if (claim.share < 0 || !claim.grows() || claim.step() > gpus) continue;
      const double now = epochs.empty() ? claim.seconds(claim.share) : epochs[k];
      if (best == nullptr || wins(claim, *best, now < best_length)) {
        best = &claim;
        best_length = now;
      }
    }
    if (best == nullptr) break;
    gpus -= best->step();
    ++best->share;
  }
  return gpus;
}

std::vector<PolicyInfo> marginal_policies() {
  return {{.name = "optimus",
           .family = "order",
           .summary = "elastic: one GPU more to the job whose remaining time falls most",
           .source = "Optimus, EuroSys'18",
           .parameters = {},
           .traits = kKnown,
           .make = [](const Parameters&, uint64_t) { return make_optimus(shortest_first); }},
          {.name = "afs-l",
           .family = "order",
           .summary = "elastic: one GPU more to the winner of pairwise comparisons of length and speed-up",
           .source = "AFS, NSDI'21",
           .parameters = {},
           .traits = kKnown,
           .make = make_afs_l},
          {.name = "afs-p",
           .family = "order",
           .summary = "afs-l where lengths are not known: fewer epochs run count as shorter",
           .source = "AFS, NSDI'21; this form is ours",
           .parameters = {{.name = "epoch", .default_value = "2h", .unit = "time", .help = "of run time"}},
           .traits = kUnknown,
           .make = make_afs_p}};
}

}  // namespace scalai::policy::order
