#include "ptc/cost/step/schedule.h"

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::step {
namespace {

void check(const PipelineShape& shape, int stage) {
  SCALAI_CHECK(shape.pp >= 1 && shape.vpp >= 1 && shape.micro_batches >= 1);
  SCALAI_CHECK(stage >= 0 && stage < shape.pp);
}

// Micro-batches of a full last group. A group with gaps is a full one less the slots of the micro-batches that are not
// there: they leave every stage's order at once, so that nothing waits for them.
int padded_micro_batches(const PipelineShape& shape) {
  return (shape.micro_batches + shape.pp - 1) / shape.pp * shape.pp;
}

// The k-th forward or backward slot of a stage: groups of pp micro-batches, each through all chunks.
Slot slot_at(const PipelineShape& shape, bool backward, int k) {
  if (shape.vpp == 1) return {.backward = backward, .chunk = 0, .micro_batch = k};
  const int in_group = k % (shape.pp * shape.vpp), group = k / (shape.pp * shape.vpp);
  const int chunk = in_group / shape.pp;
  return {.backward = backward,
          .chunk = backward ? shape.vpp - 1 - chunk : chunk,
          .micro_batch = group * shape.pp + in_group % shape.pp};
}

// Forward slots before the first backward one.
int forward_first(const PipelineShape& shape, int stage, int forward_slots) {
  if (shape.schedule == Schedule::kGPipe) return forward_slots;
  const int after = shape.pp - stage - 1;  // stages behind this one
  const int warm_up = shape.vpp == 1 ? after : 2 * after + (shape.vpp - 1) * shape.pp;
  return std::min(warm_up + 1, forward_slots);
}

int most_in_flight(const std::vector<Slot>& slots) {
  int now = 0, most = 0;
  for (const Slot& slot : slots) {
    now += slot.backward ? -1 : 1;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

std::vector<Slot> slots_of(const PipelineShape& shape, int stage) {
  check(shape, stage);
  const int each_way = padded_micro_batches(shape) * shape.vpp;
  const int first = forward_first(shape, stage, each_way);
  std::vector<Slot> slots;
  slots.reserve(static_cast<size_t>(2 * shape.micro_batches * shape.vpp));
  const auto add = [&](bool backward, int k) {
    const Slot slot = slot_at(shape, backward, k);
    if (slot.micro_batch < shape.micro_batches) slots.push_back(slot);
  };
  for (int k = 0; k < first; ++k) add(false, k);
  for (int k = 0; k < each_way; ++k) {
    add(true, k);
    if (first + k < each_way) add(false, first + k);
  }
  return slots;
}

double in_flight(const PipelineShape& shape, int stage) {
  check(shape, stage);
  const auto at_most = [&](int micro_batches) { return std::min(micro_batches, shape.micro_batches); };
  if (shape.schedule == Schedule::kZeroBubble1) return at_most(shape.pp);
  if (shape.schedule == Schedule::kZeroBubble2) return at_most(2 * shape.pp);
  if (shape.schedule == Schedule::kDualPipe) return at_most(shape.pp + 1);
  if (shape.vpp > 1 && shape.micro_batches % shape.pp != 0) {
    return static_cast<double>(most_in_flight(slots_of(shape, stage))) / shape.vpp;
  }
  return static_cast<double>(forward_first(shape, stage, shape.micro_batches * shape.vpp)) / shape.vpp;
}

}  // namespace scalai::step
