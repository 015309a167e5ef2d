#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "executor/state/available_memory.h"
#include "executor/state/copy.h"
#include "executor/worker/device_state.h"
#include "executor/worker/internal/handling.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor {
namespace {

constexpr size_t kMostMismatches = 20;  // told one by one

}  // namespace

absl::Status Worker::Handling::create(const CommandBody& body) {
  const CommandBody::Create& create = body.create();
  SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(create.job(), create.version()));
  SCALAI_ASSIGN_OR_RETURN(const collection::Collection side, collection_of(create.collection()));
  Job& job = this->job(create.job());
  SCALAI_RETURN_IF_ERROR(know(job, create.name(), create.state(),
                              {create.program().command(), create.program().folder(), create.program().logs()}));
  SCALAI_ASSIGN_OR_RETURN(const size_t real, job.content->match(side));
  const bool trained = job.training != nullptr;
  if (trained && real > 0 && real < side.tensors.size())
    return invalid(
        fmt::format("{} has {} of the {} tensors: real training wants all", create.state(), real, side.tensors.size()));
  const auto make = [&](DeviceId device) -> absl::Status {
    Store& store = store_of(device);
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
  SCALAI_RETURN_IF_ERROR(on_devices(make));
  job.collections[key.version] = side;
  note_held(key, create.step());
  return absl::OkStatus();
}

absl::Status Worker::Handling::know(Job& job, const std::string& name, const std::string& state,
                                    TrainerProgram program) {
  program.interface = worker_.network_.name;
  if (program.command.empty()) {
    job.training = nullptr;
  } else if (job.training == nullptr || job.training->program() != program) {
    SCALAI_ASSIGN_OR_RETURN(job.training, Training::create(places_, std::move(program)));
  }
  if (job.content != nullptr && job.name == name && job.state == state) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(job.content, StateSource::open(name, state));
  job.name = name;
  job.state = state;
  return absl::OkStatus();
}

absl::Status Worker::Handling::advance(const CommandBody& body) {
  const CommandBody::Advance& advance = body.advance();
  SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(advance.job(), advance.version()));
  Job* const job = known_job(key.job);
  const collection::Collection* side = side_of(job, key.version);
  if (side == nullptr) return not_held(key);
  if (job->training != nullptr) {
    std::function<void()> before_change;
    if (!job->in_place.empty()) before_change = [&] { leave_in_place(*job); };
    for (proto::TrainerState& state : job->training->train(advance.step(), before_change)) {
      note_held(key, state.step());
      *reply.add_trainers() = std::move(state);
    }
    return absl::OkStatus();
  }
  SCALAI_RETURN_IF_ERROR(on_devices([&](DeviceId device) {
    Store& store = store_of(device);
    store.begin_rewrite();
    const absl::Status filled =
        fill_version(places_.backend(), store, key, *job->content, *side, advance.step(), /*real=*/false);
    store.end_rewrite();
    return filled;
  }));
  note_held(key, advance.step());
  return absl::OkStatus();
}

absl::Status Worker::Handling::begin(const CommandBody& body) {
  const CommandBody::Begin& begin = body.begin();
  SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(begin.job(), begin.version()));
  const Job* job = known_job(key.job);
  const collection::Collection* side = side_of(job, key.version);
  if (side == nullptr) return not_held(key);
  if (job->training == nullptr) return absl::FailedPreconditionError("the job has no training program");
  if (begin.ask()) {
    SCALAI_ASSIGN_OR_RETURN(std::vector<proto::TrainerState> ended, job->training->gather(*side));
    for (proto::TrainerState& state : ended) *reply.add_trainers() = std::move(state);
    const std::vector<DeviceId> own = places_.devices();
    if (!ended.empty() || std::find(own.begin(), own.end(), side->device_of_rank.front()) == own.end())
      return absl::OkStatus();
    SCALAI_ASSIGN_OR_RETURN(const Training::Meeting meeting, job->training->ask_port(*side));
    if (meeting.port == 0) {
      reply.add_trainers()->set_ended(meeting.ended);
      reply.mutable_trainers(0)->set_device(static_cast<int32_t>(side->device_of_rank.front().value));
    } else {
      reply.set_address(fmt::format("{}:{}", worker_.network_.address, meeting.port));
    }
    return absl::OkStatus();
  }
  if (const std::optional<int64_t> held = step_of(key); held && *held != begin.step())
    return absl::FailedPreconditionError(fmt::format(
        "this worker's devices have the state of step {}, and are told to begin at {}", *held, begin.step()));
  SCALAI_ASSIGN_OR_RETURN(std::vector<proto::TrainerState> states,
                          job->training->begin({key, *side, begin.step(), begin.address(), begin.fresh()}));
  for (proto::TrainerState& state : states) *reply.add_trainers() = std::move(state);
  return absl::OkStatus();
}

absl::Status Worker::Handling::stand_by(const CommandBody& body) {
  const CommandBody::Standby& standby = body.standby();
  const CommandBody::Program& program = standby.program();
  Job& job = this->job(standby.job());
  SCALAI_RETURN_IF_ERROR(
      know(job, standby.name(), standby.state(), {program.command(), program.folder(), program.logs()}));
  return job.training == nullptr ? invalid("no program to stand by") : job.training->stand_by();
}

absl::Status Worker::Handling::digest(const CommandBody& body) {
  const CommandBody::Digest& digest = body.digest();
  SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(digest.job(), digest.version()));
  const collection::Collection* side = side_of(known_job(key.job), key.version);
  if (side == nullptr) return not_held(key);
  std::vector<std::vector<PieceSum>> sums(places_.devices().size());
  SCALAI_RETURN_IF_ERROR(try_parallel_for(worker_.threads_, sums.size(), [&](size_t i) -> absl::Status {
    SCALAI_ASSIGN_OR_RETURN(sums[i], sums_of(places_, places_.devices()[i], key, *side));
    return absl::OkStatus();
  }));
  for (const std::vector<PieceSum>& of_device : sums) {
    for (const PieceSum& one : of_device) {
      proto::PieceSum& out = *reply.add_sums();
      out.set_sum(one.sum);
      const DType dtype = side->tensors[static_cast<size_t>(one.tensor.value)].dtype;
      set_box(one.box, one.tensor, dtype, *out.mutable_box());
      reply.set_bytes(reply.bytes() + packed_bytes(one.box, dtype));
    }
  }
  return absl::OkStatus();
}

absl::Status Worker::Handling::verify(const CommandBody& body) {
  const CommandBody::Verify& verify = body.verify();
  SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(verify.job(), verify.version()));
  const Job* job = known_job(key.job);
  const collection::Collection* side = side_of(job, key.version);
  if (side == nullptr) return not_held(key);
  const std::vector<DeviceId>& devices = places_.devices();
  std::vector<Checked> checked(devices.size());
  SCALAI_RETURN_IF_ERROR(try_parallel_for(worker_.threads_, devices.size(), [&](size_t i) -> absl::Status {
    const CheckDepth depth = verify.mode() == proto::VERIFY_NONE     ? CheckDepth::kThere
                             : verify.mode() == proto::VERIFY_SAMPLE ? CheckDepth::kSample
                                                                     : CheckDepth::kFull;
    SCALAI_ASSIGN_OR_RETURN(checked[i],
                            check_version(places_, devices[i], key, *job->content, *side, verify.step(), depth));
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

absl::Status Worker::Handling::write(const CommandBody& body) {
  const CommandBody::Write& write = body.write();
  SCALAI_ASSIGN_OR_RETURN(const VersionKey key, key_of(write.job(), write.version()));
  Job* job = known_job(key.job);
  const collection::Collection* held = side_of(job, key.version);
  if (held == nullptr) return not_held(key);
  const collection::Collection& side = *held;
  if (write.in_background() && job->writing.is(write)) return absl::OkStatus();  // once more
  const std::vector<int> ranks(write.ranks().begin(), write.ranks().end());
  for (const int rank : ranks) {
    if (rank < 0 || rank >= side.ranks()) return invalid(fmt::format("there is no rank {}", rank));
  }
  SCALAI_ASSIGN_OR_RETURN(checkpoint::Writer writer,
                          checkpoint::Writer::join(write.folder(), side, {write.name(), write.step()}));
  const ReadState read = [&](LogicalRank rank, TensorId tensor, const Box& box, std::byte* dst) {
    const Location place = Location::device(side.device_of_rank[static_cast<size_t>(rank.value)]);
    return places_.read(place, key, tensor, box, {box, side.tensors[static_cast<size_t>(tensor.value)].dtype, dst});
  };
  if (!write.in_background()) {
    SCALAI_ASSIGN_OR_RETURN(const Written written, write_ranks(writer, ranks, read));
    tell(written);
    return absl::OkStatus();
  }
  job->writing = {};  // which waits for an earlier one
  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<BackgroundWrite> files,
                          BackgroundWrite::begin(std::move(writer), ranks, read, worker_.threads_, available_memory()));
  job->writing = {write.folder(), write.tag(), std::move(files)};
  return absl::OkStatus();
}

absl::Status Worker::Handling::written(const CommandBody& body) {
  const CommandBody::Written& asked = body.written();
  const Job* job = known_job(asked.job());
  if (job == nullptr || !job->writing.is(asked))
    return absl::NotFoundError(fmt::format("{}: this worker is not writing there", asked.folder()));
  const std::optional<absl::StatusOr<Written>> found = job->writing.files->poll();
  reply.set_busy(!found.has_value());
  if (!found) return absl::OkStatus();
  SCALAI_RETURN_IF_ERROR(found->status());
  tell(**found);
  return absl::OkStatus();
}

void Worker::Handling::tell(const Written& written) {
  for (const std::string& part : written.parts) reply.add_parts(part);
  reply.set_bytes(written.bytes);
}

namespace {

// In place of what the worker has read for a rank: what its trainers were given. A step that none of them told of, as
// those of a lost host or of a program that reads in its own way, counts as the rank's share, and as assumed.
absl::Status count_trained(const CommandBody::Read& read, const SampleReading& samples, const Training& training,
                           int rank, SampleReading::Account& account) {
  account.read = {};
  for (int64_t step = read.from_step(); step < read.until_step(); ++step) {
    if (const std::optional<data::SampleAccount> told = training.read(step, rank, read.dp())) {
      account.read.add(*told);
      continue;
    }
    SCALAI_ASSIGN_OR_RETURN(const std::vector<SampleReading::Account> share,
                            samples.read(step, step + 1, read.dp(), {rank}, 1));
    account.read.add(share.front().read);
    account.assumed += share.front().read.samples;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Worker::Handling::read(const CommandBody& body) {
  const CommandBody::Read& read = body.read();
  Job& job = this->job(read.job());
  SCALAI_ASSIGN_OR_RETURN(const SampleReading* samples, job.samples.of(read.dataset(), read.index()));
  const std::vector<int> ranks(read.ranks().begin(), read.ranks().end());
  SCALAI_ASSIGN_OR_RETURN(std::vector<SampleReading::Account> accounts,
                          samples->read(read.from_step(), read.until_step(), read.dp(), ranks, worker_.threads_));
  for (size_t i = 0; job.training != nullptr && i < accounts.size(); ++i) {
    SCALAI_RETURN_IF_ERROR(count_trained(read, *samples, *job.training, ranks[i], accounts[i]));
  }
  for (size_t i = 0; i < accounts.size(); ++i) {
    proto::SampleAccount& out = *reply.add_accounts();
    out.set_rank(ranks[i]);
    out.set_samples(accounts[i].read.samples);
    out.set_sum_low(accounts[i].read.sum_low);
    out.set_sum_high(accounts[i].read.sum_high);
    out.set_bytes(accounts[i].bytes);
    out.set_assumed(accounts[i].assumed);
  }
  return absl::OkStatus();
}

}  // namespace scalai::executor
