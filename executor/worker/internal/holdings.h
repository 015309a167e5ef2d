#pragma once
// Holdings: what a worker holds: its places, the jobs that it has heard of, and of each version on its devices the
// collection and the training step. It owns the jobs; bytes are in the stores of Places.
//
// Thread rules: introduce() from any thread; all else from the thread that handles commands, and store() from those
// that it waits for.

#include <mutex>

#include "executor/rpc/network.h"
#include "executor/worker/execution.h"
#include "executor/worker/training.h"

namespace scalai::proto {
class CommandBody;
class Hello;
class ReplyBody;
}  // namespace scalai::proto

namespace scalai::executor::worker {

using proto::CommandBody;
using proto::ReplyBody;

struct WorkerJob {
  std::string name, state;  // path of its real state
  std::shared_ptr<const StateSource> content;
  std::map<state::StateVersion, collection::Collection> collections;  // of the versions on devices
  std::unique_ptr<Execution> execution;
  std::unique_ptr<Training> training;  // null: training is emulated
  bool received = false;               // its bytes come from another run, each epoch in buffers that nothing rewrites
};

absl::StatusOr<state::VersionKey> key_of(int32_t job, int64_t wire_version);
absl::StatusOr<collection::Collection> collection_of(const std::string& text);

class Holdings {
 public:
  // `places` outlives this object. `network`: where trainers of several hosts meet.
  Holdings(Places& places, rpc::Interface network) : places_(places), network_(std::move(network)) {}

  // Makes the places. Their addresses.
  absl::StatusOr<std::vector<proto::WorkerPlace>> setup(const std::vector<int>& gpus_of_host, int threads);
  Places& places() const { return places_; }
  const rpc::Interface& network() const { return network_; }
  int threads() const { return threads_; }
  state::Store& store(DeviceId device) const { return *places_.own(Location::device(device)); }
  state::Store* host_store() const { return places_.own(Location::host_memory(places_.host())); }
  // On all devices at once; the first error.
  absl::Status on_devices(const std::function<absl::Status(DeviceId)>& work) const;

  // Null: this worker has never heard of the job.
  WorkerJob* find(int32_t job) const;
  WorkerJob& job(int32_t job);
  const std::map<int32_t, std::unique_ptr<WorkerJob>>& jobs() const { return jobs_; }
  // The job's name, its program and where its real state lies come with every command that makes state.
  template <class Command>
  absl::StatusOr<WorkerJob*> know(const Command& command) {
    const auto& program = command.program();
    return know(command.job(), command.name(), command.state(), {program.command(), program.folder(), program.logs()});
  }

  // The collection of a version on devices; null: devices do not hold it.
  const collection::Collection* side_of(const state::VersionKey& key) const;
  struct Held {
    state::VersionKey key;
    WorkerJob& job;
    const collection::Collection& side;
  };
  // A version on devices. NotFound: they do not hold it.
  absl::StatusOr<Held> held(int32_t job, int64_t wire_version) const;
  std::optional<int64_t> step_of(const state::VersionKey& key) const;
  void note(const state::VersionKey& key, int64_t step);
  void note_gone(const std::function<bool(const state::VersionKey&)>& is_gone);
  // Fills in places, after setup(), and what is held.
  void introduce(proto::Hello& hello) const;

 private:
  absl::StatusOr<WorkerJob*> know(int32_t index, const std::string& name, const std::string& state,
                                  trainers::TrainerProgram program);

  Places& places_;
  const rpc::Interface network_;
  int threads_ = 1;
  std::map<int32_t, std::unique_ptr<WorkerJob>> jobs_;
  mutable std::mutex mutex_;  // guards the members below
  std::vector<proto::WorkerPlace> own_places_;
  std::map<state::VersionKey, int64_t> steps_;  // of each version that devices hold
};

}  // namespace scalai::executor::worker
