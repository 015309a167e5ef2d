#pragma once
// A policy that works in rounds: shares from a rule, rounds by Gavel's mechanism, GPUs through the ordinary interface.
// One thread.
//
//   submitted, finished ─► problem (rates, work left, pairs) ─► ShareRule ─► Shares ─► Rounds ─► round's jobs ─► grants
//                          at most every `reset_s`                                     every `round_s`, or when all end
//
// A round ends with its slowest micro-task: after `round_s`, or earlier when every job in it is done. GPUs of jobs that
// end early stay idle until the end of the round. A job chosen again for the same GPUs keeps them (a lease, no change).
// Shares are computed again at the first round after a submission or completion, but not before `reset_s` have passed
// since the last time (shares of second 0 do not count, as in the reference); at once when hosts come or go, or if no
// job could run.

#include <memory>
#include <string>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/run/policy/fluid.h"
#include "ptc/run/policy/policies/shares/rounds.h"
#include "ptc/run/policy/policies/shares/rules.h"
#include "ptc/run/policy/policy.h"

namespace scalai::policy {

struct RoundOptions {
  double round_s = 360;
  double reset_s = 1920;
  bool packing = false;  // pairs on the same GPUs
  // Speeds that the rule sees.
  enum class Speeds : uint8_t {
    kTrue,
    // Blind to types: all GPUs are one pool; a share of it is spread over all types by their number. A job runs
    kFastest,  // at its rate on the fastest type
    kNone,     // at 1 per second
  };
  Speeds speeds = Speeds::kTrue;
  bool shuffle_types = false;    // GPU types choose in a random order each round; else the fastest first
  bool with_share_only = false;  // jobs without a share do not fill gaps
  uint64_t seed = 1;
};

class RoundPolicy : public Policy {
 public:
  RoundPolicy(const RoundOptions& options, std::unique_ptr<ShareRule> rule, PolicyTraits traits);
  PolicyTraits traits() const override { return traits_; }
  absl::Status begin(const View& view) override;
  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override;
  std::string remarks() const override;
  bool keep_answers(AnswerLog* log) override { return rule_->keep_answers(log); }
  // Present shares of the active jobs by the rule, without rounds.
  absl::StatusOr<std::vector<JobShare>> shares_of(const View& view);

 private:
  bool take_note(const View& view, std::span<const Event> events);
  void close_round(double now_s);
  absl::Status allocate(const View& view);
  ShareProblem problem_of(const View& view) const;
  absl::StatusOr<Shares> solve(const ShareProblem& problem);
  std::vector<Pick> choose(const View& view);
  void grant(const View& view, Decision& decision) const;
  double round_length(const View& view, const Decision& decision) const;

  RoundOptions options_;
  std::unique_ptr<ShareRule> rule_;
  PolicyTraits traits_;
  Random random_;
  Rounds rounds_;
  std::vector<GpuType> order_;
  std::vector<Pick> picks_;  // of this round, or of the last one
  double round_began_s_ = 0;
  double round_ends_s_ = -1;
  double allocated_s_ = 0;
  bool stale_ = false;     // jobs came or went since the allocation
  bool disturbed_ = true;  // the next round allocates at any time
  int64_t count_ = 0;
};

// The same rule without rounds: its shares are applied continuously (sim/jobs/fluid.h).
class IdealShares : public FluidPolicy {
 public:
  explicit IdealShares(std::unique_ptr<RoundPolicy> rounds) : rounds_(std::move(rounds)) {}
  PolicyTraits traits() const override { return rounds_->traits(); }
  // FailedPrecondition: the caller wants grants of whole GPUs.
  absl::Status begin(const View& view) override;
  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override;
  absl::StatusOr<std::vector<JobShare>> shares(const View& view) override { return rounds_->shares_of(view); }
  std::string remarks() const override {
    return "ideal: shares applied continuously, without rounds; " + rounds_->remarks();
  }
  bool keep_answers(AnswerLog* log) override { return rounds_->keep_answers(log); }

 private:
  std::unique_ptr<RoundPolicy> rounds_;
};

}  // namespace scalai::policy
