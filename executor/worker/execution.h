#pragma once
// One plan on one worker: from room for the new epoch to its last round. The programs of the worker's devices run
// round by round and hop by hop, as the controller says; within a hop everything may run at once.
//
// Under a memory cap a round gets its room, and the frees of the rounds before are done, when it begins: then every
// worker has got through those. What would be freed after the last round goes with the commit.
//
// What is read on hop 0 is the source version: the old epoch on devices, or, for a rollback, the copy of a snapshot in
// the memory of the device's host; and what is staged in hosts' memories. On later hops it is the new epoch.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/worker/exchange.h"
#include "executor/worker/places.h"
#include "executor/worker/state_source.h"
#include "ptc/checkpoint/job_checkpoint.h"
#include "ptc/collection/collection.h"
#include "ptc/plan/lowering.h"

namespace scalai::executor {

struct ExecutionOptions {
  int32_t job = 0;
  std::shared_ptr<const StateSource> content;  // of the job
  int64_t to_version = 0;
  int64_t device_version = 0;  // hop 0 reads devices for it
  int64_t host_version = 0;    // … and hosts' memories
  bool restore = false;        // devices are read from their host's memory, for host_version
  int64_t step = 0;
  std::string checkpoint;        // folder of what comes from storage; empty: the content of `step`
  Exchange* exchange = nullptr;  // carries what goes between GPUs of different workers; null: receivers pull all
  int threads = 1;
};

// What happened on the way to one place.
struct Moved {
  Location src;
  DeviceId dst;
  plan::TransferClass transfer_class = plan::TransferClass::kSameDevice;
  int64_t bytes = 0;
  double start_s = 0, end_s = 0;  // since the round began
};

class Execution {
 public:
  // Makes room for the new epoch on the worker's devices and takes over what is kept. Errors: InvalidArgument (a plan
  // that is not feasible, not to this collection or not of this cluster; a version onto itself), those of Store::add
  // and keep, and of Reader::open.
  static absl::StatusOr<std::unique_ptr<Execution>> prepare(Places& places, plan::Plan plan, collection::Collection to,
                                                            ExecutionOptions options);

  // All that the worker's devices do on a hop of a round (from 0). May be repeated until a later round begins. Errors:
  // InvalidArgument (no such round), FailedPrecondition (a later one has begun), those of Places::read, and of the
  // checkpoint.
  absl::StatusOr<std::vector<Moved>> run(int32_t round, int32_t hop);

  int64_t to_version() const { return options_.to_version; }

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
  absl::Status make_room(const Program& program);
  absl::Status reserve(DeviceId device);
  absl::Status make_room_for(const Program& program, int32_t round);
  absl::Status publish(DeviceId device);
  absl::Status begin(int32_t round);
  Moved moved(DeviceId device, const plan::ProgramStep& step) const;
  // What a step does, to be done at once.
  struct Batch {
    std::vector<BoxCopy> copies;
    std::vector<StatePart> parts;  // made by the closed form, into …
    std::vector<Target> targets;
  };
  absl::Status run_step(DeviceId device, const plan::ProgramStep& step);
  absl::Status bring(DeviceId device, const plan::ProgramStep& step, TensorId tensor, const Box& box, const Target& dst,
                     Batch& batch);
  // The steps of a hop that go by the exchange.
  bool is_carried(DeviceId device, const plan::ProgramStep& step) const;
  absl::StatusOr<DeviceMessage> message_of(DeviceId device, const plan::ProgramStep& step) const;
  absl::Status exchange(int32_t round, int32_t hop);
  absl::Status reserve_messages();
  absl::Status load(TensorId tensor, const Box& box, const Target& dst, Batch& batch);
  std::pair<Location, VersionKey> source_of(const plan::ProgramStep& step, const Location& place) const;
  absl::Status give_back(DeviceId device, const plan::ProgramStep& step);
  VersionKey key(int64_t version) const { return {options_.job, version}; }

  Places& places_;
  const plan::Plan plan_;
  const collection::Collection to_;
  const ExecutionOptions options_;
  const plan::Lowering lowering_;
  std::vector<Program> programs_;
  std::optional<checkpoint::Reader> checkpoint_;
  int32_t begun_ = -1;  // the last round that was
};

// Runs work(i) for i < count on so many threads; the first error stops what has not begun.
absl::Status run_parallel(size_t count, int threads, const std::function<absl::Status(size_t)>& work);

}  // namespace scalai::executor
