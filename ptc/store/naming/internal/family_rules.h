#pragma once
// A family file as it was understood. Conditions, names and parts are checked (family_file.cpp, family_namings.cpp).

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ptc/state/model/model.h"
#include "ptc/store/naming/family.h"
#include "ptc/store/naming/internal/expression.h"
#include "ptc/store/naming/internal/name_template.h"

namespace scalai::store::internal {

struct SizeRule {
  std::string name;
  std::vector<std::string> keys;
  std::optional<Expression> otherwise;
  std::vector<std::pair<std::vector<std::string>, Expression>> usual;  // in the place of `otherwise`, by architectures
  int64_t max = 0;
  std::string field;                         // of model::Model
  std::optional<NameTemplate> shape_tensor;  // of the first layer that has it, expert 0
  int shape_dim = 0;
  std::optional<Expression> shape_divisor;
  std::optional<Expression> shape_minus;
};

struct SwitchRule {
  std::string name;
  std::vector<std::string> keys;
  bool otherwise = false;
  std::vector<std::string> architectures;
  std::string field;
  std::vector<std::string> on_for;
  bool when_given = false;
};

struct LayerSetRule {
  std::string name;
  std::string first;  // keys of config.json; empty: none
  std::string step;
  bool from_zero = false;
  std::vector<std::string> only;
  std::vector<std::string> without;
  std::string kinds;
  std::vector<std::string> of;
};

struct RefusedKeyRule {
  std::string key;
  std::string because;
  std::vector<std::string> unless;
};

struct Condition {
  size_t index = 0;  // of the switch; behind these, of the layer set
  bool value = true;
};
using Conditions = std::vector<Condition>;

struct QueryGroupsRule {
  Expression groups;
  Expression queries;
  Expression head_dim;
};

struct LogicalRule {
  NameTemplate name;
  bool layered = false;  // the name has {layer}
  bool expert = false;   // and {expert}
  std::vector<Expression> shape;
  model::TpRule rule = model::TpRule::kReplicated;
  int home = model::Param::kFirst;  // of those without a layer
  Conditions when;
  std::optional<QueryGroupsRule> query_groups;
  bool buffer = false;
};

enum class Rows : uint8_t { kAll, kQuery, kKey, kValue };
enum class Rotary : uint8_t { kHalf, kInterleaved };
enum class StageRule : uint8_t { kWhereHeld, kFirstHome, kSecondHome };

struct PartRule {
  NameTemplate tensor;
  Rows rows = Rows::kAll;
  Rotary rotary = Rotary::kHalf;
};

struct StoredRule {
  NameTemplate name;
  std::vector<NameTemplate> also;
  bool layered = false;
  bool expert = false;          // one tensor an expert
  std::vector<PartRule> parts;  // at least one
  bool transposed = false;
  bool alias = false;
  StageRule stage = StageRule::kWhereHeld;
  Conditions when;
  bool without_prefix = false;
  bool stacked = false;
  bool instead = false;
  std::optional<float> constant;  // a scalar of this value wherever its parts are; it has nothing of them
  bool where_there = false;       // of a shared naming: it counts where all of its parts do
};

struct NamingRules {
  std::string name;
  std::vector<std::string> prefixes;  // at least one
  NameTemplate chunk_prefix;
  std::vector<NameTemplate> ignored;
  std::vector<NameTemplate> optimizer;
  NameTemplate past_layers;
  std::string past_layers_key;
  std::vector<StoredRule> stored;
};

struct FamilyRules {
  std::string name;
  std::string text;
  std::vector<std::string> architectures;
  std::string model_type;
  std::vector<SizeRule> sizes;
  std::vector<SwitchRule> switches;
  std::vector<LayerSetRule> layer_sets;
  std::vector<RefusedKeyRule> refused;
  std::vector<LogicalRule> logical;
  std::vector<NamingRules> namings;
};

// The values of Sizes in the family's order.
struct SizeValues {
  std::vector<int64_t> numbers;
  std::vector<bool> switches;                  // then a false for each layer set
  std::vector<std::vector<bool>> layer_flags;  // of each layer: the switches, and whether it is in each set
  int layers = 0;
  int experts = 0;

  // What conditions look at; layer -1: outside of the layers.
  const std::vector<bool>& flags(int layer) const {
    return layer < 0 ? switches : layer_flags[static_cast<size_t>(layer)];
  }
};
// InvalidArgument: as Family::build_model.
absl::StatusOr<SizeValues> values_of(const FamilyRules& rules, const Sizes& sizes);

inline bool holds(const Conditions& when, const std::vector<bool>& flags) {
  for (const Condition& condition : when) {
    if (flags[condition.index] != condition.value) return false;
  }
  return true;
}

// Whether some model of these sizes has tensors of the rule.
inline bool is_used(const LogicalRule& rule, const SizeValues& values) {
  if (!rule.layered) return holds(rule.when, values.flags(-1));
  const auto& layers = values.layer_flags;
  return std::any_of(layers.begin(), layers.end(), [&](const auto& flags) { return holds(rule.when, flags); });
}

// Visits rules (LogicalRule, StoredRule) in the order in which their tensors come: a run of rules with a layer is
// visited layer by layer, and in it a run with an expert expert by expert.
//   visit(const Rule&, int layer, int expert)   -1 where the rule has none
//   experts_of(int layer) -> std::vector<int>
template <class Rule, class ExpertsOf, class Visit>
void visit_rules(std::span<const Rule> rules, std::span<const int> layers, const ExpertsOf& experts_of,
                 const Visit& visit) {
  const auto run_end = [](std::span<const Rule> in, size_t begin, bool Rule::*member) {
    size_t end = begin;
    while (end < in.size() && in[end].*member == in[begin].*member) ++end;
    return end;
  };
  for (size_t begin = 0; begin < rules.size();) {
    const size_t end = run_end(rules, begin, &Rule::layered);
    const std::span<const Rule> run = rules.subspan(begin, end - begin);
    begin = end;
    if (!run.front().layered) {
      for (const Rule& rule : run) visit(rule, -1, -1);
      continue;
    }
    for (const int layer : layers) {
      for (size_t first = 0; first < run.size();) {
        const size_t last = run_end(run, first, &Rule::expert);
        const std::vector<int> experts = run[first].expert ? experts_of(layer) : std::vector<int>{-1};
        for (const int expert : experts) {
          for (size_t i = first; i < last; ++i) visit(run[i], layer, expert);
        }
        first = last;
      }
    }
  }
}

}  // namespace scalai::store::internal
