#include "executor/controller/job_snapshots.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "ptc/base/status.h"

namespace scalai::executor::controller {

namespace {

constexpr std::chrono::milliseconds kBetweenAsks(20);

}  // namespace

JobSnapshots::Snapshot JobSnapshots::snapshot_of(const control::Background& background) const {
  return {.in_memory = background.host_copy,
          .folder = background.what == "checkpoint" ? store::step_folder(folder_, background.step) : "",
          .complete = true};
}

void JobSnapshots::add(control::SnapshotId id, Snapshot snapshot) {
  const std::lock_guard lock(mutex_);
  snapshots_[id] = std::move(snapshot);
}

void JobSnapshots::note(const control::Background& background, bool complete) {
  Snapshot snapshot = snapshot_of(background);
  snapshot.complete = complete || snapshot.folder.empty();
  add(background.tag, std::move(snapshot));
}

void JobSnapshots::note_initial(TensorSums sums) {
  add(control::kInitialState, {.in_memory = true, .folder = "", .sums = std::move(sums), .complete = true});
}

void JobSnapshots::note_done(control::SnapshotId snapshot) {
  const std::lock_guard lock(mutex_);
  const auto found = snapshots_.find(snapshot);
  if (found != snapshots_.end()) found->second.complete = true;
}

void JobSnapshots::note_forget(control::SnapshotId snapshot) {
  const std::lock_guard lock(mutex_);
  snapshots_.erase(snapshot);
}

std::vector<control::SnapshotId> JobSnapshots::cut_off() const {
  const std::lock_guard lock(mutex_);
  std::vector<control::SnapshotId> open;
  for (const auto& [id, snapshot] : snapshots_) {
    if (snapshot.complete.ok() && !*snapshot.complete) open.push_back(id);
  }
  return open;
}

JobSnapshots::Snapshot JobSnapshots::find(control::SnapshotId snapshot) const {
  const std::lock_guard lock(mutex_);
  const auto found = snapshots_.find(snapshot);
  return found == snapshots_.end() ? Snapshot() : found->second;
}

absl::Status JobSnapshots::make(const control::Background& background, TensorSums sums, bool in_background) {
  const collection::Collection& side = *background.collection;
  Snapshot snapshot = snapshot_of(background);
  snapshot.sums = std::move(sums);
  if (!snapshot.sums.empty()) add(background.tag, snapshot);
  if (background.host_copy)
    SCALAI_RETURN_IF_ERROR(
        commands_.copy_to_hosts(side, version_of(background.tag), control::list_of(background.copies)));
  if (snapshot.folder.empty()) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(Files files, begin_files(side, background.step, background.tag, in_background));
  if (in_background) {
    snapshot.files = std::make_shared<Files>(std::move(files));
    snapshot.complete = false;
    add(background.tag, std::move(snapshot));
  }
  return absl::OkStatus();
}

absl::StatusOr<JobSnapshots::Files> JobSnapshots::begin_files(const collection::Collection& side, int64_t step,
                                                              control::SnapshotId tag, bool in_background) {
  clean();
  SCALAI_ASSIGN_OR_RETURN(store::Writer writer,
                          store::Writer::begin(store::step_folder(folder_, step), side, {commands_.name(), step}));
  Files files{.writer = std::move(writer), .tag = tag};
  SCALAI_RETURN_IF_ERROR(commands_.write(files, side, step, in_background));
  return files;
}

absl::StatusOr<bool> JobSnapshots::done(control::SnapshotId snapshot) {
  std::shared_ptr<Files> files;
  {
    const std::lock_guard lock(mutex_);
    const auto found = snapshots_.find(snapshot);
    if (found == snapshots_.end()) return absl::NotFoundError("it was forgotten");
    if (found->second.files == nullptr) return found->second.complete;
    files = found->second.files;
  }
  const absl::StatusOr<bool> result = commands_.complete(*files);
  if (result.ok() && !*result) return false;
  const std::lock_guard lock(mutex_);
  const auto found = snapshots_.find(snapshot);
  if (found != snapshots_.end()) {
    found->second.files = nullptr;
    found->second.complete = result;
  }
  return result;
}

// A worker writes one checkpoint of a job at a time.
absl::Status JobSnapshots::wait_for_files() {
  std::vector<control::SnapshotId> open;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, snapshot] : snapshots_) {
      if (snapshot.files != nullptr) open.push_back(id);
    }
  }
  for (const control::SnapshotId id : open) {
    absl::StatusOr<bool> written = done(id);
    for (; written.ok() && !*written; written = done(id)) std::this_thread::sleep_for(kBetweenAsks);
    if (absl::IsUnavailable(written.status()) || absl::IsCancelled(written.status())) return written.status();
  }
  return absl::OkStatus();
}

absl::Status JobSnapshots::forget(control::SnapshotId snapshot) {
  Snapshot gone;
  bool again = false;  // the same step has been written since
  {
    const std::lock_guard lock(mutex_);
    const auto found = snapshots_.find(snapshot);
    if (found == snapshots_.end()) return absl::OkStatus();
    gone = std::move(found->second);
    snapshots_.erase(found);
    again = std::any_of(snapshots_.begin(), snapshots_.end(),
                        [&](const auto& entry) { return entry.second.folder == gone.folder; });
  }
  if (!gone.folder.empty() && !again) store::remove_checkpoint(gone.folder);
  return gone.in_memory ? commands_.forget(version_of(snapshot)) : absl::OkStatus();
}

void JobSnapshots::leave_files(control::SnapshotId snapshot) {
  const std::lock_guard lock(mutex_);
  const auto found = snapshots_.find(snapshot);
  if (found == snapshots_.end()) return;
  found->second.folder.clear();
  found->second.files = nullptr;
}

absl::StatusOr<std::string> JobSnapshots::write(const collection::Collection& side, int64_t step) {
  SCALAI_RETURN_IF_ERROR(begin_files(side, step, control::kLiveState, /*in_background=*/false).status());
  return store::step_folder(folder_, step);
}

bool JobSnapshots::has_checkpoint_of(int64_t step) const {
  const std::optional<store::FoundCheckpoint> last = store::latest(folder_);
  return last && last->step == step;
}

}  // namespace scalai::executor::controller
