// Snapshots and checkpoints of a job.
#include <algorithm>
#include <chrono>
#include <thread>

#include "executor/controller/exec_runtime.h"
#include "executor/controller/internal/job_bodies.h"
#include "executor/controller/job_work.h"
#include "executor/controller/shown_state.h"
#include "executor/worker/places.h"
#include "ptc/base/status.h"
#include "ptc/checkpoint/naming/family.h"
#include "ptc/collection/collection_file.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor {

using collection::Collection;
using plan::Location;
using proto::CommandBody;
using proto::ReplyBody;

namespace {

constexpr std::chrono::milliseconds kBetweenAsks(20);

// So that a checkpoint says whose state it is; empty: a model without a family (ptc/checkpoint/naming/families).
std::string model_text(const model::Model& model) {
  const auto family = checkpoint::Families::built_in().of_model(model);
  if (!family.ok()) return "";
  const auto sizes = family->sizes_of_model(model);
  return sizes.ok() ? checkpoint::model_file_text({family->name(), model.name, *sizes}) : "";
}

std::vector<std::string> parts_of(const std::vector<ReplyBody>& replies) {
  std::vector<std::string> parts;
  for (const ReplyBody& reply : replies) parts.insert(parts.end(), reply.parts().begin(), reply.parts().end());
  return parts;
}

}  // namespace

absl::Status JobWork::background(const control::Background& background) {
  if (options_.plan_only) return absl::OkStatus();
  Snapshot snapshot = snapshot_of(background);
  add_snapshot(background.tag, snapshot);
  SCALAI_RETURN_IF_ERROR(advance(background.step));
  if (interruption_) return absl::UnavailableError("trainers lost the state of some devices");
  SCALAI_RETURN_IF_ERROR(wait_for_files());
  SCALAI_ASSIGN_OR_RETURN(snapshot.sums, sums_of(*background.collection, {}));
  if (!snapshot.sums.empty()) add_snapshot(background.tag, snapshot);
  if (background.host_copy)
    SCALAI_RETURN_IF_ERROR(
        copy_to_hosts(*background.collection, version_of(background.tag), true, control::list_of(background.copies)));
  if (snapshot.folder.empty()) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(Files files,
                          begin_files(*background.collection, background.step, background.tag, is_trained()));
  if (is_trained()) {
    snapshot.files = std::make_shared<Files>(std::move(files));
    snapshot.complete = false;
    add_snapshot(background.tag, snapshot);
  }
  return absl::OkStatus();
}

absl::Status JobWork::copy_to_hosts(const Collection& collection, StateVersion version, bool own_devices,
                                    std::span<const collection::ExtraHolder> copies) {
  std::map<HostId, std::map<DeviceId, std::vector<const collection::ExtraHolder*>>> wanted;
  for (const collection::ExtraHolder& copy : copies) {
    for (int rank = 0; rank < collection.ranks(); ++rank) {
      const std::vector<tensor::Piece> pieces = collection.pieces(copy.tensor, LogicalRank(rank)).pieces;
      const bool holds = std::any_of(pieces.begin(), pieces.end(),
                                     [&](const tensor::Piece& piece) { return piece.box.contains(copy.box); });
      if (!holds) continue;
      wanted[copy.host][collection.device_of_rank[static_cast<size_t>(rank)]].push_back(&copy);
      break;
    }
  }
  std::set<HostId> hosts = pool_.living_hosts_of(collection.device_of_rank);
  for (const auto& [host, from] : wanted) {
    if (pool_.living().contains(host)) hosts.insert(host);
  }
  WorkerPool::Calls calls;
  for (const HostId host : hosts) {
    CommandBody body;
    CommandBody::Copy& copy = *body.mutable_copy();
    copy.set_job(job_);
    copy.set_from_version(StateVersion::epoch(collection.epoch).wire());
    copy.set_to_version(version.wire());
    copy.set_own_devices(own_devices);
    for (const auto& [device, list] : wanted[host]) {
      CommandBody::Copy::From& from = *copy.add_from();
      from.set_place(Location::device(device).str());
      for (const collection::ExtraHolder* one : list)
        set_box(one->box, one->tensor, collection.tensors[static_cast<size_t>(one->tensor.value)].dtype,
                *from.add_boxes());
    }
    calls.emplace_back(host, std::move(body));
  }
  return pool_.call("copy", calls).status();
}

absl::StatusOr<proto::LiveState> JobWork::show_live(StateVersion version, const LiveSteps::Kind& kind) {
  SCALAI_CHECK(state_ != nullptr);
  ShownState shown{
      .job = job_, .name = spec().name, .step = step_, .model = model_text(spec().model), .collection = state_.get()};
  for (const cluster::Host& host : scenario_.cluster.hosts) shown.gpus_of_host.push_back(host.gpus);
  absl::StatusOr<proto::LiveState> live =
      show_state(pool_, pool_.living_hosts_of(state_->device_of_rank), shown, version, kind);
  if (!live.ok()) SCALAI_RETURN_IF_ERROR(forget(version));
  return live;
}

absl::Status JobWork::forget_live() {
  CommandBody body;
  body.mutable_forget()->set_job(job_);
  body.mutable_forget()->set_live_copies(true);
  return pool_.tell("forget", pool_.living(), body);
}

std::string JobWork::checkpoints() const { return options_.folder + "/checkpoints/" + spec().name; }

void JobWork::resume() {
  step_known_ = found_ = false;
  (void)checkpoint::clean(checkpoints());
}

absl::StatusOr<JobWork::Files> JobWork::begin_files(const Collection& side, int64_t step, control::SnapshotId tag,
                                                    bool in_background) {
  const std::string all = checkpoints();
  // What killed writers have left; what cannot be removed is in nobody's way.
  (void)checkpoint::clean(all);
  SCALAI_ASSIGN_OR_RETURN(checkpoint::Writer writer,
                          checkpoint::Writer::begin(checkpoint::step_folder(all, step), side, {spec().name, step}));
  std::map<HostId, CommandBody> bodies;
  for (int rank = 0; rank < side.ranks(); ++rank) {
    if (!writer.has_file(LogicalRank(rank))) continue;
    CommandBody::Write& write =
        *bodies[scenario_.cluster.host_of(side.device_of_rank[static_cast<size_t>(rank)])].mutable_write();
    write.add_ranks(rank);
  }
  std::set<HostId> hosts;
  WorkerPool::Calls calls;
  for (auto& [host, body] : bodies) {
    CommandBody::Write& write = *body.mutable_write();
    write.set_job(job_);
    write.set_name(spec().name);
    write.set_version(StateVersion::epoch(side.epoch).wire());
    write.set_step(step);
    write.set_folder(writer.temporary());
    write.set_in_background(in_background);
    write.set_tag(tag);
    hosts.insert(host);
    calls.emplace_back(host, std::move(body));
  }
  const std::string model = model_text(spec().model);
  if (!model.empty()) SCALAI_RETURN_IF_ERROR(writer.add_file(std::string(checkpoint::kModelFileName), model));
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies, pool_.call("write", calls));
  if (!in_background) {
    SCALAI_RETURN_IF_ERROR(writer.finish(parts_of(replies)));
    hosts.clear();
  }
  return Files{std::move(writer), tag, std::move(hosts)};
}

absl::StatusOr<std::string> JobWork::keep_live() {
  SCALAI_CHECK(state_ != nullptr);
  SCALAI_RETURN_IF_ERROR(wait_for_files());
  SCALAI_RETURN_IF_ERROR(begin_files(*state_, step_, control::kLiveState, /*in_background=*/false).status());
  return checkpoint::step_folder(checkpoints(), step_);
}

bool JobWork::has_checkpoint_of(int64_t step) const {
  const std::optional<checkpoint::FoundCheckpoint> last = checkpoint::latest(checkpoints());
  return last && last->step == step;
}

absl::StatusOr<bool> JobWork::complete(Files& files) {
  CommandBody body;
  body.mutable_written()->set_job(job_);
  body.mutable_written()->set_folder(files.writer.temporary());
  body.mutable_written()->set_tag(files.tag);
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies, pool_.call("written", files.hosts, body));
  if (std::any_of(replies.begin(), replies.end(), [](const ReplyBody& reply) { return reply.busy(); })) return false;
  SCALAI_RETURN_IF_ERROR(files.writer.finish(parts_of(replies)));
  return true;
}

absl::StatusOr<bool> JobWork::background_done(control::SnapshotId snapshot) {
  std::shared_ptr<Files> files;
  {
    const std::lock_guard lock(snapshots_mutex_);
    const auto found = snapshots_.find(snapshot);
    if (found == snapshots_.end()) return absl::NotFoundError("it was forgotten");
    if (found->second.files == nullptr) return found->second.complete;
    files = found->second.files;
  }
  const absl::StatusOr<bool> result = complete(*files);
  if (result.ok() && !*result) return false;
  const std::lock_guard lock(snapshots_mutex_);
  const auto found = snapshots_.find(snapshot);
  if (found != snapshots_.end()) {
    found->second.files = nullptr;
    found->second.complete = result;
  }
  return result;
}

// A worker writes one checkpoint of a job at a time.
absl::Status JobWork::wait_for_files() {
  std::vector<control::SnapshotId> open;
  {
    const std::lock_guard lock(snapshots_mutex_);
    for (const auto& [id, snapshot] : snapshots_) {
      if (snapshot.files != nullptr) open.push_back(id);
    }
  }
  for (const control::SnapshotId id : open) {
    absl::StatusOr<bool> done = background_done(id);
    for (; done.ok() && !*done; done = background_done(id)) std::this_thread::sleep_for(kBetweenAsks);
    if (absl::IsUnavailable(done.status()) || absl::IsCancelled(done.status())) return done.status();
  }
  return absl::OkStatus();
}

absl::Status JobWork::forget_snapshot(control::SnapshotId snapshot) {
  Snapshot gone;
  bool again = false;  // the same step has been written since
  {
    const std::lock_guard lock(snapshots_mutex_);
    const auto found = snapshots_.find(snapshot);
    if (found == snapshots_.end()) return absl::OkStatus();
    gone = std::move(found->second);
    snapshots_.erase(found);
    again = std::any_of(snapshots_.begin(), snapshots_.end(),
                        [&](const auto& entry) { return entry.second.folder == gone.folder; });
  }
  if (!gone.folder.empty() && !again) checkpoint::remove_checkpoint(gone.folder);
  return gone.in_memory ? forget(version_of(snapshot)) : absl::OkStatus();
}

void JobWork::leave_files(control::SnapshotId snapshot) {
  const std::lock_guard lock(snapshots_mutex_);
  const auto found = snapshots_.find(snapshot);
  if (found == snapshots_.end()) return;
  found->second.folder.clear();
  found->second.files = nullptr;
}

JobWork::Snapshot JobWork::snapshot_of(const control::Background& background) const {
  const std::string folder = checkpoints();
  return {.in_memory = background.host_copy,
          .folder = background.what == "checkpoint" ? checkpoint::step_folder(folder, background.step) : "",
          .complete = true};
}

void JobWork::add_snapshot(control::SnapshotId id, Snapshot snapshot) {
  const std::lock_guard lock(snapshots_mutex_);
  snapshots_[id] = std::move(snapshot);
}

}  // namespace scalai::executor
