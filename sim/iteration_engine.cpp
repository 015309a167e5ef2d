#include "sim/internal/iteration_engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ptc/base/status.h"
#include "sim/internal/at.h"

namespace scalai::sim {
namespace {

constexpr double kSteady = 1e-9;  // two steps whose lengths differ by less are alike

// Of as many steps as given, by stage.
std::vector<std::vector<step::Slot>> slots_by_stage(step::PipelineShape shape, int steps) {
  shape.micro_batches *= steps;
  std::vector<std::vector<step::Slot>> slots;
  for (int stage = 0; stage < shape.pp; ++stage) slots.push_back(step::slots_of(shape, stage));
  return slots;
}

bool is_steady(const std::vector<double>& ended_at) {
  const size_t n = ended_at.size();
  const double last = ended_at[n - 1] - ended_at[n - 2], before = ended_at[n - 2] - ended_at[n - 3];
  return std::abs(last - before) <= kSteady * last;
}

}  // namespace

IterationEngine::IterationEngine(change::NetworkBackend& network, const IterationGraph& graph,
                                 std::span<const IterationJob> jobs, const IterationOptions& options)
    : network_(network), graph_(graph), options_(options), collectives_(graph.group_members.size() * kChannels) {
  for (const IterationJob& job : jobs) {
    Job added{.job = &job,
              .shape = {.schedule = job.schedule,
                        .pp = job.config.pp,
                        .vpp = job.config.vpp,
                        .micro_batches = job.parts.front().micro_batches}};
    added.slots_per_step = int64_t{2} * added.shape.micro_batches * added.shape.vpp;
    added.slots = slots_by_stage(added.shape, added.flushes() ? 1 : 4);
    jobs_.push_back(std::move(added));
  }
  for (const IterationRank& rank : graph.ranks) {
    const IterationJob& job = jobs[at(rank.job)];
    units_.push_back({.rank = &rank, .work = &job.parts[at(rank.parts)].stages[at(rank.stage)]});
    ++jobs_[at(rank.job)].units;
  }
}

IterationResult IterationEngine::run() {
  for (int unit = 0; unit < static_cast<int>(units_.size()); ++unit) proceed(unit);
  while (!is_over()) pass_time();
  std::vector<change::FlowId> left;
  for (const auto& [flow, use] : flow_uses_) left.push_back(flow);
  std::sort(left.begin(), left.end());
  for (const change::FlowId flow : left) network_.cancel(flow);
  IterationResult result{
      .step_s = {}, .units = static_cast<int64_t>(units_.size()), .flows = flows_, .events = events_};
  for (const Job& job : jobs_) result.step_s.push_back(step_of(job));
  return result;
}

bool IterationEngine::is_over() const {
  if (jobs_.size() > 1 && events_ >= options_.max_events) return true;
  for (const Job& job : jobs_) {
    const int after_first = static_cast<int>(job.ended_at.size()) - 1;
    if (after_first < std::max(2, options_.min_steps)) return false;
    if (after_first < options_.max_steps && !is_steady(job.ended_at)) return false;
  }
  return true;
}

// Where steps go on differing, because other jobs beat against them: the mean of all but the first.
double IterationEngine::step_of(const Job& job) const {
  const size_t n = job.ended_at.size();
  if (n < 3) return by_slots(job);
  if (is_steady(job.ended_at)) return job.ended_at[n - 1] - job.ended_at[n - 2];
  return (job.ended_at[n - 1] - job.ended_at[0]) / static_cast<double>(n - 1);
}

// A job that others leave no events for: what its units have gone through in the time that there was, without the idle
// ends of a pipeline.
double IterationEngine::by_slots(const Job& job) const {
  double slots = 0;
  for (const Unit& unit : units_) slots += &job_of(unit) == &job ? static_cast<double>(unit.slot) : 0;
  const double steps = slots / (static_cast<double>(job.units) * static_cast<double>(job.slots_per_step));
  return steps > 0 ? network_.now_s() / steps : std::numeric_limits<double>::infinity();
}

void IterationEngine::pass_time() {
  const std::vector<change::FlowEnd> ends =
      network_.advance_to(timers_.empty() ? std::numeric_limits<double>::infinity() : timers_.top().at_s);
  for (const change::FlowEnd& end : ends) {
    SCALAI_CHECK(!end.failed, "a flow over a link that is down");
    end_flow(end.flow);
  }
  if (!ends.empty()) return;
  const double now = timers_.top().at_s;
  while (!timers_.empty() && timers_.top().at_s <= now) {
    const Timer timer = timers_.top();
    timers_.pop();
    handle(timer);
  }
}

void IterationEngine::start_timer(double seconds, Event event, int id, bool backward) {
  timers_.push({.at_s = network_.now_s() + seconds, .order = order_++, .event = event, .id = id, .backward = backward});
}

void IterationEngine::start_flow(FlowEnds ends, double bytes, FlowUse use) {
  SCALAI_CHECK(ends.src >= 0);
  const change::FlowId flow = network_.start(ends.src, ends.dst, bytes);
  ++flows_;
  flow_uses_.emplace(flow, use);
}

void IterationEngine::handle(const Timer& timer) {
  ++events_;
  if (timer.event == Event::kUnit) return resume(timer.id, Waits::kTimer);
  if (timer.event == Event::kMessageLatency) {
    const Unit& unit = unit_of(timer.id);
    const Traffic traffic = timer.backward ? Traffic::kBackward : Traffic::kForward;
    return start_flow(unit.rank->flows[static_cast<size_t>(traffic)][0], message_of(unit, timer.backward).bytes,
                      {.message = true, .backward = timer.backward, .id = timer.id});
  }
  for (const Part& part : collectives_[at(timer.id)].parts) {
    if (part.ends.src >= 0) start_flow(part.ends, part.bytes, {.id = timer.id});
  }
  end_part(timer.id);  // the latency
}

void IterationEngine::end_flow(change::FlowId flow) {
  ++events_;
  const auto found = flow_uses_.find(flow);
  SCALAI_CHECK(found != flow_uses_.end());
  const FlowUse use = found->second;
  flow_uses_.erase(found);
  if (use.message) return deliver(use.id, use.backward);
  end_part(use.id);
}

// A unit arrives at a collective, which starts when all members are there.
void IterationEngine::join(int unit_id, Channel channel, const step::Communication& what, double share,
                           bool in_background) {
  const Unit& unit = unit_of(unit_id);
  Traffic traffic = Traffic::kDp;
  if (channel == Channel::kTp) traffic = Traffic::kTp;
  if (channel == Channel::kCp) traffic = Traffic::kCp;
  if (channel == Channel::kEp) traffic = Traffic::kEp;
  if (channel == Channel::kEmbedding) traffic = Traffic::kEmbedding;
  const int group = unit.rank->group[static_cast<size_t>(traffic)];
  SCALAI_CHECK(group >= 0, "traffic in a group of one rank");
  const bool flows = what.link != step::Communication::Link::kNone && what.bytes > 0;
  Part part{.unit = unit_id, .bytes = what.bytes * share, .in_background = in_background};
  if (flows) {
    const bool crosses = what.link == step::Communication::Link::kNetwork;
    part.ends = unit.rank->flows[static_cast<size_t>(traffic)][crosses ? 1 : 0];
    part.bytes *= part.ends.share;
  }
  const int id = group * kChannels + static_cast<int>(channel);
  Collective& state = collectives_[at(id)];
  state.latency_s = std::max(state.latency_s, (flows ? what.latency_s : what.seconds) * share);
  state.parts.push_back(part);
  if (static_cast<int>(state.parts.size()) == graph_.group_members[at(group)]) start_group(id);
}

void IterationEngine::start_group(int id) {
  Collective& state = collectives_[at(id)];
  state.left = 1;  // the latency
  for (const Part& part : state.parts) state.left += part.ends.src >= 0 ? 1 : 0;
  start_timer(state.latency_s, Event::kGroupLatency, id);
}

// The last part of a collective lets all its members go on.
void IterationEngine::end_part(int id) {
  Collective& state = collectives_[at(id)];
  if (--state.left > 0) return;
  const std::vector<Part> parts = std::exchange(state.parts, {});
  state = {};
  for (const Part& part : parts) {
    if (part.in_background) {
      end_background(part.unit, static_cast<Channel>(id % kChannels));
    } else {
      resume(part.unit, Waits::kCollective);
    }
  }
}

void IterationEngine::end_background(int unit_id, Channel channel) {
  Unit& unit = unit_of(unit_id);
  Background& background = unit.background[static_cast<size_t>(channel)];
  ++background.done;
  background.running = background.queued > 0;
  if (background.running) {
    --background.queued;
    join(unit_id, channel, communication_of(unit, channel), background.share, true);
  }
  resume(unit_id, Waits::kBackground);
}

void IterationEngine::deliver(int from, bool backward) {
  const IterationRank& sender = *unit_of(from).rank;
  const int to = backward ? sender.previous : sender.next;
  ++unit_of(to).arrived[backward ? 1 : 0];
  resume(from, Waits::kSend);
  resume(to, Waits::kMessage);
}

void IterationEngine::resume(int unit_id, Waits from) {
  Unit& unit = unit_of(unit_id);
  if (unit.waits != from) return;
  unit.waits = Waits::kNot;
  // These look again: it may have been another message, or there is more to wait for.
  const bool again = from == Waits::kMessage || from == Waits::kBackground;
  if (!again) unit.phase = static_cast<Phase>(static_cast<int>(unit.phase) + 1);
  proceed(unit_id);
}

void IterationEngine::proceed(int unit_id) {
  Unit& unit = unit_of(unit_id);
  for (;;) {
    if (unit.phase == Phase::kDone) end_slot(unit_id);
    if (!enter(unit_id)) return;
    unit.phase = static_cast<Phase>(static_cast<int>(unit.phase) + 1);
  }
}

void IterationEngine::end_slot(int unit_id) {
  Unit& unit = unit_of(unit_id);
  Job& job = jobs_[at(unit.rank->job)];
  if (slot_of(unit).backward && ++unit.backward_slots % (job.slots_per_step / 2) == 0) {
    const size_t step = static_cast<size_t>(unit.steps++);
    if (job.finished.size() <= step) job.finished.resize(step + 1, 0);
    if (++job.finished[step] == job.units) job.ended_at.push_back(network_.now_s());
  }
  ++unit.slot;
  unit.phase = Phase::kParametersRest;
}

// The order of more steps of 2BW begins with that of fewer, but for their end.
const step::Slot& IterationEngine::slot_of(const Unit& unit) {
  Job& job = jobs_[at(unit.rank->job)];
  const size_t stage = at(unit.rank->stage);
  if (job.flushes()) return job.slots[stage][static_cast<size_t>(unit.slot % job.slots_per_step)];
  const int64_t known = static_cast<int64_t>(job.slots[stage].size());
  const int64_t end = 2 * job.slots_per_step + int64_t{4} * job.shape.pp * job.shape.vpp;
  if (unit.slot + end > known) {
    job.slots = slots_by_stage(job.shape, static_cast<int>(2 * known / job.slots_per_step + 4 * job.shape.pp));
  }
  return job.slots[stage][static_cast<size_t>(unit.slot)];
}

}  // namespace scalai::sim
