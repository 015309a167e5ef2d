#pragma once
// Elastic policies that give GPUs one by one by the gain of one more GPU, at each arrival, completion and change of
// capacity. Each GPU type is a pool of its own (shares_of_gpus.h); a job that would wait moves to a type with enough
// free GPUs. One more GPU means the next number that the job can use. One thread.
//
//   AFS-L (NSDI'21): first the smallest share for each job, shortest first; then each GPU to the winner of a
//   tournament. Of two jobs l has the shorter remaining time and h the longer; l wins if
//   (p_l' - p_l) / p_l > (p_h' - p_h) / p_h', with p and p' the throughput now and with one more GPU. O(jobs × GPUs).

#include <vector>

#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/order/shares_of_gpus.h"

namespace scalai::policy::order {

// A policy of this kind; how the GPUs of a pool are divided is its own.
class Marginal : public Policy {
 public:
  explicit Marginal(PolicyTraits traits) : traits_(traits) {}
  PolicyTraits traits() const override { return traits_; }
  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override;

 protected:
  using PoolClaims = std::vector<std::vector<Claim>>;  // by GPU type
  // Divides `gpus` GPUs among claims without a share; returns the number of GPUs left.
  virtual int share(const View& view, int gpus, std::vector<Claim>* claims) const = 0;
  // Time of the next decision if nothing happens before.
  virtual double wake_at_s(const View& /*view*/, const PoolClaims& /*claims*/) const { return kNever; }

 private:
  PolicyTraits traits_;
  Pools pools_;
};

std::vector<PolicyInfo> marginal_policies();

// The smallest share for each claim, by `length` (of each), ties by claim; returns the number of GPUs left.
int share_smallest(int gpus, const std::vector<double>& length, std::vector<Claim>* claims);

// The rule of AFS: divides `gpus` GPUs among claims without a share; returns the number of GPUs left. `epochs` (by
// claim) decides the shorter job if lengths are unknown; empty = they are known.
int share_afs(int gpus, const std::vector<double>& epochs, std::vector<Claim>* claims);

}  // namespace scalai::policy::order
