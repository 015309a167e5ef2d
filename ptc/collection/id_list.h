#pragma once
// Lists of devices as people write them: "0-15,24". Numbers and rising ranges, both ends included, each number once.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace scalai::collection {

// What is wrong with a list, for callers that point into a file. Positions count characters from 1.
struct IdListProblem {
  int position = 1;
  int length = 1;
  std::string message;
  std::string hint;  // may be empty
};

// Fills `ids` in the order of the text; at most 2^18 numbers below 2^24. On a problem `ids` holds what came before it.
std::optional<IdListProblem> parse_id_list(std::string_view text, std::vector<int>& ids);

// The shortest text of a list: neighbours that rise by one become a range.
std::string id_list_of(const std::vector<int>& ids);

}  // namespace scalai::collection
