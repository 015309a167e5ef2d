#pragma once
// What torch's optimizers call the states of a parameter.

#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "ptc/state/model/model.h"

namespace scalai::store::internal {

inline constexpr std::array<std::pair<model::StateKind, std::string_view>, 3> kOptimizerKeys = {
    {{model::StateKind::kExpAvg, "exp_avg"},
     {model::StateKind::kExpAvgSq, "exp_avg_sq"},
     {model::StateKind::kMomentum, "momentum_buffer"}}};

constexpr std::string_view optimizer_key(model::StateKind kind) {  // "": another kind
  for (const auto& [each, key] : kOptimizerKeys) {
    if (each == kind) return key;
  }
  return "";
}
constexpr std::optional<model::StateKind> kind_of_key(std::string_view key) {
  for (const auto& [kind, each] : kOptimizerKeys) {
    if (each == key) return kind;
  }
  return std::nullopt;
}

}  // namespace scalai::store::internal
