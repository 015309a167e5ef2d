#include "ptc/plan/lowering.h"

#include <map>
#include <tuple>

namespace scalai::plan {
namespace {

StepKind receiving_kind(TransferClass transfer_class) {
  switch (transfer_class) {
    case TransferClass::kKept: return StepKind::kKeep;
    case TransferClass::kSameDevice: return StepKind::kCopy;
    case TransferClass::kFromStorage: return StepKind::kLoad;
    default: return StepKind::kReceive;
  }
}

}  // namespace

std::vector<ProgramStep> lower(const Plan& plan, DeviceId device) {
  std::map<std::tuple<int32_t, int32_t, StepKind, Location>, ProgramStep> steps;
  const auto add = [&](StepKind kind, Location peer, size_t index) {
    const Operation& operation = plan.operations[index];
    ProgramStep& step = steps[{operation.round, operation.hop, kind, peer}];
    step.kind = kind;
    step.round = operation.round;
    step.hop = operation.hop;
    step.peer = peer;
    step.operations.push_back(static_cast<int32_t>(index));
    step.bytes += operation.bytes;
  };
  const Location here = Location::device(device);
  for (size_t i = 0; i < plan.operations.size(); ++i) {
    const Operation& operation = plan.operations[i];
    if (operation.dst == device) {
      add(receiving_kind(operation.transfer_class), operation.src, i);
    } else if (operation.src == here) {
      add(StepKind::kSend, Location::device(operation.dst), i);
    }
  }
  std::vector<ProgramStep> program;
  for (auto& [key, step] : steps) program.push_back(std::move(step));
  return program;
}

}  // namespace scalai::plan
