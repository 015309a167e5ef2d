#pragma once
// Tokens of the protobuf text format, with exact places in characters.

#include <cstdint>
#include <string>
#include <string_view>

#include "ptc/base/diagnostics.h"

namespace scalai::proto::internal {

struct Token {
  enum class Kind : uint8_t { kWord, kNumber, kText, kSymbol, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view raw;  // as written
  std::string decoded;   // kText
  bool broken = false;   // kText with a problem that is already reported
  SourcePlace place;

  bool is(char symbol) const { return kind == Kind::kSymbol && raw[0] == symbol; }
};

// Hands out the tokens of `text` (valid UTF-8) one by one, skipping blanks and comments; kEnd for ever at the end.
// Problems inside quoted texts go to `diagnostics`.
class Tokenizer {
 public:
  Tokenizer(std::string_view text, Diagnostics& diagnostics) : text_(text), diagnostics_(diagnostics) {}
  Token next();
  // The first byte after blanks and tabs that next() will see; 0 at the end of the line.
  char peek() const;

 private:
  void skip_blanks();
  void advance(size_t bytes);
  Token take(Token::Kind kind, size_t bytes);
  Token take_text();
  bool decode_escape(size_t& at, std::string& out) const;

  std::string_view text_;  // what is left
  int line_ = 1;
  int column_ = 1;
  Diagnostics& diagnostics_;
};

}  // namespace scalai::proto::internal
