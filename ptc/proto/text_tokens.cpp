#include "ptc/proto/internal/text_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "ptc/base/utf8.h"

namespace scalai::proto::internal {
namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t word_length(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && (is_letter(text[n]) || is_digit(text[n]))) ++n;
  return n;
}

// Takes letters too ("35min"), so that the whole wrong number is shown rather than its first half.
size_t number_length(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  size_t n = 0;
  while (n < text.size()) {
    const char c = text[n];
    const bool exponent_sign = (c == '+' || c == '-') && n > 0 && !hexadecimal && (text[n - 1] | 0x20) == 'e';
    if (!is_letter(c) && !is_digit(c) && c != '.' && !exponent_sign) break;
    ++n;
  }
  return n;
}

void append_utf8(uint32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const int extra = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(kLead[extra] | (code >> (6 * extra)));
  for (int i = extra - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F));
}

// Reads up to `most` digits of `base` at `at`; false when there is none.
bool read_digits(std::string_view text, size_t& at, size_t most, int base, uint32_t& value) {
  const std::string_view digits = text.substr(std::min(at, text.size()), most);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc{}) return false;
  at += static_cast<size_t>(end - digits.data());
  return true;
}

}  // namespace

void Tokenizer::advance(size_t bytes) {
  for (const char c : text_.substr(0, bytes)) {
    if (c == '\n') {
      ++line_;
      column_ = 1;
    } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      ++column_;
    }
  }
  text_.remove_prefix(bytes);
}

void Tokenizer::skip_blanks() {
  while (!text_.empty()) {
    if (text_[0] == '#') {
      advance(std::min(text_.find('\n'), text_.size()));
    } else if (std::string_view(" \t\r\n\v\f").find(text_[0]) != std::string_view::npos) {
      advance(1);
    } else {
      return;
    }
  }
}

Token Tokenizer::take(Token::Kind kind, size_t bytes) {
  Token token;
  token.kind = kind;
  token.raw = text_.substr(0, bytes);
  token.place = {line_, column_, std::max(1, static_cast<int>(columns_of(token.raw)))};
  advance(bytes);
  return token;
}

char Tokenizer::peek() const {
  const size_t at = text_.find_first_not_of(" \t");
  return at == std::string_view::npos || text_[at] == '\n' ? '\0' : text_[at];
}

Token Tokenizer::next() {
  skip_blanks();
  if (text_.empty()) return take(Token::Kind::kEnd, 0);
  const char c = text_[0];
  if (is_letter(c)) return take(Token::Kind::kWord, word_length(text_));
  if (is_digit(c) || (c == '.' && text_.size() > 1 && is_digit(text_[1]))) {
    return take(Token::Kind::kNumber, number_length(text_));
  }
  if (c == '"' || c == '\'') return take_text();
  return take(Token::Kind::kSymbol, characters(text_.substr(0, 4))[0].size());
}

// Decodes the escape whose backslash is just before `at`; false when it is none of the format's.
bool Tokenizer::decode_escape(size_t& at, std::string& out) const {
  constexpr std::string_view kNames = "abfnrtv\\'\"?";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"?";
  const char c = text_[at];
  if (const size_t known = kNames.find(c); known != std::string_view::npos) {
    out += kMeanings[known];
    ++at;
    return true;
  }
  uint32_t value = 0;
  if (c >= '0' && c <= '7') {
    if (!read_digits(text_, at, 3, 8, value) || value > 255) return false;
    out += static_cast<char>(value);
    return true;
  }
  ++at;
  if (c == 'x' || c == 'X') {
    if (!read_digits(text_, at, 2, 16, value)) return false;
    out += static_cast<char>(value);
    return true;
  }
  if (c != 'u' && c != 'U') return false;
  const size_t before = at;
  const size_t digits = c == 'u' ? 4 : 8;
  const bool surrogate_free = read_digits(text_, at, digits, 16, value) && (value < 0xD800 || value > 0xDFFF);
  if (!surrogate_free || at - before != digits || value > 0x10FFFF) return false;
  append_utf8(value, out);
  return true;
}

Token Tokenizer::take_text() {
  const char quote = text_[0];
  std::string decoded;
  bool bad_escape = false;
  size_t at = 1;
  const auto ended = [&] { return at >= text_.size() || text_[at] == '\n'; };
  while (!ended() && text_[at] != quote) {
    if (text_[at] != '\\') {
      decoded += text_[at++];
      continue;
    }
    const size_t backslash = at++;
    if (ended()) break;
    if (decode_escape(at, decoded)) continue;
    bad_escape = true;
    const int column = column_ + static_cast<int>(columns_of(text_.substr(0, backslash)));
    const std::string_view escape = characters(text_.substr(backslash + 1, 4))[0];
    diagnostics_.error({line_, column, 2}, fmt::format("\"\\{}\" starts no valid escape", escape),
                       "write a backslash itself as \"\\\\\"");
    at = std::max(at, backslash + 1 + escape.size());
  }
  const bool closed = !ended();
  size_t bytes = closed ? at + 1 : at;
  while (!closed && std::string_view(" \t\r").find(text_[bytes - 1]) != std::string_view::npos) --bytes;
  Token token = take(Token::Kind::kText, bytes);
  if (!closed) {
    diagnostics_.error(token.place, "this text is not closed on its line", fmt::format("end it with {}", quote));
  }
  token.decoded = std::move(decoded);
  token.broken = !closed || bad_escape;
  return token;
}

}  // namespace scalai::proto::internal
