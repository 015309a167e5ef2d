#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ptc/base/status.h"
#include "sim/jobs/internal/engine_state.h"

namespace scalai::jobs::internal {

policy::Presence Engine::presence(policy::JobId id) const {
  switch (live(id).state) {
    case State::kFuture: return policy::Presence::kFuture;
    case State::kWaiting: return policy::Presence::kWaiting;
    case State::kEnded: return policy::Presence::kLeft;
    default: return policy::Presence::kRunning;
  }
}

// Whether a grant leaves a job on the GPUs it has. Of two that shared and are now alone, the one with the lower id
// stays.
bool Engine::stays(const policy::Grant& grant) const {
  const LiveJob& one = live(grant.job);
  if (one.placement.empty() || grant.gpus == 0) return false;
  if (grant.beside.valid()) {
    const policy::Grant* leader = policy::find_grant(grants_, grant.beside);
    return one.beside == grant.beside && (leader == nullptr || stays(*leader));
  }
  if (!policy::same_gpus(grant, one.placement)) return false;
  if (grant.hosts.empty()) {
    for (const policy::HostShare& share : one.placement.hosts) {
      if (host_ledger_.noticed(share.host)) return false;
    }
  }
  if (!one.beside.valid() || one.beside > grant.job) return true;
  const policy::Grant* other = policy::find_grant(grants_, one.beside);
  return other == nullptr || other->gpus == 0 || other->beside == grant.job || !stays(*other);
}

absl::Status Engine::place(const policy::Grant& grant, const policy::Placement& before) {
  policy::Placement placement;
  if (!grant.beside.valid()) {
    SCALAI_ASSIGN_OR_RETURN(placement, policy::place_grant(grant, *this, before, host_ledger_));
  } else if (live(grant.beside).beside.valid()) {
    return absl::InternalError(
        fmt::format("the policy broke a rule: job \"{}\" beside \"{}\", which shares its GPUs already",
                    job(grant.job).name, job(grant.beside).name));
  } else {
    placement = live(grant.beside).placement;
  }
  seat(grant.job, std::move(placement), grant.beside);
  return absl::OkStatus();
}

// After all were placed: a job that landed on the very GPUs it had goes on, the others change.
absl::Status Engine::settle_move(const policy::Grant& grant, const policy::Placement& before, State state_before) {
  LiveJob& one = live(grant.job);
  if (setup_.watcher.placed) setup_.watcher.placed(now_s_, grant.job, one.placement, one.beside);
  ChangeCause cause = ChangeCause::kPolicy;
  if (state_before == State::kWaiting) {
    cause = one.state_at.empty() ? ChangeCause::kStart : one.loss.value_or(ChangeCause::kResume);
  } else if (before == one.placement && state_before == State::kTraining) {
    return start_training(grant.job);
  }
  const policy::Placement from = one.state_at;
  return begin_change(grant.job, from, cause, one.left_s);
}

absl::Status Engine::apply(const policy::Decision& decision) {
  SCALAI_ASSIGN_OR_RETURN(grants_,
                          policy::check_decision(decision, *this,
                                                 {.jobs = static_cast<int64_t>(jobs_.size()),
                                                  .presence = [this](policy::JobId id) { return presence(id); }}));
  wake_at_s_ = decision.wake_at_s;
  for (const policy::JobId id : decision.refused) end_job(id, policy::JobEnd::kRefused);

  std::vector<Move> moves;
  for (const policy::Grant* grant : grants_) {
    if (!stays(*grant)) moves.push_back(Move{grant, {}, live(grant->job).state});
  }
  for (Move& move : moves) {
    const policy::JobId id = move.grant->job;
    move.before = live(id).placement;
    if (move.before.empty()) {
      move.before = live(id).state_at;
      continue;
    }
    stop_training(id, true);
    unseat(id);
    if (move.grant->gpus > 0) continue;
    live(id).last_change_s = now_s_;
    ++record(id).preemptions;
    if (setup_.watcher.placed) setup_.watcher.placed(now_s_, id, live(id).placement, policy::JobId());
  }
  std::erase_if(moves, [](const Move& move) { return move.grant->gpus == 0; });
  return carry_out(std::move(moves));
}

// With slices: whether a grant finds no place yet. Those after it wait behind it, so that none is overtaken for ever.
bool Engine::waits_for_slices(const Move& move) {
  if (fleet().per_gpu == 1) return false;
  if (blocked_.empty() && host_ledger_.fits(move.grant->type, move.grant->gpus)) return false;
  blocked_.push_back(*move.grant);
  if (setup_.watcher.placed && move.state_before != State::kWaiting)
    setup_.watcher.placed(now_s_, move.grant->job, policy::Placement{}, policy::JobId());
  return true;
}

// All jobs that move are off their GPUs. Grants that waited for slices come first.
absl::Status Engine::carry_out(std::vector<Move> moves) {
  if (fleet().per_gpu == 1) {
    std::sort(moves.begin(), moves.end(),
              [](const Move& a, const Move& b) { return policy::placed_before(*a.grant, *b.grant); });
  }
  const std::vector<policy::Grant> earlier = std::exchange(blocked_, {});
  std::vector<Move> queue;
  for (const policy::Grant& grant : earlier) {
    if (policy::find_grant(grants_, grant.job) == nullptr)
      queue.push_back({&grant, live(grant.job).state_at, State::kWaiting});
  }
  for (Move& move : moves) queue.push_back(std::move(move));
  std::vector<const Move*> placed;
  for (const Move& move : queue) {
    if (waits_for_slices(move)) continue;
    SCALAI_RETURN_IF_ERROR(place(*move.grant, move.before));
    placed.push_back(&move);
  }
  for (const Move* move : placed) SCALAI_RETURN_IF_ERROR(settle_move(*move->grant, move->before, move->state_before));
  if (!placed.empty()) idle_wakes_ = 0;
  return absl::OkStatus();
}

}  // namespace scalai::jobs::internal
