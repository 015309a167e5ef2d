#pragma once
// The rules of a decision, and the hosts of its grants: one reading for each caller of a policy.
//
//     Decision ──► check_decision ──► Grants ──► those that differ from what the job has (same_gpus)
//                                                 └──► in the order of placed_before ──► place_grant ──► Placement
//
// Errors are Internal, and name the job and the host: "the policy broke a rule: …".

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/policy/host_ledger.h"
#include "ptc/run/policy/policy.h"

namespace scalai::policy {

enum class Presence : uint8_t { kFuture, kWaiting, kRunning, kLeft };

// What the caller knows beyond its View.
struct Rules {
  int64_t jobs = 0;  // JobIds are below
  std::function<Presence(JobId)> presence;
  bool sharing = true;      // two jobs may be on the same GPUs
  double armed_s = kNever;  // the wake-up of the decision before: to ask for it again is no error at that very moment
};

// The grants of a decision, by job; they point into it.
using Grants = std::vector<const Grant*>;
const Grant* find_grant(const Grants& grants, JobId job);  // null: none

// Errors: a job that is not there, or has two grants; a refused job that does not wait; a GPU type or a host that does
// not exist; hosts of another type, not ascending, or with another sum; a part of a GPU that was not asked for; a job
// beside one that has other GPUs; a wake-up that is not later than now.
absl::StatusOr<Grants> check_decision(const Decision& decision, const View& view, const Rules& rules);

// Whether a job with these GPUs has what the grant says, its hosts included if it names some.
bool same_gpus(const Grant& grant, const Placement& now);

// Order of placement: named hosts first, then the largest; those beside another last. Ties by job.
bool placed_before(const Grant& a, const Grant& b);

// Takes the grant's GPUs from the ledger: on its hosts, else where they lie best; `own`: where the job was. Not for a
// grant beside another. Errors: more GPUs than are free; a host that is down or full.
absl::StatusOr<Placement> place_grant(const Grant& grant, const View& view, const Placement& own, HostLedger& ledger);

}  // namespace scalai::policy
