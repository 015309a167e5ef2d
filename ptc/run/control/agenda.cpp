#include "ptc/run/control/agenda.h"

#include <algorithm>
#include <limits>

#include "ptc/base/status.h"
#include "ptc/cost/change/bulk_flows.h"

namespace scalai::control {

change::Change change_of(const Execute& execute, const cluster::Cluster& cluster) {
  return {.plan = *execute.plan,
          .cluster = cluster,
          .costs = execute.costs,
          .groups = change::groups_of(*execute.to, cluster, execute.from.get(), execute.gone),
          .stage = execute.stage,
          .load = execute.load,
          .upload = execute.upload,
          .from = execute.from.get(),
          .to = execute.to.get(),
          .hub = change::target_hub(execute.hub, *execute.to, cluster),
          .restore = execute.restore};
}

Agenda::Agenda(const cluster::Cluster& cluster, const change::Platform& platform, change::NetworkBackend& network,
               Recorder& recorder)
    : cluster_(cluster), platform_(platform), network_(network), recorder_(recorder) {
  for (const change::LinkSpec& link : platform.spec().links)
    recorder.links.push_back({link.name, link.bandwidth_bytes_per_s});
  nominal_.reserve(recorder.links.size());
  for (const cluster::NamedLink& link : recorder.links) nominal_.push_back(link.bandwidth_bytes_per_s);
}

bool Agenda::any_dead(const std::vector<DeviceId>& devices) const {
  return std::any_of(devices.begin(), devices.end(), [&](DeviceId device) { return dead_.contains(device); });
}

void Agenda::train(const Train& train) {
  JobState& state = jobs_[train.job];
  state.devices = train.devices;
  const int64_t generation = ++state.train_generation;
  const bool broken = std::any_of(train.devices.begin(), train.devices.end(),
                                  [&](DeviceId d) { return dead_.contains(d) || unnoticed_.contains(d); });
  if (broken) return;  // the loss will be known soon
  const double end_s = train.start_s + static_cast<double>(train.until_step - train.from_step) * train.step_s;
  constexpr double kForever = 1e15;
  if (end_s < kForever) at(end_s, TrainEnd{train.job, generation, train.until_step});
}

void Agenda::execute(const Execute& execute) {
  JobState& state = jobs_[execute.job];
  ++state.execution_generation;
  state.execution = Execution{.command = execute, .stages = stages_of(change_of(execute, cluster_))};
  begin_stage(execute.job);
}

void Agenda::abort(int job) {
  const int64_t generation = jobs_[job].execution_generation++;
  drop_flows([&](const ActiveFlow& flow) { return flow.record.job == job && flow.execution == generation; });
  jobs_[job].execution.reset();
}

void Agenda::background(const Background& background) {
  background_left_[background.tag] = static_cast<int64_t>(background.flows.size());
  if (background.flows.empty()) ready_.push_back(CopyEnd{background.job, background.tag});
  for (const BulkFlow& flow : background.flows) {
    ActiveFlow active;
    active.request = {.src = flow.src,
                      .dst = flow.dst,
                      .bytes = flow.bytes,
                      .transfer_class = change::class_of(cluster_, flow.src, flow.dst)};
    active.record = {.job = background.job, .phase = background.what};
    active.tag = background.tag;
    start_flow(std::move(active));
  }
}

void Agenda::drop_copy(int64_t tag) {
  if (background_left_.erase(tag) == 0) return;
  drop_flows([&](const ActiveFlow& flow) { return flow.tag == tag; });
}

std::vector<DeviceId> Agenda::lose(const std::vector<DeviceId>& devices) {
  std::vector<DeviceId> fresh;
  for (const DeviceId device : devices) {
    if (dead_.insert(device).second) fresh.push_back(device);
  }
  if (fresh.empty()) return fresh;
  for (auto& [index, state] : jobs_) {
    if (any_dead(state.devices)) ++state.train_generation;  // its step never ends
  }
  drop_flows([&](const ActiveFlow& flow) { return dead(flow.request.src) || dead(flow.request.dst); });
  return fresh;
}

std::vector<DeviceId> Agenda::fail(const scenario::Fail& fail, double detect_s) {
  for (const std::string& name : fail.links) {
    down_.insert(link(name));
    set_bandwidth(link(name), 0);
  }
  std::vector<DeviceId> fresh = lose(fail.devices);
  if (fresh.empty()) return fresh;
  unnoticed_.insert(fresh.begin(), fresh.end());
  at(now_s() + detect_s, LossKnown{fresh, now_s()});
  return fresh;
}

std::vector<Agenda::LossKnown> Agenda::repair(const scenario::Repair& repair) {
  for (const DeviceId device : repair.devices) dead_.erase(device);
  // A device that comes back tells of its loss, if nobody has noticed yet.
  std::vector<LossKnown> known;
  for (auto entry = actions_.begin(); entry != actions_.end();) {
    const LossKnown* loss = std::get_if<LossKnown>(&entry->second);
    const bool back =
        loss != nullptr && std::any_of(repair.devices.begin(), repair.devices.end(), [&](DeviceId device) {
          return std::find(loss->devices.begin(), loss->devices.end(), device) != loss->devices.end();
        });
    if (back) {
      for (const DeviceId device : loss->devices) unnoticed_.erase(unnoticed_.find(device));
      known.push_back(*loss);
    }
    entry = back ? actions_.erase(entry) : std::next(entry);
  }
  for (const std::string& name : repair.links) {
    down_.erase(link(name));
    set_bandwidth(link(name), 1);
  }
  std::vector<ActiveFlow> again;
  std::swap(again, stalled_);
  for (ActiveFlow& flow : again) start_flow(std::move(flow));
  return known;
}

void Agenda::degrade(const scenario::Degrade& degrade) {
  for (const std::string& name : degrade.links) {
    if (!down_.contains(link(name))) set_bandwidth(link(name), degrade.factor);
  }
}

void Agenda::happen(const LossKnown& loss) {
  for (const DeviceId device : loss.devices) unnoticed_.erase(unnoticed_.find(device));
  ready_.push_back(loss);
}

int Agenda::link(const std::string& name) const {
  const int index = platform_.link(name);
  SCALAI_CHECK(index >= 0, name);
  return index;
}

void Agenda::set_bandwidth(int index, double factor) {
  network_.set_bandwidth(index, nominal_[static_cast<size_t>(index)] * factor);
  rates_changed_ = true;
}

void Agenda::begin_stage(int job) {
  JobState& state = jobs_[job];
  Execution& execution = *state.execution;
  execution.stage_started_s = now_s();
  at(now_s() + execution.stages[execution.current].wait_s, WaitEnd{job, state.execution_generation});
}

void Agenda::happen(const WaitEnd& end) {
  JobState& state = jobs_[end.job];
  if (!state.execution || state.execution_generation != end.generation) return;
  Execution& execution = *state.execution;
  const change::Stage& stage = execution.stages[execution.current];
  execution.flows_left = static_cast<int64_t>(stage.flows.size());
  if (stage.flows.empty()) ready_.push_back(StageEnd{end.job, end.generation});
  for (const change::FlowRequest& request : stage.flows) {
    ActiveFlow flow;
    flow.request = request;
    flow.record = {.job = end.job,
                   .reconfiguration = execution.command.reconfiguration,
                   .phase = stage.flows_are,
                   .round = stage.round + 1};
    flow.execution = end.generation;
    start_flow(std::move(flow));
  }
}

std::vector<EventBody> Agenda::end_stage(int job) {
  JobState& state = jobs_[job];
  Execution& execution = *state.execution;
  const change::Stage& stage = execution.stages[execution.current];
  execution.phases.*stage.phase += now_s() - execution.stage_started_s;
  std::vector<EventBody> events;
  if (stage.mark >= 0) events.emplace_back(RoundDone{job, stage.mark});
  if (++execution.current < execution.stages.size()) {
    begin_stage(job);
    return events;
  }
  --execution.current;
  // A commit needs the word of every device of the new epoch: without one it waits until the loss is known.
  if (any_dead(execution.command.plan->dst_devices())) return events;
  events.emplace_back(ExecutionDone{job, execution.phases});
  state.execution.reset();
  ++state.execution_generation;
  return events;
}

const std::vector<change::Stage>* Agenda::stages(int job) {
  const std::optional<Execution>& execution = jobs_[job].execution;
  return execution ? &execution->stages : nullptr;
}

bool Agenda::dead(plan::Location place) const {
  if (place.kind == plan::Location::Kind::kDevice) return dead_.count(DeviceId(place.index)) != 0;
  if (place.kind == plan::Location::Kind::kStorage) return false;
  const std::vector<DeviceId> devices = cluster_.devices_of(HostId(place.index));
  return std::all_of(devices.begin(), devices.end(), [&](DeviceId device) { return dead_.count(device) != 0; });
}

void Agenda::start_flow(ActiveFlow flow) {
  const change::FlowRequest& request = flow.request;
  flow.record.src = request.src;
  flow.record.dst = request.dst;
  flow.record.transfer_class = request.transfer_class;
  flow.record.bytes = request.bytes;
  flow.record.start_s = network_.now_s();
  if (dead(request.src) || dead(request.dst)) {  // nobody there: the loss will be known soon
    flow.record.end_s = flow.record.start_s;
    flow.record.status = "aborted";
    recorder_.transfers.push_back(flow.record);
    return;
  }
  const auto [src, dst] =
      platform_.route(request.src, request.dst, request.src_process, request.dst_process, request.lane);
  flows_.emplace(network_.start(src, dst, static_cast<double>(request.bytes)), std::move(flow));
  rates_changed_ = true;
}

void Agenda::flow_ended(const change::FlowEnd& end) {
  const auto found = flows_.find(end.flow);
  SCALAI_CHECK(found != flows_.end());
  ActiveFlow flow = std::move(found->second);
  flows_.erase(found);
  rates_changed_ = true;
  if (end.failed) {
    stalled_.push_back(std::move(flow));  // a link is down; all of it is sent again when the link is back
    return;
  }
  flow.record.end_s = end.at_s;
  recorder_.transfers.push_back(flow.record);
  if (flow.tag >= 0) {
    if (--background_left_[flow.tag] == 0) ready_.push_back(CopyEnd{flow.record.job, flow.tag});
    return;
  }
  JobState& state = jobs_[flow.record.job];
  if (!state.execution || state.execution_generation != flow.execution) return;
  if (--state.execution->flows_left == 0) ready_.push_back(StageEnd{flow.record.job, flow.execution});
}

void Agenda::drop_flows(const std::function<bool(const ActiveFlow&)>& doomed) {
  const auto write = [&](ActiveFlow& flow) {
    flow.record.end_s = network_.now_s();
    flow.record.status = "aborted";
    recorder_.transfers.push_back(flow.record);
  };
  std::vector<change::FlowId> dropped;
  for (const auto& [id, flow] : flows_) {
    if (doomed(flow)) dropped.push_back(id);
  }
  std::sort(dropped.begin(), dropped.end());
  for (const change::FlowId id : dropped) {
    network_.cancel(id);
    const auto flow = flows_.find(id);
    write(flow->second);
    flows_.erase(flow);
    rates_changed_ = true;
  }
  for (auto flow = stalled_.begin(); flow != stalled_.end();) {
    if (!doomed(*flow)) {
      ++flow;
      continue;
    }
    write(*flow);
    flow = stalled_.erase(flow);
  }
}

void Agenda::sample_links() {
  rates_changed_ = false;
  for (const change::LinkRate& changed : network_.changed_link_rates()) {
    recorder_.link_samples.push_back({network_.now_s(), changed.link, changed.bytes_per_s});
  }
}

std::optional<Agenda::Happening> Agenda::next(double until_s) {
  while (ready_.empty()) {
    // Once for all that happens at one time.
    const bool all_has_happened = actions_.empty() || actions_.begin()->first.first > now_s();
    if (rates_changed_ && all_has_happened) sample_links();
    const double action_s = actions_.empty() ? std::numeric_limits<double>::infinity() : actions_.begin()->first.first;
    const double next_s = std::max(std::min(action_s, until_s), now_s());
    if (next_s == std::numeric_limits<double>::infinity() && flows_.empty()) return std::nullopt;
    const std::vector<change::FlowEnd> ended = network_.advance_to(next_s);
    for (const change::FlowEnd& end : ended) flow_ended(end);
    if (!ended.empty()) continue;
    if (now_s() < action_s) {
      if (now_s() >= until_s) return std::nullopt;
      continue;
    }
    const Action action = std::move(actions_.begin()->second);
    actions_.erase(actions_.begin());
    std::visit([this](const auto& what) { happen(what); }, action);
  }
  Happening happening = std::move(ready_.front());
  ready_.pop_front();
  return happening;
}

void Agenda::close() {
  if (rates_changed_) sample_links();
  drop_flows([](const ActiveFlow&) { return true; });
}

}  // namespace scalai::control
