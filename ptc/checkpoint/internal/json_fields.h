#pragma once
// For sources that read JSON of ours: fields by name, with the first problem remembered, so that callers need not ask
// after each.

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ptc/checkpoint/internal/manifest.h"

namespace scalai::checkpoint::internal {

class Fields {
 public:
  using json = nlohmann::json;
  std::string problem;

  const json* find(const json& object, const char* name);
  std::string text(const json& object, const char* name);
  int64_t number(const json& object, const char* name, int64_t limit = std::numeric_limits<int64_t>::max());
  std::string checksum(const json& object);
  // An empty one where there is none.
  const json& list(const json& object, const char* name);
  // The name of a file: it becomes part of a path.
  std::string file_name(const json& object);
  TextRecord text_record(const json& object);
  void refuse(const char* name, const char* what);
};

}  // namespace scalai::checkpoint::internal
