#include "ptc/cost/step/training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ptc/base/status.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::step {
namespace {

const std::vector<Precision>& precisions() {
  static const std::vector<Precision> table = {
      {.name = "bf16", .math = Math::kBF16, .param_bytes = 2, .gradient_bytes = 4, .optimizer_bytes = 12},
      {.name = "fp16", .math = Math::kF16, .param_bytes = 2, .gradient_bytes = 2, .optimizer_bytes = 16},
      {.name = "zero-fp16",
       .math = Math::kF16,
       .param_bytes = 2,
       .gradient_bytes = 2,
       .optimizer_bytes = 12,
       .deepspeed = true},
      {.name = "fp32",
       .math = Math::kTF32,
       .param_bytes = 4,
       .gradient_bytes = 4,
       .optimizer_bytes = 8,
       .activation_bytes = 4},
      {.name = "fp8", .math = Math::kFP8, .param_bytes = 2, .gradient_bytes = 4, .optimizer_bytes = 12},
      {.name = "nvfp4", .math = Math::kFP4, .param_bytes = 2, .gradient_bytes = 4, .optimizer_bytes = 12},
  };
  return table;
}

// The enumerator of a name, or an error that lists them.
template <class Enum, size_t N>
absl::StatusOr<Enum> find(std::string_view what, std::string_view name, const std::array<std::string_view, N>& names) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return invalid(fmt::format("there is no {} \"{}\"; choose among {}", what, name, fmt::join(names, ", ")));
}

}  // namespace

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const Precision& precision : precisions()) names.push_back(precision.name);
  return names;
}

absl::StatusOr<Precision> find_precision(std::string_view name, model::Optimizer optimizer) {
  for (Precision precision : precisions()) {
    if (precision.name != name) continue;
    precision.optimizer = optimizer;
    if (optimizer == model::Optimizer::kSgdMomentum) precision.optimizer_bytes -= 4;
    if (optimizer == model::Optimizer::kAdamBf16) precision.optimizer_bytes -= 2 * 2;
    if (optimizer == model::Optimizer::kAdam8bit) precision.optimizer_bytes -= 2 * 3;
    return precision;
  }
  return invalid(
      fmt::format("there is no precision \"{}\"; choose among {}", name, fmt::join(precision_names(), ", ")));
}

std::string_view name_of(Schedule schedule) { return kScheduleNames.at(static_cast<size_t>(schedule)); }
std::string_view name_of(Overlap overlap) { return kOverlapNames.at(static_cast<size_t>(overlap)); }
absl::StatusOr<Schedule> find_schedule(std::string_view name) {
  return find<Schedule>("schedule", name, kScheduleNames);
}
absl::StatusOr<Overlap> find_overlap(std::string_view name) { return find<Overlap>("overlap", name, kOverlapNames); }
std::string_view name_of(DataOverlap overlap) { return kDataOverlapNames.at(static_cast<size_t>(overlap)); }
absl::StatusOr<DataOverlap> find_data_overlap(std::string_view name) {
  return find<DataOverlap>("overlap of data parallelism", name, kDataOverlapNames);
}

std::string_view name_of(Kernels kernels) { return kKernelNames.at(static_cast<size_t>(kernels)); }
absl::StatusOr<Kernels> find_kernels(std::string_view name) {
  return find<Kernels>("choice of kernels", name, kKernelNames);
}

std::string_view name_of(Dispatch dispatch) { return kDispatchNames.at(static_cast<size_t>(dispatch)); }
absl::StatusOr<Dispatch> find_dispatch(std::string_view name) {
  return find<Dispatch>("dispatch of tokens", name, kDispatchNames);
}

std::string_view name_of(Loss loss) { return kLossNames.at(static_cast<size_t>(loss)); }
absl::StatusOr<Loss> find_loss(std::string_view name) { return find<Loss>("way to make the loss", name, kLossNames); }

std::string_view name_of(Framework framework) { return kFrameworkNames.at(static_cast<size_t>(framework)); }
absl::StatusOr<Framework> find_framework(std::string_view name) {
  return find<Framework>("framework", name, kFrameworkNames);
}

std::vector<std::string> gradient_names() {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : kGradientBytes) names.emplace_back(name);
  return names;
}

absl::StatusOr<double> find_gradient_bytes(std::string_view name) {
  for (const auto& [known, bytes] : kGradientBytes) {
    if (known == name) return bytes;
  }
  return invalid(fmt::format("there is no number format of gradients \"{}\"; choose among {}", name,
                             fmt::join(gradient_names(), ", ")));
}

int Training::micro_batches(int dp) const {
  SCALAI_CHECK(dp >= 1 && micro_batch >= 1);
  const int64_t share = int64_t{dp} * micro_batch;
  return static_cast<int>(std::max<int64_t>(1, (global_batch + share - 1) / share));
}

bool Training::sums_whole_gradients() const {
  const bool deepspeed = runs_in() == Framework::kDeepSpeed && precision.math == Math::kBF16;
  return deepspeed || runs_in() == Framework::kScaling || runs_in() == Framework::kInternEvo;
}

double Training::summed_gradient_bytes() const {
  return runs_in() == Framework::kScaling ? 4 : precision.gradient_bytes;
}

std::vector<int> layers_per_stage(const Workload& w) {
  const int layers = w.model.layers, stages = w.config.pp * w.config.vpp;
  if (w.training.mtp == 0 || !w.config.stages.empty() || stages == 1 || stages > layers)
    return collection::layers_per_stage(w.config, layers);
  // In layers; the head's products are in 16 bits.
  const auto head = static_cast<double>(w.model.vocab * w.model.hidden);
  const double layer = (static_cast<double>(w.model.active_parameters()) - 2 * head) / layers;
  const double heads = (is_narrow(w.training.precision.math) ? 2 : 1) * head / layer, mtp = w.training.mtp;
  const double each = (layers + mtp + (1 + mtp) * heads) / stages;
  const int last = std::clamp(static_cast<int>(std::lround(each - mtp - (1 + mtp) * heads)), 1, layers - stages + 1);
  std::vector<int> counts(static_cast<size_t>(stages), (layers - last) / (stages - 1));
  for (int i = 0; i < (layers - last) % (stages - 1); ++i) ++counts[static_cast<size_t>(i)];
  counts.back() = last;
  return counts;
}

double Training::bucket_parameters(int ranks) const {
  return bucket > 0 ? static_cast<double>(bucket) : std::max(40e6, 1e6 * ranks);
}

}  // namespace scalai::step
