#pragma once
// Execution: one plan on one worker, from room for the new epoch to the last round. The controller starts each round
// and hop on all workers; within a hop the steps of a worker's devices run in parallel.
//
// Without a memory cap prepare() makes room for the whole new epoch. Under a cap the first run() of a round frees the
// old boxes that the plan gives up in earlier rounds, and makes room for the round's own boxes. That is safe, because
// the controller starts a round when every worker has finished the rounds before. The commit frees the rest.
//
// Hop 0 reads the source versions. Devices are read for the old epoch, hosts' memories for staged state or a copy. In a
// rollback (`restore`) hosts' memories are read in place of their devices. Later hops read the new epoch.
//
// Thread rules: one thread at a time.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/worker/exchange.h"
#include "executor/worker/foreign_step.h"
#include "executor/worker/places.h"
#include "executor/worker/state_source.h"
#include "ptc/plan/lowering.h"
#include "ptc/state/collection/collection.h"
#include "ptc/store/safetensors/job_checkpoint.h"

namespace scalai::executor::worker {

struct ExecutionOptions {
  int32_t job = 0;                                                     // index in the scenario
  std::shared_ptr<const StateSource> content;                          // the job's state at any step
  state::StateVersion to_version = state::StateVersion::epoch(0);      // the new epoch
  state::StateVersion device_version = state::StateVersion::epoch(0);  // the old epoch: hop 0 reads it on devices
  state::StateVersion host_version = state::StateVersion::staged();    // hop 0 reads it in hosts' memories
  bool restore = false;    // hop 0 reads hosts' memories in place of their devices
  int64_t step = 0;        // training step of the source state
  std::string checkpoint;  // folder for state from storage; empty: `content` makes that state
  std::shared_ptr<const ForeignStep>
      foreign{};                 // hop 0 reads it on devices of another run's hosts; null: there are none
  Exchange* exchange = nullptr;  // moves state between GPUs of several workers; outlives this; null: receivers pull
  bool dense = false;  // trainers map the new epoch: each piece of it is one buffer, and the plan has no memory cap
  int threads = 1;
};

// The measured transfer of one step of a device's program.
struct Moved {
  Location src;
  DeviceId dst;
  plan::TransferClass transfer_class = plan::TransferClass::kSameDevice;
  int64_t bytes = 0;
  double start_s = 0, end_s = 0;  // since the start of run()
  ForeignStep::Taken taken{};     // out of places of another run
};

class Execution {
 public:
  // Makes room for the new epoch on the worker's devices; kept boxes stay in their buffers. `places` outlives the
  // result. Errors: InvalidArgument (the plan is not feasible, does not lead to `to`, or leaves the cluster; the two
  // versions are the same), those of Store::add, Store::keep, Store::reserve, Store::publish and
  // store::Reader::open.
  static absl::StatusOr<std::unique_ptr<Execution>> prepare(Places& places, plan::Plan plan, collection::Collection to,
                                                            ExecutionOptions options);

  // Runs the steps of the worker's devices on a hop of a round; both count from 0. A repeated call has the same effect,
  // until a later round begins. Errors: InvalidArgument (no such round), FailedPrecondition (a later round has begun),
  // those of Places::read, Exchange::run, Backend::copy and the checkpoint.
  absl::StatusOr<std::vector<Moved>> run(int32_t round, int32_t hop);

  state::StateVersion to_version() const { return options_.to_version; }

 private:
  Execution(Places& places, plan::Plan plan, collection::Collection to, ExecutionOptions options)
      : places_(places), plan_(std::move(plan)), to_(std::move(to)), options_(std::move(options)), lowering_(plan_) {}

  struct Program {
    DeviceId device;
    std::vector<plan::ProgramStep> steps;
  };
  absl::Status check() const;
  absl::Status open_checkpoint();
  absl::Status take_over(const Program& program);
  absl::Status take_over_unchanged(DeviceId device);
  bool shares(const Program& program, TensorId tensor, const tensor::Box& box) const;
  absl::Status copy_kept(const Program& program);
  absl::Status make_room(const Program& program);
  absl::Status reserve(DeviceId device);
  absl::Status make_room_for(const Program& program, int32_t round);
  absl::Status publish(DeviceId device);
  absl::Status begin(int32_t round);
  Moved moved(DeviceId device, const plan::ProgramStep& step) const;
  // The work of one step. The copies are one call of the back end, the parts another.
  struct Batch {
    std::vector<device::BoxCopy> copies;
    std::vector<StatePart> parts;        // StateSource::fill makes these
    std::vector<state::Target> targets;  // one for each part
    int64_t spared = 0;                  // bytes that need not travel, since the device has them
    ForeignStep::Taken taken;            // of another run's places
  };
  // Corrects the bytes of the record: those that it need not move, those that it reads elsewhere.
  absl::Status run_step(DeviceId device, const plan::ProgramStep& step, Moved& record);
  // What has changed of the box since the old epoch; nothing where that is not known, or the device does not have the
  // rest.
  std::optional<std::vector<tensor::Box>> changes_of(const state::Store& store, TensorId tensor,
                                                     const tensor::Box& box) const;
  absl::Status receive(const Location& src, const state::VersionKey& held, TensorId tensor, const tensor::Box& box,
                       const state::Target& dst, Batch& batch);
  absl::Status bring(DeviceId device, const plan::ProgramStep& step, TensorId tensor, const state::Piece& room,
                     Batch& batch);
  // Whether the exchange moves the step's boxes.
  bool is_carried(DeviceId device, const plan::ProgramStep& step) const;
  absl::StatusOr<DeviceMessage> message_of(DeviceId device, const plan::ProgramStep& step) const;
  absl::Status exchange(int32_t round, int32_t hop);
  absl::Status reserve_messages();
  absl::Status load(TensorId tensor, const tensor::Box& box, const state::Target& dst, Batch& batch);
  std::pair<Location, state::VersionKey> source_of(const plan::ProgramStep& step, const Location& place) const;
  absl::Status give_back(DeviceId device, const plan::ProgramStep& step);
  state::VersionKey key(state::StateVersion version) const { return {options_.job, version}; }

  Places& places_;
  const plan::Plan plan_;
  const collection::Collection to_;
  const ExecutionOptions options_;
  const plan::Lowering lowering_;
  std::vector<Program> programs_;
  std::optional<store::Reader> checkpoint_;
  int32_t begun_ = -1;  // the latest round that has begun
};

}  // namespace scalai::executor::worker
