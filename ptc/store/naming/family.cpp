#include "ptc/store/naming/family.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "ptc/base/status.h"
#include "ptc/store/naming/internal/family_rules.h"
#include "ptc/store/naming/internal/model_fields.h"

namespace scalai::store {
namespace internal {
namespace {

constexpr int64_t kMaxTensors = int64_t{1} << 20;
constexpr int64_t kMaxElements = int64_t{1} << 52;  // of a tensor, and of all together: their bytes can be counted

// A model's file may be older than one of its family's switches.
std::map<std::string, bool> with_usual(const FamilyRules& rules, std::map<std::string, bool> switches) {
  for (const SwitchRule& rule : rules.switches) switches.emplace(rule.name, rule.otherwise);
  return switches;
}

absl::Status check_names(const FamilyRules& rules, const Sizes& sizes) {
  std::vector<std::string> problems;
  const auto compare = [&](const auto& described, const auto& given, std::string_view what) {
    std::set<std::string> names;
    for (const auto& rule : described) {
      names.insert(rule.name);
      if (given.count(rule.name) == 0) problems.push_back(fmt::format("{} \"{}\" is missing", what, rule.name));
    }
    for (const auto& [name, value] : given) {
      if (names.count(name) == 0)
        problems.push_back(fmt::format("family \"{}\" has no {} \"{}\"", rules.name, what, name));
    }
  };
  compare(rules.sizes, sizes.numbers, "size");
  compare(rules.switches, with_usual(rules, sizes.switches), "switch");
  compare(rules.layer_sets, sizes.layer_sets, "layer set");
  return problems.empty() ? absl::OkStatus() : invalid(fmt::format("{}", fmt::join(problems, "\n")));
}

absl::Status set_layer_flags(const FamilyRules& rules, const Sizes& sizes, SizeValues& values) {
  const size_t before = values.switches.size();
  values.switches.resize(before + rules.layer_sets.size(), false);
  values.layer_flags.assign(static_cast<size_t>(values.layers), values.switches);
  for (size_t i = 0; i < rules.layer_sets.size(); ++i) {
    int last = -1;
    for (const int layer : sizes.layer_sets.at(rules.layer_sets[i].name)) {
      if (layer <= last || layer >= values.layers)
        return invalid(fmt::format("layer set \"{}\": {} is not one of {} layers, or not behind the one before it",
                                   rules.layer_sets[i].name, layer, values.layers));
      values.layer_flags[static_cast<size_t>(layer)][before + i] = true;
      last = layer;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SizeValues> values_of(const FamilyRules& rules, const Sizes& sizes) {
  SCALAI_RETURN_IF_ERROR(check_names(rules, sizes));
  SizeValues values;
  std::vector<std::string> problems;
  for (const SizeRule& rule : rules.sizes) {
    const int64_t number = sizes.numbers.at(rule.name);
    if (number < 1 || number > rule.max)
      problems.push_back(
          fmt::format("size \"{}\": {} is not a whole number from 1 to {}", rule.name, number, rule.max));
    if (!rule.field.empty() && number > most_of(rule.field))
      problems.push_back(fmt::format("size \"{}\": {} is more than field \"{}\" holds", rule.name, number, rule.field));
    values.numbers.push_back(number);
    if (rule.field == "layers") values.layers = static_cast<int>(std::min<int64_t>(number, kMaxTensors + 1));
    if (rule.field == "experts") values.experts = static_cast<int>(std::min<int64_t>(number, kMaxTensors + 1));
  }
  if (!problems.empty()) return invalid(fmt::format("{}", fmt::join(problems, "\n")));
  const std::map<std::string, bool> switches = with_usual(rules, sizes.switches);
  for (const SwitchRule& rule : rules.switches) values.switches.push_back(switches.at(rule.name));
  int64_t tensors = 0;
  for (const LogicalRule& rule : rules.logical)
    tensors += rule.layered ? int64_t{values.layers} * (rule.expert ? values.experts : 1) : 1;
  tensors = std::max(tensors, int64_t{values.layers} * std::max(values.experts, 1));
  if (tensors > kMaxTensors)
    return invalid(
        fmt::format("{} layers of {} experts are more than {} tensors", values.layers, values.experts, kMaxTensors));
  SCALAI_RETURN_IF_ERROR(set_layer_flags(rules, sizes, values));
  return values;
}

namespace {

// A shape with at most 2^56 elements.
absl::StatusOr<tensor::Shape> shape_of(const LogicalRule& rule, const SizeValues& values) {
  std::vector<int64_t> extents;
  int64_t elements = 1;
  for (const Expression& expression : rule.shape) {
    SCALAI_ASSIGN_OR_RETURN(const int64_t extent, expression.evaluate(values.numbers));
    if (extent < 1) return invalid(fmt::format("\"{}\" is {}", expression.text(), extent));
    if (elements > kMaxElements / extent)
      return invalid(fmt::format("\"{}\" has more than {} elements", rule.name.text(), kMaxElements));
    elements *= extent;
    extents.push_back(extent);
  }
  return tensor::Shape(extents);
}

// Groups have to make up the rows. Divided, so that nothing overflows.
absl::Status check_groups(const LogicalRule& rule, const tensor::Shape& shape, const SizeValues& values) {
  SCALAI_ASSIGN_OR_RETURN(const int64_t groups, rule.query_groups->groups.evaluate(values.numbers));
  SCALAI_ASSIGN_OR_RETURN(const int64_t queries, rule.query_groups->queries.evaluate(values.numbers));
  SCALAI_ASSIGN_OR_RETURN(const int64_t head_dim, rule.query_groups->head_dim.evaluate(values.numbers));
  const int64_t rows = shape[0];
  const auto fits = [&](int64_t number) { return 1 <= number && number <= rows; };
  const bool whole = fits(groups) && fits(queries) && fits(head_dim) && rows % head_dim == 0 &&
                     rows / head_dim % (queries + 2) == 0 && rows / head_dim / (queries + 2) == groups;
  if (whole) return absl::OkStatus();
  return invalid(fmt::format("\"{}\": {} groups of {} queries, a key and a value of {} rows are not {} rows",
                             rule.name.text(), groups, queries, head_dim, rows));
}

std::vector<int> count_up(int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = i;
  return numbers;
}

}  // namespace
}  // namespace internal

using internal::LogicalRule;
using internal::SizeRule;
using internal::SizeValues;

const std::string& Family::name() const { return rules_->name; }
const std::string& Family::text() const { return rules_->text; }
const std::vector<std::string>& Family::architectures() const { return rules_->architectures; }

std::vector<std::string> Family::namings() const {
  std::vector<std::string> names;
  for (const internal::NamingRules& naming : rules_->namings) names.push_back(naming.name);
  return names;
}

bool Family::has_naming(std::string_view name) const {
  const auto& namings = rules_->namings;
  return std::any_of(namings.begin(), namings.end(), [&](const auto& naming) { return naming.name == name; });
}

absl::StatusOr<model::Model> Family::build_model(const Sizes& sizes, const std::string& model_name) const {
  SCALAI_ASSIGN_OR_RETURN(const SizeValues values, internal::values_of(*rules_, sizes));
  model::Model model{.name = model_name, .family = rules_->name};
  for (const SizeRule& size : rules_->sizes) {
    if (!size.field.empty()) internal::set_number(model, size.field, sizes.numbers.at(size.name));
  }
  for (size_t i = 0; i < rules_->switches.size(); ++i) {
    if (rules_->switches[i].field == "tied") model.tied = values.switches[i];
  }
  std::vector<std::string> problems;
  std::map<const LogicalRule*, tensor::Shape> shapes;
  for (const LogicalRule& rule : rules_->logical) {
    if (!is_used(rule, values)) continue;
    const auto shape = internal::shape_of(rule, values);
    const absl::Status groups =
        shape.ok() && rule.query_groups ? internal::check_groups(rule, *shape, values) : absl::OkStatus();
    for (const absl::Status& status : {shape.status(), groups}) {
      const std::string text = message_of(status);
      if (!status.ok() && std::find(problems.begin(), problems.end(), text) == problems.end()) problems.push_back(text);
    }
    if (shape.ok()) shapes[&rule] = *shape;
  }
  if (!problems.empty()) return invalid(fmt::format("{}", fmt::join(problems, "\n")));
  const std::vector<int> experts = internal::count_up(values.experts);
  internal::visit_rules<LogicalRule>(
      rules_->logical, internal::count_up(values.layers), [&](int) { return experts; },
      [&](const LogicalRule& rule, int layer, int expert) {
        const auto shape = shapes.find(&rule);
        if (shape == shapes.end() || !holds(rule.when, values.flags(layer))) return;
        model.params.push_back({.name = rule.name.fill({.layer = layer, .expert = expert}),
                                .shape = shape->second,
                                .rule = rule.rule,
                                .layer = rule.layered ? layer : rule.home,
                                .expert = expert,
                                .buffer = rule.buffer});
      });
  if (model.experts > 0 && model.experts_per_token > model.experts)
    return invalid(fmt::format("{} experts for a token are more than all {}", model.experts_per_token, model.experts));
  int64_t elements = 0;
  for (const model::Param& param : model.params) {
    elements += param.shape.elements();
    if (elements > internal::kMaxElements)
      return invalid(fmt::format("the tensors have more than {} elements together", internal::kMaxElements));
  }
  // Two rules may name one tensor only through their numbers: "layers.0.w" and "layers.{layer}.w".
  std::set<std::string_view> names;
  for (const model::Param& param : model.params) {
    if (!names.insert(param.name).second)
      return invalid(fmt::format("family \"{}\" describes tensor \"{}\" twice", name(), param.name));
  }
  return model;
}

namespace {

bool same(const model::Param& a, const model::Param& b) {
  return a.name == b.name && a.shape == b.shape && a.rule == b.rule && a.layer == b.layer && a.expert == b.expert &&
         a.buffer == b.buffer;
}

std::string describe(const std::vector<model::Param>& params, size_t index) {
  return index < params.size() ? fmt::format("\"{}\" {}", params[index].name, params[index].shape.str()) : "nothing";
}

// The tensors of a model by name.
using Params = std::unordered_map<std::string_view, const model::Param*>;

bool is_in_layer(const LogicalRule& rule, int layer, const Params& params) {
  return params.count(rule.name.fill({.layer = layer, .expert = 0})) != 0;
}

// The tensor of the first layer that has it, of expert 0; nullptr: no layer has it.
const model::Param* first_of(const internal::NameTemplate& name, int layers, const Params& params) {
  for (int layer = 0; layer < std::max(layers, 1); ++layer) {
    const auto found = params.find(name.fill({.layer = layer, .expert = 0}));
    if (found != params.end()) return found->second;
    if (!name.has(internal::Hole::kLayer)) break;
  }
  return nullptr;
}

// What a model says of one size; `values` are those of the sizes before.
absl::StatusOr<int64_t> size_of_model(const SizeRule& rule, const model::Model& model, const Params& params,
                                      const std::vector<int64_t>& values) {
  if (!rule.field.empty()) return internal::number_of(model, rule.field);
  const model::Param* param = rule.shape_tensor ? first_of(*rule.shape_tensor, model.layers, params) : nullptr;
  if (param != nullptr && rule.shape_dim < param->shape.rank()) {
    int64_t divisor = 1;
    int64_t minus = 0;
    if (rule.shape_divisor) {
      SCALAI_ASSIGN_OR_RETURN(divisor, rule.shape_divisor->evaluate(values));
    }
    if (rule.shape_minus) {
      SCALAI_ASSIGN_OR_RETURN(minus, rule.shape_minus->evaluate(values));
    }
    const int64_t extent = param->shape[rule.shape_dim];
    if (divisor >= 1 && extent % divisor == 0) return extent / divisor - minus;
    return invalid(
        fmt::format("size \"{}\": {} of \"{}\" is not a multiple of {}", rule.name, extent, param->name, divisor));
  }
  if (rule.otherwise) return rule.otherwise->evaluate(values);
  return invalid(fmt::format("no field of a model gives the size \"{}\" (give it a field or a shape)", rule.name));
}

// A switch without a field is on when the model has all the tensors that are only there with it. `decided`: the
// switches before.
bool switch_of_model(const internal::FamilyRules& rules, const std::vector<bool>& decided, const model::Model& model,
                     const Params& params) {
  const size_t index = decided.size();
  if (rules.switches[index].field == "tied") return model.tied;
  bool told = false;
  bool on = true;
  for (const LogicalRule& rule : rules.logical) {
    bool tells = false;
    bool value = true;
    for (const internal::Condition& condition : rule.when) {
      if (condition.index == index) {
        tells = true;
        value = condition.value;
      }
    }
    const auto fits = [&](const internal::Condition& condition) {
      const bool is_switch = condition.index < rules.switches.size();
      return condition.index == index || !is_switch ||
             (condition.index < index && decided[condition.index] == condition.value);
    };
    if (!tells || !std::all_of(rule.when.begin(), rule.when.end(), fits)) continue;
    told = true;
    on = on && (first_of(rule.name, model.layers, params) != nullptr) == value;
  }
  return told ? on : rules.switches[index].otherwise;
}

// The layers that have a tensor which is only there in the set.
std::vector<int> layer_set_of_model(const internal::FamilyRules& rules, size_t flag, const model::Model& model,
                                    const Params& params) {
  std::vector<int> layers;
  for (const LogicalRule& rule : rules.logical) {
    for (const internal::Condition& condition : rule.when) {
      if (condition.index != flag) continue;
      for (int layer = 0; layer < model.layers; ++layer) {
        if (is_in_layer(rule, layer, params) == condition.value) layers.push_back(layer);
      }
      return layers;
    }
  }
  return layers;
}

}  // namespace

absl::StatusOr<Sizes> Family::sizes_of_model(const model::Model& model) const {
  Sizes sizes;
  Params params;
  for (const model::Param& param : model.params) params.emplace(param.name, &param);
  std::vector<int64_t> values;
  for (const SizeRule& rule : rules_->sizes) {
    SCALAI_ASSIGN_OR_RETURN(const int64_t value, size_of_model(rule, model, params, values));
    values.push_back(value);
    sizes.numbers[rule.name] = value;
  }
  std::vector<bool> switches;
  for (const internal::SwitchRule& rule : rules_->switches) {
    switches.push_back(switch_of_model(*rules_, switches, model, params));
    sizes.switches[rule.name] = switches.back();
  }
  for (size_t i = 0; i < rules_->layer_sets.size(); ++i)
    sizes.layer_sets[rules_->layer_sets[i].name] =
        layer_set_of_model(*rules_, rules_->switches.size() + i, model, params);
  SCALAI_ASSIGN_OR_RETURN(const model::Model built, build_model(sizes, model.name));
  for (size_t i = 0; i < std::max(built.params.size(), model.params.size()); ++i) {
    if (i < built.params.size() && i < model.params.size() && same(built.params[i], model.params[i])) continue;
    return invalid(
        fmt::format("family \"{}\" does not describe model \"{}\": tensor {} is {} in the family, {} in the "
                    "model",
                    name(), model.name, i, describe(built.params, i), describe(model.params, i)));
  }
  return sizes;
}

}  // namespace scalai::store
