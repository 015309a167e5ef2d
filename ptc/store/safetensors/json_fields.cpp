#include "ptc/store/safetensors/json_fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace scalai::store::internal {

using nlohmann::json;

const json* Fields::find(const json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (object.is_object() && found != object.end()) return &*found;
  refuse(name, "is missing");
  return nullptr;
}

std::string Fields::text(const json& object, const char* name) {
  const json* value = find(object, name);
  if (value != nullptr && !value->is_string()) refuse(name, "is not a string");
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

int64_t Fields::number(const json& object, const char* name, int64_t limit) {
  const json* value = find(object, name);
  const bool fits =
      value != nullptr && value->is_number_unsigned() && value->get<uint64_t>() <= static_cast<uint64_t>(limit);
  if (value != nullptr && !fits) refuse(name, "is not a whole number in range");
  return fits ? value->get<int64_t>() : 0;
}

std::string Fields::checksum(const json& object) {
  const std::string sum = text(object, "xxh3_128");
  if (sum.size() != 32 || sum.find_first_not_of("0123456789abcdef") != std::string::npos) {
    refuse("xxh3_128", "is not a checksum");
  }
  return sum;
}

const json& Fields::list(const json& object, const char* name) {
  static const json kNone = json::array();
  const json* value = find(object, name);
  if (value != nullptr && !value->is_array()) refuse(name, "is not a list");
  return value != nullptr && value->is_array() ? *value : kNone;
}

std::string Fields::file_name(const json& object) {
  std::string name = text(object, "name");
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    refuse("name", "is not the name of a file");
  }
  return name;
}

std::string Fields::path(const json& object) {
  std::string name = text(object, "name");
  if (!is_inside(name)) refuse("name", "is not the name of a file");
  return name;
}

TextRecord Fields::text_record(const json& object) { return {path(object), number(object, "bytes"), checksum(object)}; }

std::vector<Damage> Fields::damage(const json& object) {
  std::vector<Damage> all;
  if (!object.contains("damage")) return all;
  for (const json& entry : list(object, "damage")) {
    Damage one{.what = text(entry, "what"), .states = {}};
    for (const json& state : list(entry, "states")) {
      if (!state.is_string()) refuse("states", "is not a list of names");
      one.states.push_back(state.is_string() ? state.get<std::string>() : "");
    }
    all.push_back(std::move(one));
  }
  return all;
}

void Fields::refuse(const char* name, const char* what) {
  if (problem.empty()) problem = fmt::format("\"{}\" {}", name, what);
}

}  // namespace scalai::store::internal
