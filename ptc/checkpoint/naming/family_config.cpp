#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ptc/base/diagnostics.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/checkpoint/naming/family.h"
#include "ptc/checkpoint/naming/internal/family_rules.h"

namespace scalai::checkpoint {
namespace {

using nlohmann::json;

constexpr size_t kMaxConfigBytes = size_t{4} << 20;
constexpr size_t kMaxShown = 60;

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

absl::Status unknown_architecture(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = closest(name, known);
  return invalid(fmt::format(
      "/architectures/0: unknown architecture \"{}\" ({})", name.substr(0, kMaxShown),
      near.empty() ? fmt::format("known are {}", fmt::join(known, ", ")) : fmt::format("did you mean {}?", near)));
}

std::string shown(const json& value) {
  if (value.is_number() || value.is_boolean()) return value.dump();
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
    } else if (rule.otherwise) {
      value = fallback(rule);
    } else {
      problem(rule.keys.front(), fmt::format("missing (add a whole number from 1 to {})", rule.max));
    }
    values_.push_back(value);
    pointers_.push_back(found != root_.end() || rule.keys.empty() ? "/" + (rule.keys.empty() ? rule.name : found.key())
                                                                  : "/" + rule.keys.front());
    sizes.numbers[rule.name] = value;
  }

  void read(const internal::SwitchRule& rule) {
    bool& value = sizes.switches[rule.name] = rule.otherwise;
    const auto& only = rule.architectures;
    if (!only.empty() && std::find(only.begin(), only.end(), architecture_) == only.end()) return;
    const auto found = find(rule.keys);
    if (found == root_.end()) return;
    if (found->is_boolean())
      value = found->get<bool>();
    else
      problem(found.key(), fmt::format("{} is neither true nor false", shown(*found)));
  }

  void refuse(const internal::RefusedKeyRule& rule) {
    const auto found = find({rule.key});
    if (found == root_.end() || (found->is_boolean() && !found->get<bool>())) return;
    problem(rule.key, fmt::format("{} (set it to false)", rule.because.empty() ? "not supported" : rule.because));
  }

  absl::Status status() const {
    return problems_.empty() ? absl::OkStatus() : invalid(fmt::format("{}", fmt::join(problems_, "\n")));
  }

  Sizes sizes;

 private:
  void problem(const std::string& key, const std::string& text) {
    problems_.push_back(fmt::format("/{}: {}", key, text));
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

  // From the sizes before; nothing is said when one of them is broken.
  int64_t fallback(const internal::SizeRule& rule) {
    std::vector<std::string> pointers;
    for (const size_t name : rule.otherwise->names()) {
      if (values_[name] == 0) return 0;
      pointers.push_back(pointers_[name]);
    }
    const absl::StatusOr<int64_t> value = rule.otherwise->evaluate(values_);
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
  for (const internal::RefusedKeyRule& rule : rules_->refused) config.refuse(rule);
  SCALAI_RETURN_IF_ERROR(config.status());
  // What the shapes ask of the sizes together.
  SCALAI_RETURN_IF_ERROR(build_model(config.sizes, "").status());
  return config.sizes;
}

absl::StatusOr<Family> Families::of_config(std::string_view json_text) const {
  SCALAI_ASSIGN_OR_RETURN(const json root, parse_object(json_text));
  SCALAI_ASSIGN_OR_RETURN(const std::string architecture, architecture_of(root));
  std::vector<std::string> known;
  for (const auto& [name, family] : families_) {
    const std::vector<std::string>& names = family.architectures();
    if (std::find(names.begin(), names.end(), architecture) != names.end()) return family;
    known.insert(known.end(), names.begin(), names.end());
  }
  return unknown_architecture(architecture, known);
}

}  // namespace scalai::checkpoint
