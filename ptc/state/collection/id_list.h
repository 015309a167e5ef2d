#pragma once
// Lists of devices as text: "0-15,24". Numbers and rising ranges with both ends included, each number once. Pure
// functions; any thread may call.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace scalai::collection {

// One problem of a list, for callers that point into a file. Positions count characters from 1.
struct IdListProblem {
  int position = 1;
  int length = 1;
  std::string message;
  std::string hint;  // may be empty
};

// Replaces `ids` by the numbers of the text in their order: at most 2^18 numbers below 2^24. Returns the first problem;
// `ids` then has the numbers before it.
std::optional<IdListProblem> parse_id_list(std::string_view text, std::vector<int>& ids);

// The shortest text of a list: consecutive numbers that rise by one become a range.
std::string id_list_of(const std::vector<int>& ids);

}  // namespace scalai::collection
