#include "sim/jobs/planned/planned.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/cost/step/devices.h"
#include "sim/jobs/planned/change_plan.h"
#include "sim/jobs/planned/internal/device_ledger.h"
#include "sim/jobs/planned/internal/expected.h"
#include "sim/jobs/planned/training_traffic.h"

namespace scalai::jobs {
namespace {

using Source = ChangePlanner::Source;

class Model final : public PlannedChanges {
 public:
  Model(const Configurations& configurations, Fabric& fabric, const PlannedOptions& options)
      : configurations_(configurations),
        cluster_(configurations.cluster()),
        fabric_(fabric),
        options_(options),
        planner_(cluster_, options.strategy),
        device_ledger_(cluster_),
        expected_(configurations, fabric, options.strategy, options.most_planned_gpus) {}

  absl::StatusOr<double> begin(const Change& change) override;
  void cancel(policy::JobId job, double now_s) override;
  absl::StatusOr<std::vector<LostWork>> host_lost(HostId host, ChangeCause cause, double now_s) override;
  double next_end_s() const override;
  std::vector<ChangeEnd> advance(double to_s) override;
  void training(policy::JobId job, const policy::Job& spec, const policy::Placement& placement, double now_s) override;
  void idle(policy::JobId job, double now_s) override;
  uint64_t step_rate_version() const override { return fabric_.step_rate_version(); }
  double step_rate(policy::JobId job) const override { return fabric_.step_rate(job) * writing_share_; }
  bool slows_training() const override { return true; }
  double expected_s(const policy::Job& job, int from_gpus, int to_gpus) const override {
    return expected_.seconds(job, from_gpus, to_gpus);
  }
  std::string description() const override;
  const PlannedCounts& counts() const override { return counts_; }

 private:
  struct Underway {
    HeldState next;
    const Configuration* configuration = nullptr;
    std::vector<ChangeStage> stages;
    std::vector<HostId> hosts;
    size_t stage = 0;
    double wait_until_s = 0;     // of the stage; then its flows start
    Fabric::GroupId group = -1;  // under way; -1: it waits
    // What was asked for, should it have to be planned again; its placements are these.
    Change change;
    policy::Placement from, to;
  };
  struct JobState {
    const Configuration* configuration = nullptr;  // of `held`
    std::optional<HeldState> held;                 // the last complete epoch
    std::set<HostId> gone;                         // hosts of it that were lost since
    double checkpoint_work = 0;                    // the last checkpoint's
    double checkpoint_every = 0;                   // iterations, in this configuration; 0 = none
    std::optional<Underway> underway;
  };

  JobState& state(policy::JobId job) { return jobs_[job]; }
  void note_loss(const Change& change, JobState& job) const;
  void note_checkpoints(const Change& change, JobState& job) const;
  Source source_of(const Change& change, const JobState& job) const;
  bool saves_first(const Change& change, const JobState& job) const;
  double lost_work(const Change& change, Source source, JobState& job) const;
  absl::Status plan(const Change& change, Source source, JobState& job, Underway& underway);
  absl::StatusOr<double> launch(const Change& change, bool detects);
  bool uses(const Underway& underway, HostId host) const;
  void start(const Change& change, Underway& underway);
  void enter_stage(policy::JobId job, Underway& underway, double now_s);
  void end_stage(policy::JobId job, double now_s, std::vector<ChangeEnd>& ended);
  void announce_training(double now_s);
  void stop_training(policy::JobId job, double now_s) {
    if (unannounced_.erase(job) == 0) fabric_.stop(job, now_s);
  }

  const Configurations& configurations_;
  const cluster::Cluster& cluster_;
  Fabric& fabric_;
  const PlannedOptions options_;
  ChangePlanner planner_;
  internal::DeviceLedger device_ledger_;
  internal::ExpectedSeconds expected_;
  const double writing_share_ = options_.checkpoint_every_s > 0
                                    ? options_.checkpoint_every_s /
                                          (options_.checkpoint_every_s + options_.checkpoint_write_s)
                                    : 1;
  PlannedCounts counts_;
  std::map<policy::JobId, JobState> jobs_;
  std::set<std::pair<double, policy::JobId>> waits_;  // of changes between flows
  std::map<Fabric::GroupId, policy::JobId> flowing_;
  std::set<policy::JobId> unannounced_;  // train, which the fabric does not know
};

// ---- where the state comes from -------------------------------------------------------------------------------------

void Model::note_loss(const Change& change, JobState& job) const {
  if (!job.held) return;
  const std::set<HostId> lost(change.lost.begin(), change.lost.end());
  for (const DeviceId device : job.held->devices) {
    const HostId host = cluster_.host_of(device);
    if (lost.count(host) != 0) job.gone.insert(host);
  }
}

// Checkpoints that were written since the last change, at whole multiples of the period.
void Model::note_checkpoints(const Change& change, JobState& job) const {
  if (job.checkpoint_every <= 0 || change.work_done <= job.checkpoint_work) return;
  const double periods = std::floor((change.work_done - job.checkpoint_work) / job.checkpoint_every + 1e-9);
  job.checkpoint_work += periods * job.checkpoint_every;
}

Source Model::source_of(const Change& change, const JobState& job) const {
  if (options_.strategy.from_checkpoint || !survives(*job.held, job.gone, cluster_)) return Source::kStorage;
  return change.cause == ChangeCause::kResume ? Source::kHostMemory : Source::kDevices;
}

bool Model::saves_first(const Change& change, const JobState& job) const {
  if (!options_.strategy.from_checkpoint || !options_.strategy.save_first || options_.checkpoint_every_s <= 0)
    return false;
  return change.cause == ChangeCause::kTaken ||
         (change.cause != ChangeCause::kLost && survives(*job.held, job.gone, cluster_));
}

double Model::lost_work(const Change& change, Source source, JobState& job) const {
  const bool saves = saves_first(change, job);
  if (source != Source::kStorage || saves) {
    const bool surprised = change.cause == ChangeCause::kLost || change.cause == ChangeCause::kTaken;
    const double lost = surprised ? change.work_done - std::floor(change.work_done + 1e-9) : 0;
    if (saves) job.checkpoint_work = change.work_done - lost;
    return lost;
  }
  if (options_.checkpoint_every_s <= 0) job.checkpoint_work = 0;
  return std::max(0.0, change.work_done - job.checkpoint_work);
}

// ---- changes --------------------------------------------------------------------------------------------------------

absl::StatusOr<double> Model::begin(const Change& change) {
  JobState& job = state(change.job);
  cancel(change.job, change.now_s);
  stop_training(change.job, change.now_s);
  note_loss(change, job);
  note_checkpoints(change, job);
  ++counts_.changes;
  return launch(change, change.cause == ChangeCause::kLost);
}

absl::StatusOr<double> Model::launch(const Change& change, bool detects) {
  JobState& job = state(change.job);
  Underway underway;
  underway.configuration = configurations_.best(*change.spec, *change.to);
  if (underway.configuration == nullptr) {
    return invalid(fmt::format("no configuration of {} fits the {} GPUs that job \"{}\" is given",
                               configurations_.models().model_of(*change.spec).name, change.to->gpus(),
                               change.spec->name));
  }
  const Source source = job.held ? source_of(change, job) : Source::kDevices;
  // Nobody has it and nothing was written: it begins again.
  const bool afresh = !job.held || (source == Source::kStorage && options_.checkpoint_every_s <= 0);
  const double lost = job.held ? std::max(0.0, lost_work(change, source, job)) : 0;
  if (afresh) {
    start(change, underway);
  } else {
    SCALAI_RETURN_IF_ERROR(plan(change, source, job, underway));
  }
  if (detects) underway.stages.insert(underway.stages.begin(), {.wait_s = change::detect_s(options_.strategy.costs)});
  const double taken_back = std::min(lost, change.work_done);
  underway.change = change;
  underway.change.work_done -= taken_back;
  underway.from = *change.from;
  underway.to = *change.to;
  job.underway = std::move(underway);
  enter_stage(change.job, *job.underway, change.now_s);
  return taken_back;
}

bool Model::uses(const Underway& underway, HostId host) const {
  const auto is_there = [&](const Place& place) {
    return place.host >= 0 && underway.hosts[static_cast<size_t>(place.host)] == host;
  };
  for (size_t stage = underway.stage; stage < underway.stages.size(); ++stage) {
    const std::shared_ptr<const FlowGroup>& flows = underway.stages[stage].flows;
    if (flows == nullptr) continue;
    for (const FlowGroup::Flow& flow : flows->flows) {
      if (is_there(flow.src) || is_there(flow.dst)) return true;
    }
  }
  return false;
}

absl::StatusOr<std::vector<LostWork>> Model::host_lost(HostId host, ChangeCause cause, double now_s) {
  std::vector<LostWork> all;
  for (auto& [id, job] : jobs_) {
    if (!job.held) continue;
    const std::vector<DeviceId>& devices = job.held->devices;
    const auto is_there = [&](DeviceId device) { return cluster_.host_of(device) == host; };
    if (std::any_of(devices.begin(), devices.end(), is_there)) job.gone.insert(host);
    if (!job.underway || !uses(*job.underway, host)) continue;
    const Underway given_up = *job.underway;
    cancel(id, now_s);
    Change again = given_up.change;
    again.from = &given_up.from;
    again.to = &given_up.to;
    again.now_s = now_s;
    SCALAI_ASSIGN_OR_RETURN(const double lost, launch(again, cause == ChangeCause::kLost));
    if (lost > 0) all.push_back({.job = id, .iterations = lost});
  }
  return all;
}

// First GPUs: the initial state is made where it is needed.
void Model::start(const Change& change, Underway& underway) {
  ++counts_.started;
  const Configuration& configuration = *underway.configuration;
  const std::vector<DeviceId> devices = device_ledger_.take(change.job, *change.to, {});
  underway.next = {
      .model = configuration.model,
      .config = configuration.config,
      .devices = step::devices_for(configuration.config, devices, cluster_, configuration.training.precision.math)};
  const change::Costs& costs = options_.strategy.costs;
  underway.stages = {{.wait_s = change::start_seconds(costs, change::groups_of(configuration.gpus(), cluster_))}};
}

absl::Status Model::plan(const Change& change, Source source, JobState& job, Underway& underway) {
  const Configuration& configuration = *underway.configuration;
  SCALAI_ASSIGN_OR_RETURN(const ChangePlanner::Planned planned,
                          planner_.plan({.from = &*job.held,
                                         .lost = job.gone,
                                         .to = &configuration,
                                         .devices = device_ledger_.take(change.job, *change.to, job.held->devices),
                                         .source = source}));
  underway.next = {.model = configuration.model, .config = configuration.config, .devices = planned.device_of_rank};
  underway.stages = planned.shape->stages;
  if (saves_first(change, job) && change.cause == ChangeCause::kPolicy) {
    const double write_s = std::max(options_.checkpoint_write_s, internal::write_seconds(*job.held->model, cluster_));
    underway.stages.insert(underway.stages.begin(), {.wait_s = write_s});
  }
  underway.hosts = planned.hosts;
  ++(source == Source::kStorage ? counts_.from_storage : counts_.from_survivors);
  counts_.plans = planner_.made();
  counts_.plan_hits = planner_.hits();
  for (int k = 0; k < plan::kTransferClasses; ++k) {
    const auto transfer_class = static_cast<plan::TransferClass>(k);
    plan::ClassBytes bytes = planned.shape->bytes;
    counts_.bytes.of(transfer_class) += bytes.of(transfer_class);
  }
  expected_.note(*change.spec, change.from->gpus(), change.to->gpus(), planned.shape, planned.hosts);
  return absl::OkStatus();
}

void Model::cancel(policy::JobId job, double now_s) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || !found->second.underway) return;
  Underway& underway = *found->second.underway;
  if (underway.group >= 0) {
    fabric_.cancel(underway.group, now_s);
    flowing_.erase(underway.group);
  } else {
    waits_.erase({underway.wait_until_s, job});
  }
  found->second.underway.reset();
  device_ledger_.give(job);
}

void Model::enter_stage(policy::JobId job, Underway& underway, double now_s) {
  const double wait_s = underway.stage < underway.stages.size() ? underway.stages[underway.stage].wait_s : 0;
  underway.wait_until_s = now_s + wait_s;
  underway.group = -1;
  waits_.emplace(underway.wait_until_s, job);
}

// A wait is over, or the flows behind it are.
void Model::end_stage(policy::JobId job, double now_s, std::vector<ChangeEnd>& ended) {
  JobState& one = state(job);
  Underway& underway = *one.underway;
  const bool waited = underway.group < 0;
  if (waited && underway.stage < underway.stages.size() && underway.stages[underway.stage].flows != nullptr) {
    announce_training(now_s);
    underway.group = fabric_.start(underway.stages[underway.stage].flows, underway.hosts, now_s);
    flowing_.emplace(underway.group, job);
    return;
  }
  ++underway.stage;
  if (underway.stage < underway.stages.size()) return enter_stage(job, underway, now_s);
  one.held = std::move(underway.next);
  one.configuration = underway.configuration;
  one.gone.clear();
  one.underway.reset();
  ended.push_back({.job = job, .at_s = now_s});
}

// Also a moment at which flows begin or a wait ends: the step rate of others may change there.
double Model::next_end_s() const {
  return std::min(waits_.empty() ? policy::kNever : waits_.begin()->first, fabric_.next_end_s());
}

std::vector<ChangeEnd> Model::advance(double to_s) {
  std::vector<ChangeEnd> ended;
  while (true) {
    const double next_s = next_end_s();
    const double at_s = std::min(next_s, to_s);
    const std::vector<Fabric::End> groups = fabric_.advance(at_s);
    if (next_s > to_s) break;
    for (const Fabric::End& end : groups) {
      const policy::JobId job = flowing_.at(end.group);
      flowing_.erase(end.group);
      end_stage(job, end.at_s, ended);
    }
    while (!waits_.empty() && waits_.begin()->first <= at_s) {
      const policy::JobId job = waits_.begin()->second;
      waits_.erase(waits_.begin());
      end_stage(job, at_s, ended);
    }
  }
  std::sort(ended.begin(), ended.end(),
            [](const ChangeEnd& a, const ChangeEnd& b) { return std::pair(a.at_s, a.job) < std::pair(b.at_s, b.job); });
  return ended;
}

// ---- training -------------------------------------------------------------------------------------------------------

void Model::training(policy::JobId job, const policy::Job& /*spec*/, const policy::Placement& /*placement*/,
                     double now_s) {
  JobState& one = state(job);
  SCALAI_CHECK(one.held.has_value(), fmt::format("job {} trains without a state", job.value));
  const Configuration& configuration = *one.configuration;
  one.checkpoint_every = options_.checkpoint_every_s > 0
                             ? std::max(1.0, std::round(options_.checkpoint_every_s / configuration.step_s))
                             : 0;
  unannounced_.insert(job);
  if (!flowing_.empty()) announce_training(now_s);
}

// What jobs send while they train matters only to changes: the fabric need not know before there is one.
void Model::announce_training(double now_s) {
  for (const policy::JobId job : unannounced_) {
    const JobState& one = state(job);
    JobTraffic sent = training_traffic(*one.configuration, one.held->devices, cluster_);
    fabric_.train(job, std::move(sent.traffic), std::move(sent.hosts), now_s);
  }
  unannounced_.clear();
}

void Model::idle(policy::JobId job, double now_s) {
  stop_training(job, now_s);
  device_ledger_.give(job);
}

std::string Model::description() const {
  return fmt::format("planned ({}): {}", options_.strategy.planner.name, fabric_.description());
}

}  // namespace

std::unique_ptr<PlannedChanges> make_planned_changes(const Configurations& configurations, Fabric& fabric,
                                                     const PlannedOptions& options) {
  return std::make_unique<Model>(configurations, fabric, options);
}

}  // namespace scalai::jobs
