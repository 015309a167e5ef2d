#pragma once
// Names that a user chooses by patterns, as in names of files: "*" stands for any text, "?" for a character, "[a-z]"
// for one of these. Pure functions.

#include <span>
#include <string>

namespace scalai {

bool matches_any(const std::string& name, std::span<const std::string> patterns);

}  // namespace scalai
