#pragma once
// The one reader and the one writer of JSON documents. The library takes texts of any depth, but copies, compares and
// prints trees by recursion: a small file of a million brackets would overflow the stack of whoever looks at it. This
// reader refuses what is nested deeper than any format of ours. Readers of event streams (`sax_parse`) build no tree
// and need no limit of the stack; they count levels themselves. The library's printer throws at bytes that are not
// UTF-8, as names of files may have; this writer does not. Any thread may call.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/diagnostics.h"

namespace scalai {

constexpr size_t kMaxJsonDepth = 64;  // objects and arrays within each other; the deepest file of ours has 9

// The document, whatever its bytes; of keys that one object has twice the last one counts. Errors (InvalidArgument):
// no JSON, or nested too deeply: "FILE:3:7: …", or "line 3, column 7: …" without `file`. `doubled` receives the keys
// that the outermost object has twice.
absl::StatusOr<nlohmann::json> read_json(std::string_view text, std::string_view file = "");
absl::StatusOr<nlohmann::ordered_json> read_ordered_json(std::string_view text, std::string_view file = "",
                                                         std::vector<std::string>* doubled = nullptr);

struct JsonForm {
  int indent = -1;     // blanks for each level; -1: one line
  bool ascii = false;  // other characters as \uXXXX
};
// The document as text. Each byte that is not UTF-8 becomes U+FFFD, and the document's places with such bytes (as JSON
// pointers) go to `replaced`; without it a warning on stderr names them. Numbers that are not finite become null.
std::string json_text(const nlohmann::json& json, const JsonForm& form = {},
                      std::vector<std::string>* replaced = nullptr);
std::string json_text(const nlohmann::ordered_json& json, const JsonForm& form = {},
                      std::vector<std::string>* replaced = nullptr);

// A text of any bytes, as a path, that is read back as it was: a string, or {"hex": "2f746d70ff"} if it is not UTF-8.
nlohmann::json json_of_bytes(std::string_view bytes);
// nullopt: neither of the two.
std::optional<std::string> bytes_of_json(const nlohmann::json& json);

// What the library's event interface says in parse_error(position, last_token, error), for readers of events.
struct JsonProblem {
  SourcePlace place;
  std::string message;
};
JsonProblem json_problem(std::string_view text, size_t position, std::string_view last_token, int error_id);

}  // namespace scalai
