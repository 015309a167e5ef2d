#include "executor/controller/job_work.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "executor/controller/exec_runtime.h"
#include "executor/controller/internal/job_bodies.h"
#include "executor/worker/places.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/collection/collection_file.h"
#include "ptc/plan/lowering.h"
#include "ptc/plan/plan_io.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor {

using collection::Collection;
using plan::Location;
using proto::CommandBody;
using proto::ReplyBody;

namespace {

// Whether a staged strategy has copied the source state into hosts' memories before the plan.
bool is_staged(const control::Execute& execute) {
  return execute.upload && (execute.snapshot == control::kLiveState || execute.restore);
}

// The version that the plan reads in hosts' memories. A live state that is not staged is on devices only: nobody reads
// the version then, and the command keeps the number that it always had.
StateVersion host_version_of(const control::Execute& execute) {
  if (is_staged(execute)) return StateVersion::staged();
  return execute.snapshot == control::kLiveState ? StateVersion::initial() : version_of(execute.snapshot);
}

std::string text_of(const Collection& collection) { return collection::collection_text(collection, {}); }

}  // namespace

StateVersion version_of(control::SnapshotId snapshot) {
  return snapshot == control::kInitialState ? StateVersion::initial() : StateVersion::snapshot(snapshot);
}

absl::Status fail_devices(WorkerPool& pool, HostId host, const std::vector<DeviceId>& devices) {
  CommandBody body;
  for (const DeviceId device : devices) body.mutable_fail()->add_places(Location::device(device).str());
  SCALAI_RETURN_IF_ERROR(pool.call("fail", {host}, body).status());
  return pool.refresh(host);
}

JobWork::JobWork(int job, const scenario::Scenario& scenario, WorkerPool& pool, const ExecOptions& options)
    : job_(job), scenario_(scenario), pool_(pool), options_(options) {
  const auto program = options.programs.find(job);
  if (program != options.programs.end()) trainers_ = std::make_unique<TrainerWork>(job, pool, program->second);
}

template <class Body>
void JobWork::set_program(Body& body) const {
  if (trainers_ == nullptr) return;
  body.mutable_program()->set_command(trainers_->program().command);
  body.mutable_program()->set_folder(trainers_->program().folder);
  body.mutable_program()->set_logs(trainers_->program().logs);
}

absl::Status JobWork::begin(const Collection& collection, int64_t step, const InitialCopies& copies) {
  if (state_ != nullptr && state_->epoch == collection.epoch) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(const bool there, found_further(collection, step));
  if (there) {
    note_begin(std::make_shared<const Collection>(collection), step, copies.has_value());
    return absl::OkStatus();
  }
  CommandBody body;
  CommandBody::Create& create = *body.mutable_create();
  create.set_job(job_);
  create.set_name(spec().name);
  create.set_version(StateVersion::epoch(collection.epoch).wire());
  create.set_step(step);
  create.set_collection(text_of(collection));
  create.set_state(state_path());
  set_program(create);
  SCALAI_RETURN_IF_ERROR(stand_by(pool_.living()));
  const std::set<HostId> hosts = pool_.living_hosts_of(collection.device_of_rank);
  SCALAI_RETURN_IF_ERROR(pool_.call("create", hosts, body).status());
  if (is_trained()) {
    trainers_->forget();
    SCALAI_RETURN_IF_ERROR(
        trainers_->begin(std::make_shared<const Collection>(collection), step, state_path().empty()));
  }
  if (copies) {
    Snapshot snapshot{.in_memory = true, .folder = ""};
    SCALAI_ASSIGN_OR_RETURN(snapshot.sums, sums_of(collection, {}));
    add_snapshot(control::kInitialState, std::move(snapshot));
    SCALAI_RETURN_IF_ERROR(copy_to_hosts(collection, version_of(control::kInitialState), true, *copies));
  }
  state_ = std::make_shared<const Collection>(collection);
  step_ = step;
  return absl::OkStatus();
}

absl::Status JobWork::advance(int64_t step, const std::set<DeviceId>& gone) {
  SCALAI_CHECK(state_ != nullptr);
  if (step == step_ && step_known_) return absl::OkStatus();
  if (is_trained() && step_known_ && step < step_) {
    say("scalai exec: warning: the trainers of job {} stand at step {}; nobody has the state of step {} any more\n",
        spec().name, step_, step);
    interruption_ = Interruption{.step = step_, .lost = state_->device_of_rank};
    return absl::OkStatus();
  }
  step_known_ = false;  // until all have done it
  if (is_trained()) {
    SCALAI_ASSIGN_OR_RETURN(interruption_, trainers_->train(state_, step_, step, gone));
    step_ = interruption_ ? interruption_->step : step;
    step_known_ = true;
    return absl::OkStatus();
  }
  CommandBody body;
  CommandBody::Advance& advance = *body.mutable_advance();
  advance.set_job(job_);
  advance.set_version(StateVersion::epoch(state_->epoch).wire());
  advance.set_step(step);
  std::vector<DeviceId> holders;
  for (const DeviceId device : state_->device_of_rank) {
    if (!gone.contains(device)) holders.push_back(device);
  }
  SCALAI_RETURN_IF_ERROR(pool_.call("advance", pool_.living_hosts_of(holders), body).status());
  step_ = step;
  step_known_ = true;
  return absl::OkStatus();
}

absl::Status JobWork::stand_by(const std::set<HostId>& hosts) {
  if (!is_trained() || !options_.standby) return absl::OkStatus();
  CommandBody body;
  CommandBody::Standby& standby = *body.mutable_standby();
  standby.set_job(job_);
  standby.set_name(spec().name);
  standby.set_state(state_path());
  set_program(standby);
  return pool_.tell("standby", hosts, body);
}

absl::StatusOr<Interruption> JobWork::settle(const std::set<DeviceId>& gone) {
  if (state_ == nullptr) return Interruption{.step = step_, .lost = {}};  // it is made again
  SCALAI_ASSIGN_OR_RETURN(Interruption found, trainers_->settle(*state_, step_, gone));
  step_ = found.step;
  step_known_ = found_ = true;
  return found;
}

absl::StatusOr<TensorSums> JobWork::sums_of(const Collection& side, const std::set<DeviceId>& gone) {
  if (!is_trained() || options_.verify == VerifyMode::kNone) return TensorSums();
  int64_t bytes = 0;
  auto sums = tensor_sums(pool_, job_, side, StateVersion::epoch(side.epoch), gone, bytes);
  bytes_verified_ += bytes;
  return sums;
}

StageOutcome JobWork::run_stage(const control::Execute& execute, const change::Stage& stage, double start_s) {
  const auto began = std::chrono::steady_clock::now();
  StageOutcome outcome;
  switch (stage.what) {
    case change::Stage::What::kStage: outcome.status = this->stage(execute); break;
    case change::Stage::What::kPrepare: outcome.status = prepare(execute); break;
    case change::Stage::What::kRound: outcome.status = round(execute, stage.round, start_s, outcome.transfers); break;
    case change::Stage::What::kVerify: outcome.status = is_trained() ? verify_trained(execute) : verify(execute); break;
    case change::Stage::What::kPlan:
    case change::Stage::What::kRestart:
    case change::Stage::What::kRestore:
    case change::Stage::What::kUpload: break;  // nothing happens on workers
    case change::Stage::What::kResume:
      if (is_trained()) outcome.status = trainers_->begin(execute.to, execute.step, begins_afresh(execute));
      break;
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return outcome;
}

// The state is brought to the step that the plan is of, and, for strategies that do that, into hosts' memories.
absl::Status JobWork::stage(const control::Execute& execute) {
  const bool live = execute.snapshot == control::kLiveState;
  // A worker was lost before all had the initial state.
  if (state_ == nullptr) SCALAI_RETURN_IF_ERROR(begin(*execute.from, execute.step, execute.initial_copies));
  if (live) SCALAI_RETURN_IF_ERROR(advance(execute.step, execute.gone));
  if (interruption_)
    return absl::UnavailableError(fmt::format("trainers lost the state of {} devices", interruption_->lost.size()));
  if (live) {
    SCALAI_ASSIGN_OR_RETURN(expected_, sums_of(*execute.from, execute.gone));
  } else {
    const std::lock_guard lock(snapshots_mutex_);
    const auto snapshot = snapshots_.find(execute.snapshot);
    const bool unknown = snapshot == snapshots_.end() || begins_afresh(execute);
    expected_ = unknown ? TensorSums() : snapshot->second.sums;
  }
  if (!is_staged(execute)) return absl::OkStatus();
  const StateVersion from_version = live ? StateVersion::epoch(execute.from->epoch) : version_of(execute.snapshot);
  WorkerPool::Calls calls;
  for (const HostId host : pool_.living()) {
    CommandBody body;
    CommandBody::Copy& copy = *body.mutable_copy();
    copy.set_job(job_);
    copy.set_from_version(from_version.wire());
    copy.set_to_version(StateVersion::staged().wire());
    copy.set_from_host_memory(!live);
    for (int rank = 0; rank < execute.from->ranks(); ++rank) {
      const DeviceId device = execute.from->device_of_rank[static_cast<size_t>(rank)];
      const HostId home = execute.hub.valid() ? execute.hub : scenario_.cluster.host_of(device);
      if (home != host || execute.gone.contains(device)) continue;
      CommandBody::Copy::From& from = *copy.add_from();
      from.set_place(Location::device(device).str());
      for (size_t i = 0; i < execute.from->tensors.size(); ++i) {
        const TensorId tensor(static_cast<int64_t>(i));
        for (const tensor::Piece& piece : execute.from->pieces(tensor, LogicalRank(rank)).pieces)
          set_box(piece.box, tensor, execute.from->tensors[i].dtype, *from.add_boxes());
      }
    }
    if (copy.from_size() > 0) calls.emplace_back(host, std::move(body));
  }
  return pool_.call("stage", calls).status();
}

absl::Status JobWork::prepare(const control::Execute& execute) {
  CommandBody body;
  CommandBody::Prepare& prepare = *body.mutable_prepare();
  prepare.set_job(job_);
  prepare.set_name(spec().name);
  prepare.set_to_version(StateVersion::epoch(execute.epoch).wire());
  prepare.set_device_version(StateVersion::epoch(execute.from->epoch).wire());
  prepare.set_host_version(host_version_of(execute).wire());
  prepare.set_restore(execute.snapshot != control::kLiveState);
  prepare.set_step(execute.step);
  prepare.set_plan(plan::serialize(*execute.plan));
  prepare.set_to_collection(text_of(*execute.to));
  prepare.set_state(state_path());
  set_program(prepare);
  {
    const std::lock_guard lock(snapshots_mutex_);
    const auto snapshot = snapshots_.find(execute.snapshot);
    if (snapshot != snapshots_.end()) prepare.set_checkpoint(snapshot->second.folder);
  }
  next_ = execute.to;
  next_step_ = execute.step;
  std::vector<DeviceId> devices = execute.plan->dst_devices();
  devices.insert(devices.end(), execute.plan->src_devices().begin(), execute.plan->src_devices().end());
  return pool_.call("prepare", pool_.living_hosts_of(devices), body).status();
}

absl::Status JobWork::round(const control::Execute& execute, int round, double start_s,
                            std::vector<control::TransferRecord>& transfers) {
  const int32_t last_hop = std::max(0, plan::last_hop(*execute.plan, round));  // a round without instances frees, too
  std::vector<DeviceId> devices = execute.plan->dst_devices();
  if (pool_.holders_send())
    devices.insert(devices.end(), execute.plan->src_devices().begin(), execute.plan->src_devices().end());
  const auto began = std::chrono::steady_clock::now();
  for (int32_t hop = 0; hop <= last_hop; ++hop) {
    CommandBody body;
    body.mutable_round()->set_job(job_);
    body.mutable_round()->set_to_version(StateVersion::epoch(execute.epoch).wire());
    body.mutable_round()->set_round(round);
    body.mutable_round()->set_hop(hop);
    const double hop_s = start_s + std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies,
                            pool_.call("round", pool_.living_hosts_of(devices), body));
    for (const ReplyBody& reply : replies) {
      for (const proto::TransferRecord& record : reply.transfers()) {
        transfers.push_back({.job = job_,
                             .reconfiguration = execute.reconfiguration,
                             .phase = "transfer",
                             .round = round + 1,
                             .src = parse_place(record.src()).value_or(Location::storage()),
                             .dst = parse_place(record.dst()).value_or(Location::storage()),
                             .transfer_class = static_cast<plan::TransferClass>(record.transfer_class()),
                             .bytes = record.bytes(),
                             .start_s = hop_s + record.start_s(),
                             .end_s = hop_s + record.end_s()});
      }
    }
  }
  std::stable_sort(transfers.begin(), transfers.end(), [](const auto& a, const auto& b) { return a.end_s < b.end_s; });
  return absl::OkStatus();
}

absl::Status JobWork::verify(const control::Execute& execute) {
  if (options_.verify == VerifyMode::kNone) return absl::OkStatus();
  CommandBody body;
  CommandBody::Verify& verify = *body.mutable_verify();
  verify.set_job(job_);
  verify.set_version(StateVersion::epoch(execute.epoch).wire());
  verify.set_step(execute.step);
  verify.set_mode(options_.verify == VerifyMode::kFull ? proto::VERIFY_FULL : proto::VERIFY_SAMPLE);
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies,
                          pool_.call("verify", pool_.living_hosts_of(execute.plan->dst_devices()), body));
  int64_t wrong = 0;
  std::string first;
  for (const ReplyBody& reply : replies) {
    bytes_verified_ += reply.bytes();
    wrong += reply.mismatch_count();
    for (const std::string& line : reply.mismatches()) first += "\n  " + line;
  }
  if (wrong == 0) return absl::OkStatus();
  return absl::DataLossError(fmt::format("job {}, epoch {}: {} pieces differ from their expected content at step {}:{}",
                                         spec().name, execute.epoch, wrong, execute.step, first));
}

// Of a state that nobody can compute: what it was before, and that all holders agree.
absl::Status JobWork::verify_trained(const control::Execute& execute) {
  SCALAI_ASSIGN_OR_RETURN(const TensorSums found, sums_of(*execute.to, {}));
  std::string wrong;
  for (size_t i = 0; i < std::min(found.size(), expected_.size()); ++i) {
    const plan::TensorInfo& info = execute.plan->tensors()[i];
    const auto& before = expected_[i];
    if (info.from_dtype != info.dtype || !before) continue;  // cast, or not all there
    if (found[i] != before) wrong += fmt::format("\n  tensor \"{}\"", info.name);
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::DataLossError(fmt::format("job {}, epoch {}: tensors differ from what they were at step {}:{}",
                                         spec().name, execute.epoch, execute.step, wrong));
}

absl::Status JobWork::commit(int64_t epoch) {
  SCALAI_CHECK(next_ != nullptr && next_->epoch == epoch);
  state_ = std::move(next_);
  step_ = next_step_;
  CommandBody body;
  body.mutable_commit()->set_job(job_);
  body.mutable_commit()->set_version(StateVersion::epoch(epoch).wire());
  return pool_.tell("commit", pool_.living(), body);
}

absl::Status JobWork::forget(StateVersion version) {
  CommandBody body;
  body.mutable_forget()->set_job(job_);
  body.mutable_forget()->set_version(version.wire());
  return pool_.tell("forget", pool_.living(), body);
}

bool JobWork::begins_afresh(const control::Execute& execute) const {
  return is_trained() && execute.snapshot == control::kInitialState && state_path().empty() &&
         execute.plan->bytes().from_storage > 0;
}

std::string JobWork::state_path() const {
  const auto found = options_.states.find(job_);
  return found == options_.states.end() ? "" : found->second;
}

}  // namespace scalai::executor
