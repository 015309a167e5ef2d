// Going on after an earlier controller.
#include <algorithm>

#include "executor/controller/exec_runtime.h"
#include "executor/controller/job_work.h"
#include "ptc/base/status.h"

namespace scalai::executor {

using collection::Collection;

void JobWork::note_begin(std::shared_ptr<const Collection> collection, int64_t step, bool copied) {
  if (state_ != nullptr && state_->epoch == collection->epoch) return;
  state_ = std::move(collection);
  step_ = step;
  if (copied) add_snapshot(control::kInitialState, {.in_memory = true, .folder = ""});
}

void JobWork::note_execute(const control::Execute& execute) {
  from_ = execute.from;
  copied_ = execute.initial_copies.has_value();
  next_ = execute.to;
  next_step_ = execute.step;
}

// The stage before it makes the initial state, where it is not there.
void JobWork::note_staged() {
  if (state_ == nullptr && from_ != nullptr) note_begin(from_, next_step_, copied_);
  made_ = true;
}

void JobWork::note_loss(const std::vector<DeviceId>& devices, bool has_trained) {
  made_ = made_ || (is_trained() && has_trained);
  const std::vector<DeviceId> own = this->devices();
  const bool involved = std::any_of(own.begin(), own.end(), [&](DeviceId device) {
    return std::find(devices.begin(), devices.end(), device) != devices.end();
  });
  if (involved && !made_) state_ = nullptr;
}

void JobWork::note_forget(control::SnapshotId snapshot) {
  const std::lock_guard lock(snapshots_mutex_);
  snapshots_.erase(snapshot);
}

void JobWork::note_commit() {
  SCALAI_CHECK(next_ != nullptr);
  state_ = std::move(next_);
  step_ = next_step_;
}

void JobWork::note_background(const control::Background& background) {
  note_step(background.step);
  Snapshot snapshot = snapshot_of(background);
  snapshot.complete = !is_trained() || snapshot.folder.empty();
  add_snapshot(background.tag, snapshot);
}

void JobWork::note_background_done(control::SnapshotId snapshot) {
  const std::lock_guard lock(snapshots_mutex_);
  const auto found = snapshots_.find(snapshot);
  if (found != snapshots_.end()) found->second.complete = true;
}

std::vector<control::SnapshotId> JobWork::cut_off() const {
  const std::lock_guard lock(snapshots_mutex_);
  std::vector<control::SnapshotId> open;
  for (const auto& [id, snapshot] : snapshots_) {
    if (snapshot.complete.ok() && !*snapshot.complete) open.push_back(id);
  }
  return open;
}

// Real training may have gone on before anything of it was written down: a later step than the first proves that the
// initial state was complete.
absl::StatusOr<bool> JobWork::found_further(const Collection& collection, int64_t step) {
  if (!is_trained() || found_) return false;
  const std::set<HostId> hosts = pool_.living_hosts_of(collection.device_of_rank);
  if (!std::all_of(hosts.begin(), hosts.end(), [&](HostId host) { return holds(pool_.hello_of(host), &collection); }))
    return false;
  SCALAI_ASSIGN_OR_RETURN(const Interruption found, trainers_->settle(collection, step, {}));
  return found.step > step;
}

bool JobWork::live_in(const Hello& hello) const { return holds(hello, state_.get()); }

bool JobWork::held_in(const Hello& hello) const { return live_in(hello) || holds(hello, next_.get()); }

bool JobWork::holds(const Hello& hello, const Collection* side) const {
  return side != nullptr && std::any_of(hello.held.begin(), hello.held.end(), [&](const HeldState& one) {
           return one.job == job_ && one.version == StateVersion::epoch(side->epoch);
         });
}

}  // namespace scalai::executor
