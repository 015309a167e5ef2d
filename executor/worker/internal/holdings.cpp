#include "executor/worker/internal/holdings.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::executor::worker {

using state::VersionKey;

absl::StatusOr<collection::Collection> collection_of(const std::string& text) {
  SCALAI_ASSIGN_OR_RETURN(collection::CollectionFile file, collection::parse_collection(text, "collection"));
  return std::move(file.collection);
}

absl::StatusOr<VersionKey> key_of(int32_t job, int64_t wire_version) {
  SCALAI_ASSIGN_OR_RETURN(const state::StateVersion version, state::StateVersion::from_wire(wire_version));
  return VersionKey{job, version};
}

absl::StatusOr<std::vector<proto::WorkerPlace>> Holdings::setup(const std::vector<int>& gpus_of_host, int threads) {
  threads_ = threads > 0 ? threads : std::clamp(static_cast<int>(hardware_threads()), 4, 16);
  SCALAI_RETURN_IF_ERROR(places_.setup(gpus_of_host));
  const std::lock_guard lock(mutex_);
  return own_places_ = places_.addresses();
}

absl::Status Holdings::on_devices(const std::function<absl::Status(DeviceId)>& work) const {
  const std::vector<DeviceId>& devices = places_.devices();
  return try_parallel_for(threads_, devices.size(), [&](size_t i) { return work(devices[i]); });
}

WorkerJob* Holdings::find(int32_t job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : found->second.get();
}

WorkerJob& Holdings::job(int32_t job) {
  std::unique_ptr<WorkerJob>& entry = jobs_[job];
  if (entry == nullptr) entry = std::make_unique<WorkerJob>();
  return *entry;
}

absl::StatusOr<WorkerJob*> Holdings::know(int32_t index, const std::string& name, const std::string& state,
                                          trainers::TrainerProgram program) {
  WorkerJob& job = this->job(index);
  program.interface = network_.name;
  if (program.command.empty()) {
    job.training = nullptr;
  } else if (job.training == nullptr || job.training->program() != program) {
    SCALAI_ASSIGN_OR_RETURN(job.training, Training::create(places_, std::move(program)));
  }
  if (job.content != nullptr && job.name == name && job.state == state) return &job;
  SCALAI_ASSIGN_OR_RETURN(job.content, StateSource::open(name, state));
  job.name = name;
  job.state = state;
  return &job;
}

const collection::Collection* Holdings::side_of(const VersionKey& key) const {
  const WorkerJob* const job = find(key.job);
  if (job == nullptr) return nullptr;
  const auto found = job->collections.find(key.version);
  return found == job->collections.end() ? nullptr : &found->second;
}

absl::StatusOr<Holdings::Held> Holdings::held(int32_t job, int64_t wire_version) const {
  SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(job, wire_version));
  const collection::Collection* const side = side_of(key);
  if (side == nullptr)
    return absl::NotFoundError(fmt::format("this worker holds no {} of job {}", key.version.str(), job));
  return Held{key, *find(job), *side};
}

std::optional<int64_t> Holdings::step_of(const VersionKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = steps_.find(key);
  return found == steps_.end() ? std::nullopt : std::optional(found->second);
}

void Holdings::note(const VersionKey& key, int64_t step) {
  const std::lock_guard lock(mutex_);
  steps_[key] = step;
}

void Holdings::note_gone(const std::function<bool(const VersionKey&)>& is_gone) {
  const std::lock_guard lock(mutex_);
  std::erase_if(steps_, [&](const auto& entry) { return is_gone(entry.first); });
}

void Holdings::introduce(proto::Hello& hello) const {
  const std::lock_guard lock(mutex_);
  *hello.mutable_places() = {own_places_.begin(), own_places_.end()};
  hello.clear_held();
  for (const auto& [key, step] : steps_) {
    proto::HeldState& held = *hello.add_held();
    held.set_job(key.job);
    held.set_version(key.version.wire());
    held.set_step(step);
  }
}

}  // namespace scalai::executor::worker
