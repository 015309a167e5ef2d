#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "sim/jobs/scenario/internal/build_parts.h"

namespace scalai::scenario::internal {

SetValues::SetValues(Source& source, const std::string& path, const std::vector<std::string>& set,
                     const std::vector<std::string>& known)
    : source_(source), path_(path) {
  const auto is_known = [&](const std::string& name) {
    return std::any_of(known.begin(), known.end(), [&](const std::string& one) {
      return one.ends_with('.') ? name.starts_with(one) && name.size() > one.size() : name == one;
    });
  };
  for (size_t i = 0; i < set.size(); ++i) {
    const std::string place = fmt::format("{}.set[{}]", path, i);
    const size_t equals = set[i].find('=');
    const std::string name = set[i].substr(0, equals);
    if (equals == std::string::npos || equals == 0) {
      source.error(place, fmt::format("\"{}\" sets nothing", set[i]), "write it like \"name=value\"");
    } else if (!is_known(name)) {
      source.error_unknown(place, "option", name, known);
    } else if (const auto [at, fresh] = at_.emplace(name, std::pair(set[i].substr(equals + 1), static_cast<int>(i)));
               !fresh) {
      source.error(place, fmt::format("\"{}\" is set twice", name), "",
                   {{fmt::format("{}.set[{}]", path, at->second.second), "the first is here"}});
    }
  }
}

std::string SetValues::text(const std::string& name, const std::string& otherwise) const {
  const auto found = at_.find(name);
  return found == at_.end() ? otherwise : found->second.first;
}

std::string SetValues::path(const std::string& name) const {
  return fmt::format("{}.set[{}]", path_, at_.at(name).second);
}

double SetValues::seconds(const std::string& name, double otherwise) {
  if (!has(name)) return otherwise;
  return source_.seconds(path(name), text(name)).value_or(otherwise);
}

double SetValues::positive(const std::string& name, double otherwise) {
  if (!has(name)) return otherwise;
  double value = 0;
  const std::string words = text(name);
  const auto result = std::from_chars(words.data(), words.data() + words.size(), value);
  if (result.ec == std::errc{} && result.ptr == words.data() + words.size() && value > 0 && std::isfinite(value)) {
    return value;
  }
  source_.error(path(name), fmt::format("\"{}\" takes a number above 0, found \"{}\"", name, words));
  return otherwise;
}

int64_t SetValues::count(const std::string& name, int64_t otherwise) {
  if (!has(name)) return otherwise;
  const auto value = parse_count(text(name));
  if (value.ok()) return *value;
  source_.error(path(name), message_of(value.status()));
  return otherwise;
}

bool SetValues::flag(const std::string& name, bool otherwise) {
  if (!has(name)) return otherwise;
  const std::string value = text(name);
  if (value == "true" || value == "false") return value == "true";
  source_.error(path(name), fmt::format("\"{}\" takes true or false, found \"{}\"", name, value));
  return otherwise;
}

}  // namespace scalai::scenario::internal
