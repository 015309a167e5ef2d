#include "executor/worker/internal/device_work.h"

#include <fmt/format.h>

#include <algorithm>

#include "executor/state/copy.h"
#include "executor/worker/device_state.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::worker {

namespace {

constexpr size_t kMostMismatches = 20;  // told one by one

}  // namespace

absl::Status DeviceWork::create(const CommandBody& body) {
  const CommandBody::Create& create = body.create();
  SCALAI_ASSIGN_OR_RETURN(const state::VersionKey key, key_of(create.job(), create.version()));
  SCALAI_ASSIGN_OR_RETURN(const collection::Collection side, collection_of(create.collection()));
  SCALAI_ASSIGN_OR_RETURN(WorkerJob* const known, holdings_.know(create));
  WorkerJob& job = *known;
  SCALAI_ASSIGN_OR_RETURN(const size_t real, job.content->match(side));
  const bool trained = job.training != nullptr;
  if (trained && real > 0 && real < side.tensors.size())
    return invalid(
        fmt::format("{} has {} of the {} tensors: real training wants all", create.state(), real, side.tensors.size()));
  const auto make = [&](DeviceId device) -> absl::Status {
    state::Store& store = holdings_.store(device);
    store.drop(key);
    const std::optional<LogicalRank> rank = rank_of(side, device);
    if (!rank) return absl::OkStatus();
    for (size_t i = 0; i < side.tensors.size(); ++i) {
      const TensorId tensor(static_cast<int64_t>(i));
      for (const tensor::Piece& piece : side.pieces(tensor, *rank).pieces)
        SCALAI_RETURN_IF_ERROR(store.add(key, tensor, piece.box, side.tensors[i].dtype).status());
    }
    if (store.pieces(key).empty()) return absl::OkStatus();
    if (!trained || real > 0)
      SCALAI_RETURN_IF_ERROR(
          fill_version(places_.backend(), store, key, *job.content, side, create.step(), /*real=*/true));
    return store.publish(key);
  };
  if (trained) SCALAI_RETURN_IF_ERROR(job.training->start(side));  // they begin while memory is made
  SCALAI_RETURN_IF_ERROR(holdings_.on_devices(make));
  job.collections[key.version] = side;
  holdings_.note(key, create.step());
  return absl::OkStatus();
}

absl::Status DeviceWork::stand_by(const CommandBody& body) {
  SCALAI_ASSIGN_OR_RETURN(WorkerJob* const job, holdings_.know(body.standby()));
  return job->training == nullptr ? invalid("no program to stand by") : job->training->stand_by();
}

absl::Status DeviceWork::begin(const CommandBody& body, ReplyBody& reply) {
  const CommandBody::Begin& begin = body.begin();
  SCALAI_ASSIGN_OR_RETURN(const Holdings::Held held, holdings_.held(begin.job(), begin.version()));
  if (held.job.training == nullptr) return absl::FailedPreconditionError("the job has no training program");
  if (begin.ask()) return gather(held, reply);
  if (const std::optional<int64_t> step = holdings_.step_of(held.key); step && *step != begin.step())
    return absl::FailedPreconditionError(fmt::format(
        "this worker's devices have the state of step {}, and are told to begin at {}", *step, begin.step()));
  SCALAI_ASSIGN_OR_RETURN(
      std::vector<proto::TrainerState> states,
      held.job.training->begin({held.key, held.side, begin.step(), begin.address(), begin.fresh()}));
  for (proto::TrainerState& state : states) *reply.add_trainers() = std::move(state);
  return absl::OkStatus();
}

absl::Status DeviceWork::gather(const Holdings::Held& held, ReplyBody& reply) {
  Training& training = *held.job.training;
  SCALAI_ASSIGN_OR_RETURN(std::vector<proto::TrainerState> ended, training.gather(held.side));
  for (proto::TrainerState& state : ended) *reply.add_trainers() = std::move(state);
  const std::vector<DeviceId>& own = places_.devices();
  const DeviceId first = held.side.device_of_rank.front();
  if (!ended.empty() || std::find(own.begin(), own.end(), first) == own.end()) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(const Training::Meeting meeting, training.ask_port(held.side));
  if (meeting.port == 0) {
    reply.add_trainers()->set_ended(meeting.ended);
    reply.mutable_trainers(0)->set_device(static_cast<int32_t>(first.value));
  } else {
    reply.set_address(fmt::format("{}:{}", holdings_.network().address, meeting.port));
  }
  return absl::OkStatus();
}

absl::Status DeviceWork::advance(const CommandBody& body, ReplyBody& reply) {
  const CommandBody::Advance& advance = body.advance();
  SCALAI_ASSIGN_OR_RETURN(const Holdings::Held held, holdings_.held(advance.job(), advance.version()));
  if (held.job.training != nullptr) {
    std::function<void()> before_change;
    if (copies_.shows(advance.job())) before_change = [&] { copies_.leave(advance.job()); };
    for (proto::TrainerState& state : held.job.training->train(advance.step(), before_change)) {
      holdings_.note(held.key, state.step());
      *reply.add_trainers() = std::move(state);
    }
    return absl::OkStatus();
  }
  SCALAI_RETURN_IF_ERROR(holdings_.on_devices([&](DeviceId device) {
    state::Store& store = holdings_.store(device);
    store.begin_rewrite();
    const absl::Status filled =
        fill_version(places_.backend(), store, held.key, *held.job.content, held.side, advance.step(), /*real=*/false);
    store.end_rewrite();
    return filled;
  }));
  holdings_.note(held.key, advance.step());
  return absl::OkStatus();
}

absl::Status DeviceWork::digest(const CommandBody& body, ReplyBody& reply) {
  const CommandBody::Digest& digest = body.digest();
  SCALAI_ASSIGN_OR_RETURN(const Holdings::Held held, holdings_.held(digest.job(), digest.version()));
  std::vector<std::vector<PieceSum>> sums(places_.devices().size());
  SCALAI_RETURN_IF_ERROR(try_parallel_for(holdings_.threads(), sums.size(), [&](size_t i) -> absl::Status {
    SCALAI_ASSIGN_OR_RETURN(sums[i], sums_of(places_, places_.devices()[i], held.key, held.side));
    return absl::OkStatus();
  }));
  for (const std::vector<PieceSum>& of_device : sums) {
    for (const PieceSum& one : of_device) {
      proto::PieceSum& out = *reply.add_sums();
      out.set_sum(one.sum);
      const tensor::DType dtype = held.side.tensors[static_cast<size_t>(one.tensor.value)].dtype;
      set_box(one.box, one.tensor, dtype, *out.mutable_box());
      reply.set_bytes(reply.bytes() + state::packed_bytes(one.box, dtype));
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceWork::verify(const CommandBody& body, ReplyBody& reply) {
  const CommandBody::Verify& verify = body.verify();
  SCALAI_ASSIGN_OR_RETURN(const Holdings::Held held, holdings_.held(verify.job(), verify.version()));
  const CheckDepth depth = verify.mode() == proto::VERIFY_NONE     ? CheckDepth::kThere
                           : verify.mode() == proto::VERIFY_SAMPLE ? CheckDepth::kSample
                                                                   : CheckDepth::kFull;
  const std::vector<DeviceId>& devices = places_.devices();
  std::vector<Checked> checked(devices.size());
  SCALAI_RETURN_IF_ERROR(try_parallel_for(holdings_.threads(), devices.size(), [&](size_t i) -> absl::Status {
    SCALAI_ASSIGN_OR_RETURN(
        checked[i], check_version(places_, devices[i], held.key, *held.job.content, held.side, verify.step(), depth));
    return absl::OkStatus();
  }));
  for (const Checked& one : checked) {
    reply.set_bytes(reply.bytes() + one.bytes);
    reply.set_mismatch_count(reply.mismatch_count() + static_cast<int64_t>(one.wrong.size()));
    for (const std::string& line : one.wrong) {
      if (static_cast<size_t>(reply.mismatches_size()) < kMostMismatches) reply.add_mismatches(line);
    }
  }
  return absl::OkStatus();
}

}  // namespace scalai::executor::worker
