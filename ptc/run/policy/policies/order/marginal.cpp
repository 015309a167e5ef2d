#include "ptc/run/policy/policies/order/marginal.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>

namespace scalai::policy::order {
namespace {

// Whether a, of which `a_shorter` says whether it is the shorter job, is to have the GPU and not b.
bool wins(const Claim& a, const Claim& b, bool a_shorter) {
  const Claim &l = a_shorter ? a : b, &h = a_shorter ? b : a;
  const auto now = [](const Claim& c) { return c.rates[static_cast<size_t>(c.share)]; };
  const auto more = [](const Claim& c) { return c.rates[static_cast<size_t>(c.share + 1)]; };
  const bool l_wins = (more(l) - now(l)) / now(l) > (more(h) - now(h)) / more(h);
  return a_shorter ? l_wins : !l_wins;
}

constexpr PolicyTraits kAfsLTraits = {
    .preemptive = true, .elastic = true, .work_conserving = true, .needs_durations = true};

class AfsL final : public Marginal {
 public:
  AfsL() : Marginal(kAfsLTraits) {}

 protected:
  int share(const View& /*view*/, int gpus, std::vector<Claim>* claims) const override {
    return share_afs(gpus, {}, claims);
  }
};

}  // namespace

absl::StatusOr<Decision> Marginal::decide(const View& view, std::span<const Event> /*events*/) {
  Decision decision;
  PoolClaims pools = pools_.claims(view);
  std::vector<int> left;
  for (size_t t = 0; t < pools.size(); ++t) {
    left.push_back(share(view, view.capacity(GpuType(static_cast<int64_t>(t))), &pools[t]));
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
  decision.wake_at_s = wake_at_s(view, pools);
  return decision;
}

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
  return {{.name = "afs-l",
           .family = "order",
           .summary = "elastic: one GPU more to the winner of pairwise comparisons of length and speed-up",
           .source = "AFS, NSDI'21",
           .parameters = {},
           .traits = kAfsLTraits,
           .make = [](const Parameters&, uint64_t) { return std::make_unique<AfsL>(); }}};
}

}  // namespace scalai::policy::order
