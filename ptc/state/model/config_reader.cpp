#include "ptc/state/model/internal/config_reader.h"
#include "ptc/base/json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::model {
namespace {

using nlohmann::json;

std::string describe(const json& value) {
  if (value.is_number() || value.is_boolean()) return json_text(value);
  return fmt::format("{} {}", value.is_array() || value.is_object() ? "an" : "a", value.type_name());
}

}  // namespace

const json* ConfigReader::find(const std::string& key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigReader::problem(const std::string& key, const std::string& text) {
  problems_.push_back(fmt::format("/{}: {}", key, text));
}

int64_t ConfigReader::checked(const json& value, const std::string& pointer, int64_t max) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(max)) &&
                    value.get<int64_t>() >= 1;
  if (fits) return value.get<int64_t>();
  problem(pointer, fmt::format("{} is not a whole number from 1 to {}", describe(value), max));
  return 0;
}

int64_t ConfigReader::integer(const std::string& key, int64_t max) {
  const json* value = find(key);
  if (value != nullptr) return checked(*value, key, max);
  problem(key, fmt::format("missing (add a whole number from 1 to {})", max));
  return 0;
}

std::vector<int64_t> ConfigReader::integers(const std::string& key, int64_t max, size_t max_count) {
  const json* value = find(key);
  if (value == nullptr || !value->is_array() || value->empty() || value->size() > max_count) {
    problem(key, fmt::format("{} (add a list of 1 to {} whole numbers)",
                             value == nullptr ? "missing" : "not such a list", max_count));
    return {};
  }
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < value->size(); ++i) numbers.push_back(checked((*value)[i], fmt::format("{}/{}", key, i), max));
  return numbers;
}

bool ConfigReader::flag_or(const std::string& key, bool fallback) {
  const json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  problem(key, fmt::format("{} is neither true nor false", describe(*value)));
  return false;
}

std::string ConfigReader::word(const std::string& key, const std::vector<std::string>& allowed) {
  const json* value = find(key);
  if (value == nullptr) return allowed.front();
  if (value->is_string()) {
    const auto found = std::find(allowed.begin(), allowed.end(), value->get_ref<const std::string&>());
    if (found != allowed.end()) return *found;
  }
  problem(key, fmt::format("not supported (use {})", fmt::join(allowed, " or ")));
  return "";
}

absl::Status ConfigReader::status() const {
  return problems_.empty() ? absl::OkStatus() : invalid(fmt::format("{}", fmt::join(problems_, "\n")));
}

}  // namespace scalai::model
