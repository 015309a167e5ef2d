#include "labs/policies/afs_p.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "ptc/run/policy/policies/order/marginal.h"

namespace scalai::policy::labs {
namespace {

using order::Claim;

constexpr PolicyTraits kAfsPTraits = {.preemptive = true, .elastic = true, .work_conserving = true};

class AfsP final : public order::Marginal {
 public:
  explicit AfsP(double epoch_s) : Marginal(kAfsPTraits), epoch_s_(epoch_s) {}

 protected:
  int share(const View& view, int gpus, std::vector<Claim>* claims) const override {
    std::vector<double> epochs;
    for (const Claim& claim : *claims) epochs.push_back(epochs_of(view, claim));
    return order::share_afs(gpus, epochs, claims);
  }

  double wake_at_s(const View& view, const PoolClaims& pools) const override {
    bool any_wants = false;
    double next_s = kNever;
    for (const std::vector<Claim>& claims : pools) {
      for (const Claim& claim : claims) {
        any_wants = any_wants || claim.grows();
        if (claim.gpus() == 0) continue;
        const double end_s = (epochs_of(view, claim) + 1) * epoch_s_;
        next_s = std::min(next_s, view.now_s() + end_s - view.progress(claim.id).executed_s);
      }
    }
    return any_wants ? next_s : kNever;
  }

 private:
  // Half a second: rounding must not put a job that is due for its next epoch into the one before.
  double epochs_of(const View& view, const Claim& claim) const {
    return std::floor((view.progress(claim.id).executed_s + 0.5) / epoch_s_);
  }

  double epoch_s_;
};

}  // namespace

std::vector<PolicyInfo> afs_p_policies() {
  return {{.name = "afs-p",
           .family = "order",
           .summary = "afs-l where lengths are not known: fewer epochs run count as shorter",
           .source = "AFS, NSDI'21; this form is ours",
           .parameters = {{.name = "epoch", .default_value = "2h", .unit = "time", .help = "of run time"}},
           .traits = kAfsPTraits,
           .make = [](const Parameters& parameters, uint64_t) {
             return std::make_unique<AfsP>(std::max(1.0, parameters.seconds("epoch")));
           }}};
}

}  // namespace scalai::policy::labs
