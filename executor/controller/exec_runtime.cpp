#include "executor/controller/exec_runtime.h"

#include <algorithm>
#include <limits>

#include "executor/controller/internal/copies.h"
#include "executor/controller/internal/past.h"
#include "executor/controller/internal/takeover.h"
#include "executor/controller/sample_work.h"
#include "ptc/base/status.h"

namespace scalai::executor::controller {

using control::Agenda;

// Commands and events in turn; the parts do what they say.
class ExecRuntime::Impl {
 public:
  Impl(const scenario::Scenario& scenario, rpc::ControllerEnd& controller, WorkerPool& pool,
       control::Recorder& recorder, ExecOptions options)
      : run_(scenario, pool, recorder, std::move(options)), arrivals_(run_, controller) {}

  // Does what the command says, or takes it as done when an earlier controller has.
  absl::Status do_or_note(const control::Command& command);
  absl::StatusOr<control::Event> next_event();
  int64_t bytes_verified() const {
    int64_t bytes = 0;
    for (const RunState::Job& job : run_.jobs) bytes += job.work->bytes_verified();
    return bytes;
  }

 private:
  absl::Status perform(const control::Train& train) {
    if (!training_.take_up(train, /*tells=*/true)) return absl::OkStatus();
    // A loss meanwhile makes the step never end.
    return arrivals_.unless_lost(
        run_.job(train.job).work->begin(*train.collection, train.from_step, train.initial_copies));
  }
  absl::Status perform(const control::Halt& halt) {
    run_.agenda.halt(halt.job);
    run_.job(halt.job).training.reset();
    return absl::OkStatus();
  }
  absl::Status perform(const control::Read& read) {
    run_.job(read.job).unread.push_back(read);
    return read_samples();
  }
  absl::Status perform(const control::Execute& execute) { return executions_.begin(execute); }
  absl::Status perform(const control::Abort& abort) { return executions_.abort(abort); }
  absl::Status perform(const control::Commit& commit);
  absl::Status perform(const control::Background& background) { return copies_.make(background); }
  absl::Status perform(const control::Forget& forget) { return copies_.forget(forget); }
  absl::Status perform(const control::ArmTimer& timer) {
    run_.agenda.arm(timer);
    return absl::OkStatus();
  }
  absl::Status perform(const control::Inject& inject);
  absl::Status perform(const control::Stop&) { return copies_.end(); }
  absl::Status apply(const scenario::Fail& fail, double detect_s);
  absl::Status apply(const scenario::Repair& repair);

  absl::Status happen(const Agenda::TrainEnd& end);
  absl::Status happen(const Agenda::StageEnd& end) { return executions_.happen(end); }
  absl::Status happen(const Agenda::CopyEnd& end) { return copies_.happen(end); }
  absl::Status happen(const Agenda::LossKnown& loss) {
    run_.report(control::DevicesLost{loss.devices, loss.failed_at_s});
    return absl::OkStatus();
  }
  absl::Status happen(const Agenda::TimerEnd& end) {
    run_.report(control::TimerFired{end.timer});
    return absl::OkStatus();
  }
  absl::Status read_samples();
  bool any_under_way() const;  // training, or a change
  // What happens next, by the clock; nothing where an event was received first, or nothing can happen.
  absl::StatusOr<std::optional<Agenda::Happening>> await_next();

  RunState run_;
  Arrivals arrivals_;
  Executions executions_{run_, arrivals_};
  TrainingProgress training_{run_, arrivals_, executions_};
  Copies copies_{run_, arrivals_, executions_, training_};
  Past past_{run_, executions_, training_};
  Takeover takeover_{run_, arrivals_, executions_, training_};
};

// ---- commands -----------------------------------------------------------------------------------------------------

absl::Status ExecRuntime::Impl::perform(const control::Commit& commit) {
  RunLog* const log = run_.options.log;
  if (log != nullptr) SCALAI_RETURN_IF_ERROR(log->commit(commit));
  training_.note_commit(commit.job);
  SCALAI_RETURN_IF_ERROR(run_.job(commit.job).work->commit(commit.epoch));
  return log != nullptr ? log->freed(commit.job) : absl::OkStatus();
}

absl::Status ExecRuntime::Impl::perform(const control::Inject& inject) {
  if (const auto* fail = std::get_if<scenario::Fail>(&inject.what)) return apply(*fail, inject.detect_s);
  if (const auto* repair = std::get_if<scenario::Repair>(&inject.what)) return apply(*repair);
  if (const auto* degrade = std::get_if<scenario::Degrade>(&inject.what)) run_.agenda.degrade(*degrade);  // modelled
  return absl::OkStatus();
}

// A host all of whose devices have failed loses its worker; else the devices lose their memory.
absl::Status ExecRuntime::Impl::apply(const scenario::Fail& fail, double detect_s) {
  const std::vector<DeviceId> fresh = run_.agenda.fail(fail, detect_s);
  run_.mark_gone(fresh);
  for (const auto& [host, devices] : run_.by_host(fresh)) {
    if (!run_.pool.living().contains(host)) continue;
    SCALAI_RETURN_IF_ERROR(
        arrivals_.unless_lost(run_.all_dead(host) ? run_.pool.kill(host) : fail_devices(run_.pool, host, devices)));
  }
  return absl::OkStatus();
}

absl::Status ExecRuntime::Impl::apply(const scenario::Repair& repair) {
  for (const Agenda::LossKnown& loss : run_.agenda.repair(repair)) SCALAI_RETURN_IF_ERROR(happen(loss));
  executions_.note_repair(repair.devices);
  for (const auto& [host, devices] : run_.by_host(repair.devices)) {
    if (run_.options.plan_only || run_.pool.living().contains(host)) continue;
    SCALAI_RETURN_IF_ERROR(arrivals_.unless_lost(run_.pool.revive(host)));
    for (RunState::Job& job : run_.jobs) SCALAI_RETURN_IF_ERROR(arrivals_.unless_lost(job.work->stand_by({host})));
  }
  return absl::OkStatus();
}

// All that is to be read. A worker that is lost meanwhile leaves it to the others; when none lives it has to wait.
absl::Status ExecRuntime::Impl::read_samples() {
  for (int i = 0; i < std::ssize(run_.jobs); ++i) {
    std::deque<control::Read>& unread = run_.job(i).unread;
    while (!unread.empty() && !run_.pool.living().empty()) {
      const auto index = run_.options.datasets.find(i);
      const bool own = index != run_.options.datasets.end();
      absl::StatusOr<control::SamplesRead> read = scalai::executor::controller::read_samples(
          run_.scenario, run_.pool, own ? index->second : run_.spec(i).dataset->index_path, unread.front());
      SCALAI_RETURN_IF_ERROR(arrivals_.unless_lost(read.status()));
      if (!read.ok()) continue;
      unread.pop_front();
      run_.report(*std::move(read));
    }
  }
  return absl::OkStatus();
}

// ---- events -------------------------------------------------------------------------------------------------------

absl::Status ExecRuntime::Impl::happen(const Agenda::TrainEnd& end) {
  if (!run_.agenda.counts(end)) return absl::OkStatus();
  SCALAI_RETURN_IF_ERROR(training_.advance(end.job, end.step));
  if (!run_.agenda.counts(end)) return absl::OkStatus();  // lost a device meanwhile
  SCALAI_RETURN_IF_ERROR(copies_.wait_before(end));
  if (run_.agenda.counts(end) && run_.is_last(end.job, end.step)) SCALAI_RETURN_IF_ERROR(copies_.keep_last(end.job));
  if (run_.agenda.counts(end)) run_.report(control::StepReached{end.job, end.step});
  return absl::OkStatus();
}

bool ExecRuntime::Impl::any_under_way() const {
  for (int job = 0; job < std::ssize(run_.jobs); ++job) {
    if (run_.job(job).training || executions_.is_under_way(job)) return true;
  }
  return false;
}

absl::StatusOr<std::optional<control::Agenda::Happening>> ExecRuntime::Impl::await_next() {
  if (run_.options.time_scale <= 0) {
    arrivals_.receive(0);
    while (run_.ready.empty()) {
      SCALAI_RETURN_IF_ERROR(copies_.collect());
      SCALAI_RETURN_IF_ERROR(training_.serve_live());
      if (!run_.ready.empty()) break;
      if (copies_.any_due() && !any_under_way()) {
        arrivals_.receive(kPoll_s);
        continue;
      }
      const double until_s = run_.options.requests != nullptr || copies_.any_due()
                                 ? training_.end_of_part()
                                 : std::numeric_limits<double>::infinity();
      auto happening = run_.agenda.next(until_s);
      if (happening || until_s == std::numeric_limits<double>::infinity()) return happening;
      SCALAI_RETURN_IF_ERROR(training_.keep_up());  // which receives events
      if (run_.options.on_time) run_.options.on_time(run_.agenda.now_s());
    }
    return std::nullopt;
  }
  while (run_.ready.empty() && (!run_.agenda.idle() || copies_.any_due())) {
    arrivals_.receive(0);  // and serve: a run that is behind its clock never waits below
    SCALAI_RETURN_IF_ERROR(training_.serve_live());
    if (!run_.ready.empty()) break;
    const double elapsed_s = seconds_since(run_.started) / run_.options.time_scale;
    if (auto happening = run_.agenda.next(std::max(elapsed_s, run_.agenda.now_s()))) return happening;
    arrivals_.receive(kPoll_s);
    SCALAI_RETURN_IF_ERROR(copies_.collect());
  }
  return std::nullopt;
}

// ---- commands and events in turn ------------------------------------------------------------------------------------

absl::Status ExecRuntime::Impl::do_or_note(const control::Command& command) {
  if (!past_.is_over()) {
    past_.note(command);
    return absl::OkStatus();
  }
  if (takeover_.is_due() && std::holds_alternative<control::Stop>(command) && !copies_.any_cut_short())
    return absl::OkStatus();  // the earlier controller has dismissed its workers
  SCALAI_RETURN_IF_ERROR(takeover_.find());
  // A worker that the command kills has not been lost.
  if (!std::holds_alternative<control::Inject>(command)) SCALAI_RETURN_IF_ERROR(takeover_.judge_workers());
  return std::visit([this](const auto& what) { return perform(what); }, command);
}

absl::StatusOr<control::Event> ExecRuntime::Impl::next_event() {
  if (!past_.is_over()) return past_.next();
  SCALAI_RETURN_IF_ERROR(takeover_.find());
  SCALAI_RETURN_IF_ERROR(takeover_.judge_workers());
  SCALAI_RETURN_IF_ERROR(takeover_.begin_again());
  SCALAI_RETURN_IF_ERROR(read_samples());
  while (run_.ready.empty()) {
    std::optional<Agenda::Happening> happening = run_.next_pending();
    if (!happening) {
      SCALAI_ASSIGN_OR_RETURN(happening, await_next());
    }
    if (!run_.ready.empty()) break;
    if (!happening) {
      const bool waits = executions_.any_broken();
      arrivals_.receive(0.1);
      if (!run_.ready.empty()) break;
      if (waits) return failed("a transfer failed and no lost worker explains it");
      return absl::FailedPreconditionError("nothing can happen any more: jobs wait for devices that never come");
    }
    SCALAI_RETURN_IF_ERROR(training_.keep_up());
    if (!run_.ready.empty()) {  // what was lost on the way came first
      run_.pending.push_front(*std::move(happening));
      break;
    }
    SCALAI_RETURN_IF_ERROR(std::visit([this](const auto& what) { return happen(what); }, *happening));
  }
  SCALAI_RETURN_IF_ERROR(arrivals_.trouble());
  control::Event event = std::move(run_.ready.front());
  run_.ready.pop_front();
  if (run_.options.log != nullptr) SCALAI_RETURN_IF_ERROR(run_.options.log->event(event));
  return event;
}

ExecRuntime::ExecRuntime(const scenario::Scenario& scenario, rpc::ControllerEnd& controller, WorkerPool& pool,
                         control::Recorder& recorder, ExecOptions options)
    : impl_(std::make_unique<Impl>(scenario, controller, pool, recorder, std::move(options))) {}
ExecRuntime::~ExecRuntime() = default;
absl::Status ExecRuntime::perform(const control::Command& command) { return impl_->do_or_note(command); }
absl::StatusOr<control::Event> ExecRuntime::next_event() { return impl_->next_event(); }
int64_t ExecRuntime::bytes_verified() const { return impl_->bytes_verified(); }

}  // namespace scalai::executor::controller
