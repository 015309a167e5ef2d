#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "ptc/base/diagnostics.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/state/model/catalogue.h"
#include "ptc/store/naming/family.h"
#include "ptc/store/naming/internal/built_in_families.h"
#include "ptc/store/naming/internal/family_rules.h"

namespace scalai::store {
namespace {

using nlohmann::json;

constexpr size_t kMaxConfigBytes = size_t{4} << 20;
constexpr size_t kMaxShown = 60;
constexpr int64_t kMostLayers = 65536;

absl::StatusOr<json> parse_object(std::string_view text) {
  if (text.size() > kMaxConfigBytes)
    return invalid(fmt::format("{} bytes are too many for a config.json (at most {})", text.size(), kMaxConfigBytes));
  SCALAI_ASSIGN_OR_RETURN(json root, read_json(text));
  if (!root.is_object()) return invalid("a config.json is one JSON object, in braces");
  return root;
}

absl::StatusOr<std::string> architecture_of(const json& root) {
  const auto found = root.find("architectures");
  if (found == root.end() || !found->is_array() || found->size() != 1 || !found->front().is_string())
    return invalid("/architectures: not a list of one name");
  return found->front().get<std::string>();
}

// "YiForCausalLM" is few edits from "OPTForCausalLM", but no slip of the pen: that one leaves most of the name's own
// part.
bool is_slip(std::string_view name, std::string_view near) {
  const size_t length = std::min(name.size(), near.size());
  const auto equal = [&](auto begin, auto other) {
    return static_cast<size_t>(std::mismatch(begin, begin + static_cast<std::ptrdiff_t>(length), other).first - begin);
  };
  const size_t front = equal(name.begin(), near.begin());
  return front >= 3 || front + equal(name.rbegin(), near.rbegin()) + 1 >= length;
}

absl::Status unknown_architecture(const std::string& name, const std::vector<std::string>& known,
                                  const std::string& difference = "") {
  std::string near = closest(name, known);
  if (!is_slip(name, near)) near.clear();
  const std::string what = near.empty() && !difference.empty() ? ""
                           : near.empty()                      ? fmt::format(" (known are {})", fmt::join(known, ", "))
                                                               : fmt::format(" (did you mean {}?)", near);
  return invalid(
      fmt::format("/architectures/0: unknown architecture \"{}\"{}{}", clipped(name, kMaxShown), what, difference));
}

std::string shown(const json& value) {
  if (value.is_number() || value.is_boolean()) return json_text(value);
  return fmt::format("{} {}", value.is_array() || value.is_object() ? "an" : "a", value.type_name());
}

class ConfigSizes {
 public:
  ConfigSizes(const json& root, std::string architecture) : root_(root), architecture_(std::move(architecture)) {}

  void read(const internal::SizeRule& rule) {
    const auto found = find(rule.keys);
    int64_t value = 0;  // stands for a broken size
    if (found != root_.end()) {
      value = number(found.key(), *found, rule.max);
    } else if (const internal::Expression* const usual = usual_of(rule)) {
      value = fallback(rule, *usual);
    } else {
      problem(rule.keys.front(), fmt::format("missing (add a whole number from 1 to {})", rule.max));
    }
    values_.push_back(value);
    pointers_.push_back(found != root_.end() || rule.keys.empty() ? "/" + (rule.keys.empty() ? rule.name : found.key())
                                                                  : "/" + rule.keys.front());
    sizes.numbers[rule.name] = value;
  }

  void read(const internal::SwitchRule& rule) {
    const bool special = std::find(rule.on_for.begin(), rule.on_for.end(), architecture_) != rule.on_for.end();
    bool& value = sizes.switches[rule.name] = rule.otherwise != special;
    const auto& only = rule.architectures;
    if (!only.empty() && std::find(only.begin(), only.end(), architecture_) == only.end()) return;
    const auto found = find(rule.keys);
    if (rule.when_given) value = found != root_.end() && *found != false && *found != 0;
    if (rule.when_given || found == root_.end()) return;
    if (found->is_boolean())
      value = found->get<bool>();
    else
      problem(found.key(), fmt::format("{} is neither true nor false", shown(*found)));
  }

  void refuse(const internal::RefusedKeyRule& rule) {
    const auto found = find({rule.key});
    if (found == root_.end()) return;
    const std::vector<std::string> fine = rule.unless.empty() ? std::vector<std::string>{"false"} : rule.unless;
    for (const std::string& value : fine) {
      const auto size = sizes.numbers.find(value);
      if (size != sizes.numbers.end() ? *found == size->second : text_of(*found) == value) return;
    }
    problem(rule.key, fmt::format("{} (set it to {})", rule.because.empty() ? "not supported" : rule.because,
                                  fmt::join(fine, " or ")));
  }

  void read(const internal::LayerSetRule& rule, int64_t layers) {
    std::vector<int>& set = sizes.layer_sets[rule.name];
    if (layers > kMostLayers) return problem(rule.name, fmt::format("{} layers are more than {}", layers, kMostLayers));
    if (!rule.kinds.empty()) {
      set = layers_of_kind(rule, layers);
      return;
    }
    const auto only = find(rule.only);
    if (only != root_.end()) {
      const std::vector<bool> named = layers_of(only.key(), *only, layers);
      for (size_t layer = 0; layer < named.size(); ++layer) {
        if (named[layer]) set.push_back(static_cast<int>(layer));
      }
      return;
    }
    const auto number_or = [&](const std::string& key, int64_t lowest, int64_t otherwise) {
      const auto found = key.empty() ? root_.end() : find({key});
      if (found == root_.end()) return otherwise;
      if (found->is_number_integer() && *found >= lowest && *found <= kMostLayers) return found->get<int64_t>();
      problem(key, fmt::format("{} is not a whole number from {} to {}", shown(*found), lowest, kMostLayers));
      return otherwise;
    };
    const int64_t first = number_or(rule.first, 0, 0);
    const int64_t step = number_or(rule.step, 1, 1);
    const auto without = find(rule.without);
    std::vector<bool> left_out(static_cast<size_t>(layers));
    if (without != root_.end()) left_out = layers_of(without.key(), *without, layers);
    for (int64_t layer = first; layer < layers; ++layer) {
      const bool hit = (rule.from_zero ? layer : layer + 1) % step == 0;
      if (hit && !left_out[static_cast<size_t>(layer)]) set.push_back(static_cast<int>(layer));
    }
  }

  absl::Status status() const {
    return problems_.empty() ? absl::OkStatus() : invalid(fmt::format("{}", fmt::join(problems_, "\n")));
  }

  Sizes sizes;

 private:
  void problem(const std::string& key, const std::string& text) {
    std::string said = fmt::format("/{}: {}", key, text);
    if (std::find(problems_.begin(), problems_.end(), said) == problems_.end()) problems_.push_back(std::move(said));
  }

  json::const_iterator find(const std::vector<std::string>& keys) const {
    for (const std::string& key : keys) {
      const auto found = root_.find(key);
      if (found != root_.end() && !found->is_null()) return found;
    }
    return root_.end();
  }

  int64_t number(const std::string& key, const json& value, int64_t max) {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(max)) &&
                      value.get<int64_t>() >= 1 && value.get<int64_t>() <= max;
    if (fits) return value.get<int64_t>();
    problem(key, fmt::format("{} is not a whole number from 1 to {}", shown(value), max));
    return 0;
  }

  // A list of layers, as whether each of `layers` is in it.
  std::vector<bool> layers_of(const std::string& key, const json& value, int64_t layers) {
    std::vector<bool> named(static_cast<size_t>(layers));
    if (!value.is_array()) {
      problem(key, fmt::format("{} is not a list of layers", shown(value)));
      return named;
    }
    for (const json& each : value) {
      if (each.is_number_integer() && each >= 0 && each < layers) {
        named[each.get<size_t>()] = true;
        continue;
      }
      problem(key, fmt::format("{} is not one of the {} layers, which count from 0", shown(each), layers));
      break;
    }
    return named;
  }

  // The kind of each layer, a name or a letter.
  std::vector<int> layers_of_kind(const internal::LayerSetRule& rule, int64_t layers) {
    const auto found = find({rule.kinds});
    if (found == root_.end()) {
      problem(rule.kinds, fmt::format("missing (add the kind of each of the {} layers)", layers));
      return {};
    }
    std::vector<std::string> kinds;
    if (found->is_string())
      for (const char letter : found->get<std::string>()) kinds.emplace_back(1, letter);
    if (found->is_array())
      for (const json& each : *found) kinds.push_back(text_of(each));
    if (kinds.size() != static_cast<size_t>(layers)) {
      problem(rule.kinds, fmt::format("the kinds of {} layers, the model has {}", kinds.size(), layers));
      return {};
    }
    std::vector<int> set;
    for (size_t layer = 0; layer < kinds.size(); ++layer) {
      if (std::find(rule.of.begin(), rule.of.end(), kinds[layer]) != rule.of.end())
        set.push_back(static_cast<int>(layer));
    }
    return set;
  }

  static std::string text_of(const json& value) {
    return value.is_string() ? value.get<std::string>() : json_text(value);
  }

  // What a size is when no key gives it; nullptr: it has to be given.
  const internal::Expression* usual_of(const internal::SizeRule& rule) const {
    for (const auto& [architectures, value] : rule.usual) {
      if (std::find(architectures.begin(), architectures.end(), architecture_) != architectures.end()) return &value;
    }
    return rule.otherwise ? &*rule.otherwise : nullptr;
  }

  // From the sizes before; nothing is said when one of them is broken.
  int64_t fallback(const internal::SizeRule& rule, const internal::Expression& usual) {
    std::vector<std::string> pointers;
    for (const size_t name : usual.names()) {
      if (values_[name] == 0) return 0;
      pointers.push_back(pointers_[name]);
    }
    const absl::StatusOr<int64_t> value = usual.evaluate(values_);
    if (value.ok() && 1 <= *value && *value <= rule.max) return *value;
    problems_.push_back(
        fmt::format("{}: size \"{}\" = {}", fmt::join(pointers, ", "), rule.name,
                    value.ok() ? fmt::format("{} is not from 1 to {}", *value, rule.max) : message_of(value.status())));
    return 0;
  }

  const json& root_;
  std::string architecture_;
  std::vector<int64_t> values_;
  std::vector<std::string> pointers_;  // where each size comes from
  std::vector<std::string> problems_;
};

int64_t layers_of(const internal::FamilyRules& rules, const Sizes& sizes) {
  for (const internal::SizeRule& rule : rules.sizes) {
    if (rule.field == "layers") return std::min(sizes.numbers.at(rule.name), kMostLayers);
  }
  return 0;
}

}  // namespace

absl::StatusOr<Sizes> Family::sizes_of_config(std::string_view json_text) const {
  SCALAI_ASSIGN_OR_RETURN(const json root, parse_object(json_text));
  SCALAI_ASSIGN_OR_RETURN(const std::string architecture, architecture_of(root));
  const std::vector<std::string>& known = architectures();
  if (std::find(known.begin(), known.end(), architecture) == known.end())
    return unknown_architecture(architecture, known);
  ConfigSizes config(root, architecture);
  for (const internal::SizeRule& rule : rules_->sizes) config.read(rule);
  for (const internal::SwitchRule& rule : rules_->switches) config.read(rule);
  for (const internal::LayerSetRule& rule : rules_->layer_sets) config.read(rule, layers_of(*rules_, config.sizes));
  for (const internal::RefusedKeyRule& rule : rules_->refused) config.refuse(rule);
  SCALAI_RETURN_IF_ERROR(config.status());
  // What the shapes ask of the sizes together.
  SCALAI_RETURN_IF_ERROR(build_model(config.sizes, "").status());
  return config.sizes;
}

namespace {

// Fields of a config.json that name no size and no operation of a layer: of tokens, initialisation, inference.
constexpr auto kHarmless = std::to_array<std::string_view>({"_name_or_path",
                                                            "architectures",
                                                            "attention_dropout",
                                                            "attn_pdrop",
                                                            "auto_map",
                                                            "bos_token_id",
                                                            "classifier_dropout",
                                                            "dtype",
                                                            "embd_pdrop",
                                                            "embedding_dropout",
                                                            "eos_token_id",
                                                            "hidden_act",
                                                            "hidden_activation",
                                                            "hidden_dropout",
                                                            "id2label",
                                                            "initializer_range",
                                                            "label2id",
                                                            "layer_norm_eps",
                                                            "layer_types",
                                                            "max_position_embeddings",
                                                            "max_window_layers",
                                                            "model_type",
                                                            "norm_epsilon",
                                                            "norm_topk_prob",
                                                            "output_router_logits",
                                                            "pad_token_id",
                                                            "pretraining_tp",
                                                            "resid_pdrop",
                                                            "residual_dropout",
                                                            "rms_norm_eps",
                                                            "rope_parameters",
                                                            "rope_scaling",
                                                            "rope_theta",
                                                            "router_aux_loss_coef",
                                                            "router_jitter_noise",
                                                            "sliding_window",
                                                            "torch_dtype",
                                                            "transformers_version",
                                                            "use_cache",
                                                            "use_sliding_window"});
constexpr size_t kMostNamed = 12;

// How a config.json compares with a family: what it lacks, how many keys they share, and what else it has.
struct Likeness {
  std::vector<std::string> lacks;
  size_t shared = 0;
  std::vector<std::string> more;
};

Likeness compare(const internal::FamilyRules& rules, const json& root) {
  std::set<std::string_view> keys;
  Likeness likeness;
  for (const internal::SizeRule& rule : rules.sizes) {
    const auto there = [&](const std::string& key) { return root.contains(key); };
    keys.insert(rule.keys.begin(), rule.keys.end());
    if (std::any_of(rule.keys.begin(), rule.keys.end(), there))
      ++likeness.shared;
    else if (!rule.otherwise)
      likeness.lacks.push_back(rule.keys.front());
  }
  for (const internal::SwitchRule& rule : rules.switches) keys.insert(rule.keys.begin(), rule.keys.end());
  for (const internal::LayerSetRule& rule : rules.layer_sets) {
    keys.insert({rule.first, rule.step, rule.kinds});
    keys.insert(rule.only.begin(), rule.only.end());
    keys.insert(rule.without.begin(), rule.without.end());
  }
  for (const internal::RefusedKeyRule& rule : rules.refused) keys.insert(rule.key);
  for (const auto& [key, value] : root.items()) {
    const bool harmless = std::find(kHarmless.begin(), kHarmless.end(), key) != kHarmless.end();
    if (!harmless && keys.count(key) == 0) likeness.more.push_back(key);
  }
  return likeness;
}

std::string list_of(const std::vector<std::string>& keys) {
  std::vector<std::string> some;
  for (size_t i = 0; i < std::min(keys.size(), kMostNamed); ++i) some.push_back(clipped(keys[i], 40));
  return fmt::format("{}{}", fmt::join(some, ", "),
                     keys.size() > kMostNamed ? fmt::format(" and {} more", keys.size() - kMostNamed) : "");
}

// What differs from the family that has the most in common; "" where no family has half of its sizes there.
std::string difference_to_nearest(const std::map<std::string, Family>& families, const json& root) {
  const Family* nearest = nullptr;
  Likeness best;
  for (const auto& [name, family] : families) {
    const Likeness likeness = compare(family.rules(), root);
    if (likeness.shared < likeness.lacks.size() * 2 || likeness.shared < 4) continue;
    // Of equals, what most models of today are like.
    const auto rank = [](const Likeness& each, const Family& its) {
      return std::tuple(each.lacks.size(), each.more.size(), its.name() != "llama");
    };
    if (nearest != nullptr && rank(likeness, family) >= rank(best, *nearest)) continue;
    nearest = &family;
    best = likeness;
  }
  if (nearest == nullptr) return "";
  const std::string& like = nearest->architectures().front();
  if (!best.lacks.empty())
    return fmt::format("; nearest is {}, but {} {} missing", like, list_of(best.lacks),
                       best.lacks.size() == 1 ? "is" : "are");
  if (best.more.empty())
    return fmt::format("; its fields are those of {}: if its layers are, too, write that name", like);
  return fmt::format("; it has the sizes of {}, and besides {}", like, list_of(best.more));
}

}  // namespace

absl::StatusOr<Family> Families::of_config(std::string_view json_text) const {
  SCALAI_ASSIGN_OR_RETURN(const json root, parse_object(json_text));
  SCALAI_ASSIGN_OR_RETURN(const std::string architecture, architecture_of(root));
  std::vector<std::string> known;
  const Family* found = nullptr;
  for (const auto& [name, family] : families_) {
    const std::vector<std::string>& names = family.architectures();
    known.insert(known.end(), names.begin(), names.end());
    if (std::find(names.begin(), names.end(), architecture) == names.end()) continue;
    if (found == nullptr || is_built_in(*found)) found = &family;
  }
  if (found != nullptr) return *found;
  std::sort(known.begin(), known.end());
  return unknown_architecture(architecture, known, difference_to_nearest(families_, root));
}

namespace {

// Layers whose attention reaches "sliding_window" tokens back, by the keys that configurations of Hugging Face share.
int windowed_layers(const json& root, int layers) {
  if (const auto kinds = root.find("layer_types"); kinds != root.end() && kinds->is_array())
    return static_cast<int>(std::count(kinds->begin(), kinds->end(), "sliding_attention"));
  if (const auto used = root.find("use_sliding_window"); used != root.end() && *used == false) return 0;
  const auto number = [&](const char* key) {
    const auto found = root.find(key);
    return found != root.end() && found->is_number_unsigned() ? found->get<int64_t>() : 0;
  };
  // Qwen 2: the layers behind the first. Gemma: every so-many-th has none.
  if (number("max_window_layers") > 0) return std::max(0, layers - static_cast<int>(number("max_window_layers")));
  const int64_t pattern = number("sliding_window_pattern");
  return pattern > 0 ? layers - static_cast<int>(layers / pattern) : layers;
}

void add_windows(const json& root, model::Model& model) {
  const auto window = root.find("sliding_window");
  if (window == root.end() || !window->is_number_unsigned() || *window == 0) return;
  model.windowed_layers = windowed_layers(root, model.layers);
  if (model.windowed_layers > 0) model.window = window->get<int64_t>();
}

}  // namespace

absl::StatusOr<model::Model> model_of_config(std::string_view json_text, std::string_view name,
                                             const Families& families) {
  SCALAI_ASSIGN_OR_RETURN(const json root, parse_object(json_text));
  SCALAI_ASSIGN_OR_RETURN(const std::string architecture, architecture_of(root));
  if (architecture == "ResNetForImageClassification") return model::resnet_of_config(json_text, name);
  SCALAI_ASSIGN_OR_RETURN(const Family family, families.of_config(json_text));
  SCALAI_ASSIGN_OR_RETURN(const Sizes sizes, family.sizes_of_config(json_text));
  SCALAI_ASSIGN_OR_RETURN(model::Model model, family.build_model(sizes, std::string(name)));
  model.source = fmt::format("config.json ({})", architecture);
  add_windows(root, model);
  return model;
}

namespace {

// The models that are known by name as configurations.
const json& named_configs() {
  static const json kConfigs = read_json(internal::named_configs_text()).value();
  return kConfigs;
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names = model::catalogue_names();
  for (const auto& [name, config] : named_configs().items()) names.push_back(name);
  return names;
}

absl::StatusOr<model::Model> find_model(std::string_view name) {
  const auto found = named_configs().find(name);
  if (found != named_configs().end()) {
    SCALAI_ASSIGN_OR_RETURN(model::Model model, model_of_config(json_text(*found), name));
    model.source = found->at("source");
    return model;
  }
  absl::StatusOr<model::Model> model = model::find_model(name);
  if (model.ok()) return model;
  const std::vector<std::string> names = model_names();
  const std::string near = closest(name, names);
  return invalid(fmt::format(
      "unknown model \"{}\": {}", name,
      near.empty() ? fmt::format("known are {}", fmt::join(names, ", ")) : fmt::format("did you mean \"{}\"?", near)));
}

}  // namespace scalai::store
