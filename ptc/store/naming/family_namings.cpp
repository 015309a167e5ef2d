#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "ptc/base/status.h"
#include "ptc/proto/naming.pb.h"
#include "ptc/store/naming/family.h"
#include "ptc/store/naming/internal/built_in_families.h"
#include "ptc/store/naming/internal/family_builder.h"

namespace scalai::store::internal {
namespace {

constexpr int kMaxNamings = 16;
constexpr int kMaxNamingRules = 4096;

// A logical tensor under its name as described; conditions make several of one name possible.
bool described(const FamilyBuilder& builder, const std::string& name) {
  const auto& tensors = builder.message.tensors();
  return std::any_of(tensors.begin(), tensors.end(), [&](const auto& tensor) { return tensor.name() == name; });
}

std::optional<PartRule> build_part(FamilyBuilder& builder, const proto::PartRule& message, const std::string& path) {
  proto::Source& source = builder.source;
  auto name = build_template(builder, path + ".tensor", message.tensor());
  if (!name) return std::nullopt;
  if (!described(builder, message.tensor())) {
    std::vector<std::string> names;
    for (const auto& tensor : builder.message.tensors()) names.push_back(tensor.name());
    source.error_unknown(path + ".tensor", "logical tensor", message.tensor(), names);
    return std::nullopt;
  }
  PartRule part{.tensor = std::move(*name),
                .rows = static_cast<Rows>(static_cast<int>(message.rows())),
                .rotary = static_cast<Rotary>(static_cast<int>(message.rotary()))};
  const bool plain = part.rows == Rows::kAll && part.rotary == Rotary::kHalf;
  for (const auto& tensor : builder.message.tensors()) {
    if (tensor.name() != message.tensor() || tensor.has_query_groups() || plain) continue;
    source.error(source.given(path + ".rows") ? path + ".rows" : path + ".rotary",
                 fmt::format("\"{}\" has no query groups", message.tensor()),
                 "describe them at the logical tensor: query_groups { groups: … queries: … head_dim: … }");
    return std::nullopt;
  }
  if (part.rows == Rows::kValue && part.rotary == Rotary::kInterleaved) {
    source.error(path + ".rotary", "rotary positions turn queries and keys, not values");
    return std::nullopt;
  }
  return part;
}

// A stored tensor has a hole for the layer and the expert exactly when its parts have.
void check_holes(FamilyBuilder& builder, const NameTemplate& name, const std::string& path, const StoredRule& stored) {
  proto::Source& source = builder.source;
  if (name.has(Hole::kChunk)) source.error(path, "{chunk} is for \"chunk_prefix\"");
  const auto check = [&](Hole global, Hole local, bool needed, const char* what, const char* holes) {
    const int count = (name.has(global) ? 1 : 0) + (name.has(local) ? 1 : 0);
    if (needed && count != 1)
      source.error(path, fmt::format("the name says the {} {}", what, count == 0 ? "nowhere" : "twice"),
                   fmt::format("put one of {} into it", holes));
    if (!needed && count != 0) source.error(path, fmt::format("the parts have no {}", what));
  };
  check(Hole::kLayer, Hole::kStageLayer, stored.layered, "layer", "{layer} and {stage_layer}");
  const bool of_one = stored.expert && !stored.stacked;
  check(Hole::kExpert, Hole::kLocalExpert, of_one, "expert", "{expert} and {local_expert}");
}

void build_parts(FamilyBuilder& builder, const proto::StoredRule& message, const std::string& path,
                 StoredRule& stored) {
  if (message.parts_size() == 0) builder.source.missing(path + ".parts", "a stored tensor has a part at least");
  for (int i = 0; i < message.parts_size(); ++i) {
    const std::string at = fmt::format("{}.parts[{}]", path, i);
    auto part = build_part(builder, message.parts(i), at);
    if (!part) continue;
    const bool layered = part->tensor.has(Hole::kLayer);
    const bool expert = part->tensor.has(Hole::kExpert);
    if (!stored.parts.empty() && (layered != stored.layered || expert != stored.expert))
      builder.source.error(at + ".tensor", "the parts are of different layers or experts");
    stored.layered = layered;
    stored.expert = expert;
    stored.parts.push_back(std::move(*part));
  }
}

// shared: the rule is of a naming that several families have.
void build_stored(FamilyBuilder& builder, const proto::StoredRule& message, const std::string& path, bool shared,
                  NamingRules& naming) {
  const int before = builder.source.errors();
  StoredRule stored{.transposed = message.transposed(),
                    .alias = message.alias(),
                    .stage = static_cast<StageRule>(static_cast<int>(message.stage())),
                    .without_prefix = message.without_prefix(),
                    .stacked = message.stacked(),
                    .instead = message.instead(),
                    .constant = message.has_constant() ? std::optional(message.constant()) : std::nullopt,
                    .where_there = shared};
  build_parts(builder, message, path, stored);
  stored.when =
      build_conditions(builder, path + ".when", {message.when().begin(), message.when().end()}, stored.layered);
  if (stored.constant && (stored.parts.size() > 1 || stored.expert || stored.stacked || stored.transposed ||
                          stored.alias || stored.instead || message.also_size() > 0))
    builder.source.error(path + ".constant", "a constant has one part, which is not of experts, and one name",
                         "it is there wherever its part is");
  if (stored.stacked && !stored.parts.empty() && !stored.expert)
    builder.source.error(path + ".stacked", "the parts are not of experts");
  auto name = build_template(builder, path + ".name", message.name());
  if (name && !stored.parts.empty()) check_holes(builder, *name, path + ".name", stored);
  for (int i = 0; i < message.also_size(); ++i) {
    const std::string at = fmt::format("{}.also[{}]", path, i);
    auto also = build_template(builder, at, message.also(i));
    if (!also) continue;
    if (!stored.parts.empty()) check_holes(builder, *also, at, stored);
    stored.also.push_back(std::move(*also));
  }
  if (stored.stacked) stored.expert = false;
  for (const PartRule& part : stored.parts) {
    if (!stored.transposed) break;
    for (const LogicalRule& rule : builder.rules.logical) {
      if (rule.name.text() == part.tensor.text() && rule.shape.size() != 2)
        builder.source.error(path + ".transposed", fmt::format("\"{}\" has not two dimensions", part.tensor.text()));
    }
  }
  if (!name || builder.source.errors() != before) return;
  stored.name = std::move(*name);
  naming.stored.push_back(std::move(stored));
}

void build_prefixes(FamilyBuilder& builder, const proto::NamingDescription& message, const std::string& path,
                    NamingRules& naming) {
  naming.prefixes = {message.prefixes().begin(), message.prefixes().end()};
  for (size_t i = 0; i < naming.prefixes.size(); ++i) {
    const auto begin = naming.prefixes.begin();
    const auto here = begin + static_cast<std::ptrdiff_t>(i);
    if (std::find(begin, here, *here) != here)
      builder.source.error(fmt::format("{}.prefixes[{}]", path, i), "the prefix is given twice");
  }
  if (naming.prefixes.empty()) naming.prefixes.emplace_back();
  if (!message.chunk_prefix().empty()) {
    const auto prefix = build_template(builder, path + ".chunk_prefix", message.chunk_prefix());
    const auto others = {Hole::kLayer, Hole::kStageLayer, Hole::kExpert, Hole::kLocalExpert};
    const auto other = [&](Hole hole) { return prefix->has(hole); };
    if (prefix && (!prefix->has(Hole::kChunk) || std::any_of(others.begin(), others.end(), other)))
      builder.source.error(path + ".chunk_prefix", "the prefix has {chunk} and no other hole");
    if (prefix) naming.chunk_prefix = *prefix;
  }
  const auto build_patterns = [&](const char* field, const auto& texts, std::vector<NameTemplate>& names) {
    for (int i = 0; i < texts.size(); ++i) {
      auto name = build_template(builder, fmt::format("{}.{}[{}]", path, field, i), texts[i], /*pattern=*/true);
      if (name) names.push_back(std::move(*name));
    }
  };
  build_patterns("ignored", message.ignored(), naming.ignored);
  build_patterns("optimizer", message.optimizer(), naming.optimizer);
  naming.past_layers_key = message.past_layers_key();
  if (!message.past_layers().empty()) {
    const auto name = build_template(builder, path + ".past_layers", message.past_layers(), /*pattern=*/true);
    if (name && !name->has(Hole::kLayer)) builder.source.error(path + ".past_layers", "the name has no {layer}");
    if (name) naming.past_layers = *name;
  }
}

// How often the stored tensors of one setting of the switches have a logical tensor's rows: all, query, key, value.
using Coverage = std::array<int, 4>;

bool exactly_once(const Coverage& rows) { return rows == Coverage{1, 0, 0, 0} || rows == Coverage{0, 1, 1, 1}; }

std::string describe(const FamilyBuilder& builder, const std::vector<bool>& switches) {
  std::string text;
  for (size_t i = 0; i < switches.size(); ++i)
    text += fmt::format("{}{}{}", i == 0 ? "with " : ", ", switches[i] ? "" : "!", builder.flag_names[i]);
  return text.empty() ? text : text + ": ";
}

class CoverageCheck {
 public:
  CoverageCheck(FamilyBuilder& builder, const NamingRules& naming, std::string path)
      : builder_(builder), naming_(naming), path_(std::move(path)) {}

  void check(const std::vector<bool>& switches) {
    std::map<std::string, const LogicalRule*> active;
    for (const LogicalRule& rule : builder_.rules.logical) {
      if (holds(rule.when, switches)) active[rule.name.text()] = &rule;
    }
    std::map<std::string, Coverage> first;   // on the first home, or the only one
    std::map<std::string, Coverage> second;  // on the second
    std::set<std::pair<std::string, StageRule>> names;
    for (size_t i = 0; i < naming_.stored.size(); ++i) {
      const StoredRule& stored = naming_.stored[i];
      if (!holds(stored.when, switches) || (stored.where_there && !is_there(stored, active))) continue;
      const std::string path = fmt::format("{}.tensors[{}]", path_, i);
      check_name(stored, path, switches, names);
      for (const PartRule& part : stored.parts) {
        const std::string& tensor = part.tensor.text();
        if (active.count(tensor) == 0)
          report(path, tensor, fmt::format("{}there is no \"{}\"", describe(builder_, switches), tensor));
        if (stored.alias || stored.instead || stored.constant) continue;
        const auto rows = static_cast<size_t>(part.rows);
        if (stored.stage != StageRule::kSecondHome) ++first[tensor][rows];
        if (stored.stage != StageRule::kFirstHome) ++second[tensor][rows];
      }
    }
    for (const auto& [name, rule] : active) {
      check_rows(name, first[name], "", switches);
      if (rule->home == model::Param::kBothEnds && !rule->layered)
        check_rows(name, second[name], " on its second home", switches);
    }
  }

 private:
  static bool is_there(const StoredRule& stored, const std::map<std::string, const LogicalRule*>& active) {
    return std::all_of(stored.parts.begin(), stored.parts.end(), [&](const PartRule& part) {
      const auto rule = active.find(part.tensor.text());
      return rule != active.end() &&
             (stored.stage != StageRule::kSecondHome || rule->second->home == model::Param::kBothEnds);
    });
  }

  void report(const std::string& path, const std::string& subject, const std::string& message) {
    if (reported_.insert(path + "\n" + subject).second) builder_.source.error(path, message);
  }

  void check_name(const StoredRule& stored, const std::string& path, const std::vector<bool>& switches,
                  std::set<std::pair<std::string, StageRule>>& names) {
    const std::string& name = stored.name.text();
    const auto taken = [&](StageRule stage) { return names.count({name, stage}) != 0; };
    const bool everywhere = stored.stage == StageRule::kWhereHeld;
    if (taken(stored.stage) || taken(StageRule::kWhereHeld) ||
        (everywhere && (taken(StageRule::kFirstHome) || taken(StageRule::kSecondHome))))
      report(path, "name", fmt::format("{}two tensors are named \"{}\"", describe(builder_, switches), name));
    names.insert({name, stored.stage});
  }

  void check_rows(const std::string& name, const Coverage& rows, const char* where, const std::vector<bool>& switches) {
    if (exactly_once(rows)) return;
    const bool never = rows == Coverage{};
    const bool twice = std::any_of(rows.begin(), rows.end(), [](int count) { return count > 1; }) ||
                       (rows[0] > 0 && rows[1] + rows[2] + rows[3] > 0);
    report(path_, name,
           fmt::format("{}logical tensor \"{}\" is {}{}", describe(builder_, switches), name,
                       never   ? "not stored"
                       : twice ? "stored twice"
                               : "stored without some of its query, key and value rows",
                       where));
  }

  FamilyBuilder& builder_;
  const NamingRules& naming_;
  std::string path_;
  std::set<std::string> reported_;
};

std::vector<bool> setting(size_t mask, size_t count) {
  std::vector<bool> switches(count);
  for (size_t i = 0; i < count; ++i) switches[i] = (mask >> i & 1) != 0;
  return switches;
}

// Of one name, at most one logical tensor in any setting of the switches.
void check_logical_names(FamilyBuilder& builder) {
  std::set<size_t> reported;
  const size_t count = builder.flag_names.size();
  for (size_t mask = 0; mask < size_t{1} << count; ++mask) {
    const std::vector<bool> switches = setting(mask, count);
    std::set<std::string> names;
    for (size_t i = 0; i < builder.rules.logical.size(); ++i) {
      const LogicalRule& rule = builder.rules.logical[i];
      if (!holds(rule.when, switches) || names.insert(rule.name.text()).second || !reported.insert(i).second) continue;
      builder.source.error(fmt::format("tensors[{}].name", i),
                           fmt::format("{}\"{}\" is described twice", describe(builder, switches), rule.name.text()));
    }
  }
}

// A rule of a shared naming counts in families that have what it is of.
bool is_for(const FamilyBuilder& builder, const proto::StoredRule& message) {
  const auto& parts = message.parts();
  const auto& with = message.with();
  const auto& without = message.without();
  const auto is_described = [&](const std::string& name) { return described(builder, name); };
  return std::all_of(parts.begin(), parts.end(), [&](const auto& part) { return is_described(part.tensor()); }) &&
         std::all_of(with.begin(), with.end(), is_described) &&
         std::none_of(without.begin(), without.end(), is_described);
}

std::vector<std::string> shared_naming_names() {
  std::vector<std::string> names;
  for (const BuiltInText& text : shared_naming_texts()) names.emplace_back(text.name);
  return names;
}

// nullptr: there is none of this name.
const proto::SharedNamingFile* shared_naming(const std::string& name) {
  static const auto* const kFiles = [] {
    auto* const files = new std::map<std::string, proto::SharedNamingFile, std::less<>>;
    for (const BuiltInText& text : shared_naming_texts()) {
      proto::SharedNamingFile& file = (*files)[std::string(text.name)];
      proto::Source source(std::string(text.name) + ".textproto", std::string(text.text));
      source.parse(std::string(text.text), file);
      SCALAI_CHECK(source.empty(), source.render());
    }
    return files;
  }();
  const auto found = kFiles->find(name);
  return found == kFiles->end() ? nullptr : &found->second;
}

// understood: the logical tensors have no problems; what is only half understood would be reported as not covered.
void build_naming(FamilyBuilder& builder, const proto::NamingDescription& message, const std::string& path, bool shared,
                  bool understood, std::set<std::string>& names) {
  NamingRules naming{.name = message.name()};
  const int before = builder.source.errors();
  if (builder.source.is_name(path + ".name", message.name())) {
    if (message.name() == "logical")
      builder.source.error(path + ".name", "\"logical\" are our own names, which every family has");
    else if (!names.insert(message.name()).second)
      builder.source.error(path + ".name", fmt::format("naming \"{}\" is described twice", message.name()));
  }
  build_prefixes(builder, message, path, naming);
  if (message.tensors_size() > kMaxNamingRules)
    return builder.source.error(path + ".tensors", fmt::format("more than {} of them", kMaxNamingRules));
  for (int i = 0; i < message.tensors_size(); ++i) {
    if (shared && !is_for(builder, message.tensors(i))) continue;
    build_stored(builder, message.tensors(i), fmt::format("{}.tensors[{}]", path, i), shared, naming);
  }
  const size_t count = builder.flag_names.size();
  const bool whole = understood && builder.source.errors() == before && !builder.source.broken_inside(path);
  CoverageCheck check(builder, naming, path);
  for (size_t mask = 0; whole && mask < size_t{1} << count; ++mask) check.check(setting(mask, count));
  builder.rules.namings.push_back(std::move(naming));
}

}  // namespace

void build_namings(FamilyBuilder& builder) {
  const int count = builder.message.namings_size();
  if (count > kMaxNamings) return builder.source.error("namings", fmt::format("more than {} of them", kMaxNamings));
  const bool understood = builder.source.errors() == 0 && builder.source.empty();
  if (understood) check_logical_names(builder);
  std::set<std::string> names;
  for (int i = 0; i < count; ++i)
    build_naming(builder, builder.message.namings(i), fmt::format("namings[{}]", i), false, understood, names);
  for (int i = 0; i < builder.message.shared_namings_size(); ++i) {
    const std::string& name = builder.message.shared_namings(i);
    const std::string path = fmt::format("shared_namings[{}]", i);
    if (const proto::SharedNamingFile* const file = shared_naming(name))
      build_naming(builder, file->naming(), path, true, understood, names);
    else
      builder.source.error_unknown(path, "shared naming", name, shared_naming_names());
  }
}

}  // namespace scalai::store::internal
