#pragma once
// Pipelines of commands, without a shell: words, and `|` between commands. Pure functions; any thread.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::near {

struct Command {
  std::vector<std::string> words;  // argv
};
using Pipeline = std::vector<Command>;

// One text as a POSIX sh reads it, as far as it has words, quotes ('…', "…", \), | and patterns of file names (*, ?,
// […]), in the C locale. A pattern is replaced by the names that fit it, sorted by bytes; one that fits none stays as
// it is. InvalidArgument: everything else that a shell gives a meaning to ($ ; & < > ( ) { } ` # ~ ! and NAME=value in
// front), words that no program does (cd, if, …), echo of options or a \, and patterns that fit more than files: all of
// it at once with column and hint.
absl::StatusOr<Pipeline> parse_pipeline(const std::string& text, const std::vector<std::string>& names);

// Words as they are; a word that is | ends a command. InvalidArgument: a command without words, or that no program
// does.
absl::StatusOr<Pipeline> split_pipeline(const std::vector<std::string>& words);

// Its text for people: parse_pipeline() gives it back.
std::string text_of(const Pipeline& pipeline);

}  // namespace scalai::near
