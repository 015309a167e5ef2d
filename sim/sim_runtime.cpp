#include "sim/sim_runtime.h"

#include <deque>
#include <limits>
#include <utility>

#include "ptc/run/control/agenda.h"

namespace scalai::sim {

using control::Agenda;
using control::Event;

class SimRuntime::Impl {
 public:
  Impl(const cluster::Cluster& cluster, const change::Platform& platform, change::NetworkBackend& network,
       control::Recorder& recorder)
      : agenda_(cluster, platform, network, recorder) {}

  void perform(const control::Train& train) { agenda_.train(train); }
  void perform(const control::Halt& halt) { agenda_.halt(halt.job); }
  void perform(const control::Read&) {}  // nothing is read, and control::run() has been told so
  void perform(const control::Execute& execute) { agenda_.execute(execute); }
  void perform(const control::Abort& abort) { agenda_.abort(abort.job); }
  void perform(const control::Commit&) {}
  void perform(const control::Background& background) { agenda_.background(background); }
  void perform(const control::Forget& forget) { agenda_.drop_copy(forget.snapshot); }
  void perform(const control::ArmTimer& timer) { agenda_.arm(timer); }
  void perform(const control::Inject& inject) {
    if (const auto* fail = std::get_if<scenario::Fail>(&inject.what)) agenda_.fail(*fail, inject.detect_s);
    if (const auto* degrade = std::get_if<scenario::Degrade>(&inject.what)) agenda_.degrade(*degrade);
    if (const auto* repair = std::get_if<scenario::Repair>(&inject.what)) {
      for (const Agenda::LossKnown& loss : agenda_.repair(*repair)) happen(loss);
    }
  }
  void perform(const control::Stop&) {}

  absl::StatusOr<Event> next_event() {
    while (ready_.empty()) {
      if (!take_next())
        return absl::FailedPreconditionError("nothing can happen any more: jobs wait for devices that never come");
      take_pending();
    }
    Event event = std::move(ready_.front());
    ready_.pop_front();
    return event;
  }
  // All that happens at one moment is told in its order, whatever the control loop does about the first of it.
  void take_pending() {
    while (agenda_.pending()) (void)take_next();
  }
  void close() { agenda_.close(); }

 private:
  bool take_next() {
    const auto happening = agenda_.next(std::numeric_limits<double>::infinity());
    if (happening) std::visit([this](const auto& what) { happen(what); }, *happening);
    return happening.has_value();
  }
  void report(control::EventBody body) { ready_.push_back({agenda_.now_s(), std::move(body)}); }
  void happen(const Agenda::TrainEnd& end) {
    if (agenda_.counts(end)) report(control::StepReached{end.job, end.step});
  }
  void happen(const Agenda::StageEnd& end) {
    if (!agenda_.counts(end)) return;
    for (control::EventBody& event : agenda_.end_stage(end.job)) report(std::move(event));
  }
  void happen(const Agenda::CopyEnd& end) { report(control::BackgroundDone{end.job, end.tag}); }
  void happen(const Agenda::LossKnown& loss) { report(control::DevicesLost{loss.devices, loss.failed_at_s}); }
  void happen(const Agenda::TimerEnd& end) { report(control::TimerFired{end.timer}); }

  Agenda agenda_;
  std::deque<Event> ready_;
};

SimRuntime::SimRuntime(const cluster::Cluster& cluster, const change::Platform& platform,
                       change::NetworkBackend& network, control::Recorder& recorder)
    : impl_(std::make_unique<Impl>(cluster, platform, network, recorder)) {}
SimRuntime::~SimRuntime() = default;

absl::Status SimRuntime::perform(const control::Command& command) {
  std::visit([this](const auto& what) { impl_->perform(what); }, command);
  impl_->take_pending();
  return absl::OkStatus();
}
absl::StatusOr<Event> SimRuntime::next_event() { return impl_->next_event(); }
void SimRuntime::close() { impl_->close(); }

}  // namespace scalai::sim
