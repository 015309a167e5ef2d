#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "ptc/base/status.h"
#include "ptc/proto/naming.pb.h"
#include "ptc/store/naming/family.h"
#include "ptc/store/naming/internal/family_builder.h"
#include "ptc/store/naming/internal/model_fields.h"

namespace scalai::store {
namespace internal {

std::optional<Expression> build_expression(FamilyBuilder& builder, const std::string& path, const std::string& text) {
  if (builder.source.broken(path)) return std::nullopt;
  Expression::Problem problem;
  auto expression = Expression::parse(text, builder.size_names, problem);
  if (!expression)
    builder.source.error_inside(path, text, problem.position, problem.length, problem.message, problem.hint);
  return expression;
}

std::optional<NameTemplate> build_template(FamilyBuilder& builder, const std::string& path, const std::string& text,
                                           bool pattern) {
  if (!builder.source.is_name(path, text)) return std::nullopt;
  auto name = NameTemplate::parse(text, pattern);
  if (name.ok()) return *std::move(name);
  builder.source.error(path, message_of(name.status()));
  return std::nullopt;
}

Conditions build_conditions(FamilyBuilder& builder, const std::string& path, const std::vector<std::string>& texts,
                            bool layered) {
  Conditions conditions;
  for (size_t i = 0; i < texts.size(); ++i) {
    const bool value = !texts[i].starts_with("!");
    const std::string name = texts[i].substr(value ? 0 : 1);
    const std::string at = fmt::format("{}[{}]", path, i);
    const auto& names = builder.flag_names;
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      builder.source.error_unknown(at, builder.rules.layer_sets.empty() ? "switch" : "switch or layer set", name,
                                   names);
      continue;
    }
    const auto index = static_cast<size_t>(found - names.begin());
    if (index >= builder.rules.switches.size() && !layered)
      builder.source.error(at, fmt::format("\"{}\" is a set of layers, and this is outside of the layers", name));
    conditions.push_back({index, value});
  }
  return conditions;
}

namespace {

constexpr int64_t kMaxSize = int64_t{1} << 27;
constexpr int64_t kMaxSizeAllowed = int64_t{1} << 40;
constexpr size_t kMaxFlags = 8;  // every setting of them is checked
constexpr int kMaxRules = 4096;

void build_head(FamilyBuilder& builder) {
  proto::Source& source = builder.source;
  const int version = builder.message.schema_version();
  if (version != 1) {
    source.error("schema_version", fmt::format("schema version {} is not known here", version),
                 "this program reads version 1");
  }
  if (source.is_name("name", builder.message.name())) builder.rules.name = builder.message.name();
  std::set<std::string> names;
  for (int i = 0; i < builder.message.architectures_size(); ++i) {
    const std::string path = fmt::format("architectures[{}]", i);
    const std::string& name = builder.message.architectures(i);
    if (!source.is_name(path, name)) continue;
    if (!names.insert(name).second) source.error(path, fmt::format("architecture \"{}\" is given twice", name));
    builder.rules.architectures.push_back(name);
  }
  builder.rules.model_type = builder.message.model_type();
}

// Whether a name for a size or a switch is fit and new.
bool is_new_name(FamilyBuilder& builder, const std::string& path, const std::string& name) {
  if (!builder.source.is_name(path, name)) return false;
  const auto letter = [](char c) { return c == '_' || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z'); };
  const auto fits = [&](char c) { return letter(c) || ('0' <= c && c <= '9'); };
  if (!letter(name.front()) || !std::all_of(name.begin(), name.end(), fits)) {
    builder.source.error(path, fmt::format("\"{}\" has other characters than letters, digits and _", name));
    return false;
  }
  for (const auto* const names : {&builder.size_names, &builder.flag_names}) {
    if (std::find(names->begin(), names->end(), name) == names->end()) continue;
    builder.source.error(path, fmt::format("\"{}\" is described twice", name));
    return false;
  }
  return true;
}

std::vector<std::string> build_keys(FamilyBuilder& builder, const std::string& path,
                                    const google::protobuf::RepeatedPtrField<std::string>& keys) {
  for (int i = 0; i < keys.size(); ++i) builder.source.is_name(fmt::format("{}.keys[{}]", path, i), keys[i]);
  return {keys.begin(), keys.end()};
}

void build_shape_source(FamilyBuilder& builder, const proto::ShapeSource& message, const std::string& path,
                        SizeRule& size) {
  const auto name = build_template(builder, path + ".tensor", message.tensor());
  size.shape_dim = message.dim();
  if (builder.source.given(path + ".dim")) builder.source.at_least(path + ".dim", message.dim(), 0);
  if (builder.source.given(path + ".divisor"))
    size.shape_divisor = build_expression(builder, path + ".divisor", message.divisor());
  if (builder.source.given(path + ".minus"))
    size.shape_minus = build_expression(builder, path + ".minus", message.minus());
  if (!name) return;
  const auto& tensors = builder.message.tensors();
  const auto known = [&](const proto::TensorRule& tensor) { return tensor.name() == message.tensor(); };
  if (std::any_of(tensors.begin(), tensors.end(), known)) {
    size.shape_tensor = *name;
    return;
  }
  std::vector<std::string> names;
  for (const proto::TensorRule& tensor : tensors) names.push_back(tensor.name());
  builder.source.error_unknown(path + ".tensor", "logical tensor", message.tensor(), names);
}

std::vector<std::string> known_architectures(FamilyBuilder& builder, const std::string& path,
                                             const google::protobuf::RepeatedPtrField<std::string>& names) {
  const std::vector<std::string>& known = builder.rules.architectures;
  for (int i = 0; i < names.size(); ++i) {
    if (std::find(known.begin(), known.end(), names[i]) == known.end())
      builder.source.error_unknown(fmt::format("{}[{}]", path, i), "architecture", names[i], known);
  }
  return {names.begin(), names.end()};
}

void build_size(FamilyBuilder& builder, const proto::SizeDescription& message, const std::string& path) {
  proto::Source& source = builder.source;
  SizeRule size{.name = message.name(), .keys = build_keys(builder, path, message.keys()), .max = kMaxSize};
  const bool named = is_new_name(builder, path + ".name", message.name());
  if (source.given(path + ".otherwise"))
    size.otherwise = build_expression(builder, path + ".otherwise", message.otherwise());
  else if (size.keys.empty())
    source.error(path, "a size has \"keys\", or \"otherwise\", or both");
  for (int i = 0; i < message.usual_size(); ++i) {
    const std::string at = fmt::format("{}.usual[{}]", path, i);
    auto value = build_expression(builder, at + ".value", message.usual(i).value());
    auto names = known_architectures(builder, at + ".architectures", message.usual(i).architectures());
    if (value) size.usual.emplace_back(std::move(names), *std::move(value));
  }
  if (source.given(path + ".max") && source.at_least(path + ".max", message.max(), 1)) {
    size.max = message.max();
    if (size.max > kMaxSizeAllowed) source.error(path + ".max", fmt::format("more than {}", kMaxSizeAllowed));
  }
  if (source.given(path + ".field")) {
    size.field = message.field();
    if (!has_number(size.field)) source.error_unknown(path + ".field", "field", size.field, number_fields());
  }
  if (source.given(path + ".shape")) build_shape_source(builder, message.shape(), path + ".shape", size);
  if (!named) return;
  builder.size_names.push_back(size.name);
  builder.rules.sizes.push_back(std::move(size));
}

void build_switch(FamilyBuilder& builder, const proto::SwitchDescription& message, const std::string& path) {
  proto::Source& source = builder.source;
  SwitchRule rule{.name = message.name(),
                  .keys = build_keys(builder, path, message.keys()),
                  .otherwise = message.otherwise(),
                  .architectures = known_architectures(builder, path + ".architectures", message.architectures()),
                  .field = message.field(),
                  .on_for = known_architectures(builder, path + ".on_for", message.on_for()),
                  .when_given = message.when_given()};
  if (source.given(path + ".field") && rule.field != "tied")
    source.error_unknown(path + ".field", "field", rule.field, {"tied"});
  if (!is_new_name(builder, path + ".name", message.name())) return;
  builder.flag_names.push_back(rule.name);
  builder.rules.switches.push_back(std::move(rule));
}

void build_layer_set(FamilyBuilder& builder, const proto::LayerSetDescription& message, const std::string& path) {
  LayerSetRule rule{.name = message.name(),
                    .first = message.first(),
                    .step = message.step(),
                    .from_zero = message.from_zero(),
                    .only = {message.only().begin(), message.only().end()},
                    .without = {message.without().begin(), message.without().end()},
                    .kinds = message.kinds(),
                    .of = {message.of().begin(), message.of().end()}};
  if (!is_new_name(builder, path + ".name", message.name())) return;
  builder.flag_names.push_back(rule.name);
  builder.rules.layer_sets.push_back(std::move(rule));
}

void build_sizes(FamilyBuilder& builder) {
  for (int i = 0; i < builder.message.sizes_size(); ++i)
    build_size(builder, builder.message.sizes(i), fmt::format("sizes[{}]", i));
  for (int i = 0; i < builder.message.switches_size(); ++i)
    build_switch(builder, builder.message.switches(i), fmt::format("switches[{}]", i));
  for (int i = 0; i < builder.message.layer_sets_size(); ++i)
    build_layer_set(builder, builder.message.layer_sets(i), fmt::format("layer_sets[{}]", i));
  if (builder.flag_names.size() > kMaxFlags)
    builder.source.error("switches", fmt::format("more than {} switches and layer sets", kMaxFlags));
  for (int i = 0; i < builder.message.refused_size(); ++i) {
    const proto::RefusedKey& refused = builder.message.refused(i);
    if (builder.source.is_name(fmt::format("refused[{}].key", i), refused.key()))
      builder.rules.refused.push_back(
          {refused.key(), refused.because(), {refused.unless().begin(), refused.unless().end()}});
  }
}

bool counts(const FamilyBuilder& builder, const std::string& field) {
  const auto& sizes = builder.rules.sizes;
  return std::any_of(sizes.begin(), sizes.end(), [&](const SizeRule& size) { return size.field == field; });
}

// Sizes that a model divides by each other come together.
void check_fields(FamilyBuilder& builder) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kTogether = {
      {{"heads", "layers"},
       {"heads", "hidden"},
       {"heads", "kv_heads"},
       {"kv_heads", "heads"},
       {"experts", "experts_per_token"},
       {"experts_per_token", "experts"}}};
  std::set<std::string> fields;
  for (int i = 0; i < builder.message.sizes_size(); ++i) {
    const std::string path = fmt::format("sizes[{}].field", i), &field = builder.message.sizes(i).field();
    if (!field.empty() && !fields.insert(field).second)
      builder.source.error(path, fmt::format("two sizes have the field \"{}\"", field));
    for (const auto& [one, other] : kTogether) {
      if (field == one && !counts(builder, std::string(other)))
        builder.source.error(path, fmt::format("no size has the field \"{}\", which comes with \"{}\"", other, one),
                             fmt::format("give one the field \"{}\"", other));
    }
  }
}

int home_of(proto::TensorRule::Home home) {
  switch (home) {
    case proto::TensorRule::LAST: return model::Param::kLast;
    case proto::TensorRule::BOTH_ENDS: return model::Param::kBothEnds;
    default: return model::Param::kFirst;
  }
}

void check_name_of(FamilyBuilder& builder, const proto::TensorRule& message, const std::string& path,
                   const LogicalRule& rule) {
  proto::Source& source = builder.source;
  for (const Hole hole : {Hole::kStageLayer, Hole::kLocalExpert, Hole::kChunk}) {
    if (rule.name.has(hole)) source.error(path + ".name", "a logical tensor is global: use {layer} and {expert}");
  }
  if (rule.layered != (message.home() == proto::TensorRule::LAYER)) {
    source.error(path + ".name", rule.layered ? "a tensor with {layer} lives in its layer" : "the name has no {layer}",
                 rule.layered ? "leave out \"home\"" : "or write it like home: FIRST");
  }
  if (rule.expert && !rule.layered) source.error(path + ".name", "experts are in a layer: put {layer} into the name");
  if (rule.layered && !counts(builder, "layers"))
    source.error(path + ".name", "no size says how many layers there are", "give one the field \"layers\"");
  if (rule.expert && !counts(builder, "experts"))
    source.error(path + ".name", "no size says how many experts there are", "give one the field \"experts\"");
}

void build_groups(FamilyBuilder& builder, const proto::QueryGroups& message, const std::string& path,
                  LogicalRule& rule) {
  const auto part = [&](const char* field, const std::string& text) -> std::optional<Expression> {
    const std::string at = fmt::format("{}.{}", path, field);
    if (text.empty()) return builder.source.missing(at), std::nullopt;
    return build_expression(builder, at, text);
  };
  auto groups = part("groups", message.groups());
  auto queries = part("queries", message.queries());
  auto head_dim = part("head_dim", message.head_dim());
  if (rule.shape.empty()) builder.source.error(path, "a tensor without dimensions has no groups");
  if (groups && queries && head_dim)
    rule.query_groups = QueryGroupsRule{std::move(*groups), std::move(*queries), std::move(*head_dim)};
}

void build_tensor(FamilyBuilder& builder, const proto::TensorRule& message, const std::string& path) {
  proto::Source& source = builder.source;
  LogicalRule rule;
  const auto name = build_template(builder, path + ".name", message.name());
  if (message.shape_size() > tensor::kMaxRank)
    source.error(path + ".shape", fmt::format("more than {} dimensions", tensor::kMaxRank));
  for (int i = 0; i < message.shape_size(); ++i) {
    auto extent = build_expression(builder, fmt::format("{}.shape[{}]", path, i), message.shape(i));
    if (extent) rule.shape.push_back(std::move(*extent));
  }
  rule.rule = static_cast<model::TpRule>(static_cast<int>(message.rule()));
  const int needed = rule.rule == model::TpRule::kReplicated ? 0 : rule.rule == model::TpRule::kRow ? 2 : 1;
  if (message.shape_size() < needed)
    source.error(path + ".rule", fmt::format("the rule cuts dimension {}, which is not there", needed - 1));
  rule.home = home_of(message.home());
  rule.when = build_conditions(builder, path + ".when", {message.when().begin(), message.when().end()},
                               message.home() == proto::TensorRule::LAYER);
  rule.buffer = message.buffer();
  if (source.given(path + ".query_groups")) build_groups(builder, message.query_groups(), path + ".query_groups", rule);
  if (!name) return;
  rule.name = *name;
  rule.layered = name->has(Hole::kLayer);
  rule.expert = name->has(Hole::kExpert);
  check_name_of(builder, message, path, rule);
  builder.rules.logical.push_back(std::move(rule));
}

void build_tensors(FamilyBuilder& builder) {
  const int count = builder.message.tensors_size();
  if (count == 0) return builder.source.missing("tensors", "a family has logical tensors");
  if (count > kMaxRules) return builder.source.error("tensors", fmt::format("more than {} of them", kMaxRules));
  for (int i = 0; i < count; ++i) build_tensor(builder, builder.message.tensors(i), fmt::format("tensors[{}]", i));
}

}  // namespace
}  // namespace internal

absl::StatusOr<Family> Family::parse(const std::string& text, const std::string& file_name) {
  proto::FamilyFile message;
  proto::Source source(file_name, text);
  source.parse(text, message);
  internal::FamilyBuilder builder{message, source, {}, {}, {}};
  if (!source.broken("")) {
    internal::build_head(builder);
    internal::build_sizes(builder);
    internal::check_fields(builder);
    internal::build_tensors(builder);
    internal::build_namings(builder);
  }
  if (!source.empty()) return invalid(source.render());
  SCALAI_CHECK(source.errors() == 0, "a problem was not reported");
  builder.rules.text = text;
  return Family(std::make_shared<const internal::FamilyRules>(std::move(builder.rules)));
}

}  // namespace scalai::store
