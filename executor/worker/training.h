#pragma once
// Training: the trainers of a job on this worker, and what of the worker's state they map.
//
//   Begin ──► begin() ──► layout orders: rank, mesh, each tensor's box and place in the device's segment ──► Trainers
//   Advance ─► train() ─► "train until step N" ──► all there, or some ended ──► TrainerState of each
//                         with "ask": once, before the first byte changes ──► before_change() ─► "rewrite"
//
// The layout order is the whole of what a trainer knows of the state (python/scalai/_job.py reads it):
//   {"do": "layout", "version", "step", "fresh", "rank", "axes": [[name, size] …] slowest first, "address",
//    "word": offset, "descriptors": 1 or 2, "tensors": [{"name", "dtype", "shape", "box": [[lo, hi] …], "offset"} …]}
// With it come the descriptors of the memory of its word and, for a device in host memory, of that of the tensors. The
// parts of memory on a GPU (Memory::share) come before the layout, in orders of some hundred:
//   {"do": "map", "first": true, "gpu", "range": [begin, end], "descriptors": n, "parts": [[offset, bytes] …]}
//
// One thread.

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "executor/trainers/trainers.h"
#include "executor/worker/places.h"
#include "ptc/state/collection/collection.h"
#include "ptc/store/datasets/account.h"

namespace scalai::proto {
class TrainerState;
}  // namespace scalai::proto

namespace scalai::executor::worker {

class Training {
 public:
  struct Layout {
    state::VersionKey key;
    const collection::Collection& side;
    int64_t step = 0;
    std::string address;  // HOST:PORT of rank 0's store
    bool fresh = false;
  };

  // Errors: those of Trainers::create.
  static absl::StatusOr<std::unique_ptr<Training>> create(const Places& places, trainers::TrainerProgram program);
  const trainers::TrainerProgram& program() const { return trainers_->program(); }

  // Starts the trainers of this worker's devices in the collection, where they do not run, and waits for none.
  absl::Status start(const collection::Collection& side);
  // From now on all devices of this worker have trainers, which wait where the job does not use them. Errors: those of
  // Trainers::start.
  absl::Status stand_by();
  // Waits until the trainers of this worker's devices of the collection have attached: their imports are done. A state
  // of each that ended instead. Errors: those of Trainers::start.
  absl::StatusOr<std::vector<proto::TrainerState>> gather(const collection::Collection& side);
  // Where the trainer of rank 0, if it is on this worker, waits for the others. Errors: those of Trainers::start.
  struct Meeting {
    int port = 0;       // 0: it ended
    std::string ended;  // how
  };
  absl::StatusOr<Meeting> ask_port(const collection::Collection& side);
  // The trainers of this worker's devices take up the layout. A state of each. Errors: a piece that is not one buffer,
  // memory that cannot be mapped, those of Trainers::start.
  absl::StatusOr<std::vector<proto::TrainerState>> begin(const Layout& layout);
  // Trains the devices of the last layout up to `step`. Before a trainer here changes the first byte of its state,
  // `before_change` is called; null: nobody has to wait for it.
  std::vector<proto::TrainerState> train(int64_t step, const std::function<void()>& before_change = nullptr);
  // What the trainers of this worker have trained on as share `share` of `shares` in the step, by the ids that they
  // got; nothing if none of them has told.
  std::optional<datasets::SampleAccount> read(int64_t step, int share, int shares) const;
  // Trainers of devices that are not in the collection let go of their state and wait, if they are to stand by; else
  // they leave. null: all of them. Errors: those of Trainers::dismiss and start.
  absl::Status keep(const collection::Collection* side);
  // The device's memory is lost, and its trainer with it.
  void lose(DeviceId device);

 private:
  Training(const Places& places, std::unique_ptr<trainers::Trainers> trainers)
      : places_(places), trainers_(std::move(trainers)) {}
  std::vector<DeviceId> own_devices(const collection::Collection& side) const;
  // Of a device: where its state lies, and the order to take it up.
  struct Given {
    std::vector<std::pair<uint64_t, uint64_t>> ranges;  // of the memory that its tensors have, by offset
    trainers::Trainers::Order order;
    bool by_parts = false;  // the memory has no address
  };
  absl::StatusOr<Given> given_to(const Layout& layout, DeviceId device);
  // Gives the trainers the parts of memory that they map, in rounds. The answers of the last round.
  absl::StatusOr<std::vector<trainers::Trainers::Answer>> give_parts(const std::vector<Given>& all);
  std::vector<proto::TrainerState> states(const std::vector<trainers::Trainers::Answer>& answers);

  void note_read(DeviceId device);

  const Places& places_;
  std::unique_ptr<trainers::Trainers> trainers_;
  std::map<std::tuple<int64_t, int, int>, datasets::SampleAccount> accounts_;  // by step, shares, share
  std::vector<DeviceId> devices_;                                              // of the last layout
  std::set<DeviceId> trained_;                                                 // have had a layout
  bool stand_by_ = false;
};

}  // namespace scalai::executor::worker
