#pragma once
// C++ text as the rules see it: what is code and what is comment or literal, the includes, the functions. No compiler
// behind it: braces, parentheses and a few words suffice for code in our style. Pure functions of their input.

#include <string>
#include <string_view>
#include <vector>

namespace scalai::tidy {

// A letter, a digit or _.
bool is_word(char c);

// `text` with comments and the insides of string and character literals (raw ones too) turned into spaces. Same
// length, same line breaks, so offsets and line numbers agree with the original.
std::string code_only(std::string_view text);
// The same with the comments as they are.
std::string without_literals(std::string_view text);

// 1-based line of an offset.
int line_of(std::string_view text, size_t offset);

struct Include {
  std::string path;  // between the quotes or angle brackets
  int line = 0;
};

// Includes in order, without those in comments.
std::vector<Include> includes_of(std::string_view text);

struct Function {
  std::string name;  // as written before the parameters, e.g. "Box::shape"; for macros with them: "TEST(Box, Shape)"
  int line = 0;      // where the signature starts
  int lines = 0;     // signature to closing brace, both counted
};

// Functions with a body, in order. Lambdas and local classes count as part of the function around them.
std::vector<Function> functions_of(std::string_view text);

}  // namespace scalai::tidy
