#include "sim/sim_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>

#include "ptc/base/status.h"
#include "sim/execution.h"

namespace scalai::sim {

using control::Event;
using control::TransferRecord;

class SimRuntime::Impl {
 public:
  Impl(const plan::Cluster& cluster, const Platform& platform, NetworkBackend& network, control::Recorder& recorder)
      : cluster_(cluster), platform_(platform), network_(network), recorder_(recorder) {
    for (const LinkSpec& link : platform.spec().links)
      recorder.links.push_back({link.name, link.bandwidth_bytes_per_s});
    nominal_.reserve(recorder.links.size());
    for (const plan::NamedLink& link : recorder.links) nominal_.push_back(link.bandwidth_bytes_per_s);
  }

  void perform(const control::Train& train);
  void perform(const control::Halt& halt) { ++job(halt.job).train_generation; }
  void perform(const control::Read&) {}  // nothing is read, and control::run() has been told so
  void perform(const control::Execute& execute);
  void perform(const control::Abort& abort);
  void perform(const control::Commit&) {}
  void perform(const control::Background& background);
  void perform(const control::Forget&) {}
  void perform(const control::ArmTimer& timer);
  void perform(const control::Inject& inject);
  void perform(const control::Stop&) {}

  absl::StatusOr<Event> next_event();
  void close();

 private:
  // What waits for a moment in time.
  struct TrainEnd {
    int job;
    int64_t generation;
    int64_t step;
  };
  struct WaitEnd {
    int job;
    int64_t generation;
  };
  struct LossKnown {
    std::vector<DeviceId> devices;
    double failed_at_s;
  };
  struct TimerEnd {
    int64_t timer;
  };
  using Action = std::variant<TrainEnd, WaitEnd, LossKnown, TimerEnd>;

  struct Execution {
    control::Execute command;
    std::vector<Stage> stages;
    size_t current = 0;
    double stage_started_s = 0;
    int64_t flows_left = 0;
    control::PhaseSeconds phases;
  };
  struct JobState {
    int64_t train_generation = 0;
    std::vector<DeviceId> devices;     // of the Train command
    int64_t execution_generation = 0;  // stale waits are told apart by it
    std::optional<Execution> execution;
  };
  struct ActiveFlow {
    TransferRecord record;
    int64_t execution = -1;  // generation it belongs to, or
    int64_t tag = -1;        // the Background command
    FlowRequest request;
  };

  JobState& job(int index) { return jobs_[index]; }
  void at(double at_s, Action action) { agenda_[{std::max(at_s, network_.now_s()), sequence_++}] = std::move(action); }
  void report(control::EventBody body) { ready_.push_back({network_.now_s(), std::move(body)}); }

  void happen(const TrainEnd& end);
  void happen(const WaitEnd& end);
  void happen(const LossKnown& loss);
  void happen(const TimerEnd& end) { report(control::TimerFired{end.timer}); }

  void apply(const control::Fail& fail, double detect_s);
  void apply(const control::Repair& repair);
  void apply(const control::Degrade& degrade);
  template <class Other>
  void apply(const Other&) {}
  int link(const std::string& name) const;
  void set_bandwidth(int index, double factor);

  void begin_stage(int job_index);
  void end_stage(int job_index);
  void start_flow(ActiveFlow flow);
  void flow_ended(const FlowEnd& end);
  void drop_flows(const std::function<bool(const ActiveFlow&)>& doomed);
  bool dead(plan::Location place) const;
  void sample_links();

  const plan::Cluster& cluster_;
  const Platform& platform_;
  NetworkBackend& network_;
  control::Recorder& recorder_;

  std::map<int, JobState> jobs_;
  std::map<std::pair<double, int64_t>, Action> agenda_;  // by time, then order of arming
  int64_t sequence_ = 0;
  std::deque<Event> ready_;
  std::map<FlowId, ActiveFlow> flows_;
  std::vector<ActiveFlow> stalled_;             // on a link that is down; start again when it is repaired
  std::map<int64_t, int64_t> background_left_;  // flows by tag
  std::set<DeviceId> dead_;
  std::multiset<DeviceId> unnoticed_;  // lost, whether repaired since or not, and the loss not yet known
  std::set<int> down_;                 // links
  std::vector<double> nominal_;
  bool rates_changed_ = false;
};

// ---- commands -----------------------------------------------------------------------------------------------------

void SimRuntime::Impl::perform(const control::Train& train) {
  JobState& state = job(train.job);
  state.devices = train.devices;
  const int64_t generation = ++state.train_generation;
  const bool broken = std::any_of(train.devices.begin(), train.devices.end(),
                                  [&](DeviceId d) { return dead_.count(d) + unnoticed_.count(d) != 0; });
  if (broken) return;  // the loss will be known soon
  const double end_s = train.start_s + static_cast<double>(train.until_step - train.from_step) * train.step_s;
  constexpr double kForever = 1e15;
  if (end_s < kForever) at(end_s, TrainEnd{train.job, generation, train.until_step});
}

void SimRuntime::Impl::perform(const control::Execute& execute) {
  JobState& state = job(execute.job);
  ++state.execution_generation;
  state.execution = Execution{.command = execute, .stages = stages_of(execute, platform_)};
  begin_stage(execute.job);
}

void SimRuntime::Impl::perform(const control::Abort& abort) {
  JobState& state = job(abort.job);
  const int64_t generation = state.execution_generation++;
  drop_flows([&](const ActiveFlow& flow) { return flow.record.job == abort.job && flow.execution == generation; });
  state.execution.reset();
}

void SimRuntime::Impl::perform(const control::Background& background) {
  background_left_[background.tag] = static_cast<int64_t>(background.flows.size());
  if (background.flows.empty()) report(control::BackgroundDone{background.job, background.tag});
  for (const control::BulkFlow& flow : background.flows) {
    ActiveFlow active;
    active.request = {.src = flow.src,
                      .dst = flow.dst,
                      .bytes = flow.bytes,
                      .transfer_class = class_of(platform_, flow.src, flow.dst)};
    active.record = {.job = background.job, .phase = background.what};
    active.tag = background.tag;
    start_flow(std::move(active));
  }
}

void SimRuntime::Impl::perform(const control::ArmTimer& timer) { at(timer.at_s, TimerEnd{timer.timer}); }

void SimRuntime::Impl::perform(const control::Inject& inject) {
  std::visit(
      [&](const auto& what) {
        if constexpr (std::is_same_v<std::decay_t<decltype(what)>, control::Fail>) {
          apply(what, inject.detect_s);
        } else {
          apply(what);
        }
      },
      inject.what);
}

void SimRuntime::Impl::apply(const control::Fail& fail, double detect_s) {
  std::vector<DeviceId> fresh;
  for (const DeviceId device : fail.devices) {
    if (dead_.insert(device).second) fresh.push_back(device);
  }
  for (const std::string& name : fail.links) {
    down_.insert(link(name));
    set_bandwidth(link(name), 0);
  }
  if (fresh.empty()) return;
  unnoticed_.insert(fresh.begin(), fresh.end());
  for (auto& [index, state] : jobs_) {
    const bool hit =
        std::any_of(state.devices.begin(), state.devices.end(), [&](DeviceId d) { return dead_.count(d) != 0; });
    if (hit) ++state.train_generation;  // its step never ends
  }
  drop_flows([&](const ActiveFlow& flow) { return dead(flow.request.src) || dead(flow.request.dst); });
  at(network_.now_s() + detect_s, LossKnown{fresh, network_.now_s()});
}

void SimRuntime::Impl::apply(const control::Repair& repair) {
  for (const DeviceId device : repair.devices) dead_.erase(device);
  // A device that comes back tells of its loss, if nobody has noticed yet.
  for (auto entry = agenda_.begin(); entry != agenda_.end();) {
    const LossKnown* loss = std::get_if<LossKnown>(&entry->second);
    const bool back =
        loss != nullptr && std::any_of(repair.devices.begin(), repair.devices.end(), [&](DeviceId device) {
          return std::find(loss->devices.begin(), loss->devices.end(), device) != loss->devices.end();
        });
    if (back) happen(*loss);
    entry = back ? agenda_.erase(entry) : std::next(entry);
  }
  for (const std::string& name : repair.links) {
    down_.erase(link(name));
    set_bandwidth(link(name), 1);
  }
  std::vector<ActiveFlow> again;
  std::swap(again, stalled_);
  for (ActiveFlow& flow : again) start_flow(std::move(flow));
}

void SimRuntime::Impl::apply(const control::Degrade& degrade) {
  for (const std::string& name : degrade.links) {
    if (down_.count(link(name)) == 0) set_bandwidth(link(name), degrade.factor);
  }
}

void SimRuntime::Impl::happen(const LossKnown& loss) {
  for (const DeviceId device : loss.devices) unnoticed_.erase(unnoticed_.find(device));
  report(control::DevicesLost{loss.devices, loss.failed_at_s});
}

int SimRuntime::Impl::link(const std::string& name) const {
  const int index = platform_.link(name);
  SCALAI_CHECK(index >= 0, name);
  return index;
}

void SimRuntime::Impl::set_bandwidth(int index, double factor) {
  network_.set_bandwidth(index, nominal_[static_cast<size_t>(index)] * factor);
  rates_changed_ = true;
}

// ---- executions ---------------------------------------------------------------------------------------------------

void SimRuntime::Impl::begin_stage(int job_index) {
  JobState& state = job(job_index);
  Execution& execution = *state.execution;
  execution.stage_started_s = network_.now_s();
  at(network_.now_s() + execution.stages[execution.current].wait_s, WaitEnd{job_index, state.execution_generation});
}

void SimRuntime::Impl::happen(const WaitEnd& end) {
  JobState& state = job(end.job);
  if (!state.execution || state.execution_generation != end.generation) return;
  Execution& execution = *state.execution;
  const Stage& stage = execution.stages[execution.current];
  execution.flows_left = static_cast<int64_t>(stage.flows.size());
  if (stage.flows.empty()) return end_stage(end.job);
  for (const FlowRequest& request : stage.flows) {
    ActiveFlow flow;
    flow.request = request;
    flow.record = {.job = end.job,
                   .reconfiguration = execution.command.reconfiguration,
                   .phase = stage.what,
                   .round = stage.round};
    flow.execution = end.generation;
    start_flow(std::move(flow));
  }
}

void SimRuntime::Impl::end_stage(int job_index) {
  JobState& state = job(job_index);
  Execution& execution = *state.execution;
  const Stage& stage = execution.stages[execution.current];
  execution.phases.*stage.phase += network_.now_s() - execution.stage_started_s;
  if (stage.mark >= 0) report(control::RoundDone{job_index, stage.mark});
  if (++execution.current < execution.stages.size()) return begin_stage(job_index);
  // A commit needs the word of every device of the new epoch: without one it waits until the loss is known.
  const std::vector<DeviceId>& targets = execution.command.plan->dst_devices;
  if (std::any_of(targets.begin(), targets.end(), [&](DeviceId device) { return dead_.count(device) != 0; })) return;
  report(control::ExecutionDone{job_index, execution.phases});
  state.execution.reset();
  ++state.execution_generation;
}

// ---- flows --------------------------------------------------------------------------------------------------------

bool SimRuntime::Impl::dead(plan::Location place) const {
  if (place.kind == plan::Location::Kind::kDevice) return dead_.count(DeviceId(place.index)) != 0;
  if (place.kind == plan::Location::Kind::kStorage) return false;
  const std::vector<DeviceId> devices = cluster_.devices_of(HostId(place.index));
  return std::all_of(devices.begin(), devices.end(), [&](DeviceId device) { return dead_.count(device) != 0; });
}

void SimRuntime::Impl::start_flow(ActiveFlow flow) {
  const FlowRequest& request = flow.request;
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
  const auto [src, dst] = platform_.route(request.src, request.dst, request.src_process, request.dst_process);
  flows_.emplace(network_.start(src, dst, static_cast<double>(request.bytes)), std::move(flow));
  rates_changed_ = true;
}

void SimRuntime::Impl::flow_ended(const FlowEnd& end) {
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
    if (--background_left_[flow.tag] == 0) report(control::BackgroundDone{flow.record.job, flow.tag});
    return;
  }
  JobState& state = job(flow.record.job);
  if (!state.execution || state.execution_generation != flow.execution) return;
  if (--state.execution->flows_left == 0) end_stage(flow.record.job);
}

void SimRuntime::Impl::drop_flows(const std::function<bool(const ActiveFlow&)>& doomed) {
  const auto write = [&](ActiveFlow& flow) {
    flow.record.end_s = network_.now_s();
    flow.record.status = "aborted";
    recorder_.transfers.push_back(flow.record);
  };
  for (auto flow = flows_.begin(); flow != flows_.end();) {
    if (!doomed(flow->second)) {
      ++flow;
      continue;
    }
    network_.cancel(flow->first);
    write(flow->second);
    flow = flows_.erase(flow);
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

void SimRuntime::Impl::sample_links() {
  rates_changed_ = false;
  for (const LinkRate& changed : network_.changed_link_rates()) {
    recorder_.link_samples.push_back({network_.now_s(), changed.link, changed.bytes_per_s});
  }
}

// ---- time ---------------------------------------------------------------------------------------------------------

void SimRuntime::Impl::happen(const TrainEnd& end) {
  if (job(end.job).train_generation == end.generation) report(control::StepReached{end.job, end.step});
}

absl::StatusOr<Event> SimRuntime::Impl::next_event() {
  while (ready_.empty()) {
    // Once for all that happens at one time.
    const bool all_has_happened = agenda_.empty() || agenda_.begin()->first.first > network_.now_s();
    if (rates_changed_ && all_has_happened) sample_links();
    if (agenda_.empty() && flows_.empty()) {
      return absl::FailedPreconditionError("nothing can happen any more: jobs wait for devices that never come");
    }
    const double next_s = agenda_.empty() ? std::numeric_limits<double>::infinity() : agenda_.begin()->first.first;
    const std::vector<FlowEnd> ended = network_.advance_to(std::max(next_s, network_.now_s()));
    for (const FlowEnd& end : ended) flow_ended(end);
    if (!ended.empty() || agenda_.empty() || network_.now_s() < agenda_.begin()->first.first) continue;
    const Action action = std::move(agenda_.begin()->second);
    agenda_.erase(agenda_.begin());
    std::visit([this](const auto& what) { happen(what); }, action);
  }
  Event event = std::move(ready_.front());
  ready_.pop_front();
  return event;
}

void SimRuntime::Impl::close() {
  if (rates_changed_) sample_links();
  drop_flows([](const ActiveFlow&) { return true; });
}

SimRuntime::SimRuntime(const plan::Cluster& cluster, const Platform& platform, NetworkBackend& network,
                       control::Recorder& recorder)
    : impl_(std::make_unique<Impl>(cluster, platform, network, recorder)) {}
SimRuntime::~SimRuntime() = default;

absl::Status SimRuntime::perform(const control::Command& command) {
  std::visit([this](const auto& what) { impl_->perform(what); }, command);
  return absl::OkStatus();
}
absl::StatusOr<Event> SimRuntime::next_event() { return impl_->next_event(); }
void SimRuntime::close() { impl_->close(); }

}  // namespace scalai::sim
