#include "ptc/cost/step/calibration.h"

#include <fmt/format.h>

#include "ptc/cluster/catalogue.h"

namespace scalai::step {
namespace {

constexpr StepAccuracy kA100 = {"dense A100 16-bit", true, 291, 0.89, 1.18};
constexpr StepAccuracy kH100 = {"dense H100 16-bit", true, 71, 0.90, 1.10};
constexpr StepAccuracy kH100Fp8 = {"dense H100 FP8", true, 72, 0.94, 1.12};
constexpr StepAccuracy kExperts = {"experts", true, 126, 0.87, 1.48};
// Few rows of few kinds: the widest interval of all.
constexpr StepAccuracy kOther = {"other GPUs", false, 32, 0.87, 1.48};

}  // namespace

StepAccuracy step_accuracy(std::string_view gpu, Math math, bool experts) {
  const bool a100 = gpu.starts_with("a100-"), h100 = gpu.starts_with("h100-");
  StepAccuracy found = kOther;
  if (a100) found = kA100;
  if (h100) found = math == Math::kFP8 ? kH100Fp8 : kH100;
  if (experts) found = kExperts;  // the widest
  found.calibrated = a100 || h100;
  return found;
}

StepAccuracy step_accuracy(const cluster::GpuKind& gpu, Math math, bool experts) {
  const cluster::GpuKind* known = cluster::find_gpu_kind(gpu.name);
  if (known == nullptr) return step_accuracy("", math, experts);
  cluster::GpuKind alike = *known;
  alike.memory_bytes = gpu.memory_bytes;  // these two change no step
  alike.power_w = gpu.power_w;
  return step_accuracy(alike == gpu ? std::string_view(gpu.name) : "", math, experts);
}

std::string text_of(const StepAccuracy& accuracy, std::string_view gpu) {
  const std::string range = fmt::format("{:.2f} to {:.2f} times as long", accuracy.low, accuracy.high);
  if (!accuracy.calibrated) return fmt::format("step times are not calibrated for {}: it may take {}", gpu, range);
  return fmt::format("nine in ten of {} published steps ({}) took {}", accuracy.rows, accuracy.group, range);
}

}  // namespace scalai::step
