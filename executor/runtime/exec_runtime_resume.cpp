#include <algorithm>
#include <iterator>

#include "executor/runtime/internal/exec_runtime_impl.h"
#include "ptc/base/status.h"

namespace scalai::executor {

void ExecRuntime::Impl::note(const control::Command& command) {
  if (const auto* train = std::get_if<control::Train>(&command)) {
    JobState& state = job(train->job);
    state.devices = train->devices;
    const int64_t generation = ++state.train_generation;
    state.work->note_begin(train->collection, train->from_step);
    const double end_s = train->start_s + static_cast<double>(train->until_step - train->from_step) * train->step_s;
    if (end_s < kForever_s) at(end_s, TrainEnd{train->job, generation, train->until_step});
  } else if (const auto* halt = std::get_if<control::Halt>(&command)) {
    ++job(halt->job).train_generation;
  } else if (const auto* execute = std::get_if<control::Execute>(&command)) {
    JobState& state = job(execute->job);
    ++state.execution_generation;
    state.execution.emplace();
    state.execution->command = *execute;
    state.execution->stages = stages_of(*execute, scenario_.cluster);
    std::set_difference(dead_.begin(), dead_.end(), unnoticed_.begin(), unnoticed_.end(),
                        std::inserter(state.execution->known_dead, state.execution->known_dead.end()));
    state.work->note_execute(*execute);
  } else if (const auto* abort = std::get_if<control::Abort>(&command)) {
    ++job(abort->job).execution_generation;
    job(abort->job).execution.reset();
  } else if (const auto* commit = std::get_if<control::Commit>(&command)) {
    job(commit->job).work->note_commit();
  } else if (const auto* background = std::get_if<control::Background>(&command)) {
    job(background->job).work->note_background(*background);
    backgrounds_.emplace(background->tag, *background);
  } else if (const auto* timer = std::get_if<control::ArmTimer>(&command)) {
    at(timer->at_s, TimerEnd{timer->timer});
  } else if (const auto* inject = std::get_if<control::Inject>(&command)) {
    if (const auto* fail = std::get_if<control::Fail>(&inject->what)) {
      std::vector<DeviceId> fresh;
      for (const DeviceId device : fail->devices) {
        if (dead_.insert(device).second) fresh.push_back(device);
      }
      unnoticed_.insert(fresh.begin(), fresh.end());
      if (!fresh.empty()) at(now_s_ + inject->detect_s, LossKnown{fresh, now_s_});
    } else if (const auto* repair = std::get_if<control::Repair>(&inject->what)) {
      for (const DeviceId device : repair->devices) dead_.erase(device);
    }
  }
}

void ExecRuntime::Impl::note(const control::Event& event) {
  now_s_ = event.at_s;
  if (const auto* step = std::get_if<control::StepReached>(&event.body)) {
    disarm([&](const Action& action) {
      const auto* end = std::get_if<TrainEnd>(&action);
      return end != nullptr && end->job == step->job;
    });
    job(step->job).work->note_step(step->step);
  } else if (const auto* round = std::get_if<control::RoundDone>(&event.body)) {
    JobState& state = job(round->job);
    if (state.execution) state.execution->last_mark = round->round;
  } else if (const auto* done = std::get_if<control::ExecutionDone>(&event.body)) {
    job(done->job).execution.reset();
    ++job(done->job).execution_generation;
  } else if (const auto* copied = std::get_if<control::BackgroundDone>(&event.body)) {
    backgrounds_.erase(copied->tag);
    job(copied->job).work->note_background_done(copied->tag);
  } else if (const auto* timer = std::get_if<control::TimerFired>(&event.body)) {
    disarm([&](const Action& action) {
      const auto* end = std::get_if<TimerEnd>(&action);
      return end != nullptr && end->timer == timer->timer;
    });
  } else if (const auto* lost = std::get_if<control::DevicesLost>(&event.body)) {
    disarm([&](const Action& action) {
      const auto* known = std::get_if<LossKnown>(&action);
      return known != nullptr && known->devices == lost->devices;
    });
    for (const DeviceId device : lost->devices) {
      dead_.insert(device);
      if (const auto found = unnoticed_.find(device); found != unnoticed_.end()) unnoticed_.erase(found);
    }
  }
}

// Finds the workers, drops what they hold of epochs that do not count, and begins anew what was under way.
absl::Status ExecRuntime::Impl::go_live() {
  replaying_ = false;
  std::set<HostId> expected;
  for (size_t i = 0; i < scenario_.cluster.hosts.size(); ++i) {
    const HostId host(static_cast<int64_t>(i));
    const std::vector<DeviceId> devices = scenario_.cluster.devices_of(host);
    if (!std::all_of(devices.begin(), devices.end(), [&](DeviceId device) { return dead_.contains(device); }))
      expected.insert(host);
  }
  SCALAI_RETURN_IF_ERROR(crew_.rejoin(expected, options_.rejoin_s));
  for (const HostId host : expected) {
    const std::vector<HeldState> held = crew_.living().contains(host) ? crew_.held_by(host) : std::vector<HeldState>();
    const bool complete = std::all_of(jobs_.begin(), jobs_.end(), [&](const JobState& state) {
      const auto index = static_cast<int32_t>(&state - jobs_.data());
      return !state.work->needs(host) || std::any_of(held.begin(), held.end(), [&](const HeldState& one) {
        return one.job == index && one.version == state.work->epoch();
      });
    });
    const bool joined = crew_.living().contains(host);
    if (joined && complete) continue;
    const std::string why = joined ? "it has not the state it had" : "it did not join again";
    crew_.found(host);  // so that it can be lost
    worker_lost(host, why);
    if (joined) SCALAI_RETURN_IF_ERROR(crew_.kill(host));
  }
  for (JobState& state : jobs_) SCALAI_RETURN_IF_ERROR(state.work->resume());
  for (const auto& [tag, background] : std::exchange(backgrounds_, {})) {
    if (!any_dead(background.collection->device_of_rank)) SCALAI_RETURN_IF_ERROR(perform(background));
  }
  for (size_t i = 0; i < jobs_.size(); ++i) {
    if (jobs_[i].execution) begin_stage(static_cast<int>(i));
  }
  return absl::OkStatus();
}

}  // namespace scalai::executor
