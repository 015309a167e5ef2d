#include "executor/controller/internal/arrivals.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/run/control/event_text.h"

namespace scalai::executor::controller {

namespace {

constexpr double kFirstPause_s = 0.25, kLongestPause_s = 30;

}  // namespace

void Arrivals::receive(double timeout_s) {
  for (std::optional<rpc::Event> event = controller_.next_event(timeout_s); event; event = controller_.next_event(0)) {
    const auto* lost = std::get_if<rpc::WorkerLost>(&*event);
    if (lost == nullptr || !run_.pool.is_ours(*lost)) continue;
    if (run_.pool.living().contains(HostId(lost->host))) lose_worker(HostId(lost->host), run_.pool.why_lost(*lost));
  }
  report_losses();
  if (run_.options.requests == nullptr || catching_up()) return;
  for (control::EventBody& request : run_.options.requests->take()) run_.report(std::move(request));
}

void Arrivals::await(double most_s, const std::function<bool()>& is_so) {
  const auto began = std::chrono::steady_clock::now();
  while (!is_so() && seconds_since(began) < most_s) receive(kPoll_s);
}

void Arrivals::pause(double& pause_s) {
  pause_s = pause_s == 0 ? kFirstPause_s : std::min(kLongestPause_s, 2 * pause_s);
  await(pause_s, [] { return false; });
}

absl::Status Arrivals::unless_lost(const absl::Status& status) {
  if (!may_be_loss(status)) return status;
  const int64_t before = losses_;
  await(kLossTimeout_s, [&] { return losses_ != before; });
  return losses_ == before ? status : absl::OkStatus();
}

void Arrivals::lose_worker(HostId host, const std::string& why) {
  run_.pool.lost(host);
  ++losses_;
  const std::vector<DeviceId> fresh = run_.agenda.lose(run_.scenario.cluster.devices_of(host));
  run_.mark_gone(fresh);
  say("scalai exec: lost the worker of h{}: {}\n", host.value, printable_text(why));
  if (!fresh.empty()) {
    unreported_.push_back(
        {.devices = fresh, .cause = control::as_cell(fmt::format("the worker of h{}: {}", host.value, why))});
  }
}

absl::Status Arrivals::lose(const Interruption& interruption) {
  const std::vector<DeviceId> fresh = run_.agenda.lose(interruption.lost);
  // The device may be what ends its trainers, so it is not tried without end.
  constexpr int kMostEmptied = 3;
  const std::string cause = fmt::format("its training process left no whole state of step {}", interruption.step);
  Loss again{.devices = {}, .usable = true, .cause = cause}, for_good{.devices = {}, .cause = cause};
  for (const DeviceId device : fresh) (++emptied_[device] < kMostEmptied ? again : for_good).devices.push_back(device);
  for (Loss* loss : {&again, &for_good}) {
    if (!loss->devices.empty()) unreported_.push_back(std::move(*loss));
  }
  if (!fresh.empty()) say("scalai exec: {} devices have no whole state of step {}\n", fresh.size(), interruption.step);
  run_.mark_gone(fresh);
  for (const auto& [host, devices] : run_.by_host(fresh)) {
    if (run_.pool.living().contains(host)) SCALAI_RETURN_IF_ERROR(unless_lost(fail_devices(run_.pool, host, devices)));
  }
  return absl::OkStatus();
}

// When the state was lost is what the control loop counts the steps by. Emulated training is where the clock is; real
// training is where those stopped who still have state.
void Arrivals::report_losses() {
  if (unreported_.empty() || reporting_) return;
  reporting_ = true;  // settling receives more
  double failed_at_s = run_.agenda.now_s();
  for (RunState::Job& state : run_.jobs) {
    if (!state.work->is_trained() || !state.training || run_.trains(state)) continue;
    absl::StatusOr<Interruption> found = state.work->settle(run_.agenda.dead_devices());
    for (; absl::IsUnavailable(found.status()); found = state.work->settle(run_.agenda.dead_devices()))
      receive(kPoll_s);
    trouble_.Update(found.ok() ? lose(*found) : found.status());
    if (!found.ok()) continue;
    const control::Train& train = *state.training;
    const double steps = static_cast<double>(found->step - train.from_step) + 0.5;
    failed_at_s = std::min(failed_at_s, train.start_s + std::max(0.0, steps) * train.step_s);
  }
  reporting_ = false;
  for (Loss& loss : std::exchange(unreported_, {})) {
    if (loss.usable) run_.agenda.repair({.devices = loss.devices});
    run_.report(control::DevicesLost{std::move(loss.devices), failed_at_s, loss.usable, std::move(loss.cause)});
  }
}

bool Arrivals::catching_up() const {
  return std::any_of(run_.jobs.begin(), run_.jobs.end(), [&](const RunState::Job& state) {
    return run_.trains(state) &&
           state.where().steps_done_at(run_.agenda.now_s()) < std::min(state.work->step(), state.training->until_step);
  });
}

}  // namespace scalai::executor::controller
