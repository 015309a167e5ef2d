#include "executor/controller/job_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "executor/controller/exec_runtime.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::controller {

using collection::Collection;

absl::Status fail_devices(WorkerPool& pool, HostId host, const std::vector<DeviceId>& devices) {
  proto::CommandBody body;
  for (const DeviceId device : devices) body.mutable_fail()->add_places(plan::Location::device(device).str());
  SCALAI_RETURN_IF_ERROR(pool.call("fail", {host}, body).status());
  return pool.refresh(host);
}

JobWork::JobWork(int job, const scenario::Scenario& scenario, WorkerPool& pool, const ExecOptions& options)
    : job_(job),
      pool_(pool),
      options_(options),
      commands_(job, scenario, pool, options),
      snapshots_(commands_, options.folder + "/checkpoints/" + commands_.name()) {
  const auto program = options.programs.find(job);
  if (program != options.programs.end())
    trainers_ = std::make_unique<TrainerWork>(job, commands_, pool, program->second);
}

absl::Status JobWork::begin(const Collection& collection, int64_t step, const InitialCopies& copies) {
  if (state_ != nullptr && state_->epoch == collection.epoch) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(const bool there, found_further(collection, step));
  if (there) {
    note_begin(std::make_shared<const Collection>(collection), step, copies.has_value());
    return absl::OkStatus();
  }
  SCALAI_RETURN_IF_ERROR(stand_by(pool_.living()));
  SCALAI_RETURN_IF_ERROR(commands_.create(collection, step));
  if (is_trained()) {
    trainers_->forget();
    SCALAI_RETURN_IF_ERROR(
        trainers_->begin(std::make_shared<const Collection>(collection), step, commands_.state_path().empty()));
  }
  if (copies) {
    SCALAI_ASSIGN_OR_RETURN(TensorSums sums, sums_of(collection, {}));
    snapshots_.note_initial(std::move(sums));
    SCALAI_RETURN_IF_ERROR(commands_.copy_to_hosts(collection, state::StateVersion::initial(), *copies));
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
        commands_.name(), step_, step);
    interruption_ = Interruption{.step = step_, .lost = state_->device_of_rank};
    return absl::OkStatus();
  }
  step_known_ = false;  // until all have done it
  if (is_trained()) {
    SCALAI_ASSIGN_OR_RETURN(interruption_, trainers_->train(state_, step_, step, gone));
  } else {
    SCALAI_RETURN_IF_ERROR(commands_.advance(*state_, step, gone).status());
  }
  step_ = interruption_ ? interruption_->step : step;
  step_known_ = true;
  return absl::OkStatus();
}

absl::Status JobWork::stand_by(const std::set<HostId>& hosts) {
  return is_trained() && options_.standby ? commands_.stand_by(hosts) : absl::OkStatus();
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
  auto sums = tensor_sums(pool_, job_, side, state::StateVersion::epoch(side.epoch), gone, bytes);
  bytes_verified_ += bytes;
  return sums;
}

StageOutcome JobWork::run_stage(const control::Execute& execute, const change::Stage& stage, double start_s) {
  const auto began = std::chrono::steady_clock::now();
  StageOutcome outcome;
  switch (stage.what) {
    case change::Stage::What::kStage: outcome.status = this->stage(execute); break;
    case change::Stage::What::kPrepare: outcome.status = prepare(execute); break;
    case change::Stage::What::kRound:
      outcome.status = commands_.round(execute, stage.round, start_s, outcome.transfers);
      break;
    case change::Stage::What::kVerify:
      outcome.status = is_trained() ? verify_trained(execute) : commands_.verify(execute, bytes_verified_);
      break;
    case change::Stage::What::kPlan:
    case change::Stage::What::kRestart:
    case change::Stage::What::kRestore:
    case change::Stage::What::kUpload:
    case change::Stage::What::kCompile: break;  // nothing happens on workers
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
    expected_ = begins_afresh(execute) ? TensorSums() : snapshots_.find(execute.snapshot).sums;
  }
  return commands_.stage(execute);
}

absl::Status JobWork::prepare(const control::Execute& execute) {
  next_ = execute.to;
  next_step_ = execute.step;
  return commands_.prepare(execute, snapshots_.find(execute.snapshot).folder);
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
                                         commands_.name(), execute.epoch, execute.step, wrong));
}

absl::Status JobWork::commit(int64_t epoch) {
  SCALAI_CHECK(next_ != nullptr && next_->epoch == epoch);
  note_commit();
  return commands_.commit(epoch);
}

absl::StatusOr<proto::LiveState> JobWork::show_live(state::StateVersion version, const LiveSteps::Kind& kind) {
  SCALAI_CHECK(state_ != nullptr);
  return commands_.show_live(*state_, step_, version, kind);
}

absl::Status JobWork::background(const control::Background& background) {
  if (options_.plan_only) return absl::OkStatus();
  snapshots_.note(background);
  SCALAI_RETURN_IF_ERROR(advance(background.step));
  if (interruption_) return absl::UnavailableError("trainers lost the state of some devices");
  SCALAI_RETURN_IF_ERROR(snapshots_.wait_for_files());
  SCALAI_ASSIGN_OR_RETURN(TensorSums sums, sums_of(*background.collection, {}));
  return snapshots_.make(background, std::move(sums), is_trained());
}

absl::StatusOr<std::string> JobWork::keep_live() {
  SCALAI_CHECK(state_ != nullptr);
  SCALAI_RETURN_IF_ERROR(snapshots_.wait_for_files());
  return snapshots_.write(*state_, step_);
}

bool JobWork::begins_afresh(const control::Execute& execute) const {
  return is_trained() && execute.snapshot == control::kInitialState && commands_.state_path().empty() &&
         execute.plan->bytes().from_storage > 0;
}

void JobWork::note_begin(std::shared_ptr<const Collection> collection, int64_t step, bool copied) {
  if (state_ != nullptr && state_->epoch == collection->epoch) return;
  state_ = std::move(collection);
  step_ = step;
  if (copied) snapshots_.note_initial({});
}

void JobWork::note_execute(const control::Execute& execute) {
  from_ = execute.from;
  copied_ = execute.initial_copies.has_value();
  next_ = execute.to;
  next_step_ = execute.step;
}

// The stage before it makes the initial state, where it is not there.
void JobWork::note_staged() {
  if (state_ == nullptr && from_ != nullptr) note_begin(from_, next_step_, copied_);
  made_ = true;
}

void JobWork::note_loss(const std::vector<DeviceId>& devices, bool has_trained) {
  made_ = made_ || (is_trained() && has_trained);
  const std::vector<DeviceId> own = this->devices();
  const bool involved = std::any_of(own.begin(), own.end(), [&](DeviceId device) {
    return std::find(devices.begin(), devices.end(), device) != devices.end();
  });
  if (involved && !made_) state_ = nullptr;
}

void JobWork::note_commit() {
  SCALAI_CHECK(next_ != nullptr);
  state_ = std::move(next_);
  step_ = next_step_;
}

// Real training may have gone on before anything of it was written down: a later step than the first proves that the
// initial state was complete.
absl::StatusOr<bool> JobWork::found_further(const Collection& collection, int64_t step) {
  if (!is_trained() || found_) return false;
  const std::set<HostId> hosts = pool_.living_hosts_of(collection.device_of_rank);
  if (!std::all_of(hosts.begin(), hosts.end(), [&](HostId host) { return holds(pool_.hello_of(host), &collection); }))
    return false;
  SCALAI_ASSIGN_OR_RETURN(const Interruption found, trainers_->settle(collection, step, {}));
  return found.step > step;
}

bool JobWork::holds(const proto::Hello& hello, const Collection* side) const {
  return side != nullptr && std::any_of(hello.held().begin(), hello.held().end(), [&](const proto::HeldState& one) {
           return one.job() == job_ && one.version() == state::StateVersion::epoch(side->epoch).wire();
         });
}

}  // namespace scalai::executor::controller
