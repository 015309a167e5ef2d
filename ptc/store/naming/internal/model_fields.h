#pragma once
// The whole numbers of model::Model by name, for the "field" of a size in a family file.

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ptc/state/model/model.h"

namespace scalai::store::internal {

using NumberField = std::variant<int model::Model::*, int64_t model::Model::*>;

inline constexpr std::array<std::pair<std::string_view, NumberField>, 12> kNumberFields = {{
    {"state", &model::Model::state},
    {"window", &model::Model::window},
    {"windowed_layers", &model::Model::windowed_layers},
    {"layers", &model::Model::layers},
    {"hidden", &model::Model::hidden},
    {"heads", &model::Model::heads},
    {"kv_heads", &model::Model::kv_heads},
    {"ffn", &model::Model::ffn},
    {"vocab", &model::Model::vocab},
    {"sequence", &model::Model::sequence},
    {"experts", &model::Model::experts},
    {"experts_per_token", &model::Model::experts_per_token},
}};

inline const NumberField* find_number(std::string_view field) {
  for (const auto& [name, member] : kNumberFields) {
    if (name == field) return &member;
  }
  return nullptr;
}

inline bool has_number(std::string_view field) { return find_number(field) != nullptr; }

inline std::vector<std::string> number_fields() {
  std::vector<std::string> names;
  for (const auto& [name, member] : kNumberFields) names.emplace_back(name);
  return names;
}

// The field is known (has_number).
inline int64_t number_of(const model::Model& model, std::string_view field) {
  return std::visit([&](auto member) { return static_cast<int64_t>(model.*member); }, *find_number(field));
}

// The most that the field holds.
inline int64_t most_of(std::string_view field) {
  return std::visit(
      [](auto member) {
        return int64_t{std::numeric_limits<std::decay_t<decltype(std::declval<model::Model>().*member)>>::max()};
      },
      *find_number(field));
}

inline void set_number(model::Model& model, std::string_view field, int64_t value) {
  std::visit(
      [&](auto member) {
        auto& number = model.*member;
        number = static_cast<std::decay_t<decltype(number)>>(value);
      },
      *find_number(field));
}

}  // namespace scalai::store::internal
