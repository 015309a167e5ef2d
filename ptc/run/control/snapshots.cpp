#include "ptc/run/control/internal/snapshots.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace scalai::control {

double Snapshots::start_due(Job& job) {
  const int64_t step = job.state.step;
  const scenario::CheckpointPolicy& checkpoint = job.spec->checkpoint;
  const scenario::RedundancyPolicy& redundancy = job.spec->redundancy;
  const auto busy = [&](bool is_checkpoint) {
    return std::any_of(job.copies.in_flight.begin(), job.copies.in_flight.end(),
                       [&](const auto& entry) { return entry.second.first == is_checkpoint; });
  };
  const auto start_unless_there = [&](bool is_checkpoint) {
    if (busy(is_checkpoint)) return false;
    const std::optional<Holding>& last = is_checkpoint ? job.copies.checkpoint : job.copies.redundant;
    if (is_checkpoint) job.copies.asked = false;
    if (last && last->step == step && last->collection == job.state.collection) return false;
    start(job, is_checkpoint ? nullptr : redundancy_of(job));
    return true;
  };
  bool any = false;
  const bool due = checkpoint.every_steps > 0 && step % checkpoint.every_steps == 0;
  const bool copies_due = redundancy.copies > 0 && step % redundancy.every_steps == 0;
  JobRecord& record = job.accounts.record;
  if (due && busy(true)) ++record.checkpoints_left_out;
  if (copies_due && busy(false) && record.redundancy) ++record.redundancy->left_out;
  if (due || job.copies.asked) any = start_unless_there(true) || any;
  if (copies_due) any = start_unless_there(false) || any;
  if (!any) return 0;
  return stall_s(job);
}

Snapshots::Work& Snapshots::work_on(const Job& job) {
  Work& work = work_[job.index];
  if (work.collection != job.state.collection) work = {.collection = job.state.collection};
  return work;
}

double Snapshots::stall_s(const Job& job) {
  std::optional<double>& stall_s = work_on(job).stall_s;
  if (stall_s) return *stall_s;
  stall_s = 0;
  const cluster::Cluster& cluster = condition_.cluster();
  const std::vector<int64_t> bytes = state_bytes_of_ranks(*job.state.collection);
  for (size_t rank = 0; rank < bytes.size(); ++rank) {
    const HostId host = cluster.host_of(job.state.collection->device_of_rank[rank]);
    const double rate = cluster::reached(cluster.hosts[static_cast<size_t>(host.value)]).pcie_bytes_per_s;
    if (rate > 0) stall_s = std::max(*stall_s, static_cast<double>(bytes[rank]) / rate);
  }
  return *stall_s;
}

const std::vector<BulkFlow>& Snapshots::checkpoint_of(const Job& job) {
  std::optional<std::vector<BulkFlow>>& flows = work_on(job).checkpoint;
  if (!flows) flows = checkpoint_flows(*job.state.collection);
  return *flows;
}

std::shared_ptr<const Redundancy> Snapshots::redundancy_of(const Job& job) {
  Work& work = work_on(job);
  std::set<HostId> down = condition_.hosts_down();
  const int home = condition_.home_of(job.devices);
  for (int host = 0; host < std::ssize(condition_.cluster().hosts); ++host)
    if (!condition_.on(home, HostId(host))) down.insert(HostId(host));
  if (!work.redundancy || work.down != down) {
    work.redundancy = std::make_shared<const Redundancy>(
        plan_redundancy(*job.state.collection, condition_.cluster(), job.spec->redundancy, down));
    work.down = std::move(down);
  }
  return work.redundancy;
}

int64_t Snapshots::start(Job& job, const std::shared_ptr<const Redundancy>& redundant) {
  const int64_t tag = next_tag_++;
  const bool is_checkpoint = redundant == nullptr;
  const SharedCopies copies = redundant ? SharedCopies(redundant, &redundant->copies) : nullptr;
  job.copies.in_flight[tag] = {is_checkpoint,
                               Holding{.step = job.state.step,
                                       .collection = job.state.collection,
                                       .gone = job.state.gone,
                                       .made_s = turn_.now_s,
                                       .snapshot = tag,
                                       .copies = copies,
                                       .survives_host_losses = redundant ? redundant->survives_host_losses : 0}};
  turn_.commands.push_back(Background{.job = job.index,
                                      .tag = tag,
                                      .what = is_checkpoint ? "checkpoint" : "redundancy",
                                      .flows = redundant ? redundant->flows : checkpoint_of(job),
                                      .collection = job.state.collection,
                                      .step = job.state.step,
                                      .host_copy = !is_checkpoint || job.spec->checkpoint.host_memory_copy,
                                      .copies = copies});
  return tag;
}

void Snapshots::start_last(Job& job) {
  job.mode = Mode::kStopping;
  job.copies.last = start(job, nullptr);
}

void Snapshots::start_evacuation(Job& job, Redundancy copies) {
  job.copies.evacuation = job.copies.before_change = start(job, std::make_shared<const Redundancy>(std::move(copies)));
}

bool Snapshots::evacuated(const Job& job) const {
  const Copies& copies = job.copies;
  const auto of_now = [&](const std::optional<Holding>& copy) {
    return copy && copy->step == job.state.step && copy->collection == job.state.collection;
  };
  return of_now(copies.checkpoint) || (of_now(copies.redundant) && copies.evacuation == copies.redundant->snapshot);
}

bool Snapshots::start_before_change(Job& job) {
  const auto of_now = [&](const Holding& copy) {
    return copy.step == job.state.step && copy.collection == job.state.collection;
  };
  if (job.copies.checkpoint && of_now(*job.copies.checkpoint)) return false;
  for (const auto& [tag, copy] : job.copies.in_flight)
    if (copy.first && of_now(copy.second)) job.copies.before_change = tag;
  if (!job.copies.before_change) job.copies.before_change = start(job, nullptr);
  return true;
}

bool Snapshots::arrive(Job& job, int64_t tag) {
  const auto found = job.copies.in_flight.find(tag);
  if (found == job.copies.in_flight.end()) return false;
  auto& [is_checkpoint, holding] = found->second;
  std::optional<Holding>& last = is_checkpoint ? job.copies.checkpoint : job.copies.redundant;
  if (last) turn_.commands.push_back(Forget{job.index, last->snapshot});
  last = std::move(holding);
  last->written_s = std::max(0.0, turn_.now_s - last->made_s - stall_s(job));
  std::optional<RedundancyRecord>& record = job.accounts.record.redundancy;
  if (!is_checkpoint && record && job.copies.evacuation != tag) {
    ++record->made;
    record->survives_host_losses =
        std::min(record->survives_host_losses.value_or(last->survives_host_losses), last->survives_host_losses);
  }
  job.copies.in_flight.erase(found);
  return true;
}

void Snapshots::give_up(Job& job, SnapshotId copy) {
  if (job.copies.in_flight.erase(copy) > 0) turn_.commands.push_back(Forget{job.index, copy});
  // One that has counted stays where it is, for people to look at.
  for (std::optional<Holding>* held : {&job.copies.checkpoint, &job.copies.redundant}) {
    if (*held && (*held)->snapshot == copy) held->reset();
  }
}

void Snapshots::forget_after(Job& job, int64_t step) {
  for (std::optional<Holding>* held : {&job.copies.checkpoint, &job.copies.redundant}) {
    if (!*held || (*held)->step <= step) continue;
    turn_.commands.push_back(Forget{job.index, (*held)->snapshot});
    held->reset();
  }
}

void Snapshots::lose(Job& job, const std::set<DeviceId>& devices) {
  const std::set<HostId> hosts = without_memory(devices);
  drop(job, [&](const Holding& copy) { return on_lost(copy, devices, hosts); });
  const auto forget = [&](Holding& holding) {
    std::set<DeviceId> lost;
    std::copy_if(devices.begin(), devices.end(), std::inserter(lost, lost.end()),
                 [&](DeviceId device) { return condition_.lost_since(device, holding.made_s); });
    holding.gone.insert(lost.begin(), lost.end());
    const std::set<HostId> hosts_lost = lost == devices ? hosts : without_memory(lost);
    const auto is_lost = [&](const collection::ExtraHolder& extra) { return hosts_lost.contains(extra.host); };
    const auto copies = list_of(holding.copies);
    if (std::none_of(copies.begin(), copies.end(), is_lost)) return;
    std::vector<collection::ExtraHolder> kept;
    std::remove_copy_if(copies.begin(), copies.end(), std::back_inserter(kept), is_lost);
    holding.copies = std::make_shared<const std::vector<collection::ExtraHolder>>(std::move(kept));
  };
  forget(job.state);
  if (job.copies.checkpoint) forget(*job.copies.checkpoint);
  if (job.copies.redundant) forget(*job.copies.redundant);
  for (auto& [tag, copy] : job.copies.in_flight) forget(copy.second);
}

// A copy never arrives when it lost a device that it is made from, or a host that was to keep some of it.
bool Snapshots::on_lost(const Holding& copy, const std::set<DeviceId>& devices, const std::set<HostId>& hosts) const {
  const std::vector<DeviceId>& sources = copy.collection->device_of_rank;
  const auto copies = list_of(copy.copies);
  return std::any_of(sources.begin(), sources.end(), [&](DeviceId device) { return devices.contains(device); }) ||
         std::any_of(copies.begin(), copies.end(),
                     [&](const collection::ExtraHolder& extra) { return hosts.contains(extra.host); });
}

std::set<HostId> Snapshots::without_memory(const std::set<DeviceId>& lost) const {
  std::set<HostId> hosts;
  for (const DeviceId device : lost) {
    const HostId host = condition_.cluster().host_of(device);
    const std::vector<DeviceId> own = condition_.cluster().devices_of(host);
    if (std::all_of(own.begin(), own.end(), [&](DeviceId one) { return lost.contains(one) || condition_.dead(one); }))
      hosts.insert(host);
  }
  return hosts;
}

void Snapshots::drop(Job& job, const std::function<bool(const Holding&)>& worthless) {
  std::erase_if(job.copies.in_flight, [&](const auto& entry) {
    if (!worthless(entry.second.second)) return false;
    turn_.commands.push_back(Forget{job.index, entry.first});
    return true;
  });
}

}  // namespace scalai::control
