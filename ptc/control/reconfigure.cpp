#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/collection/megatron.h"
#include "ptc/control/internal/control_impl.h"
#include "ptc/plan/interpreter.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/planner.h"

namespace scalai::control {

// ---- where a job goes -----------------------------------------------------------------------------------------------

namespace {

// A job that waits without devices would best go back to where its state was.
const std::vector<DeviceId>& own_devices(const Job& job) {
  const bool homeless = job.devices.empty() && job.state.collection != nullptr;
  return homeless ? job.state.collection->device_of_rank : job.devices;
}

}  // namespace

std::vector<DeviceId> Control::Impl::free_devices(const Job& job) const {
  std::set<DeviceId> taken = dead_;
  taken.insert(draining_.begin(), draining_.end());
  const bool beginning = events_.size() == 1;  // nobody is given what another one names
  for (const Job& other : jobs_) {
    if (other.index == job.index) continue;
    taken.insert(other.devices.begin(), other.devices.end());
    if (beginning) taken.insert(other.wanted_devices.begin(), other.wanted_devices.end());
    if (other.underway) taken.insert(other.underway->target.devices.begin(), other.underway->target.devices.end());
  }
  const auto is_free = [&](DeviceId device) { return taken.count(device) == 0; };
  std::vector<DeviceId> free;
  const std::vector<DeviceId>& first = job.wanted_devices.empty() ? own_devices(job) : job.wanted_devices;
  std::copy_if(first.begin(), first.end(), std::back_inserter(free), is_free);
  if (!job.wanted_devices.empty()) return free;
  const std::set<DeviceId> mine(free.begin(), free.end());
  for (int i = 0; i < scenario_.cluster.device_count(); ++i) {
    if (is_free(DeviceId(i)) && mine.count(DeviceId(i)) == 0) free.emplace_back(i);
  }
  return free;
}

std::vector<DeviceId> Control::Impl::usable_devices(const Job& job) const {
  std::vector<DeviceId> usable = free_devices(job);
  const bool named = !job.wanted_devices.empty();
  if (job.spec->choose) {
    return devices_to_use(usable, job.wanted_gpus, named, scenario_.cluster, job.spec->training.precision.math, speed_);
  }
  if (named) return usable;
  const std::set<DeviceId> own(own_devices(job).begin(), own_devices(job).end());
  const auto had = static_cast<size_t>(
      std::count_if(usable.begin(), usable.end(), [&](DeviceId device) { return own.count(device) != 0; }));
  usable.resize(std::min(usable.size(), std::max(had, static_cast<size_t>(std::max(0, job.wanted_gpus)))));
  // Hosts fill up in rank order; a job that only shrinks keeps its order.
  if (usable.size() > had) std::sort(usable.begin(), usable.end());
  return usable;
}

// ---- where its state comes from -------------------------------------------------------------------------------------

std::vector<Control::Impl::Source> Control::Impl::sources(const Job& job) const {
  std::vector<Source> list;
  if (!strategy_.from_checkpoint) {
    list.push_back({.holding = job.state, .residency = {.lost = job.state.gone}});
    if (job.redundant) {
      const Holding& copy = *job.redundant;
      collection::Residency residency{.lost = copy.gone};
      for (const collection::ExtraHolder& extra : copy.copies) {
        const std::vector<DeviceId> devices = scenario_.cluster.devices_of(extra.host);
        const bool host_lives =
            std::any_of(devices.begin(), devices.end(), [&](DeviceId device) { return copy.gone.count(device) == 0; });
        if (host_lives) residency.extra.push_back(extra);
      }
      list.push_back({.holding = copy, .residency = std::move(residency), .restore = true});
    }
  }
  if (job.checkpoint) {
    const Holding& copy = *job.checkpoint;
    const bool host_copies = job.spec->checkpoint.host_memory_copy && !strategy_.from_checkpoint;
    collection::Residency residency{.lost = copy.gone, .storage = true};
    if (!host_copies) {
      const std::vector<DeviceId>& all = copy.collection->device_of_rank;
      residency.lost.insert(all.begin(), all.end());
    }
    list.push_back({.holding = copy, .residency = std::move(residency), .restore = host_copies});
  }
  // As few steps as possible are run again.
  std::stable_sort(list.begin(), list.end(),
                   [](const Source& a, const Source& b) { return a.holding.step > b.holding.step; });
  return list;
}

// All devices the job may use are candidates: a job that shrinks chooses its survivors. A configuration that was chosen
// would not be the best elsewhere than where it was priced, nor in an order that makes it slower.
std::vector<DeviceId> Control::Impl::place_ranks(const Job& job, const Source& source, const collection::Collection& to,
                                                 const ParallelChoice& choice) const {
  const std::vector<DeviceId>& in_order = to.device_of_rank;
  const std::vector<DeviceId> placed = plan::place({.from = *source.holding.collection,
                                                    .to = to,
                                                    .cluster = scenario_.cluster,
                                                    .residency = source.residency,
                                                    .options = strategy_.planner},
                                                   job.spec->choose ? in_order : usable_devices(job));
  if (!job.spec->choose || placed == in_order) return placed;
  const double priced_s = priced(job, choice, hardware_on(job, choice, in_order)).step_s;
  const double placed_s = priced(job, choice, hardware_on(job, choice, placed)).step_s;
  constexpr double kEqual = 1e-9;
  return placed_s > priced_s * (1 + kEqual) ? in_order : placed;
}

absl::StatusOr<std::shared_ptr<const plan::Plan>> Control::Impl::make_plan(const Source& source,
                                                                           const collection::Collection& to) const {
  plan::PlannerOptions options = strategy_.planner;
  options.round_bytes = scenario_.round_bytes;
  // A rollback finds devices with state that is of no use; what it brings comes beside that.
  if (source.holding.snapshot == kLiveState && strategy_.caps_memory()) options.memory_cap = scenario_.memory_cap;
  auto made = plan::make_plan({.from = *source.holding.collection,
                               .to = to,
                               .cluster = scenario_.cluster,
                               .residency = source.residency,
                               .options = options});
  if (!made.ok()) return made.status();
  if (options_.check_plans) {
    const absl::Status verdict = plan::interpret(
        *made,
        {.from = *source.holding.collection, .to = to, .cluster = scenario_.cluster, .residency = source.residency});
    SCALAI_CHECK(verdict.ok(), message_of(verdict));
  }
  return std::make_shared<const plan::Plan>(std::move(made).value());
}

Execute Control::Impl::execution(const Job& job, const Source& source, std::shared_ptr<const plan::Plan> plan) const {
  const Underway& underway = *job.underway;
  Execute execute{.job = job.index,
                  .epoch = underway.collection->epoch,
                  .reconfiguration = underway.record.index,
                  .plan = std::move(plan),
                  .from = source.holding.collection,
                  .to = underway.collection,
                  .gone = source.residency.lost,
                  .extra = source.residency.extra,
                  .snapshot = source.holding.snapshot,
                  .step = source.holding.step,
                  .restore = source.restore,
                  .costs = strategy_.costs};
  if (strategy_.staged()) {
    const HostId hub = strategy_.planner.hub;
    execute.hub = hub;
    execute.upload = true;
    execute.load = load_flows(*underway.collection, scenario_.cluster, hub);
    execute.stage = staging_flows(source);
  }
  return execute;
}

namespace {

std::string describe_missing(const plan::Plan& plan) {
  constexpr size_t kNamed = 5;
  int64_t bytes = 0;
  for (const plan::Missing& missing : plan.missing) {
    bytes += missing.box.volume() * tensor::size_of(plan.tensors[static_cast<size_t>(missing.tensor.value)].dtype);
  }
  std::string text =
      fmt::format("no surviving holder and no checkpoint for {} boxes ({} bytes):", plan.missing.size(), bytes);
  for (size_t i = 0; i < std::min(kNamed, plan.missing.size()); ++i) {
    const plan::Missing& missing = plan.missing[i];
    text += fmt::format(" tensor \"{}\" {}", plan.tensors[static_cast<size_t>(missing.tensor.value)].name,
                        missing.box.str());
  }
  return text;
}

}  // namespace

// ---- attempts and commits -------------------------------------------------------------------------------------------

void Control::Impl::begin_reconfiguration(Job& job) {
  // Asked for, or failed, during the reconfiguration before this one: the pause counts from where that one's ends.
  const double since_s = std::max(job.cause_s, job.span_since_s);
  if (job.moves()) {
    end_span(job, "train", job.failed_s >= 0 ? since_s : now_s_);
  } else if (job.mode == Mode::kWaiting) {
    end_span(job, "waiting", now_s_);
  }
  Underway underway;
  ReconfigurationRecord& record = underway.record;
  record.index = static_cast<int>(job.record.reconfigurations.size()) + 1;
  record.at_s = job.cause_s;
  record.cause = job.cause;
  record.from = job.state.collection == nullptr ? "" : job.state.collection->name;
  record.from_gpus = job.state.collection == nullptr ? 0 : job.state.collection->ranks();
  record.resumed_s = -1;
  (job.failed_s >= 0 ? record.phases.detect : record.phases.stop) = now_s_ - since_s;
  job.failed_s = -1;
  job.underway = std::move(underway);
  begin_attempt(job);
}

void Control::Impl::begin_attempt(Job& job) {
  const std::optional<Target> target = choose_target(job);
  if (!target) return wait(job);
  job.record.failure.clear();
  Underway& underway = *job.underway;
  underway.target = *target;
  underway.attempt_s = now_s_;
  underway.record.to = collection::canonical(target->choice->config);
  underway.record.to_gpus = target->choice->config.world();
  job.forced = false;
  auto built =
      collection::megatron_collection(job.spec->model, job.spec->recipe, target->choice->config, target->devices);
  SCALAI_CHECK(built.ok(), message_of(built.status()));
  if (job.state.collection == nullptr) {  // never ran: its initial state is made where it starts
    built->epoch = 0;
    job.state = {
        .step = 0, .collection = std::make_shared<const collection::Collection>(*built), .gone = {}, .made_s = now_s_};
    if (job.spec->checkpoint.every_steps > 0) job.checkpoint = initial(job.state);
  }
  built->epoch = job.state.collection->epoch + 1;
  underway.collection = std::make_shared<collection::Collection>(std::move(built).value());
  std::shared_ptr<const plan::Plan> first;
  for (const Source& source : sources(job)) {
    const auto placed = std::make_shared<collection::Collection>(*underway.collection);
    if (strategy_.places()) placed->device_of_rank = place_ranks(job, source, *placed, *target->choice);
    const auto made = make_plan(source, *placed);
    if (!made.ok()) return fail(job, message_of(made.status()));
    const std::shared_ptr<const plan::Plan>& plan = *made;
    if (first == nullptr) first = plan;
    if (!plan->feasible()) continue;
    underway.collection = placed;
    underway.target.devices = placed->device_of_rank;
    plans_.push_back(plan);
    underway.record.plan = plan;
    underway.record.step = source.holding.step;
    underway.record.rolled_back_steps = job.state.step - source.holding.step;
    // Snapshots under way of steps that are now run again belong to a past that did not happen.
    drop_in_flight(job, [&](const Holding& holding) { return holding.step > source.holding.step; });
    job.mode = Mode::kReconfiguring;
    sample_memory(job);
    commands_.push_back(execution(job, source, plan));
    return;
  }
  fail(job, first == nullptr ? "the strategy restarts from checkpoints, and none was ever completed"
                             : describe_missing(*first));
}

void Control::Impl::commit(Job& job, const PhaseSeconds& phases) {
  Underway underway = std::move(*job.underway);
  job.underway.reset();
  ReconfigurationRecord& record = underway.record;
  record_phase_spans(job, phases, underway.target.devices);
  record.phases.stop += phases.stop;
  record.phases.plan += phases.plan;
  record.phases.restart += phases.restart;
  record.phases.prepare += phases.prepare;
  record.phases.transfer += phases.transfer;
  record.phases.verify += phases.verify;
  record.phases.resume += phases.resume;
  record.completed = true;
  record.resumed_s = now_s_;
  if (job.schedule.first_start_s) ++job.schedule.restarts;
  job.record.lost_steps += record.rolled_back_steps;
  if (job.ledger) job.ledger->roll_back(record.step);
  job.state = {.step = record.step, .collection = underway.collection, .gone = {}, .made_s = now_s_};
  job.choice = underway.target.choice;
  allocate(job, underway.target.devices);
  job.record.reconfigurations.push_back(std::move(record));
  commands_.push_back(Commit{.job = job.index, .epoch = underway.collection->epoch});
  sample_memory(job);
  job.span_since_s = now_s_;
  if (stopping_) {
    job.training = {.start_s = now_s_, .from_step = job.state.step, .until_step = job.state.step, .step_s = 0};
    return start_last_copy(job);
  }
  if (std::exchange(job.change_asked, false) && !settled(job)) return begin_reconfiguration(job);
  start_training(job);
}

void Control::Impl::wait(Job& job) {
  if (job.underway && job.underway->record.aborted_attempts > 0) {
    job.record.reconfigurations.push_back(job.underway->record);
  }
  job.underway.reset();
  job.mode = Mode::kWaiting;
  const bool offered = policy_ == nullptr || !job.wanted_devices.empty();
  if (job.spec->choose) job.record.failure = offered ? no_fit_[job.index] : "";
  job.span_since_s = now_s_;
  // Its state stays in the memory of the old hosts. What it was given and cannot use stays allocated, unless other jobs
  // may need it: two that wait for more could hold each other's devices for ever.
  std::vector<DeviceId> given;
  if (jobs_.size() == 1 && policy_ == nullptr) given = usable_devices(job);
  given.resize(std::min(given.size(), static_cast<size_t>(job.wanted_gpus)));
  allocate(job, std::move(given));
  if (stopping_) stop(job);
}

void Control::Impl::fail(Job& job, std::string why) {
  if (policy_ != nullptr) freed_by_ = job.spec->name;  // also what it was to go to
  job.record.failure = std::move(why);
  job.record.reconfigurations.push_back(job.underway->record);
  job.underway.reset();
  job.mode = Mode::kFailed;
  job.record.wall_s = now_s_ - job.spec->submit_s;
  allocate(job, {});
  leave_policy(job);
  stop_if_over();
}

}  // namespace scalai::control
