#pragma once
// A policy that works in rounds: shares from a rule, rounds from Gavel's mechanism, GPUs through the ordinary interface.
//
//   submitted, finished ─► problem (rates, work left, pairs) ─► ShareRule ─► Shares ─► Rounds ─► who runs this round ─► grants
//                          at most every `reset_s`                                     every `round_s`, or when all are done
//
// A round lasts until its slowest micro-task: `round_s`, or less when every job in it is done before. Jobs that end early free
// nothing before the round ends. Who is chosen again for the same GPUs keeps them (a lease, no change). Shares are computed
// again at the first round after a submission or completion, but not before `reset_s` have passed since the last time (those
// of second 0 do not count, as in the reference); at once when hosts come or go, or nobody could run otherwise.

#include <memory>
#include <string>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/sched/policies/shares/rounds.h"
#include "ptc/sched/policies/shares/rules.h"
#include "ptc/sched/policy.h"

namespace scalai::sched {

struct RoundOptions {
  double round_s = 360;
  double reset_s = 1920;
  bool packing = false;  // pairs on the same GPUs
  // What the rule is told of speeds.
  enum class Speeds : uint8_t {
    kTrue,
    kFastest,  // every type that runs a job runs it as the fastest does
    kNone,  // all GPUs are one pool, every job runs at 1 a second; a share of it is one of every type, by their number
  };
  Speeds speeds = Speeds::kTrue;
  bool shuffle_types = false;    // GPU types choose in a random order each round; else the fastest first
  bool with_share_only = false;  // nobody without a share fills gaps
  uint64_t seed = 1;
};

class RoundPolicy : public Policy {
 public:
  RoundPolicy(const RoundOptions& options, std::unique_ptr<ShareRule> rule, PolicyTraits traits);
  PolicyTraits traits() const override { return traits_; }
  absl::Status begin(const View& view) override;
  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override;
  std::string remarks() const override;

 private:
  bool take_note(const View& view, std::span<const Event> events);
  void close_round(double now_s);
  absl::Status allocate(const View& view);
  ShareProblem problem_of(const View& view) const;
  std::vector<Pick> choose(const View& view);
  void grant(const View& view, Decision& decision) const;
  double round_length(const View& view, const Decision& decision) const;

  RoundOptions options_;
  std::unique_ptr<ShareRule> rule_;
  PolicyTraits traits_;
  Random random_;
  Rounds rounds_;
  std::vector<GpuType> order_;
  std::vector<Pick> picks_;  // of this round, or of the one that just ended
  double round_began_s_ = 0;
  double round_ends_s_ = -1;
  double allocated_s_ = 0;
  bool stale_ = false;     // jobs came or went since the allocation
  bool disturbed_ = true;  // the next round allocates, whatever the time
  int64_t count_ = 0;
};

}  // namespace scalai::sched
