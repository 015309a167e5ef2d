#pragma once
// One command on its way through a Worker: worker.cpp has the life of places and versions, worker_state.cpp what is
// done with the bytes, worker_live.cpp copies and what readers see in place.

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "executor/worker/background_write.h"
#include "executor/worker/sample_reading.h"
#include "executor/worker/training.h"
#include "executor/worker/worker.h"

namespace scalai::proto {
class CommandBody;
class ReplyBody;
}  // namespace scalai::proto

namespace scalai::executor {

using proto::CommandBody;
using proto::ReplyBody;

struct Worker::Job {
  std::string name, state;  // path of its real state
  std::shared_ptr<const StateSource> content;
  std::map<StateVersion, collection::Collection> collections;  // of the versions on devices
  std::unique_ptr<Execution> execution;
  OpenSamples samples;
  std::unique_ptr<Training> training;  // null: training is emulated
  struct Writing {
    std::string folder;
    int64_t tag = 0;
    std::unique_ptr<BackgroundWrite> files;
    template <class Command>
    bool is(const Command& command) const {
      return files != nullptr && folder == command.folder() && tag == command.tag();
    }
  };
  Writing writing;  // the last one in the background
  struct InPlace {
    StateVersion version;
    bool fleeting = false;
  };
  std::vector<InPlace> in_place;  // what devices hold under a second version, for readers
  bool received = false;          // its bytes come from another run, each epoch in buffers that nothing rewrites
};

absl::StatusOr<VersionKey> key_of(int32_t job, int64_t wire_version);
absl::Status not_held(const VersionKey& key);
absl::StatusOr<collection::Collection> collection_of(const std::string& text);

class Worker::Handling {
 public:
  Handling(Worker& worker, ReplyBody& to_fill) : reply(to_fill), worker_(worker), places_(worker.places_) {}

  absl::Status run(const CommandBody& body);

  ReplyBody& reply;
  bool last() const { return last_; }

 private:
  // Null: this worker has never heard of the job.
  Job* known_job(int32_t index);
  // The collection of a version on devices; null: devices do not hold it.
  static const collection::Collection* side_of(const Job* job, StateVersion version);
  Job& job(int32_t index);
  void note_held(const VersionKey& key, int64_t step);
  void note_gone(const VersionKey& key);
  std::optional<int64_t> step_of(const VersionKey& key);
  Store& store_of(DeviceId device) { return *places_.own(Location::device(device)); }
  Store* host_store() { return places_.own(Location::host_memory(places_.host())); }
  absl::Status on_devices(const std::function<absl::Status(DeviceId)>& work);

  absl::Status setup(const CommandBody& body);
  absl::Status peers(const CommandBody& body);
  absl::Status join(const CommandBody& body);
  absl::Status create(const CommandBody& body);

  // The job's name and where its real state lies come with every command that makes state.
  absl::Status know(Job& job, const std::string& name, const std::string& state, TrainerProgram program);
  absl::Status advance(const CommandBody& body);
  absl::Status begin(const CommandBody& body);
  absl::Status digest(const CommandBody& body);
  absl::Status stand_by(const CommandBody& body);
  absl::Status copy(const CommandBody& body);

  absl::Status stats_held(const VersionKey& key, const std::set<int32_t>& wanted);
  absl::Status digest_held(const VersionKey& key, const std::set<int32_t>& wanted, int64_t bytes);
  // What of the box is not there yet.
  absl::Status copy_box_in(const Location& src, const VersionKey& from, const VersionKey& to, TensorId tensor,
                           const Box& box, DType dtype, std::vector<BoxCopy>& batch);
  // Versions that are shown in place come into the host's memory before their bytes change, or go. Neither is an error
  // of the command that changes them.
  void leave_in_place_before(const CommandBody& body);
  void leave_in_place(Job& job);
  bool can_stay(DeviceId device, const VersionKey& key, TensorId tensor);
  absl::Status copy_shown(const VersionKey& shown);
  void show_no_more(const VersionKey& shown);
  int32_t index_of(const Job& job) const;
  absl::Status prepare(const CommandBody& body);
  absl::Status round(const CommandBody& body);
  absl::Status verify(const CommandBody& body);
  absl::Status commit(const CommandBody& body);

  // State that overflowed to the host goes to its device, first into what that one has in reserve, then into what
  // others on the card have given back. Neither can undo a commit: what is not moved is right where it is, and the next
  // commit tries again. What another job's plan has reserved stays.
  void tell_of_huge_pages();
  void use_freed_memory();
  absl::Status forget(const CommandBody& body);
  absl::Status fail(const CommandBody& body);
  absl::Status write(const CommandBody& body);
  absl::Status written(const CommandBody& body);
  void tell(const Written& written);
  absl::Status read(const CommandBody& body);

  Worker& worker_;
  Places& places_;
  bool last_ = false;
};

}  // namespace scalai::executor
