// Copies of a job's state: checkpoints, redundant copies, and the last one of a run that is stopped.

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "ptc/control/internal/control_impl.h"

namespace scalai::control {

int64_t Control::Impl::next_milestone(const Job& job) const {
  int64_t next = std::numeric_limits<int64_t>::max() / 2;  // none: trains until something happens
  const int64_t step = job.state.step;
  if (job.spec->steps > 0) next = std::min(next, job.spec->steps);
  for (size_t i = 0; i < scenario_.events.size(); ++i) {
    const auto* at = std::get_if<AtStep>(&scenario_.events[i].when);
    if (at != nullptr && at->job == job.index && !fired_[i] && at->step > step) next = std::min(next, at->step);
  }
  const auto multiple_after = [&](int64_t every) { return (step / every + 1) * every; };
  if (job.spec->checkpoint.every_steps > 0) next = std::min(next, multiple_after(job.spec->checkpoint.every_steps));
  if (job.spec->redundancy.copies > 0) next = std::min(next, multiple_after(job.spec->redundancy.every_steps));
  return next;
}

double Control::Impl::start_snapshots(Job& job) {
  const int64_t step = job.state.step;
  const CheckpointPolicy& checkpoint = job.spec->checkpoint;
  const RedundancyPolicy& redundancy = job.spec->redundancy;
  const auto start = [&](bool is_checkpoint) {
    const bool busy = std::any_of(job.in_flight.begin(), job.in_flight.end(),
                                  [&](const auto& entry) { return entry.second.first == is_checkpoint; });
    if (busy) return false;  // the last one has not arrived: skip this one
    const std::optional<Holding>& last = is_checkpoint ? job.checkpoint : job.redundant;
    if (last && last->step == step && last->collection == job.state.collection) return false;
    start_snapshot(job, is_checkpoint);
    return true;
  };
  bool any = false;
  if (checkpoint.every_steps > 0 && step % checkpoint.every_steps == 0) {
    any = start(true) || any;
  }
  if (redundancy.copies > 0 && step % redundancy.every_steps == 0) {
    any = start(false) || any;
  }
  if (!any) return 0;
  // Training waits while every device copies its state to host memory; the rest goes on in the background.
  double stall_s = 0;
  const std::vector<int64_t> bytes = state_bytes_of_ranks(*job.state.collection);
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    const HostId host = scenario_.cluster.host_of(job.state.collection->device_of_rank[rank]);
    const double rate = scenario_.cluster.hosts[static_cast<size_t>(host.value)].pcie_bytes_per_s;
    if (rate > 0) stall_s = std::max(stall_s, static_cast<double>(bytes[rank]) / rate);
  }
  return stall_s;
}

int64_t Control::Impl::start_snapshot(Job& job, bool is_checkpoint) {
  const collection::Collection& state = *job.state.collection;
  const RedundancyPolicy& redundancy = job.spec->redundancy;
  const std::set<HostId> down = hosts_down();
  const int64_t tag = next_tag_++;
  std::vector<collection::ExtraHolder> copies;
  if (!is_checkpoint) copies = redundant_copies(state, scenario_.cluster, redundancy, down);
  job.in_flight[tag] = {is_checkpoint, Holding{.step = job.state.step,
                                               .collection = job.state.collection,
                                               .gone = job.state.gone,
                                               .made_s = now_s_,
                                               .snapshot = tag,
                                               .copies = copies}};
  Background copy{
      .job = job.index,
      .tag = tag,
      .what = is_checkpoint ? "checkpoint" : "redundancy",
      .flows = is_checkpoint ? checkpoint_flows(state) : redundancy_flows(state, scenario_.cluster, redundancy, down),
      .collection = job.state.collection,
      .step = job.state.step,
      .host_copy = !is_checkpoint || job.spec->checkpoint.host_memory_copy,
      .copies = std::move(copies)};
  commands_.push_back(std::move(copy));
  return tag;
}

// With all their devices they have lost their memory.
std::set<HostId> Control::Impl::hosts_down() const {
  std::set<HostId> down;
  for (const DeviceId device : dead_) {
    const HostId host = scenario_.cluster.host_of(device);
    const std::vector<DeviceId> devices = scenario_.cluster.devices_of(host);
    if (std::all_of(devices.begin(), devices.end(), [&](DeviceId one) { return dead_.count(one) != 0; }))
      down.insert(host);
  }
  return down;
}

// The run is to end: the job stands at this boundary until its state is written. A loss meanwhile leads through a
// reconfiguration back here.
void Control::Impl::start_last_copy(Job& job) {
  job.mode = Mode::kStopping;
  job.last_copy = start_snapshot(job, /*is_checkpoint=*/true);
}

void Control::Impl::drop_in_flight(Job& job, const std::function<bool(const Holding&)>& worthless) {
  std::erase_if(job.in_flight, [&](const auto& entry) {
    if (!worthless(entry.second.second)) return false;
    commands_.push_back(Forget{job.index, entry.first});
    return true;
  });
}

}  // namespace scalai::control
