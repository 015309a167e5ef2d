#pragma once
// Access to the fields of our JSON files by name. The first problem is kept in `problem`, so callers check once at the
// end. For sources of ptc/store only. One thread at a time.

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ptc/store/safetensors/manifest.h"

namespace scalai::store::internal {

class Fields {
 public:
  using json = nlohmann::json;
  std::string problem;  // empty: none so far

  // Each getter records a problem if the field is missing or has another type, and then returns nullptr, "", 0 or an
  // empty list. Pointers and references point into `object` or to static storage.
  const json* find(const json& object, const char* name);
  std::string text(const json& object, const char* name);
  // A whole number in [0, limit].
  int64_t number(const json& object, const char* name, int64_t limit = std::numeric_limits<int64_t>::max());
  // The field "xxh3_128": 32 lower-case hexadecimal digits.
  std::string checksum(const json& object);
  // An array.
  const json& list(const json& object, const char* name);
  // The field "name": a plain file name without "/" and without "." in front, because it becomes part of a path.
  std::string file_name(const json& object);
  // The field "name": a path below the folder (is_inside).
  std::string path(const json& object);
  TextRecord text_record(const json& object);
  // The list "damage"; empty if the field is missing.
  std::vector<Damage> damage(const json& object);
  // Records a problem unless there is one.
  void refuse(const char* name, const char* what);
};

}  // namespace scalai::store::internal
