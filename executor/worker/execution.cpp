#include "executor/worker/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "executor/state/content.h"
#include "executor/state/copy.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/base/thread.h"

namespace scalai::executor::worker {

using state::Piece;
using state::Store;
using state::VersionKey;
using tensor::Box;

using plan::ProgramStep;
using plan::StepKind;
using plan::TransferClass;

namespace {

// A buffer for each part of the box that is not there yet.
absl::Status add_rest(Store& store, const VersionKey& key, TensorId tensor, const Box& box, tensor::DType dtype) {
  std::vector<Box> there;
  for (const Piece& piece : store.find(key, tensor, box)) there.push_back(piece.part);
  for (const Box& part : tensor::subtract(box, there))
    SCALAI_RETURN_IF_ERROR(store.add(key, tensor, part, dtype).status());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Execution>> Execution::prepare(Places& places, plan::Plan plan,
                                                              collection::Collection to, ExecutionOptions options) {
  std::unique_ptr<Execution> execution(new Execution(places, std::move(plan), std::move(to), std::move(options)));
  SCALAI_RETURN_IF_ERROR(execution->check());
  SCALAI_RETURN_IF_ERROR(execution->open_checkpoint());
  for (const DeviceId device : places.devices())
    execution->programs_.push_back({device, execution->lowering_.program(device)});
  const auto prepare_one = [&](size_t i) {
    const Program& program = execution->programs_[i];
    SCALAI_RETURN_IF_ERROR(execution->take_over(program));
    if (execution->plan_.memory_cap() < 0) {
      SCALAI_RETURN_IF_ERROR(execution->make_room(program));
    } else {
      SCALAI_RETURN_IF_ERROR(execution->reserve(program.device));
    }
    if (execution->options_.dense) SCALAI_RETURN_IF_ERROR(execution->copy_kept(program));
    return execution->publish(program.device);
  };
  SCALAI_RETURN_IF_ERROR(try_parallel_for(execution->options_.threads, execution->programs_.size(), prepare_one));
  SCALAI_RETURN_IF_ERROR(execution->reserve_messages());
  return execution;
}

// A plan and a collection may each be well-formed and yet not belong together, or to this cluster.
absl::Status Execution::check() const {
  if (!plan_.feasible()) return invalid("the plan is not feasible: no device holds some of its state");
  if (options_.dense && plan_.memory_cap() >= 0)
    return invalid("trainers map whole tensors: a plan for them has no memory cap");
  if (options_.to_version == options_.device_version)
    return invalid(fmt::format("{} cannot be made from itself", options_.to_version.str()));
  if (plan_.dst_devices() != to_.device_of_rank || plan_.tensors().size() != to_.tensors.size())
    return invalid(fmt::format("the plan to \"{}\" does not lead to collection \"{}\"", plan_.to(), to_.name));
  for (size_t i = 0; i < to_.tensors.size(); ++i) {
    const collection::LogicalTensor& is = to_.tensors[i];
    const plan::TensorInfo& planned = plan_.tensors()[i];
    if (is.name != planned.name || is.dtype != planned.dtype || is.shape != planned.shape)
      return invalid(
          fmt::format("tensor {} is \"{}\" in the collection and \"{}\" in the plan, or of another type or shape", i,
                      is.name, planned.name));
  }
  const auto outside = [](const Location& place) {
    return invalid(fmt::format("{} is in the plan, but not in the cluster", place.str()));
  };
  for (const DeviceId device : plan_.dst_devices()) {
    if (!places_.in_cluster(Location::device(device))) return outside(Location::device(device));
  }
  for (int32_t pattern = 0; pattern < plan_.patterns().size(); ++pattern) {
    for (const plan::Leg& leg : plan_.patterns().legs(pattern)) {
      const bool from_storage = leg.transfer_class == TransferClass::kFromStorage;
      if (from_storage != (leg.src.kind == Location::Kind::kStorage) || (!from_storage && !places_.in_cluster(leg.src)))
        return outside(leg.src);
      if (!places_.in_cluster(Location::device(leg.dst))) return outside(Location::device(leg.dst));
    }
  }
  return absl::OkStatus();
}

absl::Status Execution::open_checkpoint() {
  if (options_.checkpoint.empty()) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(store::Reader reader, store::Reader::open(options_.checkpoint));
  checkpoint_.emplace(std::move(reader));
  return absl::OkStatus();
}

absl::Status Execution::take_over(const Program& program) {
  Store& store = *places_.own(Location::device(program.device));
  store.drop(key(options_.to_version));  // of an attempt before
  if (options_.restore) return absl::OkStatus();
  if (options_.foreign != nullptr) return take_over_unchanged(program.device);
  for (const ProgramStep& step : program.steps) {
    if (step.kind != StepKind::kKeep) continue;
    for (const int32_t index : step.instances) {
      const plan::Instance& instance = plan_.instances()[static_cast<size_t>(index)];
      for (const TensorId tensor : plan_.tensors_of(instance))
        if (shares(program, tensor, instance.box))
          SCALAI_RETURN_IF_ERROR(store.keep(key(options_.device_version), options_.to_version, tensor, instance.box));
    }
  }
  return absl::OkStatus();
}

// Whole pieces stay in their buffers.
absl::Status Execution::take_over_unchanged(DeviceId device) {
  Store& store = *places_.own(Location::device(device));
  const auto rank = std::find(to_.device_of_rank.begin(), to_.device_of_rank.end(), device);
  if (rank == to_.device_of_rank.end()) return absl::OkStatus();
  for (size_t i = 0; i < to_.tensors.size(); ++i) {
    const TensorId tensor(static_cast<int64_t>(i));
    for (const tensor::Piece& piece : to_.pieces(tensor, LogicalRank(rank - to_.device_of_rank.begin())).pieces) {
      const auto changes = changes_of(store, tensor, piece.box);
      if (changes && changes->empty())
        SCALAI_RETURN_IF_ERROR(store.keep(key(options_.device_version), options_.to_version, tensor, piece.box));
    }
  }
  return absl::OkStatus();
}

std::optional<std::vector<Box>> Execution::changes_of(const Store& store, TensorId tensor, const Box& box) const {
  if (options_.foreign == nullptr) return std::nullopt;
  const std::vector<Piece> there = store.find(key(options_.device_version), tensor, box);
  const bool same_type = std::all_of(there.begin(), there.end(), [&](const Piece& piece) {
    return piece.dtype == to_.tensors[static_cast<size_t>(tensor.value)].dtype;
  });
  if (!same_type || !state::cover(there, box)) return std::nullopt;
  return options_.foreign->changes(tensor, box);
}

// Whether a kept box stays in its buffer. For trainers, only where the buffer is a whole piece of the new epoch.
bool Execution::shares(const Program& program, TensorId tensor, const Box& box) const {
  if (!options_.dense) return true;
  const Store& store = *places_.own(Location::device(program.device));
  const std::vector<Piece> found = store.find(key(options_.device_version), tensor, box);
  const auto rank = std::find(to_.device_of_rank.begin(), to_.device_of_rank.end(), program.device);
  const auto wanted = to_.pieces(tensor, LogicalRank(rank - to_.device_of_rank.begin())).pieces;
  return found.size() == 1 && found.front().box == box && found.front().dtype == plan_.tensor(tensor).dtype &&
         std::any_of(wanted.begin(), wanted.end(), [&](const tensor::Piece& piece) { return piece.box == box; });
}

// What is kept, but not in its buffer, is copied at once: nobody trains any more.
absl::Status Execution::copy_kept(const Program& program) {
  if (options_.restore) return absl::OkStatus();
  const Location self = Location::device(program.device);
  const Store& store = *places_.own(self);
  std::vector<device::BoxCopy> batch;
  for (const ProgramStep& step : program.steps) {
    if (step.kind != StepKind::kKeep) continue;
    for (const int32_t index : step.instances) {
      const plan::Instance& instance = plan_.instances()[static_cast<size_t>(index)];
      for (const TensorId tensor : plan_.tensors_of(instance)) {
        if (shares(program, tensor, instance.box)) continue;
        for (const Piece& room : store.find(key(options_.to_version), tensor, instance.box))
          SCALAI_RETURN_IF_ERROR(
              places_.gather(self, key(options_.device_version), tensor, room.part, store.target(room), batch));
      }
    }
  }
  return places_.backend().copy(batch);
}

// What the rounds will need at most, as the plan counts it. Devices that share a GPU share its memory: what some give
// back others take, and together they do not need what each needs at most.
absl::Status Execution::reserve(DeviceId device) {
  if (places_.shares_gpu(device)) return absl::OkStatus();
  Store& store = *places_.own(Location::device(device));
  const auto memory = std::find_if(plan_.memory().begin(), plan_.memory().end(),
                                   [&](const plan::DeviceMemory& one) { return one.device == device; });
  if (memory == plan_.memory().end()) return absl::OkStatus();
  const int64_t more = std::max(memory->before, memory->after) + memory->peak_extra - memory->before;
  return store.reserve(std::max<int64_t>(0, more));
}

// For whole pieces of the new epoch, as far as they are not kept.
absl::Status Execution::make_room(const Program& program) {
  Store& store = *places_.own(Location::device(program.device));
  const auto rank = std::find(to_.device_of_rank.begin(), to_.device_of_rank.end(), program.device);
  if (rank == to_.device_of_rank.end()) return absl::OkStatus();
  const LogicalRank logical(rank - to_.device_of_rank.begin());
  for (size_t i = 0; i < to_.tensors.size(); ++i) {
    const TensorId tensor(static_cast<int64_t>(i));
    for (const tensor::Piece& piece : to_.pieces(tensor, logical).pieces)
      SCALAI_RETURN_IF_ERROR(add_rest(store, key(options_.to_version), tensor, piece.box, to_.tensors[i].dtype));
  }
  return absl::OkStatus();
}

// For what arrives in the round: under a cap the plan counts no more.
absl::Status Execution::make_room_for(const Program& program, int32_t round) {
  Store& store = *places_.own(Location::device(program.device));
  std::map<TensorId, std::vector<Box>> arriving;
  for (const ProgramStep& step : program.steps) {
    if (step.round != round || step.kind == StepKind::kSend || step.kind == StepKind::kFree) continue;
    for (const int32_t index : step.instances) {
      const plan::Instance& instance = plan_.instances()[static_cast<size_t>(index)];
      for (const TensorId tensor : plan_.tensors_of(instance)) arriving[tensor].push_back(instance.box);
    }
  }
  for (auto& [tensor, boxes] : arriving) {
    for (const Box& box : tensor::merge(std::move(boxes)))
      SCALAI_RETURN_IF_ERROR(add_rest(store, key(options_.to_version), tensor, box, plan_.tensor(tensor).dtype));
  }
  return absl::OkStatus();
}

absl::Status Execution::publish(DeviceId device) {
  Store& store = *places_.own(Location::device(device));
  const bool empty = store.pieces(key(options_.to_version)).empty();
  return empty ? absl::OkStatus() : store.publish(key(options_.to_version));
}

// That a round begins proves that every worker is done with those before, so that nobody reads what they free.
absl::Status Execution::begin(int32_t round) {
  if (round < 0 || round >= plan_.rounds())
    return invalid(fmt::format("there is no round {}: the plan has {}", round, plan_.rounds()));
  if (round < begun_)
    return absl::FailedPreconditionError(fmt::format("round {} cannot come after round {}", round, begun_));
  const auto begin_next = [&](size_t i) {
    const Program& program = programs_[i];
    for (const ProgramStep& step : program.steps) {
      if (step.kind == StepKind::kFree && step.round == begun_) SCALAI_RETURN_IF_ERROR(give_back(program.device, step));
    }
    SCALAI_RETURN_IF_ERROR(make_room_for(program, begun_ + 1));
    return publish(program.device);
  };
  for (; plan_.memory_cap() >= 0 && begun_ < round; ++begun_)
    SCALAI_RETURN_IF_ERROR(try_parallel_for(options_.threads, programs_.size(), begin_next));
  begun_ = round;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Moved>> Execution::run(int32_t round, int32_t hop) {
  SCALAI_RETURN_IF_ERROR(begin(round));
  struct Task {
    DeviceId device;
    const ProgramStep* step;
  };
  std::vector<Task> tasks, carried;
  for (const Program& program : programs_) {
    for (const ProgramStep& step : program.steps) {
      if (step.round != round || step.hop != hop) continue;
      const bool keeps = step.kind == StepKind::kKeep && !options_.restore;
      const bool passive = keeps || step.kind == StepKind::kSend || step.kind == StepKind::kFree;
      if (is_carried(program.device, step)) {
        carried.push_back({program.device, &step});
      } else if (!passive) {
        tasks.push_back({program.device, &step});
      }
    }
  }
  const auto began = std::chrono::steady_clock::now();
  const auto now_s = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(); };
  std::vector<Moved> list(tasks.size());
  const auto run_task = [&](size_t i) {
    const auto [device, step] = tasks[i];
    list[i] = moved(device, *step);
    list[i].start_s = now_s();
    const absl::Status done = run_step(device, *step, list[i]);
    list[i].end_s = now_s();
    return done;
  };
  absl::Status exchanged = absl::OkStatus();
  std::thread exchanging;
  double exchanged_s = 0;
  if (!carried.empty()) {
    SCALAI_ASSIGN_OR_RETURN(exchanging, start_thread([&] {
                              exchanged = exchange(round, hop);
                              exchanged_s = now_s();
                            }));
  }
  const absl::Status copied = try_parallel_for(options_.threads, tasks.size(), run_task);
  if (exchanging.joinable()) exchanging.join();
  SCALAI_RETURN_IF_ERROR(copied);
  SCALAI_RETURN_IF_ERROR(exchanged);
  for (const auto& [device, step] : carried) {
    if (step->kind != StepKind::kReceive) continue;
    list.push_back(moved(device, *step));
    list.back().end_s = exchanged_s;
  }
  std::erase_if(list, [](const Moved& one) { return one.bytes == 0 && one.taken.empty(); });
  return list;
}

Moved Execution::moved(DeviceId device, const ProgramStep& step) const {
  Moved moved{.src = step.peer, .dst = device, .bytes = step.bytes};
  if (step.kind == StepKind::kLoad) {
    moved.src = Location::storage();
    moved.transfer_class = TransferClass::kFromStorage;
  } else if (step.kind == StepKind::kDerive) {
    moved.transfer_class = TransferClass::kDerived;
  } else if (step.kind == StepKind::kReceive) {
    const bool same_host = places_.host_of(step.peer) == places_.host();
    moved.transfer_class = same_host ? TransferClass::kSameHost : TransferClass::kCrossHost;
  }
  return moved;
}

absl::Status Execution::run_step(DeviceId device, const ProgramStep& step, Moved& record) {
  const Store& store = *places_.own(Location::device(device));
  Batch batch;
  for (const int32_t index : step.instances) {
    const plan::Instance& instance = plan_.instances()[static_cast<size_t>(index)];
    for (const TensorId tensor : plan_.tensors_of(instance)) {
      const std::vector<Piece> room = store.find(key(options_.to_version), tensor, instance.box);
      if (!state::cover(room, instance.box))
        return failed(fmt::format("g{} has no room for tensor \"{}\" {}", device.value, plan_.tensor(tensor).name,
                                  instance.box.str()));
      for (const Piece& piece : room) SCALAI_RETURN_IF_ERROR(bring(device, step, tensor, piece, batch));
    }
  }
  if (!batch.parts.empty())
    SCALAI_RETURN_IF_ERROR(options_.content->fill(places_.backend(), options_.step, batch.parts, batch.targets));
  SCALAI_RETURN_IF_ERROR(places_.backend().copy(batch.copies));
  record.bytes -= batch.spared;
  record.taken = std::move(batch.taken);
  return absl::OkStatus();
}

absl::Status Execution::bring(DeviceId device, const ProgramStep& step, TensorId tensor, const Piece& room,
                              Batch& batch) {
  const Location self = Location::device(device);
  const Box& box = room.part;
  const Store& store = *places_.own(self);
  const state::Target dst = store.target(room);
  if (step.kind == StepKind::kLoad) return load(tensor, box, dst, batch);
  if (step.kind == StepKind::kDerive)
    return places_.gather(self, key(options_.to_version), plan_.tensor(tensor).derived_from, box, dst, batch.copies);
  const auto [src, held] = source_of(step, step.kind == StepKind::kReceive ? step.peer : self);
  const std::optional<std::vector<Box>> changes = changes_of(store, tensor, box);
  if (!changes) return receive(src, held, tensor, box, dst, batch);
  // What is the same comes from the old epoch, at once: what has changed is written over it.
  const VersionKey old = key(options_.device_version);
  const std::vector<Piece> there = store.find(old, tensor, box);
  const bool in_place = there.size() == 1 && there.front().offset == room.offset;  // took over
  if (!in_place) SCALAI_RETURN_IF_ERROR(places_.read(self, old, tensor, box, dst));
  int64_t same = box.volume();
  for (const Box& change : *changes) {
    SCALAI_RETURN_IF_ERROR(receive(src, held, tensor, change, dst, batch));
    same -= change.volume();
  }
  batch.spared += std::max<int64_t>(0, same) * plan_.tensor(tensor).element_bytes(TransferClass::kCrossHost);
  return absl::OkStatus();
}

absl::Status Execution::receive(const Location& src, const VersionKey& held, TensorId tensor, const Box& box,
                                const state::Target& dst, Batch& batch) {
  if (options_.foreign == nullptr || !options_.foreign->holds(places_, src))
    return places_.gather(src, held, tensor, box, dst, batch.copies);
  return options_.foreign->read(places_, src, tensor, box, dst, batch.taken);
}

std::pair<Location, VersionKey> Execution::source_of(const ProgramStep& step, const Location& place) const {
  if (step.hop > 0) return {place, key(options_.to_version)};
  if (place.kind == Location::Kind::kHostMemory) return {place, key(options_.host_version)};
  if (options_.restore) return {Location::host_memory(places_.host_of(place)), key(options_.host_version)};
  return {place, key(options_.device_version)};
}

bool Execution::is_carried(DeviceId device, const ProgramStep& step) const {
  const bool travels = step.kind == StepKind::kSend || step.kind == StepKind::kReceive;
  if (!travels || options_.exchange == nullptr || step.peer.kind != Location::Kind::kDevice) return false;
  if (options_.restore && step.hop == 0) return false;
  return options_.exchange->carries(device, DeviceId(step.peer.index));
}

// The same boxes in the same order and types on both ends.
absl::StatusOr<DeviceMessage> Execution::message_of(DeviceId device, const ProgramStep& step) const {
  const bool sends = step.kind == StepKind::kSend;
  const DeviceId peer(step.peer.index);
  DeviceMessage message{sends ? device : peer, sends ? peer : device, {}};
  const Store& store = *places_.own(Location::device(device));
  const VersionKey held = sends ? source_of(step, Location::device(device)).second : key(options_.to_version);
  for (const int32_t index : step.instances) {
    const plan::Instance& instance = plan_.instances()[static_cast<size_t>(index)];
    for (const TensorId tensor : plan_.tensors_of(instance)) {
      const plan::TensorInfo& info = plan_.tensor(tensor);
      // The narrower of the two travels; on later hops all is new.
      const bool old_type = step.hop == 0 && tensor::size_of(info.from_dtype) <= tensor::size_of(info.dtype);
      exchange::WireBox box{instance.box, old_type ? info.from_dtype : info.dtype, {}};
      const std::vector<Piece> pieces = store.find(held, tensor, instance.box);
      if (!state::cover(pieces, instance.box))
        return failed(fmt::format("g{} does not hold tensor \"{}\" {} of {}", device.value, info.name,
                                  instance.box.str(), held.str()));
      for (const Piece& piece : pieces) box.held.push_back({piece.part, store.target(piece)});
      message.boxes.push_back(std::move(box));
    }
  }
  return message;
}

absl::Status Execution::exchange(int32_t round, int32_t hop) {
  std::vector<DeviceMessage> sends, receives;
  for (const Program& program : programs_) {
    for (const ProgramStep& step : program.steps) {
      if (step.round != round || step.hop != hop || !is_carried(program.device, step)) continue;
      absl::StatusOr<DeviceMessage> message = message_of(program.device, step);
      if (!message.ok()) {
        options_.exchange->abort();
        return message.status();
      }
      (step.kind == StepKind::kSend ? sends : receives).push_back(*std::move(message));
    }
  }
  return options_.exchange->run(std::move(sends), std::move(receives), [this] { return places_.neighbours_live(); });
}

// For the hop with most of them.
absl::Status Execution::reserve_messages() {
  if (options_.exchange == nullptr) return absl::OkStatus();
  std::map<DeviceId, size_t> most;
  for (const Program& program : programs_) {
    std::map<std::pair<int32_t, int32_t>, size_t> messages;
    for (const ProgramStep& step : program.steps) {
      if (!is_carried(program.device, step)) continue;
      most[program.device] = std::max(most[program.device], ++messages[{step.round, step.hop}]);
    }
  }
  return options_.exchange->reserve(most);
}

absl::Status Execution::load(TensorId tensor, const Box& box, const state::Target& dst, Batch& batch) {
  const plan::TensorInfo& info = plan_.tensor(tensor);
  const tensor::DType dtype = info.from_dtype;
  if (!checkpoint_) {
    batch.parts.push_back({info.name, info.shape, box});
    batch.targets.push_back(dst);
    return absl::OkStatus();
  }
  const std::optional<TensorId> stored = checkpoint_->find(info.name);
  if (!stored) return invalid(fmt::format("{}: no tensor \"{}\"", checkpoint_->folder(), info.name));
  const collection::LogicalTensor& there = checkpoint_->collection().tensors[static_cast<size_t>(stored->value)];
  if (there.shape != info.shape || there.dtype != dtype)
    return invalid(fmt::format("{}: tensor \"{}\" has another shape or type than the plan says", checkpoint_->folder(),
                               info.name));
  std::vector<std::byte> bytes(static_cast<size_t>(state::packed_bytes(box, dtype)));
  SCALAI_RETURN_IF_ERROR(checkpoint_->read(*stored, box, bytes));
  const device::BoxCopy unpack{box, {box, dtype, bytes.data()}, dst};
  return places_.backend().copy({&unpack, 1});
}

absl::Status Execution::give_back(DeviceId device, const ProgramStep& step) {
  Store& store = *places_.own(Location::device(device));
  std::vector<state::TensorBox> boxes;
  for (const int32_t index : step.instances) {
    const plan::Instance& instance = plan_.instances()[static_cast<size_t>(index)];
    for (const TensorId tensor : plan_.tensors_of(instance)) {
      // A rollback does not read devices, which may have lost their state.
      if (options_.restore && !store.holds_all(key(options_.device_version), tensor, instance.box)) continue;
      boxes.push_back({tensor, instance.box});
    }
  }
  return store.give_back(key(options_.device_version), boxes);
}

}  // namespace scalai::executor::worker
