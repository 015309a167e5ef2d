#pragma once
// TrainerWork: real training of one job, as commands to workers. It keeps the job's trainers in one layout at one step,
// and says what is left when some of them end.
//
//   begin: Begin{ask} to the workers of all ranks ──► all have attached; the port of rank 0 ──► Begin to the same
//   train: Advance to all ──► a state of each trainer ──► all at the step; or an Interruption
//
// A trainer that ends takes no state with it: the worker has the memory. If the memory is whole and of the same step as
// everyone's, trainers start again and go on. If it is torn, or behind the others, the device has lost its state.
//
// Thread rules: one thread at a time.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "executor/controller/job_commands.h"
#include "executor/state/state_version.h"
#include "executor/trainers/trainers.h"
#include "ptc/state/collection/collection.h"

namespace scalai::executor::controller {

// Training came to an end before its step.
struct Interruption {
  int64_t step = 0;            // of the state on the devices that have it; where none has, how far they had come
  std::vector<DeviceId> lost;  // the others
};

// Element sums by tensor; nothing for a tensor that is not all there.
using TensorSums = std::vector<std::optional<uint64_t>>;
// Of a version on the devices of the collection, less `gone`. Errors: DataLoss (two holders of a box differ), those of
// WorkerPool::call. Adds what was read to `bytes`.
absl::StatusOr<TensorSums> tensor_sums(WorkerPool& pool, int job, const collection::Collection& side,
                                       state::StateVersion version, const std::set<DeviceId>& gone, int64_t& bytes);

class TrainerWork {
 public:
  // `commands` and `pool` outlive this object.
  TrainerWork(int job, JobCommands& commands, WorkerPool& pool, trainers::TrainerProgram program)
      : job_(job), commands_(commands), pool_(pool), program_(std::move(program)) {}

  using Side = std::shared_ptr<const collection::Collection>;
  // The trainers take up this epoch of the job, of which devices hold the state of `step`, unless they have. `fresh`:
  // they give it its first content. Errors: Internal (they fail again and again), those of WorkerPool::call.
  absl::Status begin(const Side& side, int64_t step, bool fresh);
  // Trains from one step to another; nothing when all are there. Errors: those of begin(), and Internal when
  // trainers end again and again at one step.
  absl::StatusOr<std::optional<Interruption>> train(const Side& side, int64_t from_step, int64_t step,
                                                    const std::set<DeviceId>& gone);
  // After a loss, or the death of a controller: waits until the trainers stand still, and says where; at `step` if none
  // has begun. Errors: those of WorkerPool::call.
  absl::StatusOr<Interruption> settle(const collection::Collection& side, int64_t step, const std::set<DeviceId>& gone);
  // Since the last call: steps, without those of parts that came to no end, what they took, and what the program asked
  // for.
  struct Trained {
    int64_t steps = 0;
    double seconds = 0;
    double copy_s = 0;   // of them; the slowest trainer, to copy its state to the worker's memory
    int asked_gpus = 0;  // by the program, which wants so many; 0: it does not say
    bool asked_save = false;
  };
  Trained take_trained() { return std::exchange(trained_, {}); }
  // The trainers have to be told the layout again.
  void forget() { side_ = nullptr; }

 private:
  struct State {
    int64_t step = 0;
    bool torn = false;
    bool ended = false;
    std::string problem;
  };
  struct Begun {
    int attempts = 0;
    double seconds = 0;  // all of it
    double group_s = 0;  // of the slowest trainer: to set up communication
    double build_s = 0;  // and to build the model and map it
  };
  void note(const collection::Collection& side, int64_t step, const Begun& begun);
  absl::StatusOr<std::map<DeviceId, State>> advance(const collection::Collection& side, int64_t step,
                                                    const std::set<DeviceId>& gone);
  static Interruption judge(const std::map<DeviceId, State>& states);

  const int job_;
  JobCommands& commands_;
  WorkerPool& pool_;
  const trainers::TrainerProgram program_;
  Trained trained_;
  Side side_;  // that the trainers have; null: they have to be told
};

// Real training goes on in parts, so that requests are received; at the end of a part all wait for all. The steps of
// the next part, at most `most`: of about a second, or longer so that copying the state takes a twentieth of it, at
// most a minute.
int64_t steps_of_part(const TrainerWork::Trained& before, int64_t most);

}  // namespace scalai::executor::controller
