#include "ptc/run/control/internal/evacuation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/plan/missing.h"
#include "ptc/plan/planner.h"
#include "ptc/run/scenario/job_state.h"

namespace scalai::control {
namespace {

using Answer = Evacuation::Answer;

// Other traffic may share the links.
constexpr double kMargin = 1.1;
constexpr double kRounding = 1 - 1e-9;  // bytes are whole
constexpr const char* kWhole = "all of it, as a checkpoint is whole or none";

std::string name_of(Answer answer) {
  switch (answer) {
    case Answer::kLeave: return "leaves";
    case Answer::kCopy: return "copies";
    case Answer::kCheckpoint: return "checkpoint";
    case Answer::kGoBack: return "goes back";
    case Answer::kLose: return "loses";
  }
  SCALAI_CHECK(false);
}

}  // namespace

Evacuator::Evacuator(const scenario::Strategy& strategy, const Condition& condition, const Jobs& jobs,
                     const ChangePlanner& planner, Targets& targets, const Turn& turn)
    : strategy_(strategy), condition_(condition), jobs_(jobs), planner_(planner), targets_(targets), turn_(turn) {}

std::optional<Evacuation> Evacuator::decide(const Job& job) {
  const std::set<DeviceId> leaving = condition_.leaving(job.devices);
  if (leaving.empty() || !job.moves()) return std::nullopt;
  Evacuation found{.copies = plan_evacuation(*job.state.collection, condition_.cluster(), leaving, hosts_that_go(job))};
  NoticeRecord& record = found.record;
  record.at_s = turn_.now_s;
  record.deadline_s = condition_.deadline_of(leaving);
  record.devices.assign(leaving.begin(), leaving.end());
  record.only_there_bytes = record.in_time_bytes = plan::missing_bytes(state_without(job, leaving, {}));
  record.step = job.training.steps_done_at(turn_.now_s);
  const double left_s = record.deadline_s - turn_.now_s;
  const auto fits = [&](Answer answer, const std::optional<double>& seconds) {
    if (!seconds || *seconds > left_s) return false;
    found.answer = answer;
    record.answer = name_of(answer);
    record.takes_s = *seconds;
    const double others_s = *seconds > 0 ? seconds_of_others(job, leaving) : 0;
    record.starts_s = std::max(turn_.now_s, record.deadline_s - kMargin * (*seconds + others_s));
    return true;
  };
  const bool others_have_it = record.only_there_bytes == 0 && !strategy_.from_checkpoint;
  if (fits(Answer::kLeave, others_have_it ? 0 : seconds_to_leave(job))) return found;
  const std::optional<double> save_s = seconds_to_save(job);
  if (!targets_.choose(job) && fits(Answer::kCheckpoint, save_s)) return found;
  if (fits(Answer::kCopy, seconds_to_copy(found.copies, record.only_there_bytes))) return found;
  if (fits(Answer::kCheckpoint, save_s)) return found;
  if (strategy_.from_checkpoint) {
    found.copies = {};
    record.in_time_bytes = 0;
    record.lost = {kWhole};
  } else {
    found.copies = most_by(found.copies, hosts_that_go(job), std::max(0.0, left_s));
    const plan::Plan rest = state_without(job, leaving, found.copies);
    constexpr size_t kNamed = 2;
    record.in_time_bytes = record.only_there_bytes - plan::missing_bytes(rest);
    record.lost = plan::missing_lines(rest, kNamed);
    if (record.lost.empty() && fits(Answer::kCopy, planner_.departure().seconds(found.copies.flows))) return found;
  }
  record.starts_s = turn_.now_s;
  record.takes_s = left_s;
  go_back(job, found);
  return found;
}

Evacuation Evacuator::decide_stop(const Job& job, double deadline_s) const {
  Evacuation found{.answer = Answer::kCheckpoint};
  const std::vector<BulkFlow> flows = checkpoint_flows(*job.state.collection);
  const bool has_storage = condition_.cluster().storage_write_bytes_per_s > 0;
  NoticeRecord& record = found.record;
  record = {.at_s = turn_.now_s, .deadline_s = deadline_s, .devices = job.devices, .starts_s = turn_.now_s};
  record.takes_s = has_storage ? planner_.departure().seconds(flows) : 0;
  record.step = job.training.steps_done_at(turn_.now_s);
  for (const BulkFlow& flow : flows) record.only_there_bytes += flow.bytes;
  record.in_time_bytes = record.only_there_bytes;
  if (const double share = (deadline_s - turn_.now_s) / record.takes_s; record.takes_s > 0 && share < 1) {
    record.in_time_bytes = 0;
    record.lost = {kWhole};
    found.answer = job.copies.checkpoint ? Answer::kGoBack : Answer::kLose;
    if (job.copies.checkpoint) go_back_to(*job.copies.checkpoint, job, record);
  }
  record.answer = name_of(found.answer);
  return found;
}

void Evacuator::go_back_to(const Holding& copy, const Job& job, NoticeRecord& record) {
  record.repeated_steps = record.step - copy.step;
  record.step = copy.step;
  if (std::isfinite(job.training.step_s))
    record.repeated_s = static_cast<double>(record.repeated_steps) * job.training.step_s;
}

// From the live state.
std::optional<double> Evacuator::seconds_to_leave(const Job& job) {
  const std::optional<Target> target = targets_.choose(job);
  if (!target || strategy_.from_checkpoint) return std::nullopt;
  auto to = scenario::collection_of(*job.spec, target->choice->config, target->devices);
  SCALAI_CHECK(to.ok(), message_of(to.status()));
  to->epoch = job.state.collection->epoch + 1;
  for (const Source& source : planner_.sources(job)) {
    if (source.holding.snapshot != kLiveState || source.leaving.empty()) continue;
    const auto change = planner_.plan_to(job, source, *to, *target->choice, targets_.usable_devices(job));
    if (change.ok() && change->plan.feasible()) return planner_.seconds_to_leave(job, source, *change);
  }
  return std::nullopt;
}

std::optional<double> Evacuator::seconds_to_save(const Job& job) const {
  const scenario::CheckpointPolicy& checkpoint = job.spec->checkpoint;
  if (checkpoint.every_steps == 0 || !checkpoint.before_change || condition_.any_cut_off()) return std::nullopt;
  return planner_.departure().seconds(checkpoint_flows(*job.state.collection));
}

std::optional<double> Evacuator::seconds_to_copy(const Redundancy& copies, int64_t bytes) const {
  int64_t copied = 0;
  for (const BulkFlow& flow : copies.flows) copied += flow.bytes;
  if (copied < bytes || strategy_.from_checkpoint) return std::nullopt;
  return planner_.departure().seconds(copies.flows);
}

void Evacuator::go_back(const Job& job, Evacuation& evacuation) const {
  NoticeRecord& record = evacuation.record;
  evacuation.answer = Answer::kLose;
  for (const Source& source : planner_.sources(job)) {
    if (!source.leaving.empty()) continue;
    const auto whole = planner_.make_plan(source, *source.holding.collection);
    if (!whole.ok() || !whole->feasible()) continue;
    evacuation.answer = Answer::kGoBack;
    go_back_to(source.holding, job, record);
    break;
  }
  record.answer = name_of(evacuation.answer);
  const auto may_arrive = [&](const auto& entry) {
    const auto& [is_checkpoint, copy] = entry.second;
    const double takes_s = is_checkpoint ? planner_.departure().seconds(checkpoint_flows(*copy.collection)) : 0;
    return copy.step > record.step && copy.made_s + takes_s <= record.deadline_s;
  };
  const auto& on_the_way = job.copies.in_flight;
  if (evacuation.answer == Answer::kGoBack && std::any_of(on_the_way.begin(), on_the_way.end(), may_arrive))
    record.starts_s = record.deadline_s;
}

// As many bytes as NICs carry. Where links behind them take longer for it, so much less.
Redundancy Evacuator::most_by(const Redundancy& copies, const std::set<HostId>& going, double within_s) const {
  const int hosts = static_cast<int>(condition_.cluster().hosts.size());
  const std::set<HostId> down = condition_.hosts_down();
  Redundancy most;
  for (double seconds = within_s, takes_s = 0; seconds > 0; seconds *= within_s / takes_s * kRounding) {
    std::map<HostId, int64_t> out, in;
    for (int i = 0; i < hosts; ++i) {
      const Departure::HostRates rates = planner_.departure().rates_of(HostId(i));
      out[HostId(i)] = static_cast<int64_t>(rates.out_bytes_per_s * seconds * kRounding);
      if (!going.contains(HostId(i)) && !down.contains(HostId(i)))
        in[HostId(i)] = static_cast<int64_t>(rates.in_bytes_per_s * seconds * kRounding);
    }
    most = fill(copies, condition_.cluster(), std::move(out), in);
    takes_s = planner_.departure().seconds(most.flows);
    if (takes_s <= within_s) return most;
  }
  return {};
}

// What nobody has of the job's state without these devices, where these copies are there.
plan::Plan Evacuator::state_without(const Job& job, const std::set<DeviceId>& leaving, const Redundancy& copies) const {
  collection::Residency residency{.lost = job.state.gone, .extra = copies.copies};
  residency.lost.insert(leaving.begin(), leaving.end());
  auto plan = plan::make_plan({.from = *job.state.collection,
                               .to = *job.state.collection,
                               .cluster = condition_.cluster(),
                               .residency = residency,
                               .options = {}});
  SCALAI_CHECK(plan.ok(), message_of(plan.status()));
  return *std::move(plan);
}

// What other jobs have to move out of the same hosts: all of it passes by the same NICs.
double Evacuator::seconds_of_others(const Job& job, const std::set<DeviceId>& leaving) const {
  std::set<HostId> hosts;
  for (const DeviceId device : leaving) hosts.insert(condition_.cluster().host_of(device));
  double total_s = 0;
  for (const Job& other : jobs_) {
    if (other.index == job.index || !other.moves()) continue;
    const std::set<DeviceId> also = condition_.leaving(other.devices);
    if (std::none_of(also.begin(), also.end(),
                     [&](DeviceId device) { return hosts.contains(condition_.cluster().host_of(device)); }))
      continue;
    const Redundancy copies =
        plan_evacuation(*other.state.collection, condition_.cluster(), also, hosts_that_go(other));
    total_s += planner_.departure().seconds(copies.flows);
  }
  return total_s;
}

std::set<HostId> Evacuator::hosts_that_go(const Job& job) const {
  std::set<HostId> hosts;
  const int home = condition_.home_of(job.devices);
  for (int host = 0; host < std::ssize(condition_.cluster().hosts); ++host) {
    if (condition_.memory_leaves(HostId(host)) || !condition_.on(home, HostId(host))) hosts.insert(HostId(host));
  }
  return hosts;
}

}  // namespace scalai::control
