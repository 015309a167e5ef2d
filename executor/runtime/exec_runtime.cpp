#include "executor/runtime/exec_runtime.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "executor/runtime/internal/exec_runtime_impl.h"
#include "executor/runtime/sample_work.h"
#include "ptc/base/status.h"
#include "ptc/plan/estimate.h"

namespace scalai::executor {

using control::TransferRecord;
using Clock = std::chrono::steady_clock;

namespace {

constexpr double kLossTimeout_s = 30;  // from a failed transfer to the loss that explains it
constexpr double kPoll_s = 0.02;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

// ---- commands -----------------------------------------------------------------------------------------------------

bool ExecRuntime::Impl::take_up(const control::Train& train) {
  SCALAI_CHECK(train.collection != nullptr);
  JobState& state = job(train.job);
  state.devices = train.devices;
  if (std::exchange(state.new_layout, false)) {
    state.dp = static_cast<int>(train.collection->meshes.front().axis_size("dp"));
    state.layout_step = train.from_step;
    if (!replaying_) tell_layout(train.job);
  }
  const int64_t generation = ++state.train_generation;
  if (any_dead(train.devices)) return false;
  const double end_s = train.start_s + static_cast<double>(train.until_step - train.from_step) * train.step_s;
  if (end_s < kForever_s) at(end_s, TrainEnd{train.job, generation, train.until_step});
  return true;
}

void ExecRuntime::Impl::tell_layout(int job_index) {
  const JobState& state = job(job_index);
  if (options_.on_layout && state.dp > 0) options_.on_layout(job_index, state.dp, state.layout_step);
}

absl::Status ExecRuntime::Impl::perform(const control::Train& train) {
  if (!take_up(train)) return absl::OkStatus();
  // A loss meanwhile makes the step never end.
  return explained(job(train.job).work->begin(*train.collection, train.from_step));
}

void ExecRuntime::Impl::take_up(const control::Execute& execute) {
  JobState& state = job(execute.job);
  ++state.execution_generation;
  state.execution.emplace();
  state.execution->command = execute;
  state.execution->stages = stages_of(execute, scenario_.cluster);
  state.execution->until_s = now_s_;
  std::set_difference(dead_.begin(), dead_.end(), unnoticed_.begin(), unnoticed_.end(),
                      std::inserter(state.execution->known_dead, state.execution->known_dead.end()));
}

absl::Status ExecRuntime::Impl::perform(const control::Execute& execute) {
  if (options_.log != nullptr) SCALAI_RETURN_IF_ERROR(options_.log->execute(execute));
  SCALAI_RETURN_IF_ERROR(crew_.let_go_of_the_lost());
  take_up(execute);
  return begin_stage(execute.job);
}

absl::Status ExecRuntime::Impl::perform(const control::Abort& abort) {
  JobState& state = job(abort.job);
  ++state.execution_generation;
  if (!state.execution) return absl::OkStatus();
  if (state.execution->work.valid()) state.execution->work.wait();
  const int64_t epoch = state.execution->command.epoch;
  state.execution.reset();
  if (options_.log != nullptr) SCALAI_RETURN_IF_ERROR(options_.log->abort(abort.job));
  return state.work->forget(epoch);
}

absl::Status ExecRuntime::Impl::perform(const control::Commit& commit) {
  if (options_.log != nullptr) SCALAI_RETURN_IF_ERROR(options_.log->commit(commit));
  job(commit.job).gone.clear();
  job(commit.job).new_layout = true;
  SCALAI_RETURN_IF_ERROR(job(commit.job).work->commit(commit.epoch));
  return options_.log != nullptr ? options_.log->freed(commit.job) : absl::OkStatus();
}

absl::Status ExecRuntime::Impl::perform(const control::Background& background) {
  if (any_dead(background.collection->device_of_rank)) return absl::OkStatus();  // the loss makes it void
  // A lost worker of the job makes it void, and training goes on without it; any other one only had copies.
  absl::Status done = absl::OkStatus();
  size_t living = 0;
  do {
    living = crew_.living().size();
    done = job(background.job).work->background(background);
    SCALAI_RETURN_IF_ERROR(explained(done));
    hear(0);
  } while (!done.ok() && crew_.living().size() < living && !any_dead(background.collection->device_of_rank));
  if (!done.ok()) return absl::OkStatus();
  take_up(background);
  return absl::OkStatus();
}

absl::Status ExecRuntime::Impl::perform(const control::Inject& inject) {
  if (const auto* fail = std::get_if<control::Fail>(&inject.what)) return apply(*fail, inject.detect_s);
  if (const auto* repair = std::get_if<control::Repair>(&inject.what)) return apply(*repair);
  return absl::OkStatus();  // a slower link changes durations only, and those are modelled
}

std::vector<DeviceId> ExecRuntime::Impl::die(const std::vector<DeviceId>& devices) {
  std::vector<DeviceId> fresh;
  for (const DeviceId device : devices) {
    if (dead_.insert(device).second) fresh.push_back(device);
  }
  for (JobState& state : jobs_) {
    state.gone.insert(fresh.begin(), fresh.end());
    if (!fresh.empty() && any_dead(state.devices)) ++state.train_generation;
  }
  return fresh;
}

void ExecRuntime::Impl::live_again(const std::vector<DeviceId>& devices) {
  for (const DeviceId device : devices) {
    dead_.erase(device);
    for (JobState& state : jobs_) {
      if (state.execution) state.execution->known_dead.erase(device);
    }
  }
}

// Losses of these devices that are not known yet: no longer on the agenda.
std::vector<ExecRuntime::Impl::LossKnown> ExecRuntime::Impl::take_losses(const std::vector<DeviceId>& devices) {
  std::vector<LossKnown> taken;
  disarm([&](const Action& action) {
    const LossKnown* loss = std::get_if<LossKnown>(&action);
    const bool one_of_them =
        loss != nullptr && std::any_of(devices.begin(), devices.end(), [&](DeviceId device) {
          return std::find(loss->devices.begin(), loss->devices.end(), device) != loss->devices.end();
        });
    if (one_of_them) taken.push_back(*loss);
    return one_of_them;
  });
  return taken;
}

// A host all of whose devices have failed loses its worker; else the devices lose their memory.
absl::Status ExecRuntime::Impl::apply(const control::Fail& fail, double detect_s) {
  const std::vector<DeviceId> fresh = die(fail.devices);
  if (fresh.empty()) return absl::OkStatus();
  unnoticed_.insert(fresh.begin(), fresh.end());
  std::map<HostId, std::vector<DeviceId>> by_host;
  for (const DeviceId device : fresh) by_host[scenario_.cluster.host_of(device)].push_back(device);
  for (const auto& [host, devices] : by_host) {
    if (!crew_.living().contains(host)) continue;
    const std::vector<DeviceId> all = scenario_.cluster.devices_of(host);
    const bool whole = std::all_of(all.begin(), all.end(), [&](DeviceId device) { return dead_.contains(device); });
    SCALAI_RETURN_IF_ERROR(explained(whole ? crew_.kill(host) : fail_devices(crew_, host, devices)));
  }
  at(now_s_ + detect_s, LossKnown{fresh, now_s_});
  return absl::OkStatus();
}

absl::Status ExecRuntime::Impl::apply(const control::Repair& repair) {
  live_again(repair.devices);
  for (const LossKnown& loss : take_losses(repair.devices)) SCALAI_RETURN_IF_ERROR(happen(loss));
  std::set<HostId> hosts;
  for (const DeviceId device : repair.devices) hosts.insert(scenario_.cluster.host_of(device));
  for (const HostId host : hosts) {
    if (options_.plan_only || crew_.living().contains(host)) continue;
    SCALAI_RETURN_IF_ERROR(explained(crew_.revive(host)));
  }
  return absl::OkStatus();
}

// ---- executions ---------------------------------------------------------------------------------------------------

absl::Status ExecRuntime::Impl::begin_stage(int job_index) {
  JobState& state = job(job_index);
  Execution& execution = *state.execution;
  const ModelledStage& stage = execution.stages[execution.current];
  if (options_.log != nullptr && stage.round > 0 && plan::frees_early(*execution.command.plan))
    SCALAI_RETURN_IF_ERROR(options_.log->round(job_index, stage.round + 1));
  const double start_s = now_s_;
  JobWork* work = state.work.get();
  const control::Execute* command = &execution.command;
  execution.work = std::async(std::launch::async,
                              [work, command, stage, start_s] { return work->run_stage(*command, stage, start_s); });
  execution.until_s += stage.seconds;
  at(execution.until_s, StageEnd{job_index, state.execution_generation});
  return absl::OkStatus();
}

// Waits for the work of a stage whose modelled time is over, and hears of lost workers meanwhile.
absl::Status ExecRuntime::Impl::happen(const StageEnd& end) {
  JobState& state = job(end.job);
  if (!state.execution || state.execution_generation != end.generation || state.execution->broken)
    return absl::OkStatus();
  Execution& execution = *state.execution;
  while (execution.work.wait_for(std::chrono::duration<double>(kPoll_s)) != std::future_status::ready) hear(0);
  // What was heard came first: the control loop may give up this execution, of which nothing may go on then.
  if (!ready_.empty()) {
    at(now_s_, end);
    return absl::OkStatus();
  }
  StageOutcome outcome = execution.work.get();
  for (TransferRecord& record : outcome.transfers) recorder_.transfers.push_back(std::move(record));
  // Whatever came of it: a device that died in scenario time before the stage's end did not do its part.
  if (needs_dead(execution)) {
    execution.broken = true;
    return absl::OkStatus();
  }
  if (outcome.status.ok()) return end_stage(end.job, outcome);
  const Clock::time_point failed_at = Clock::now();
  const bool loss = absl::IsUnavailable(outcome.status) || absl::IsCancelled(outcome.status);
  while (loss && !involves_dead(execution) && seconds_since(failed_at) < kLossTimeout_s) hear(kPoll_s);
  if (!involves_dead(execution) || absl::IsDataLoss(outcome.status)) return outcome.status;
  execution.broken = true;  // the control loop will hear of the loss and give it up
  return absl::OkStatus();
}

// Whether the current stage is, or a commit would be, nothing without a dead device.
bool ExecRuntime::Impl::needs_dead(const Execution& execution) const {
  if (dead_.empty()) return false;
  const plan::Plan& plan = *execution.command.plan;
  if (any_dead(plan.dst_devices)) return true;
  const int round = execution.stages[execution.current].round;
  return std::any_of(plan.instances.begin(), plan.instances.end(), [&](const plan::Instance& instance) {
    const auto legs = plan.patterns.legs(instance.pattern);
    return instance.round == round && std::any_of(legs.begin(), legs.end(), [&](const plan::Leg& leg) {
             return leg.src.kind == plan::Location::Kind::kDevice && dead_.contains(DeviceId(leg.src.index));
           });
  });
}

absl::Status ExecRuntime::Impl::end_stage(int job_index, const StageOutcome& outcome) {
  JobState& state = job(job_index);
  Execution& execution = *state.execution;
  const ModelledStage& stage = execution.stages[execution.current];
  execution.phases.*stage.phase += outcome.seconds;
  if (stage.mark > execution.last_mark) report(control::RoundDone{job_index, execution.last_mark = stage.mark});
  if (++execution.current < execution.stages.size()) return begin_stage(job_index);
  // A commit needs the word of every device of the new epoch.
  execution.broken = any_dead(execution.command.plan->dst_devices);
  if (execution.broken) return absl::OkStatus();
  report(control::ExecutionDone{job_index, execution.phases});
  state.execution.reset();
  ++state.execution_generation;
  return absl::OkStatus();
}

absl::Status ExecRuntime::Impl::happen(const TrainEnd& end) {
  JobState& state = job(end.job);
  if (state.train_generation != end.generation) return absl::OkStatus();
  SCALAI_RETURN_IF_ERROR(explained(state.work->advance(end.step)));
  hear(0);
  if (state.train_generation != end.generation) return absl::OkStatus();  // lost a device meanwhile
  report(control::StepReached{end.job, end.step});
  return absl::OkStatus();
}

// All that is to be read. A worker that is lost meanwhile leaves it to the others; when none lives it has to wait.
absl::Status ExecRuntime::Impl::read_samples() {
  for (size_t i = 0; i < jobs_.size(); ++i) {
    std::deque<control::Read>& unread = jobs_[i].unread;
    while (!unread.empty() && !crew_.living().empty()) {
      const auto index = options_.datasets.find(static_cast<int>(i));
      absl::StatusOr<control::SamplesRead> read = scalai::executor::read_samples(
          scenario_, crew_, index != options_.datasets.end() ? index->second : scenario_.jobs[i].dataset->index_path,
          unread.front());
      SCALAI_RETURN_IF_ERROR(explained(read.status()));
      if (!read.ok()) continue;
      unread.pop_front();
      report(*std::move(read));
    }
  }
  return absl::OkStatus();
}

// ---- time and what is heard ---------------------------------------------------------------------------------------

void ExecRuntime::Impl::worker_lost(HostId host, const std::string& reason) {
  if (!crew_.living().contains(host)) return;  // we killed it
  crew_.lost(host);
  ++losses_;
  const std::vector<DeviceId> fresh = die(scenario_.cluster.devices_of(host));
  fmt::print(stderr, "scalai-exec: lost the worker of h{}: {}\n", host.value, reason);
  if (fresh.empty()) return;
  report(control::DevicesLost{fresh, now_s_});
}

// A worker could not be reached: ok when one is lost, which the control loop is told then.
absl::Status ExecRuntime::Impl::explained(const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsCancelled(status)) return status;
  const Clock::time_point failed_at = Clock::now();
  const int64_t before = losses_;
  while (losses_ == before && seconds_since(failed_at) < kLossTimeout_s) hear(kPoll_s);
  return losses_ == before ? status : absl::OkStatus();
}

void ExecRuntime::Impl::hear(double timeout_s) {
  for (std::optional<executor::Event> heard = controller_.next_event(timeout_s); heard;
       heard = controller_.next_event(0)) {
    const auto* lost = std::get_if<WorkerLost>(&*heard);
    if (lost != nullptr && crew_.is_ours(*lost)) worker_lost(HostId(lost->host), lost->reason);
  }
  if (options_.requests == nullptr) return;
  for (control::EventBody& request : options_.requests->take()) report(std::move(request));
}

void ExecRuntime::Impl::wait_until(double scenario_s) {
  if (options_.time_scale <= 0) return hear(0);
  while (ready_.empty()) {
    const double elapsed_s = seconds_since(started_) / options_.time_scale;
    now_s_ = std::max(now_s_, std::min(elapsed_s, scenario_s));  // when what is heard of comes
    hear(std::clamp((scenario_s - elapsed_s) * options_.time_scale, 0.0, 0.2));
    if (elapsed_s >= scenario_s) return;
  }
}

absl::Status ExecRuntime::Impl::do_or_note(const control::Command& command) {
  if (replaying_ && !past_is_over()) {
    note(command);
    return absl::OkStatus();
  }
  SCALAI_RETURN_IF_ERROR(go_live());
  // A worker that the command kills has not been lost.
  if (!std::holds_alternative<control::Inject>(command)) SCALAI_RETURN_IF_ERROR(judge_workers());
  return std::visit([this](const auto& what) { return perform(what); }, command);
}

absl::StatusOr<control::Event> ExecRuntime::Impl::next_event() {
  if (replaying_ && !past_is_over()) {
    const control::Event& event = options_.past[next_past_++];
    note(event);
    return event;
  }
  SCALAI_RETURN_IF_ERROR(go_live());
  SCALAI_RETURN_IF_ERROR(judge_workers());
  SCALAI_RETURN_IF_ERROR(begin_again());
  SCALAI_RETURN_IF_ERROR(read_samples());
  while (ready_.empty()) {
    if (agenda_.empty()) {
      const bool waits = std::any_of(jobs_.begin(), jobs_.end(),
                                     [](const JobState& job) { return job.execution && job.execution->broken; });
      hear(0.1);
      if (!ready_.empty()) break;
      if (waits) return failed("a transfer failed and no lost worker explains it");
      return absl::FailedPreconditionError("nothing can happen any more: jobs wait for devices that never come");
    }
    const double next_s = agenda_.begin()->first.first;
    wait_until(next_s);
    if (!ready_.empty()) break;
    now_s_ = std::max(now_s_, next_s);
    const Action action = std::move(agenda_.begin()->second);
    agenda_.erase(agenda_.begin());
    SCALAI_RETURN_IF_ERROR(std::visit([this](const auto& what) { return happen(what); }, action));
  }
  control::Event event = std::move(ready_.front());
  ready_.pop_front();
  if (options_.log != nullptr) SCALAI_RETURN_IF_ERROR(options_.log->event(event));
  return event;
}

ExecRuntime::ExecRuntime(const control::Scenario& scenario, ControllerEnd& controller, Crew& crew,
                         control::Recorder& recorder, ExecOptions options)
    : impl_(std::make_unique<Impl>(scenario, controller, crew, recorder, std::move(options))) {}
ExecRuntime::~ExecRuntime() = default;
absl::Status ExecRuntime::perform(const control::Command& command) { return impl_->do_or_note(command); }
absl::StatusOr<control::Event> ExecRuntime::next_event() { return impl_->next_event(); }
int64_t ExecRuntime::bytes_verified() const { return impl_->bytes_verified(); }

}  // namespace scalai::executor
