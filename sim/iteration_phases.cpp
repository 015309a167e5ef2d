// IterationEngine's phases: what a slot does, by the rules of ptc/cost/step/step_time.h.
#include "ptc/base/status.h"
#include "sim/internal/iteration_engine.h"

namespace scalai::sim {

using step::ChunkWork;
using step::Communication;
using step::Slot;

bool IterationEngine::enter(int unit_id) {
  Unit& unit = unit_of(unit_id);
  const Job& job = job_of(unit);
  const Slot slot = slot_of(unit);
  const double gradients_hidden = parts_of(unit).gradients_hidden, parameters_hidden = parts_of(unit).parameters_hidden;
  const ChunkWork& chunk = (slot.backward ? unit.work->backward : unit.work->forward)[static_cast<size_t>(slot.chunk)];
  const bool begins_step = job.flushes() && unit.slot % job.slots_per_step == 0;
  switch (unit.phase) {
    case Phase::kParametersRest:
      if (!begins_step) return true;
      return collective(unit_id, Channel::kParametersRest, unit.work->parameters, 1 - parameters_hidden);
    case Phase::kParametersBeside:
      if (begins_step) in_background(unit_id, Channel::kParameters, parameters_hidden / job.shape.vpp, job.shape.vpp);
      return true;
    case Phase::kMessage: return await_message(unit_id, slot);
    case Phase::kGradients:
      if (job.flushes() && slot.backward && slot.micro_batch == job.shape.micro_batches - 1) {
        in_background(unit_id, Channel::kGradients, gradients_hidden / job.shape.vpp);
      }
      return true;
    case Phase::kCompute: return work(unit_id, chunk.compute_s());
    case Phase::kTp: return collective(unit_id, Channel::kTp, chunk.tp);
    case Phase::kCp: return collective(unit_id, Channel::kCp, chunk.cp);
    case Phase::kEp: return collective(unit_id, Channel::kEp, chunk.ep);
    case Phase::kDp: return collective(unit_id, Channel::kDp, chunk.dp);
    case Phase::kSend: return send(unit_id, slot);
    case Phase::kParameters:
      if (!job.flushes() || slot.backward || slot.micro_batch != 0) return true;
      return background_done(unit_id, Channel::kParameters, slot.chunk + 1);
    default: break;
  }
  const int64_t backward_slots = unit.backward_slots + (slot.backward ? 1 : 0);
  const bool ends_step = slot.backward && backward_slots % (job.slots_per_step / 2) == 0;
  return !ends_step || enter_end_of_step(unit_id);
}

// 2BW never waits for other stages: what ends a step goes on beside the next one.
bool IterationEngine::enter_end_of_step(int unit_id) {
  constexpr int kAll = 1 << 30;
  Unit& unit = unit_of(unit_id);
  const bool flushes = job_of(unit).flushes();
  const double gradients_hidden = parts_of(unit).gradients_hidden, parameters_hidden = parts_of(unit).parameters_hidden;
  switch (unit.phase) {
    case Phase::kGradientsReady:
      return background_done(unit_id, Channel::kGradients, kAll) &&
             background_done(unit_id, Channel::kParameters, kAll) &&
             background_done(unit_id, Channel::kEmbedding, kAll);
    case Phase::kGradientsRest:
      return collective(unit_id, Channel::kGradientsRest, unit.work->gradients, 1 - gradients_hidden);
    case Phase::kBarrier:
      if (flushes) return barrier(unit_id);
      return collective(unit_id, Channel::kParametersRest, unit.work->parameters, 1 - parameters_hidden);
    case Phase::kEmbedding:
      if (flushes) return collective(unit_id, Channel::kEmbedding, unit.work->embedding);
      in_background(unit_id, Channel::kGradients, gradients_hidden);
      in_background(unit_id, Channel::kParameters, parameters_hidden);
      in_background(unit_id, Channel::kEmbedding, 1);
      return true;
    case Phase::kOptimizer: return work(unit_id, unit.work->optimizer_s);
    default: return true;
  }
}

bool IterationEngine::work(int unit_id, double seconds) {
  if (seconds <= 0) return true;
  unit_of(unit_id).waits = Waits::kTimer;
  start_timer(seconds, Event::kUnit, unit_id);
  return false;
}

const Communication& IterationEngine::communication_of(const Unit& unit, Channel channel) {
  if (channel == Channel::kGradients) return unit.work->gradients;
  if (channel == Channel::kParameters) return unit.work->parameters;
  SCALAI_CHECK(channel == Channel::kEmbedding);
  return unit.work->embedding;
}

namespace {

bool is_nothing(const Communication& what) { return what.bytes == 0 && what.latency_s == 0 && what.seconds == 0; }

}  // namespace

// A share of a communication that the unit waits for.
bool IterationEngine::collective(int unit_id, Channel channel, const Communication& what, double share) {
  if (share <= 0 || is_nothing(what)) return true;
  unit_of(unit_id).waits = Waits::kCollective;
  join(unit_id, channel, what, share, false);
  return false;
}

// So many times a share of it, one after the other, while the unit goes on.
void IterationEngine::in_background(int unit_id, Channel channel, double share, int times) {
  Unit& unit = unit_of(unit_id);
  const Communication& what = communication_of(unit, channel);
  if (share <= 0 || is_nothing(what)) return;
  Background& background = unit.background[static_cast<size_t>(channel)];
  background.share = share;
  if (!background.running) {
    background = {.running = true, .queued = times - 1, .done = 0, .share = share};
    join(unit_id, channel, what, share, true);
  } else {
    background.queued += times;
  }
}

bool IterationEngine::background_done(int unit_id, Channel channel, int times) {
  Unit& unit = unit_of(unit_id);
  const Background& background = unit.background[static_cast<size_t>(channel)];
  if (!background.running || background.done >= times) return true;
  unit.waits = Waits::kBackground;
  return false;
}

// Whether a slot's piece of the model is where its micro-batch comes in (or goes out): then there is no message.
bool IterationEngine::is_piece_end(const Unit& unit, const Slot& slot, bool first) const {
  const step::PipelineShape& shape = job_of(unit).shape;
  const int piece = slot.chunk * shape.pp + unit.rank->stage;
  return shape.pp == 1 || piece == (first != slot.backward ? 0 : shape.pp * shape.vpp - 1);
}

// Messages arrive in the order of the slots that wait for them.
bool IterationEngine::await_message(int unit_id, const Slot& slot) {
  Unit& unit = unit_of(unit_id);
  if (is_piece_end(unit, slot, true)) return true;
  int64_t& arrived = unit.arrived[slot.backward ? 1 : 0];
  if (arrived == 0) {
    unit.waits = Waits::kMessage;
    return false;
  }
  --arrived;
  return true;
}

// Back it goes as the stage before sends forward.
const Communication& IterationEngine::message_of(const Unit& unit, bool backward) const {
  const int stages = job_of(unit).shape.pp;
  const int from = backward ? (unit.rank->stage + stages - 1) % stages : unit.rank->stage;
  return parts_of(unit).stages[static_cast<size_t>(from)].send;
}

bool IterationEngine::send(int unit_id, const Slot& slot) {
  Unit& unit = unit_of(unit_id);
  if (is_piece_end(unit, slot, false)) return true;
  const bool beside = !parts_of(unit).sender_waits(job_of(unit).shape.vpp);
  if (!beside) unit.waits = Waits::kSend;
  start_timer(message_of(unit, slot.backward).latency_s, Event::kMessageLatency, unit_id, slot.backward);
  return beside;
}

// Waits for all ranks of the job; the last one lets the others go on.
bool IterationEngine::barrier(int unit_id) {
  Job& job = jobs_[static_cast<size_t>(unit_of(unit_id).rank->job)];
  if (static_cast<int>(job.at_barrier.size()) + 1 < job.units) {
    unit_of(unit_id).waits = Waits::kBarrier;
    job.at_barrier.push_back(unit_id);
    return false;
  }
  for (const int waiting : std::exchange(job.at_barrier, {})) resume(waiting, Waits::kBarrier);
  return true;
}

}  // namespace scalai::sim
