#include "ptc/run/control/internal/reconfigurer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/plan/missing.h"
#include "ptc/run/control/internal/redundancy.h"
#include "ptc/run/scenario/job_state.h"

namespace scalai::control {
namespace {

collection::Collection collection_of(const Job& job, const Target& target) {
  auto built = scenario::collection_of(*job.spec, target.choice->config, target.devices);
  SCALAI_CHECK(built.ok(), message_of(built.status()));
  return std::move(built).value();
}

std::string describe_missing(const plan::Plan& plan) {
  constexpr size_t kNamed = 2;
  return fmt::format("no surviving holder and no checkpoint for {} of state\n  {}",
                     format_bytes(plan::missing_bytes(plan)), fmt::join(plan::missing_lines(plan, kNamed), "\n  "));
}

bool reads_memory_of(const plan::Plan& plan, const std::set<HostId>& hosts) {
  const std::span<const plan::Leg> legs = plan.patterns().legs();
  return std::any_of(legs.begin(), legs.end(), [&](const plan::Leg& leg) {
    return leg.src.kind == plan::Location::Kind::kHostMemory && hosts.contains(HostId(leg.src.index));
  });
}

// Rounds to come read these devices, or the memory of these hosts. State that is staged in hosts' memories comes from
// devices until the transfer begins.
bool still_read(const Underway& underway, const std::set<DeviceId>& devices, const std::set<HostId>& hosts) {
  constexpr auto kDevice = plan::Location::Kind::kDevice, kMemory = plan::Location::Kind::kHostMemory;
  const plan::Plan& plan = *underway.record.plan;
  const std::span<const plan::Leg> all = plan.patterns().legs();
  if (!underway.rounds_done &&
      std::any_of(all.begin(), all.end(), [](const plan::Leg& leg) { return leg.src.kind == kMemory; }))
    return true;
  const auto reads = [&](const plan::Leg& leg) {
    if (leg.src.kind == kMemory) return hosts.contains(HostId(leg.src.index));
    return leg.src.kind == kDevice && devices.contains(DeviceId(leg.src.index));
  };
  return std::any_of(plan.instances().begin(), plan.instances().end(), [&](const plan::Instance& instance) {
    const auto legs = plan.patterns().legs(instance.pattern);
    return instance.round >= underway.rounds_done.value_or(0) && std::any_of(legs.begin(), legs.end(), reads);
  });
}

// Detect and aborted are the control loop's own.
void add_executed(PhaseSeconds& sum, const PhaseSeconds& phases) {
  sum.stop += phases.stop;
  sum.plan += phases.plan;
  sum.restart += phases.restart;
  sum.prepare += phases.prepare;
  sum.transfer += phases.transfer;
  sum.verify += phases.verify;
  sum.resume += phases.resume;
}

}  // namespace

Reconfigurer::Reconfigurer(const scenario::Scenario& scenario, const Condition& condition, const ChangePlanner& planner,
                           Targets& targets, Trainer& trainer, Snapshots& snapshots, Lifecycle& lifecycle,
                           RunRecords& records, Turn& turn)
    : has_policy_(scenario.policy.has_value()),
      condition_(condition),
      planner_(planner),
      targets_(targets),
      trainer_(trainer),
      snapshots_(snapshots),
      lifecycle_(lifecycle),
      records_(records),
      turn_(turn) {}

void Reconfigurer::make_initial_state(Job& job, std::shared_ptr<const collection::Collection> collection) {
  job.state = {.step = 0, .collection = std::move(collection), .gone = {}, .made_s = turn_.now_s};
  if (job.spec->checkpoint.every_steps > 0) {
    job.copies.checkpoint = job.state;  // it is in storage
    job.copies.checkpoint->snapshot = kInitialState;
  } else if (job.spec->redundancy.copies > 0 && planner_.caps_memory()) {
    // A capped plan may come before the first redundant copy, and gives up old state.
    job.copies.redundant = job.state;
    job.copies.redundant->snapshot = kInitialState;
    job.copies.redundant->copies = std::make_shared<const std::vector<collection::ExtraHolder>>(
        plan_redundancy(*job.state.collection, condition_.cluster(), job.spec->redundancy, condition_.hosts_down())
            .copies);
  }
}

void Reconfigurer::place(Job& job) {
  const std::optional<Target> target = targets_.choose(job);
  if (!target) return wait(job);
  job.choice = target->choice;
  allocate(job, target->devices, turn_);
  make_initial_state(job, std::make_shared<collection::Collection>(collection_of(job, *target)));
  records_.sample_memory(job, turn_.now_s);
  job.mode = Mode::kTraining;
}

void Reconfigurer::begin(Job& job) {
  job.copies.before_change.reset();
  // Asked for, or failed, during the reconfiguration before this one: the pause counts from where that one's ends.
  const double since_s = std::max(job.request.cause_s, job.accounts.span_since_s);
  if (job.moves()) {
    records_.end_span(job, "train", job.request.failed_s >= 0 ? since_s : turn_.now_s);
  } else if (job.mode == Mode::kWaiting) {
    records_.end_span(job, "waiting", turn_.now_s);
    job.accounts.time.waited(turn_.now_s);
  }
  Underway underway;
  ReconfigurationRecord& record = underway.record;
  record.index = static_cast<int>(job.accounts.record.reconfigurations.size()) + 1;
  record.at_s = job.request.cause_s;
  record.cause = job.request.cause;
  record.from = job.state.collection == nullptr ? "" : job.state.collection->name;
  record.from_gpus = job.state.collection == nullptr ? 0 : job.state.collection->ranks();
  record.resumed_s = -1;
  (job.request.failed_s >= 0 ? record.phases.detect : record.phases.stop) = turn_.now_s - since_s;
  job.request.failed_s = -1;
  record.failed = std::exchange(job.request.failed, std::nullopt);
  job.underway = std::move(underway);
  attempt(job);
}

void Reconfigurer::attempt(Job& job) {
  const std::optional<Target> target = targets_.choose(job);
  if (!target) return wait(job);
  job.accounts.record.failure.clear();
  Underway& underway = *job.underway;
  underway.target = *target;
  underway.attempt_s = turn_.now_s;
  underway.record.to = collection::canonical(target->choice->config);
  underway.record.to_gpus = target->choice->config.world();
  job.request.forced = false;
  collection::Collection built = collection_of(job, *target);
  if (job.state.collection == nullptr) {  // never ran: its initial state is made where it starts
    built.epoch = 0;
    make_initial_state(job, std::make_shared<const collection::Collection>(built));
  }
  built.epoch = job.state.collection->epoch + 1;
  underway.collection = std::make_shared<collection::Collection>(std::move(built));
  std::optional<plan::Plan> nearest;  // the one that misses least
  std::optional<std::pair<Source, PlannedChange>> late;
  for (const Source& source : planner_.sources(job)) {
    const auto made =
        planner_.plan_to(job, source, *underway.collection, *target->choice, targets_.usable_devices(job));
    if (!made.ok()) return lifecycle_.fail(job, message_of(made.status()));
    if (!nearest || plan::missing_bytes(made->plan) < plan::missing_bytes(*nearest)) nearest = made->plan;
    if (!made->plan.feasible()) continue;
    if (planner_.in_time(job, source, *made, turn_.now_s)) return run(job, source, *made);
    if (!late) late.emplace(source, *made);
  }
  if (late) return run(job, late->first, late->second);  // there is nothing else, and notices are taken back
  if (condition_.any_cut_off()) return wait(job, "its state is cut off");
  std::string why =
      !nearest ? "the strategy restarts from checkpoints, and none was ever completed" : describe_missing(*nearest);
  if (underway.record.aborted_attempts > 0) why += fmt::format(" ({})", underway.record.cause);
  lifecycle_.fail(job, std::move(why));
}

void Reconfigurer::run(Job& job, const Source& source, const PlannedChange& change) {
  Underway& underway = *job.underway;
  underway.collection = change.to;
  underway.target.devices = change.to->device_of_rank;
  underway.rounds_done.reset();
  underway.unread = source.residency.lost;
  records_.add(change.plan);
  underway.record.plan = change.plan;
  underway.record.plan_index = records_.plans().size() - 1;
  underway.source = source.holding.snapshot;
  underway.record.step = source.holding.step;
  underway.record.rolled_back_steps = job.state.step - source.holding.step;
  if (underway.record.failed && source.holding.snapshot != kLiveState) {
    const bool checkpoint = job.copies.checkpoint && source.holding.snapshot == job.copies.checkpoint->snapshot;
    underway.record.failed->every_steps =
        checkpoint ? job.spec->checkpoint.every_steps : job.spec->redundancy.every_steps;
    underway.record.failed->written_s = source.holding.written_s;
  }
  // Snapshots under way of steps that are now run again belong to a past that did not happen.
  snapshots_.drop(job, [&](const Holding& holding) { return holding.step > source.holding.step; });
  job.mode = Mode::kReconfiguring;
  records_.sample_memory(job, turn_.now_s);
  turn_.commands.push_back(planner_.execution(job, source, change));
}

bool Reconfigurer::lose(Job& job, const std::set<DeviceId>& lost, double failed_at_s, const std::string& cause) {
  const auto among = [&](const std::vector<DeviceId>& devices, double made_s) {
    return std::any_of(devices.begin(), devices.end(),
                       [&](DeviceId device) { return lost.contains(device) && condition_.lost_since(device, made_s); });
  };
  if (job.moves()) {
    if (!among(job.devices, job.state.made_s)) return false;
    turn_.commands.push_back(Halt{.job = job.index});
    const Training& training = job.training;
    const int64_t done = training.steps_done_at(failed_at_s);
    const double since_step_s =
        failed_at_s - training.start_s - static_cast<double>(done - training.from_step) * training.step_s;
    if (std::isfinite(training.step_s))
      job.request.failed = FailureMoment{.step_s = training.step_s, .cut_off_s = std::max(0.0, since_step_s)};
    trainer_.credit(job, done, failed_at_s);
    job.request.cause = cause;
    job.request.cause_s = job.request.failed_s = failed_at_s;
    begin(job);
    return true;
  }
  if (job.mode == Mode::kWaiting && job.submitted) {
    keep_waiting(job);
    return among(job.devices, job.state.made_s);
  }
  if (job.mode != Mode::kReconfiguring) return false;
  Underway& underway = *job.underway;
  // An attempt that a repair has set off began after it, at the same time.
  const double attempt_s = std::nextafter(underway.attempt_s, std::numeric_limits<double>::infinity());
  const plan::Plan& plan = *underway.record.plan;
  std::set<DeviceId> read = lost;
  std::erase_if(read, [&](DeviceId device) { return underway.unread.contains(device); });
  const bool left = std::all_of(lost.begin(), lost.end(), [&](DeviceId one) { return condition_.draining(one); }) &&
                    (read.empty() || !still_read(underway, read, snapshots_.without_memory(read)));
  const bool was_read =
      among(plan.src_devices(), job.state.made_s) || reads_memory_of(plan, snapshots_.without_memory(lost));
  if (!among(underway.target.devices, attempt_s) && (left || !was_read)) return false;
  abort(job, cause);
  if (has_policy_) turn_.freed_by = job.spec->name;  // it may go elsewhere now
  attempt(job);
  return true;
}

// The attempt under way goes to or from devices, hosts or a storage that it cannot reach now.
bool Reconfigurer::reads_out_of_reach(const Job& job) const {
  const int home = condition_.home_of(own_devices(job));
  const auto out = [&](const plan::Location& place) {
    if (place.kind == plan::Location::Kind::kDevice) return !condition_.on(home, DeviceId(place.index));
    if (place.kind == plan::Location::Kind::kHostMemory) return !condition_.on(home, HostId(place.index));
    return !condition_.reaches_storage(home);
  };
  const std::span<const plan::Leg> legs = job.underway->record.plan->patterns().legs();
  if (std::any_of(legs.begin(), legs.end(),
                  [&](const plan::Leg& leg) { return out(leg.src) || out(plan::Location::device(leg.dst)); }))
    return true;
  const std::vector<DeviceId>& to = job.underway->target.devices;
  return std::any_of(to.begin(), to.end(), [&](DeviceId device) { return !condition_.on(home, device); });
}

bool Reconfigurer::leave(Job& job, double since_s, std::optional<double> left_s) {
  if (job.mode == Mode::kWaiting && job.submitted) keep_waiting(job);
  const bool changes = job.mode == Mode::kReconfiguring;
  if (!changes && !job.moves()) return false;
  const int home = condition_.home_of(own_devices(job));
  std::vector<DeviceId> out;
  std::copy_if(job.devices.begin(), job.devices.end(), std::back_inserter(out),
               [&](DeviceId device) { return !condition_.on(home, device); });
  if (changes ? !reads_out_of_reach(job) : out.empty()) return false;
  const std::optional<Target> target = targets_.choose(job);
  if (!target) return true;
  // It has stood still since the links failed, or since the step under way then ended; given step times feel no links.
  const bool feels_links = job.choice != nullptr && job.choice->step_s == 0;
  const double until_s = feels_links ? std::max(since_s, job.training.start_s) : turn_.now_s;
  const int64_t done = changes ? job.state.step : job.training.steps_done_at(until_s);
  const int64_t credited = std::exchange(job.state.step, done);
  const std::optional<double> change_s = planner_.seconds_to(job, *target);
  job.state.step = credited;
  if (!change_s || (left_s && *left_s <= *change_s)) return true;
  if (changes) {
    abort(job, "links are down");
    attempt(job);
    return false;
  }
  turn_.commands.push_back(Halt{.job = job.index});
  trainer_.credit(job, done, until_s);
  job.request.cause = "cut off from " + device_list(out);
  job.request.cause_s = job.request.failed_s = until_s;
  begin(job);
  return false;
}

void Reconfigurer::lose_source(Job& job, SnapshotId copy) {
  if (job.mode != Mode::kReconfiguring || job.underway->source != copy) return;
  abort(job, fmt::format("the copy of step {} cannot be read", job.underway->record.step));
  attempt(job);
}

void Reconfigurer::abort(Job& job, const std::string& cause) {
  Underway& underway = *job.underway;
  turn_.commands.push_back(Abort{.job = job.index});
  if (std::exchange(underway.torn, false)) {
    const std::vector<DeviceId>& held = job.state.collection->device_of_rank;
    job.state.gone.insert(held.begin(), held.end());
  }
  underway.record.cause += "; " + cause;
  underway.record.phases.aborted += turn_.now_s - underway.attempt_s;
  ++underway.record.aborted_attempts;
  records_.add({job.index, "aborted", underway.attempt_s, turn_.now_s, underway.target.devices});
}

void Reconfigurer::commit(Job& job, const PhaseSeconds& phases) {
  Underway underway = std::move(*job.underway);
  job.underway.reset();
  ReconfigurationRecord& record = underway.record;
  records_.add_phases(job, phases, underway.target.devices, turn_.now_s);
  add_executed(record.phases, phases);
  record.completed = true;
  record.resumed_s = turn_.now_s;
  if (job.accounts.schedule.first_start_s) ++job.accounts.schedule.restarts;
  job.accounts.record.lost_steps += record.rolled_back_steps;
  job.accounts.time.changed(turn_.now_s);
  job.accounts.time.roll_back(record.step);
  if (job.ledger) job.ledger->roll_back(record.step);
  job.state = {.step = record.step, .collection = underway.collection, .gone = {}, .made_s = turn_.now_s};
  snapshots_.forget_after(job, record.step);
  job.choice = underway.target.choice;
  allocate(job, underway.target.devices, turn_);
  job.accounts.record.reconfigurations.push_back(std::move(record));
  turn_.commands.push_back(Commit{.job = job.index, .epoch = underway.collection->epoch});
  records_.sample_memory(job, turn_.now_s);
  job.accounts.span_since_s = turn_.now_s;
  const Training standing{.start_s = turn_.now_s, .from_step = job.state.step, .until_step = job.state.step};
  if (lifecycle_.stopping()) {
    job.training = standing;
    return snapshots_.start_last(job);
  }
  if (std::exchange(job.request.again, false) && !targets_.settled(job)) {
    if (condition_.leaving(job.devices).empty()) return begin(job);
    job.training = standing;
    job.mode = Mode::kStopping;
    return;
  }
  trainer_.start(job);
}

void Reconfigurer::wait(Job& job, const std::string& reason) {
  if (job.underway && job.underway->record.aborted_attempts > 0) {
    job.accounts.record.reconfigurations.push_back(job.underway->record);
    job.accounts.time.changed(turn_.now_s);
  }
  job.underway.reset();
  job.mode = Mode::kWaiting;
  job.accounts.time.wait_for(reason.empty() ? targets_.why_waits(job) : reason);
  job.accounts.record.failure = reason.empty() ? targets_.why_none(job) : reason;
  job.accounts.span_since_s = turn_.now_s;
  allocate(job, targets_.kept_devices(job), turn_);  // its state stays in the memory of the old hosts
  if (lifecycle_.stopping()) lifecycle_.stop(job);
}

void Reconfigurer::keep_waiting(Job& job) {
  job.accounts.time.waited(turn_.now_s);
  job.accounts.time.wait_for(targets_.why_waits(job));
}

}  // namespace scalai::control
