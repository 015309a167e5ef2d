#include "ptc/cost/step/calibration.h"

#include <fmt/format.h>

#include <array>

#include "ptc/cluster/catalogue.h"

namespace scalai::step {
namespace {

// By Given.
using ByGiven = std::array<StepAccuracy, 3>;
constexpr ByGiven by_given(std::string_view group, bool calibrated, int rows, double low, double high, int named,
                           double named_low, double named_high, int guessed, double guessed_low, double guessed_high) {
  return {{{group, calibrated, rows, low, high, Given::kFlags},
           {group, calibrated, named, named_low, named_high, Given::kSoftware},
           {group, calibrated, guessed, guessed_low, guessed_high, Given::kNothing}}};
}
constexpr ByGiven kA100 = by_given("dense A100 16-bit", true, 306, 0.89, 1.18, 589, 0.86, 1.57, 580, 0.98, 2.15);
constexpr ByGiven kH100 = by_given("dense H100 16-bit", true, 74, 0.90, 1.09, 152, 0.75, 1.45, 163, 0.86, 1.66);
constexpr ByGiven kH100Fp8 = by_given("dense H100 FP8", true, 72, 0.94, 1.12, 153, 0.91, 1.15, 153, 0.90, 1.78);
constexpr ByGiven kBlackwell = by_given("dense Blackwell", true, 39, 0.92, 1.30, 118, 0.74, 2.86, 126, 0.69, 2.79);
constexpr ByGiven kExperts = by_given("experts", true, 145, 0.87, 1.60, 358, 0.70, 2.45, 388, 0.78, 4.32);
// Few rows of each of many kinds: the widest interval of all dense ones.
constexpr ByGiven kOther = by_given("other GPUs", false, 15, 0.86, 1.30, 51, 0.74, 2.86, 68, 0.69, 2.79);

}  // namespace

StepAccuracy step_accuracy(std::string_view gpu, Math math, bool experts, Given given) {
  const bool a100 = gpu.starts_with("a100-"), h100 = gpu.starts_with("h100-");
  const bool blackwell =
      gpu.starts_with("b200-") || gpu.starts_with("gb200-") || gpu.starts_with("b300-") || gpu.starts_with("gb300-");
  const ByGiven* group = blackwell ? &kBlackwell : &kOther;
  if (a100) group = &kA100;
  if (h100) group = is_narrow(math) ? &kH100Fp8 : &kH100;
  if (experts) group = &kExperts;  // the widest
  StepAccuracy found = (*group)[static_cast<size_t>(given)];
  found.calibrated = a100 || h100 || blackwell;
  return found;
}

StepAccuracy step_accuracy(const cluster::GpuKind& gpu, Math math, bool experts, Given given) {
  const cluster::GpuKind* known = cluster::find_gpu_kind(gpu.name);
  if (known == nullptr) return step_accuracy("", math, experts, given);
  cluster::GpuKind alike = *known;
  alike.memory_bytes = gpu.memory_bytes;  // these two change no step
  alike.power_w = gpu.power_w;
  return step_accuracy(alike == gpu ? std::string_view(gpu.name) : "", math, experts, given);
}

std::string text_of(const StepAccuracy& accuracy, std::string_view gpu) {
  const std::string range = fmt::format("{:.2f} to {:.2f} times as long", accuracy.low, accuracy.high);
  if (!accuracy.calibrated) return fmt::format("step times are not calibrated for {}: it may take {}", gpu, range);
  const char* given = accuracy.given == Given::kFlags      ? ""
                      : accuracy.given == Given::kSoftware ? ", their software named,"
                                                           : ", of any software,";
  return fmt::format("nine in ten of {} published steps ({}){} took {}", accuracy.rows, accuracy.group, given, range);
}

}  // namespace scalai::step
