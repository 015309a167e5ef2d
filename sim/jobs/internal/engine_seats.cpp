#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"
#include "sim/jobs/internal/engine_state.h"

namespace scalai::jobs::internal {

int Engine::training_gpus(policy::JobId id) const {
  const LiveJob& one = live(id);
  if (one.placement.empty()) return 0;
  const bool trains =
      one.state == State::kTraining || (one.beside.valid() && live(one.beside).state == State::kTraining);
  return trains ? one.placement.gpus() : 0;
}

void Engine::book(policy::JobId id) {
  LiveJob& one = live(id);
  const double dt = now_s_ - one.booked_s;
  one.booked_s = now_s_;
  if (one.placement.empty()) return;
  const double paid = ledger_.paid_per_gpu(one.placement.type);
  policy::JobRecord& entry = record(id);
  const double gpus = whole(one.placement.gpus());
  entry.executed_s += dt;
  entry.attained_gpu_s += dt * gpus;
  if (one.state == State::kChanging) entry.changing_gpu_s += dt * gpus;
  entry.cost += (paid - one.paid_mark) * gpus * (one.beside.valid() ? 0.5 : 1);
  one.paid_mark = paid;
}

void Engine::book_queue(policy::JobId id) {
  const double per_gpu = fleet().per_gpu;
  record(id).queue_free_gpu_s = (ledger_.free_gpu_s() - live(id).arrived_free_gpu_s) / per_gpu;
  if (per_gpu > 1) return;  // hosts do not say whether slices fit
  record(id).queue_unusable_gpu_s = ledger_.unusable_gpu_s(job(id).gpus) - live(id).arrived_unusable_gpu_s;
}

void Engine::set_state(policy::JobId id, State state) {
  book(id);
  use_.training -= training_gpus(id);
  live(id).state = state;
  use_.training += training_gpus(id);
  const policy::JobId beside = live(id).beside;
  if (beside.valid() && live(beside).state == State::kTraining) touched_.push_back(beside);
}

void Engine::stop_training(policy::JobId id, bool keeps_work) {
  LiveJob& one = live(id);
  if (one.state == State::kChanging) setup_.changes->cancel(id, now_s_);
  if (one.state != State::kTraining) return;
  one.last_rate = one.training.rate();
  one.last_gpus = one.placement.gpus();
  times_.remove(id.value);
  setup_.changes->idle(id, now_s_);
  if (keeps_work) {
    one.training.save(now_s_, setup_.options.checkpoints);
  } else {
    const double lost = one.training.lose(now_s_, setup_.options.checkpoints);
    const double gpu_s = one.last_rate > 0 ? lost / one.last_rate * whole(one.last_gpus) : 0;
    record(id).lost_gpu_s += gpu_s;
    if (ledger_.counts()) outcome_.lost_gpu_s += gpu_s;
  }
}

void Engine::unseat(policy::JobId id) {
  LiveJob& one = live(id);
  set_state(id, State::kWaiting);
  use_.training -= training_gpus(id);
  if (one.beside.valid()) {
    LiveJob& other = live(one.beside);
    book(one.beside);
    other.beside = policy::JobId();
    use_.training += training_gpus(one.beside);
    one.beside = policy::JobId();
  } else {
    host_ledger_.give(one.placement);
    use_.held -= one.placement.gpus();
  }
  for (const policy::HostShare& share : one.placement.hosts) {
    std::vector<policy::JobId>& there = jobs_on_[static_cast<size_t>(share.host.value)];
    there.erase(std::find(there.begin(), there.end(), id));
  }
  one.state_at = std::move(one.placement);
  one.placement = policy::Placement{};
  one.left_s = now_s_;
  --use_.running_jobs;
  ++use_.waiting_jobs;
}

// The GPUs are taken in the ledger already, by this job or by the one beside it.
void Engine::seat(policy::JobId id, policy::Placement placement, policy::JobId beside) {
  LiveJob& one = live(id);
  book(id);
  use_.training -= training_gpus(id);
  if (beside.valid()) {
    book(beside);
    use_.training -= training_gpus(beside);
    live(beside).beside = id;
    if (live(beside).state == State::kTraining) touched_.push_back(beside);
  } else {
    use_.held += placement.gpus();
  }
  one.placement = std::move(placement);
  one.beside = beside;
  one.paid_mark = ledger_.paid_per_gpu(one.placement.type);
  for (const policy::HostShare& share : one.placement.hosts)
    jobs_on_[static_cast<size_t>(share.host.value)].push_back(id);
  use_.training += training_gpus(id);
  ++use_.running_jobs;
  --use_.waiting_jobs;
}

void Engine::lose(policy::JobId id, ChangeCause cause) {
  stop_training(id, false);
  unseat(id);
  LiveJob& one = live(id);
  one.loss = cause;
  one.last_change_s = now_s_;
  ++record(id).losses;
  events_.push_back(policy::Event{policy::Event::Kind::kLost, id});
  if (setup_.watcher.placed) setup_.watcher.placed(now_s_, id, one.placement, policy::JobId());
}

absl::Status Engine::retime(policy::JobId id) {
  LiveJob& one = live(id);
  const policy::Job& spec = job(id);
  const Checkpoints& checkpoints = setup_.options.checkpoints;
  const double done = std::min(one.training.work(now_s_, checkpoints), std::nextafter(spec.work, 0.0));
  policy::Rate rate;
  if (one.beside.valid() && live(one.beside).state == State::kTraining) {
    const policy::JobId low = std::min(id, one.beside), high = std::max(id, one.beside);
    const auto both = throughput().shared_rate(job(low), job(high), one.placement.type, one.placement.gpus());
    rate.per_s = id == low ? both.first : both.second;
  } else {
    rate = throughput().placed_rate(spec, one.placement, done);
  }
  if (!(rate.per_s > 0) || !(rate.until_work > done)) {
    return absl::InternalError(fmt::format(
        "job \"{}\" ({}) was given {} GPUs of {}{}, on which it cannot run (throughput {}, {} of {} iterations done)",
        spec.name, spec.type, one.placement.gpus(), fleet().types[static_cast<size_t>(one.placement.type.value)].name,
        one.beside.valid() ? fmt::format(" beside \"{}\"", job(one.beside).name) : "", rate.per_s, done, spec.work));
  }
  one.until_work = rate.until_work;
  one.training.set_rate(now_s_, rate.per_s * setup_.changes->step_rate(id), checkpoints);
  times_.set(id.value, one.training.time_of(std::min(spec.work, one.until_work), checkpoints));
  return absl::OkStatus();
}

absl::Status Engine::start_training(policy::JobId id) {
  set_state(id, State::kTraining);
  setup_.changes->training(id, job(id), live(id).placement, now_s_);
  if (setup_.watcher.training) setup_.watcher.training(now_s_, id);
  return retime(id);
}

absl::Status Engine::begin_change(policy::JobId id, const policy::Placement& from, ChangeCause cause, double left_s) {
  LiveJob& one = live(id);
  policy::JobRecord& entry = record(id);
  set_state(id, State::kChanging);
  Change change{.job = id,
                .spec = &job(id),
                .from = &from,
                .to = &one.placement,
                .cause = cause,
                .lost = {},
                .now_s = now_s_,
                .restarts = entry.restarts,
                .work_done = one.training.work(now_s_, setup_.options.checkpoints)};
  for (const policy::HostShare& share : from.hosts) {
    if (!host_ledger_.up(share.host) || host_ledger_.last_down_s(share.host) >= left_s)
      change.lost.push_back(share.host);
  }
  if (cause == ChangeCause::kStart) {
    entry.first_start_s = now_s_;
    book_queue(id);
  } else {
    ++entry.restarts;
  }
  one.last_change_s = now_s_;
  one.loss.reset();
  ++outcome_.changes;
  SCALAI_ASSIGN_OR_RETURN(const double lost, setup_.changes->begin(change));
  drop_work(id, lost);
  return absl::OkStatus();
}

void Engine::drop_work(policy::JobId id, double iterations) {
  LiveJob& one = live(id);
  const double gone = std::min(iterations, one.training.work(now_s_, setup_.options.checkpoints));
  if (gone <= 0) return;
  one.training.drop(gone);
  const double gpu_s = one.last_rate > 0 ? gone / one.last_rate * whole(one.last_gpus) : 0;
  record(id).lost_gpu_s += gpu_s;
  if (ledger_.counts()) outcome_.lost_gpu_s += gpu_s;
}

}  // namespace scalai::jobs::internal
