#pragma once
// Reads sizes and switches from a JSON object and collects every problem, each with its JSON pointer. A value that is
// missing or wrong reads as 0 (false, empty): nothing may be built before status() is OK. Used only by the Hugging
// Face import; nlohmann stays out of every public header.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::model {

class ConfigReader {
 public:
  explicit ConfigReader(const nlohmann::json& object) : object_(object) {}

  // An integer in [1, max].
  int64_t integer(const std::string& key, int64_t max);
  std::vector<int64_t> integers(const std::string& key, int64_t max, size_t max_count);
  bool flag_or(const std::string& key, bool fallback);
  // The string, one of `allowed`; the first of them when the key is missing or null.
  std::string word(const std::string& key, const std::vector<std::string>& allowed);

  void problem(const std::string& key, const std::string& text);

  absl::Status status() const;  // all problems, one a line

 private:
  const nlohmann::json* find(const std::string& key) const;  // nullptr when missing or null
  int64_t checked(const nlohmann::json& value, const std::string& pointer, int64_t max);

  const nlohmann::json& object_;
  std::vector<std::string> problems_;
};

}  // namespace scalai::model
