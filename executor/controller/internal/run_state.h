#pragma once
// RunState: what the classes of an ExecRuntime share: scenario time, the jobs, and the events that the control loop has
// not received yet. It decides nothing. One thread; the work of stages goes on beside it (JobWork).

#include <chrono>
#include <deque>

#include "executor/controller/exec_runtime.h"
#include "executor/controller/job_work.h"
#include "ptc/cost/change/maxmin.h"
#include "ptc/run/control/agenda.h"
#include "ptc/run/control/training.h"

namespace scalai::executor::controller {

struct RunState {
  struct Job {
    std::unique_ptr<JobWork> work;
    std::set<DeviceId> gone{};           // have failed since the epoch was committed: what they held of it is lost
    std::deque<control::Read> unread{};  // what the control loop waits for
    std::optional<control::Train> training{};  // the Train command that has not come to its end
    // With `training` only.
    control::Training where() const {
      return {training->start_s, training->from_step, training->until_step, training->step_s};
    }
  };

  // All references outlive this object.
  RunState(const scenario::Scenario& of, WorkerPool& workers, control::Recorder& written, ExecOptions with)
      : scenario(of),
        pool(workers),
        recorder(written),
        options(std::move(with)),
        platform(of.cluster, change::LinkRates::kReached, options.stores),
        network(platform.spec()),
        agenda(of.cluster, platform, network, modelled) {
    for (size_t i = 0; i < of.jobs.size(); ++i)
      jobs.push_back({.work = std::make_unique<JobWork>(static_cast<int>(i), of, pool, options)});
  }

  Job& job(int index) { return jobs[static_cast<size_t>(index)]; }
  const Job& job(int index) const { return jobs[static_cast<size_t>(index)]; }
  const scenario::JobSpec& spec(int index) const { return scenario.jobs[static_cast<size_t>(index)]; }
  bool is_last(int index, int64_t step) const { return spec(index).steps > 0 && step >= spec(index).steps; }
  bool any_dead(const std::vector<DeviceId>& devices) const { return agenda.any_dead(devices); }
  bool all_dead(HostId host) const { return agenda.dead(plan::Location::host_memory(host)); }
  // Whether real training of the job goes on.
  bool trains(const Job& job) const {
    return job.work->is_trained() && job.training && !any_dead(job.training->devices);
  }
  // These hold nothing any more.
  void mark_gone(const std::vector<DeviceId>& devices) {
    for (Job& job : jobs) job.gone.insert(devices.begin(), devices.end());
  }
  std::map<HostId, std::vector<DeviceId>> by_host(const std::vector<DeviceId>& devices) const {
    std::map<HostId, std::vector<DeviceId>> by_host;
    for (const DeviceId device : devices) by_host[scenario.cluster.host_of(device)].push_back(device);
    return by_host;
  }
  std::optional<control::Agenda::Happening> next_pending() {
    if (pending.empty()) return std::nullopt;
    control::Agenda::Happening happening = std::move(pending.front());
    pending.pop_front();
    return happening;
  }
  void report(control::EventBody body) { ready.push_back({agenda.now_s(), std::move(body)}); }

  const scenario::Scenario& scenario;
  WorkerPool& pool;
  control::Recorder& recorder;
  const ExecOptions options;
  // Scenario time: the simulator's agenda, on our exact solver.
  const change::Platform platform;
  change::MaxMinBackend network;
  control::Recorder modelled;  // the agenda's transfers, which nobody reads
  control::Agenda agenda;
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();  // real time of scenario time 0
  std::vector<Job> jobs;
  std::deque<control::Agenda::Happening> pending;  // that wait until events received before them are dealt with
  std::deque<control::Event> ready;
};

}  // namespace scalai::executor::controller
