#pragma once
// The one reader of JSON documents. The library takes texts of any depth, but copies, compares and prints trees by
// recursion: a small file of a million brackets would overflow the stack of whoever looks at it. This reader refuses what
// is nested deeper than any format of ours. Readers of event streams (`sax_parse`) build no tree and need no limit of the
// stack; they count levels themselves. Any thread may call.

#include <nlohmann/json_fwd.hpp>
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

// What the library's event interface says in parse_error(position, last_token, error), for readers of events.
struct JsonProblem {
  SourcePlace place;
  std::string message;
};
JsonProblem json_problem(std::string_view text, size_t position, std::string_view last_token, int error_id);

}  // namespace scalai
