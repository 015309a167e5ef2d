#include "ptc/state/model/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "ptc/base/status.h"

namespace scalai::model {
namespace {

using tensor::DType;

constexpr std::array<std::pair<std::string_view, Optimizer>, 5> kOptimizers = {{{"adam", Optimizer::kAdam},
                                                                                {"adam-bf16", Optimizer::kAdamBf16},
                                                                                {"adam-8bit", Optimizer::kAdam8bit},
                                                                                {"muon", Optimizer::kMuon},
                                                                                {"sgd", Optimizer::kSgdMomentum}}};

constexpr int64_t kHostRngBytes = 5056;
constexpr int64_t kDeviceRngBytes = 16;

int64_t bytes_of(const StateTensor& state) { return state.shape.elements() * tensor::size_of(state.dtype); }

std::vector<StateKind> kinds_of(const Param& param, const Recipe& recipe) {
  if (param.buffer) return {StateKind::kBuffer};
  std::vector<StateKind> kinds = {StateKind::kParam};
  if (recipe.previous) kinds.push_back(StateKind::kPrevious);
  if (recipe.master && recipe.param != DType::kF32) kinds.push_back(StateKind::kMaster);
  if (recipe.optimizer == Optimizer::kSgdMomentum || (recipe.optimizer == Optimizer::kMuon && param.layer_matrix())) {
    kinds.push_back(StateKind::kMomentum);
  } else {
    kinds.insert(kinds.end(), {StateKind::kExpAvg, StateKind::kExpAvgSq});
  }
  return kinds;
}

DType dtype_of(const Param& param, StateKind kind, const Recipe& recipe) {
  if (kind == StateKind::kParam || kind == StateKind::kPrevious) return recipe.param;
  const bool moment = kind == StateKind::kExpAvg || kind == StateKind::kExpAvgSq;
  if (moment && recipe.optimizer == Optimizer::kAdamBf16) return DType::kBF16;
  if (moment && recipe.optimizer == Optimizer::kAdam8bit) return DType::kU8;
  return kind == StateKind::kBuffer && param.shape.rank() == 0 ? DType::kI64 : DType::kF32;
}

StateTensor state_of(const Model& model, size_t index, StateKind kind, const Recipe& recipe) {
  const Param& param = model.params[index];
  const bool own_name = kind == StateKind::kParam || kind == StateKind::kBuffer;
  return {.name = own_name ? param.name : fmt::format("{}.{}", param.name, name_of(kind)),
          .dtype = dtype_of(param, kind, recipe),
          .shape = param.shape,
          .kind = kind,
          .param = static_cast<int>(index)};
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& [name, optimizer] : kOptimizers) names.emplace_back(name);
  return names;
}

std::string_view name_of(Optimizer optimizer) {
  return std::find_if(kOptimizers.begin(), kOptimizers.end(), [&](const auto& one) { return one.second == optimizer; })
      ->first;
}

absl::StatusOr<Optimizer> find_optimizer(std::string_view name) {
  for (const auto& [known, optimizer] : kOptimizers) {
    if (known == name) return optimizer;
  }
  return invalid(
      fmt::format("there is no optimizer \"{}\"; choose among {}", name, fmt::join(optimizer_names(), ", ")));
}

std::string_view name_of(StateKind kind) {
  static constexpr std::array<std::string_view, 9> kNames = {"param",  "master", "exp_avg", "exp_avg_sq", "momentum",
                                                             "buffer", "rng",    "scalar",  "previous"};
  return kNames.at(static_cast<size_t>(kind));
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const Param& param : params) count += param.buffer ? 0 : param.shape.elements();
  return count;
}

int64_t Model::active_parameter_count() const {
  int64_t dense = 0;
  int64_t in_experts = 0;
  for (const Param& param : params) {
    if (!param.buffer) (param.expert >= 0 ? in_experts : dense) += param.shape.elements();
  }
  // All experts have the same shapes, so the division is exact.
  return experts == 0 ? dense : dense + in_experts / experts * experts_per_token;
}

std::vector<StateTensor> state_tensors(const Model& model, const Recipe& recipe) {
  SCALAI_CHECK(recipe.param == DType::kF16 || recipe.param == DType::kBF16 || recipe.param == DType::kF32,
               std::string(tensor::name_of(recipe.param)));
  std::vector<StateTensor> states;
  for (size_t index = 0; index < model.params.size(); ++index) {
    for (StateKind kind : kinds_of(model.params[index], recipe)) {
      states.push_back(state_of(model, index, kind, recipe));
    }
  }
  states.push_back({.name = "rng.host", .dtype = DType::kU8, .shape = {kHostRngBytes}, .kind = StateKind::kRng});
  states.push_back({.name = "rng.device", .dtype = DType::kU8, .shape = {kDeviceRngBytes}, .kind = StateKind::kRng});
  states.push_back({.name = "step", .dtype = DType::kI64, .shape = {}, .kind = StateKind::kScalar});
  states.push_back({.name = "data.cursor", .dtype = DType::kI64, .shape = {2}, .kind = StateKind::kScalar});
  return states;
}

int64_t state_bytes(const Model& model, const Recipe& recipe, bool per_home) {
  int64_t bytes = 0;
  for (const StateTensor& state : state_tensors(model, recipe)) {
    const bool two_homes = state.param >= 0 && model.params[static_cast<size_t>(state.param)].layer == Param::kBothEnds;
    bytes += bytes_of(state) * (per_home && two_homes ? 2 : 1);
  }
  return bytes;
}

}  // namespace scalai::model
