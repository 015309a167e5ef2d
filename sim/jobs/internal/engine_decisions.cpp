#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ptc/base/status.h"
#include "sim/jobs/internal/engine_state.h"

namespace scalai::jobs::internal {
namespace {

absl::Status broken(const std::string& what) { return absl::InternalError("the policy broke a rule: " + what); }

}  // namespace

const policy::Grant* Engine::granted(policy::JobId id) const {
  const auto it =
      std::lower_bound(grants_.begin(), grants_.end(), id,
                       [](const policy::Grant* grant, policy::JobId wanted) { return grant->job < wanted; });
  return it != grants_.end() && (*it)->job == id ? *it : nullptr;
}

absl::Status Engine::check(const policy::Grant& grant) const {
  if (!grant.job.valid() || static_cast<size_t>(grant.job.value) >= jobs_.size()) {
    return broken(fmt::format("a grant to job {}, of {}", grant.job.value, jobs_.size()));
  }
  const std::string& name = job(grant.job).name;
  const State state = live(grant.job).state;
  if (state == State::kFuture || state == State::kEnded) {
    return broken(fmt::format("a grant to job \"{}\", which {}", name,
                              state == State::kFuture ? "was not submitted yet" : "has left"));
  }
  if (grant.gpus < 0) return broken(fmt::format("{} GPUs for job \"{}\"", grant.gpus, name));
  if (grant.gpus == 0) return absl::OkStatus();
  if (!grant.type.valid() || static_cast<size_t>(grant.type.value) >= fleet().types.size()) {
    return broken(fmt::format("GPU type {} for job \"{}\", of {} types", grant.type.value, name, fleet().types.size()));
  }
  int gpus = 0;
  HostId last;
  for (const policy::HostShare& share : grant.hosts) {
    const bool known = share.host.valid() && static_cast<size_t>(share.host.value) < fleet().hosts.size();
    if (!known || share.host <= last || share.gpus <= 0 ||
        fleet().hosts[static_cast<size_t>(share.host.value)].type != grant.type) {
      return broken(fmt::format("{} GPUs of host {} for job \"{}\": hosts of the type, ascending, each with some GPUs",
                                share.gpus, share.host.value, name));
    }
    last = share.host;
    gpus += share.gpus;
  }
  if (fleet().per_gpu > 1 && (!grant.hosts.empty() || grant.beside.valid() || grant.gpus != job(grant.job).gpus)) {
    return broken(
        fmt::format("job \"{}\" is to have {} slices of GPUs that are cut, of which only numbers are granted, "
                    "as asked for",
                    name, grant.gpus));
  }
  if (!grant.hosts.empty() && gpus != grant.gpus) {
    return broken(fmt::format("{} GPUs for job \"{}\", but {} on hosts", grant.gpus, name, gpus));
  }
  return grant.beside.valid() ? check_beside(grant) : absl::OkStatus();
}

absl::Status Engine::check_beside(const policy::Grant& grant) const {
  const std::string& name = job(grant.job).name;
  if (static_cast<size_t>(grant.beside.value) >= jobs_.size() || grant.beside == grant.job) {
    return broken(fmt::format("job \"{}\" beside job {}", name, grant.beside.value));
  }
  const std::string& other = job(grant.beside).name;
  if (!grant.hosts.empty()) return broken(fmt::format("hosts for job \"{}\" and beside \"{}\"", name, other));
  const policy::Grant* leader = granted(grant.beside);
  policy::GpuType type = live(grant.beside).placement.type;
  int gpus = live(grant.beside).placement.gpus();
  if (leader != nullptr) {
    if (leader->beside.valid())
      return broken(fmt::format("job \"{}\" beside \"{}\", itself beside another", name, other));
    type = leader->type;
    gpus = leader->gpus;
  }
  if (gpus != grant.gpus || type != grant.type) {
    return broken(fmt::format("job \"{}\" with {} GPUs beside \"{}\" with {}", name, grant.gpus, other, gpus));
  }
  return absl::OkStatus();
}

// Whether a grant leaves a job on the GPUs it has. Of two that shared and are now alone, the one with the lower id
// stays.
bool Engine::stays(const policy::Grant& grant) const {
  const LiveJob& one = live(grant.job);
  if (one.placement.empty() || grant.gpus == 0) return false;
  if (grant.beside.valid()) {
    const policy::Grant* leader = granted(grant.beside);
    return one.beside == grant.beside && (leader == nullptr || stays(*leader));
  }
  if (one.placement.type != grant.type || one.placement.gpus() != grant.gpus) return false;
  if (!grant.hosts.empty()) {
    if (one.placement.hosts != grant.hosts) return false;
  } else {
    for (const policy::HostShare& share : one.placement.hosts) {
      if (host_ledger_.noticed(share.host)) return false;
    }
  }
  if (!one.beside.valid() || one.beside > grant.job) return true;
  const policy::Grant* other = granted(one.beside);
  return other == nullptr || other->gpus == 0 || other->beside == grant.job || !stays(*other);
}

absl::Status Engine::refuse(std::span<const policy::JobId> refused) {
  for (const policy::JobId id : refused) {
    if (!id.valid() || static_cast<size_t>(id.value) >= jobs_.size() || live(id).state != State::kWaiting) {
      return broken(fmt::format("job {} is refused, which does not wait", id.value));
    }
    end_job(id, policy::JobEnd::kRefused);
  }
  return absl::OkStatus();
}

absl::Status Engine::place(const policy::Grant& grant, const policy::Placement& before) {
  policy::Placement placement{.type = grant.type, .hosts = grant.hosts};
  if (grant.beside.valid()) {
    if (live(grant.beside).beside.valid()) {
      return broken(fmt::format("job \"{}\" beside \"{}\", which shares its GPUs already", job(grant.job).name,
                                job(grant.beside).name));
    }
    placement = live(grant.beside).placement;
  } else if (!grant.hosts.empty()) {
    const absl::Status taken = host_ledger_.take(placement);
    if (!taken.ok()) return broken(fmt::format("job \"{}\" is to have {}", job(grant.job).name, message_of(taken)));
  } else {
    if (host_ledger_.free(grant.type) < grant.gpus) {
      return broken(fmt::format("job \"{}\" is to have {} GPUs of {}, of which {} are free", job(grant.job).name,
                                grant.gpus, fleet().types[static_cast<size_t>(grant.type.value)].name,
                                host_ledger_.free(grant.type)));
    }
    placement = host_ledger_.place(grant.type, grant.gpus, before);
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
  if (decision.wake_at_s <= now_s_) {
    return broken(
        fmt::format("it asks to be woken at {} s, which is not after now ({} s)", decision.wake_at_s, now_s_));
  }
  wake_at_s_ = decision.wake_at_s;
  SCALAI_RETURN_IF_ERROR(refuse(decision.refused));
  grants_.clear();
  for (const policy::Grant& grant : decision.grants) grants_.push_back(&grant);
  std::sort(grants_.begin(), grants_.end(),
            [](const policy::Grant* a, const policy::Grant* b) { return a->job < b->job; });
  for (size_t k = 0; k < grants_.size(); ++k) {
    if (k > 0 && grants_[k]->job == grants_[k - 1]->job) {
      return broken(fmt::format("two grants to job {}", grants_[k]->job.value));
    }
    SCALAI_RETURN_IF_ERROR(check(*grants_[k]));
  }

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
    // Named hosts first, then the largest; those beside another last.
    std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) {
      const auto key = [](const policy::Grant& grant) {
        return std::pair(grant.beside.valid() ? 2 : grant.hosts.empty() ? 1 : 0, -grant.gpus);
      };
      return key(*a.grant) < key(*b.grant);
    });
  }
  const std::vector<policy::Grant> earlier = std::exchange(blocked_, {});
  std::vector<Move> queue;
  for (const policy::Grant& grant : earlier) {
    if (granted(grant.job) == nullptr) queue.push_back({&grant, live(grant.job).state_at, State::kWaiting});
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
