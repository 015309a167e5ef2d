#include "labs/policies/optimus.h"

#include <set>
#include <utility>

#include "ptc/run/policy/policies/order/marginal.h"

namespace scalai::policy::labs {
namespace {

using order::Claim;

constexpr PolicyTraits kOptimusTraits = {
    .preemptive = true, .elastic = true, .work_conserving = true, .needs_durations = true};

class Optimus final : public order::Marginal {
 public:
  explicit Optimus(FirstShare first) : Marginal(kOptimusTraits), first_(first) {}

 protected:
  int share(const View& /*view*/, int gpus, std::vector<Claim>* claims) const override {
    return share_optimus(gpus, first_, claims);
  }

 private:
  FirstShare first_;
};

// Seconds saved by the next share, per GPU.
double gain(const Claim& claim) { return (claim.seconds(claim.share) - claim.seconds(claim.share + 1)) / claim.step(); }

}  // namespace

double shortest_first(const Claim& claim) { return claim.seconds(0); }

std::unique_ptr<Policy> make_optimus(FirstShare first) { return std::make_unique<Optimus>(first); }

int share_optimus(int gpus, FirstShare first, std::vector<Claim>* claims) {
  std::vector<double> length;
  for (const Claim& claim : *claims) length.push_back(first(claim));
  gpus = order::share_smallest(gpus, length, claims);
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

std::vector<PolicyInfo> optimus_policies() {
  return {{.name = "optimus",
           .family = "order",
           .summary = "elastic: one GPU more to the job whose remaining time falls most",
           .source = "Optimus, EuroSys'18",
           .parameters = {},
           .traits = kOptimusTraits,
           .make = [](const Parameters&, uint64_t) { return make_optimus(shortest_first); }}};
}

}  // namespace scalai::policy::labs
