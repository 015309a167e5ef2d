#include "executor/controller/internal/takeover.h"

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::controller {

absl::Status Takeover::find() {
  if (std::exchange(is_due_, false)) SCALAI_RETURN_IF_ERROR(find_workers());
  for (RunState::Job& job : run_.jobs) {
    if (job.work->is_trained() && !job.work->is_found()) SCALAI_RETURN_IF_ERROR(find_trainers(job));
  }
  return absl::OkStatus();
}

absl::Status Takeover::find_workers() {
  using Clock = std::chrono::steady_clock;
  to_begin_again_ = true;
  const std::chrono::duration<double> passed(run_.agenda.now_s() * run_.options.time_scale);
  run_.started = Clock::now() - std::chrono::duration_cast<Clock::duration>(passed);
  for (size_t i = 0; i < run_.scenario.cluster.hosts.size(); ++i) {
    const HostId host(static_cast<int64_t>(i));
    if (!run_.all_dead(host)) unjudged_.insert(host);
  }
  for (int i = 0; i < std::ssize(run_.jobs); ++i) {
    JobWork& work = *run_.job(i).work;
    for (const control::SnapshotId copy : work.snapshots().cut_off()) {
      run_.agenda.drop_copy(copy);
      work.snapshots().leave_files(copy);
      run_.report(control::CopyLost{i, copy});
    }
    work.resume();
    training_.tell_layout(i);  // the earlier controller may not have told it
    SCALAI_RETURN_IF_ERROR(executions_.catch_up(i));
  }
  SCALAI_RETURN_IF_ERROR(run_.pool.rejoin(unjudged_, run_.options.rejoin_s));
  for (const RunState::Job& job : run_.jobs) SCALAI_RETURN_IF_ERROR(job.work->forget_live());
  return absl::OkStatus();
}

absl::Status Takeover::find_trainers(RunState::Job& job) {
  std::set<DeviceId> gone = job.gone;
  const std::vector<DeviceId> devices = job.work->devices();
  for (const DeviceId device : devices) {
    const HostId host = run_.scenario.cluster.host_of(device);
    if (!run_.pool.living().contains(host) || !job.work->live_in(run_.pool.hello_of(host))) gone.insert(device);
  }
  if (std::all_of(devices.begin(), devices.end(), [&](DeviceId device) { return gone.contains(device); }))
    return absl::OkStatus();
  const absl::StatusOr<Interruption> found = job.work->settle(gone);
  SCALAI_RETURN_IF_ERROR(arrivals_.unless_lost(found.status()));
  return found.ok() ? arrivals_.lose(*found) : absl::OkStatus();
}

absl::Status Takeover::judge_workers() {
  for (const HostId host : std::exchange(unjudged_, {})) {
    const bool joined = run_.pool.living().contains(host);
    if (run_.options.past.empty()) {
      if (!joined) SCALAI_RETURN_IF_ERROR(arrivals_.unless_lost(run_.pool.revive(host)));
      continue;
    }
    if (run_.all_dead(host)) continue;
    const proto::Hello hello = run_.pool.hello_of(host);
    if (joined && hello.places_size() > 0 && holds_state(hello, host)) continue;
    run_.pool.found(host);  // so that it can be lost
    arrivals_.lose_worker(host, joined ? "it has not the state it had" : "it did not join again");
    if (joined) SCALAI_RETURN_IF_ERROR(run_.pool.kill(host));
    arrivals_.report_losses();
  }
  return absl::OkStatus();
}

// Of every job that should have some there.
bool Takeover::holds_state(const proto::Hello& hello, HostId host) const {
  return std::all_of(run_.jobs.begin(), run_.jobs.end(), [&](const RunState::Job& job) {
    const std::vector<DeviceId> devices = job.work->devices();
    return job.work->held_in(hello) || std::none_of(devices.begin(), devices.end(), [&](DeviceId device) {
             return run_.scenario.cluster.host_of(device) == host && !job.gone.contains(device);
           });
  });
}

absl::Status Takeover::begin_again() {
  return std::exchange(to_begin_again_, false) ? executions_.begin_again() : absl::OkStatus();
}

}  // namespace scalai::executor::controller
