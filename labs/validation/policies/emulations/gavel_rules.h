#pragma once
// FIFO and Gandiva as the released simulator of Gavel has them (github.com/stanford-futuredata/gavel,
// scheduler/policies), with the properties that its numbers depend on. One thread.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "labs/policies/gandiva_allox.h"
#include "ptc/run/policy/policy.h"

namespace scalai::policy::validation {

// A job gets one GPU type for good, the queue waits behind its head. It is always the fastest type that was free at the
// allocation, full or not, so that jobs pile up there. A freed place goes to the head of the queue, counted against all
// GPUs. When the type becomes exactly full, the slowest type leaves the list (the simulator removes a random one).
class GavelFifo : public ShareRule {
 public:
  absl::StatusOr<Shares> shares(const ShareProblem& problem) override;

 private:
  std::vector<size_t> refill(const ShareProblem& problem, std::vector<int>& left);
  void place(const ShareProblem& problem, const std::vector<size_t>& queue, std::vector<int>& left);

  std::map<JobId, size_t> type_of_;
};

// The worth of a pair is summed over all types, 0 for a type that cannot run it: with three types nearly always enough.
class GavelGandiva : public labs::GandivaRule {
 public:
  using labs::GandivaRule::GandivaRule;

 protected:
  bool worth_it(const ShareProblem& problem, const std::vector<double>& by_type) const override;
};

// The policies "gavel-fifo" and "gandiva" in rounds of 360 s. Null: another name.
std::unique_ptr<Policy> make_gavel_emulation(const std::string& name, uint64_t seed);

}  // namespace scalai::policy::validation
