#include "sim/jobs/recovery/proactive.h"

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"
#include "sim/jobs/recovery/internal/host_events.h"
#include "sim/jobs/recovery/internal/phases.h"

namespace scalai::jobs {
namespace {

std::vector<HostInterval> expected(const RecoverySetup& setup, std::span<const HostInterval> truth, size_t now) {
  const size_t ahead = static_cast<size_t>(setup.look_ahead);
  if (setup.foresight || now == 0) {
    const size_t end = std::min(truth.size(), now + (now == 0 && !setup.foresight ? 1 : ahead));
    return {truth.begin() + static_cast<std::ptrdiff_t>(now), truth.begin() + static_cast<std::ptrdiff_t>(end)};
  }
  std::vector<int> past;
  for (size_t i = now - std::min(now, ahead); i < now; ++i) past.push_back(truth[i].hosts);
  std::vector<HostInterval> intervals;
  int before = past.back();
  for (const int hosts : forecast_hosts(past, setup.look_ahead, 0, setup.hosts)) {
    intervals.push_back({hosts, std::max(0, hosts - before), std::max(0, before - hosts)});
    before = hosts;
  }
  return intervals;
}

// What of a planned layout fits on the hosts that are really there.
PipelineLayout cut_down(const Liveput& liveput, PipelineLayout layout, int hosts) {
  if (layout.pp > 0 && layout.hosts() > hosts) layout.dp = hosts / layout.pp;
  const bool runs = layout.dp > 0 && liveput.throughput(layout) > 0;
  return runs ? layout : liveput.best(hosts);
}

}  // namespace

std::vector<HostInterval> host_intervals(const policy::Availability& availability, int hosts, double interval_s,
                                         double until_s) {
  using recovery::internal::HostEvent;
  const size_t count = static_cast<size_t>(std::max(1.0, std::ceil(until_s / interval_s)));
  std::vector<HostInterval> intervals(count);
  for (const HostEvent& event : recovery::internal::host_events(availability, hosts, 0)) {
    const size_t at = static_cast<size_t>(event.at_s / interval_s);
    if (at >= count) break;
    if (event.kind == HostEvent::Kind::kCome) ++intervals[at].in;
    if (event.kind == HostEvent::Kind::kGone) ++intervals[at].out;
  }
  int live = 0;
  for (HostInterval& interval : intervals) {
    // A host that came and went within one interval was never of use.
    const int flash = std::max(0, interval.out - live);
    interval.in -= flash;
    interval.out -= flash;
    live += interval.in - interval.out;
    interval.hosts = live;
  }
  return intervals;
}

std::vector<LiveputChoice> plan_intervals(const RecoverySetup& setup, std::span<const HostInterval> truth) {
  const Liveput& liveput = *setup.liveput;
  std::vector<LiveputChoice> choices;
  PipelineLayout layout;
  int hosts = 0;
  double pause_s = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    const HostInterval& real = truth[i];
    const PipelineLayout planned = liveput.plan(hosts, layout, pause_s, expected(setup, truth, i));
    const PipelineLayout to = cut_down(liveput, planned, real.hosts);
    const double cost = to.hosts() == 0 ? 0 : liveput.migration_s(hosts, layout, real.in, real.out, to);
    if (cost > 0) pause_s = pause_s > 0 ? cost + liveput.restart_s(to, false) : cost;
    LiveputChoice choice{.hosts = real, .layout = to, .pause_s = std::min(pause_s, liveput.interval_s()), .samples = 0};
    choice.samples = liveput.throughput(to) * (liveput.interval_s() - choice.pause_s);
    pause_s -= choice.pause_s;
    choices.push_back(choice);
    hosts = real.hosts;
    layout = to;
  }
  return choices;
}

absl::StatusOr<policy::RecoveryResult> simulate_proactive(const RecoverySetup& setup) {
  if (setup.liveput == nullptr) {
    return invalid("recovery: the proactive design needs layouts with their throughputs and migration costs");
  }
  if (setup.hosts > 1000) return invalid("recovery: the proactive design plans for at most 1000 hosts");
  if (setup.look_ahead < 1) return invalid("recovery: look-ahead must be at least 1 interval");
  const double until_s = setup.until_s > 0 ? setup.until_s : recovery::internal::last_event_s(*setup.availability);
  const double interval_s = setup.liveput->interval_s();
  const std::vector<HostInterval> truth =
      host_intervals(*setup.availability, setup.hosts, interval_s, std::max(until_s, interval_s));
  policy::RecoveryResult result;
  double trained_s = 0, host_s = 0;
  PipelineLayout before;
  double at_s = 0;
  for (const LiveputChoice& choice : plan_intervals(setup, truth)) {
    const int used = choice.layout.hosts();
    const double work_s = used > 0 ? interval_s - choice.pause_s : 0;
    const double gpus = setup.gpus_per_host / 3600.0;
    if (result.samples == 0 && choice.samples > 0) result.from_s = at_s + choice.pause_s;
    result.samples += choice.samples;
    result.losses += choice.hosts.out;
    result.restarts += choice.layout != before && before.hosts() > 0;
    trained_s += work_s;
    host_s += interval_s * choice.hosts.hosts;
    result.training_gpu_h += work_s * used * gpus;
    result.changing_gpu_h += choice.pause_s * choice.hosts.hosts * gpus;
    result.idle_gpu_h += (work_s * (choice.hosts.hosts - used)) * gpus;
    if (used == 0) result.idle_gpu_h += (interval_s - choice.pause_s) * choice.hosts.hosts * gpus;
    const double rate = setup.liveput->throughput(choice.layout);
    if (choice.pause_s > 0) recovery::internal::add_phase(result.phases, {at_s, choice.hosts.hosts, used, 0});
    if (work_s > 0)
      recovery::internal::add_phase(result.phases, {at_s + choice.pause_s, choice.hosts.hosts, used, rate});
    before = choice.layout;
    at_s += interval_s;
  }
  result.to_s = at_s;
  result.steps = static_cast<int64_t>(std::floor(result.samples / setup.samples_per_step));
  if (at_s > result.from_s) {
    result.samples_per_s = result.samples / (at_s - result.from_s);
    result.ettr = trained_s / (at_s - result.from_s);
  }
  result.mean_hosts = host_s / at_s;
  result.usd = host_s / 3600 * setup.usd_per_host_hour;
  return result;
}

}  // namespace scalai::jobs
