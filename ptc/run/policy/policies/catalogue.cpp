#include "ptc/run/policy/policies/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::policy {
namespace {

constexpr const char* kTime = "time";
constexpr const char* kCount = "count";
constexpr const char* kFlag = "flag";
constexpr const char* kName = "name";
constexpr const char* kAnySign = "number";

absl::StatusOr<double> parse_number(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value)) {
    return invalid(fmt::format("\"{}\" is not a number", text));
  }
  return value;
}

std::string hint(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string near = closest(word, candidates);
  return near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near);
}

// "" if `text` is one of the words in "fleet|fastest".
std::string word_problem(const std::string& words, const std::string& text) {
  std::vector<std::string> list;
  for (size_t from = 0; from <= words.size();) {
    const size_t to = std::min(words.find('|', from), words.size());
    list.push_back(words.substr(from, to - from));
    from = to + 1;
  }
  if (std::find(list.begin(), list.end(), text) != list.end()) return "";
  return fmt::format("\"{}\" is not one of {}{}", text, fmt::join(list, ", "), hint(text, list));
}

// "" if `text` is a value of the parameter, else what is wrong.
std::string value_problem(const ParameterInfo& info, const std::string& text) {
  absl::Status status;
  if (info.unit == kTime) {
    status = parse_seconds(text).status();
  } else if (info.unit == kCount) {
    status = parse_count(text).status();
  } else if (info.unit == kFlag) {
    if (text != "true" && text != "false") return fmt::format("\"{}\" is neither true nor false", text);
  } else if (info.unit.find('|') != std::string::npos) {
    return word_problem(info.unit, text);
  } else if (info.unit == kName) {
    if (text.empty()) return "is empty";
  } else {
    status = parse_number(text).status();
    if (status.ok() && info.unit != kAnySign && parse_number(text).value() < 0)
      return fmt::format("\"{}\" is negative", text);
  }
  return status.ok() ? "" : message_of(status);
}

using Values = std::vector<std::pair<std::string, std::string>>;

// Takes one "name=value" into `values`; "" or the problem.
std::string take(const PolicyInfo& info, const std::string& assignment, Values* values) {
  const size_t equal = assignment.find('=');
  if (equal == std::string::npos) return fmt::format("\"{}\" is no parameter: write it as name=value", assignment);
  const std::string name = assignment.substr(0, equal);
  const std::string text = assignment.substr(equal + 1);
  std::vector<std::string> names;
  for (size_t k = 0; k < info.parameters.size(); ++k) {
    names.push_back(info.parameters[k].name);
    if (info.parameters[k].name != name) continue;
    const std::string problem = value_problem(info.parameters[k], text);
    if (problem.empty()) (*values)[k].second = text;
    return problem.empty() ? "" : fmt::format("parameter \"{}\": {}", name, problem);
  }
  const std::string near = hint(name, names);
  if (!near.empty()) return fmt::format("policy \"{}\" has no parameter \"{}\"{}", info.name, name, near);
  return fmt::format("policy \"{}\" has no parameter \"{}\"; it has {}", info.name, name,
                     names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

struct LabPolicy {
  const char* name;
  const char* after;  // the policy before it in the list
};

constexpr LabPolicy kLabPolicies[] = {{"themis", "tiresias"},
                                      {"optimus", "themis"},
                                      {"afs-p", "afs-l"},
                                      {"gandiva", "gavel-proportional"},
                                      {"allox", "gandiva"}};

std::vector<PolicyInfo>::iterator find(std::vector<PolicyInfo>& list, std::string_view name) {
  return std::find_if(list.begin(), list.end(), [&](const PolicyInfo& info) { return info.name == name; });
}

// All policies of labs, or none.
void insert_labs(std::vector<PolicyInfo>& list) {
  std::vector<PolicyInfo> labs = lab_policies();
  if (labs.empty()) return;
  SCALAI_CHECK(labs.size() == std::size(kLabPolicies));
  for (const auto& [name, after] : kLabPolicies) {
    const auto info = find(labs, name), before = find(list, after);
    SCALAI_CHECK(info != labs.end() && before != list.end(), name);
    list.insert(before + 1, std::move(*info));
  }
}

}  // namespace

Parameters::Parameters(Values values) : values_(std::move(values)) {}

const std::string& Parameters::text(const std::string& name) const {
  for (const auto& value : values_) {
    if (value.first == name) return value.second;
  }
  check_failed(__FILE__, __LINE__, "a parameter of the policy", name);
}

double Parameters::number(const std::string& name) const {
  const absl::StatusOr<double> value = parse_number(text(name));
  SCALAI_CHECK(value.ok(), name);
  return *value;
}

double Parameters::seconds(const std::string& name) const {
  const absl::StatusOr<double> value = parse_seconds(text(name));
  SCALAI_CHECK(value.ok(), name);
  return *value;
}

int64_t Parameters::count(const std::string& name) const {
  const absl::StatusOr<int64_t> value = parse_count(text(name));
  SCALAI_CHECK(value.ok(), name);
  return *value;
}

bool Parameters::flag(const std::string& name) const { return text(name) == "true"; }

const std::vector<PolicyInfo>& policies() {
  // Built once, never changed: names, texts and factories only.
  static const std::vector<PolicyInfo> all = [] {
    std::vector<PolicyInfo> list;
    for (auto family : {&order_policies, &share_policies, &goodput_policies, &spot_policies}) {
      std::vector<PolicyInfo> part = family();
      std::move(part.begin(), part.end(), std::back_inserter(list));
    }
    insert_labs(list);
    return list;
  }();
  return all;
}

std::string left_out(const std::string& name) {
  const auto has_name = [&](const auto& entry) { return entry.name == name; };
  if (std::none_of(std::begin(kLabPolicies), std::end(kLabPolicies), has_name)) return "";
  if (std::any_of(policies().begin(), policies().end(), has_name)) return "";
  return fmt::format("policy \"{}\" is in labs/policies; this build has no labs (SCALAI_LABS=OFF)", name);
}

absl::StatusOr<std::unique_ptr<Policy>> make_policy(const std::string& name, std::span<const std::string> set,
                                                    uint64_t seed) {
  std::vector<std::string> names;
  for (const PolicyInfo& info : policies()) {
    names.push_back(info.name);
    if (info.name != name) continue;
    Values values;
    for (const ParameterInfo& parameter : info.parameters) values.emplace_back(parameter.name, parameter.default_value);
    std::vector<std::string> problems;
    for (const std::string& assignment : set) {
      std::string problem = take(info, assignment, &values);
      if (!problem.empty()) problems.push_back(std::move(problem));
    }
    if (!problems.empty()) return invalid(fmt::format("{}", fmt::join(problems, "\n")));
    return info.make(Parameters(std::move(values)), seed);
  }
  if (std::string why = left_out(name); !why.empty()) return invalid(std::move(why));
  std::string near = hint(name, names);
  if (near.empty()) near = fmt::format("; there are {}", fmt::join(names, ", "));
  return invalid(fmt::format("there is no policy \"{}\"{}", name, near));
}

}  // namespace scalai::policy
