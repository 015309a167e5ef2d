#include "tests/tidy/source_text.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace scalai::tidy {
namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view first_word(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_word);
  return text.substr(0, static_cast<size_t>(end - text.begin()));
}

// --- blanking --------------------------------------------------------------------------------------------------------

size_t end_of_line_comment(std::string_view text, size_t at) {
  size_t end = text.find('\n', at);
  while (end != std::string_view::npos && text[end - 1] == '\\') end = text.find('\n', end + 1);
  return std::min(end, text.size());
}

size_t end_after(std::string_view text, std::string_view mark, size_t from) {
  const size_t found = text.find(mark, from);
  return found == std::string_view::npos ? text.size() : found + mark.size();
}

// One past the closing quote; a literal that its line does not close ends with the line.
size_t end_of_literal(std::string_view text, size_t at) {
  size_t i = at + 1;
  while (i < text.size() && text[i] != text[at] && text[i] != '\n') i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

size_t end_of_raw_literal(std::string_view text, size_t quote) {
  const size_t open = text.find('(', quote);
  if (open == std::string_view::npos) return text.size();
  const std::string mark = ")" + std::string(text.substr(quote + 1, open - quote - 1)) + "\"";
  return end_after(text, mark, open);
}

bool opens_raw_literal(std::string_view text, size_t quote) {
  if (quote == 0 || text[quote - 1] != 'R') return false;
  size_t start = quote - 1;
  while (start > 0 && is_word(text[start - 1])) --start;
  const std::string_view prefix = text.substr(start, quote - start);
  return prefix == "R" || prefix == "u8R" || prefix == "uR" || prefix == "UR" || prefix == "LR";
}

void blank(std::string& text, size_t begin, size_t end) {
  for (size_t i = begin; i < end && i < text.size(); ++i) {
    if (text[i] != '\n') text[i] = ' ';
  }
}

// Blanks the comment (if asked to) or literal at `at`, when there is one, and returns where to go on.
size_t blank_one(std::string_view text, size_t at, bool comments, std::string& code) {
  const std::string_view two = text.substr(at, 2);
  size_t end = at + 1;
  if (two == "//" || two == "/*") {
    end = two == "//" ? end_of_line_comment(text, at) : end_after(text, "*/", at + 2);
    if (comments) blank(code, at, end);
  } else if (text[at] == '"') {
    end = opens_raw_literal(text, at) ? end_of_raw_literal(text, at) : end_of_literal(text, at);
    blank(code, at + 1, end - 1);
  } else if (text[at] == '\'' && (at == 0 || !is_word(text[at - 1]) || first_word(text.substr(at - 1)) == "L")) {
    end = end_of_literal(text, at);
    blank(code, at + 1, end - 1);
  }
  return end;
}

// Preprocessor lines (with their continuations) are no part of any function.
void blank_directives(std::string& code) {
  for (size_t begin = 0; begin < code.size();) {
    size_t end = code.find('\n', begin);
    if (end == std::string::npos) end = code.size();
    const size_t hash = code.find_first_not_of(" \t", begin);
    if (hash < end && code[hash] == '#') {
      while (end < code.size() && code[end - 1] == '\\') end = std::min(code.find('\n', end + 1), code.size());
      blank(code, begin, end);
    }
    begin = end + 1;
  }
}

// --- what a brace opens ----------------------------------------------------------------------------------------------

enum class Scope { kNames, kFunction, kInitializer };  // kNames: namespaces and classes, where functions may stand

// Drops `template <…>`, attributes and access labels in front.
std::string_view without_prefixes(std::string_view head) {
  constexpr std::array<std::string_view, 3> kLabels = {"public", "protected", "private"};
  for (bool again = true; again;) {
    again = false;
    head = trimmed(head);
    const std::string_view word = first_word(head);
    const std::string_view rest = trimmed(head.substr(word.size()));
    if (std::find(kLabels.begin(), kLabels.end(), word) != kLabels.end() && rest.substr(0, 1) == ":") {
      head = rest.substr(1);
      again = true;
    } else if (word == "template" && rest.substr(0, 1) == "<") {
      int depth = 0;
      size_t i = 0;
      do {
        depth += rest[i] == '<' ? 1 : rest[i] == '>' ? -1 : 0;
      } while (++i < rest.size() && depth > 0);
      head = rest.substr(i);
      again = true;
    } else if (head.substr(0, 2) == "[[") {
      head = head.substr(end_after(head, "]]", 2));
      again = true;
    }
  }
  return head;
}

// The offset of the first `mark` outside parentheses, or npos.
size_t find_outside(std::string_view head, char mark) {
  int depth = 0;
  for (size_t i = 0; i < head.size(); ++i) {
    if (depth == 0 && head[i] == mark) return i;
    depth += head[i] == '(' ? 1 : head[i] == ')' ? -1 : 0;
  }
  return std::string_view::npos;
}

// `Box() : lo_` before `{`: the brace initialises a member, the body comes later.
bool in_member_initializers(std::string_view head) {
  if (head.empty() || !(is_word(head.back()) || head.back() == '>')) return false;
  const size_t parameters = find_outside(head, '(');
  for (size_t i = parameters; i < head.size();) {
    const size_t colon = find_outside(head.substr(i), ':');
    if (colon == std::string_view::npos) return false;
    i += colon;
    if (head.substr(i, 2) != "::") return true;
    i += 2;
  }
  return false;
}

bool names_a_scope(std::string_view head) {
  constexpr std::array<std::string_view, 5> kWords = {"namespace", "class", "struct", "union", "enum"};
  const std::string_view word = first_word(head);
  const bool has_parameters = find_outside(head, '(') != std::string_view::npos;
  if (word == "extern" || word == "inline") return !has_parameters;
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end() && head.back() != ')' &&
         find_outside(head, '=') == std::string_view::npos;
}

Scope scope_of(std::string_view head) {
  if (names_a_scope(head)) return Scope::kNames;
  const size_t parameters = find_outside(head, '(');
  if (parameters == std::string_view::npos || in_member_initializers(head)) return Scope::kInitializer;
  const bool value = find_outside(head, '=') < parameters && head.find("operator") == std::string_view::npos;
  const bool lambda = head.find('[') != std::string_view::npos;
  return value && !lambda ? Scope::kInitializer : Scope::kFunction;
}

std::string name_of(std::string_view head) {
  const size_t open = find_outside(head, '(');
  const std::string_view before = trimmed(head.substr(0, open));
  if (!before.empty() && std::all_of(before.begin(), before.end(), is_word)) {
    const size_t close = head.find(')', open);
    const bool macro = std::isupper(static_cast<unsigned char>(before.front())) != 0 && before.find('_') != 0;
    if (macro && close != std::string_view::npos) return std::string(head.substr(0, close + 1));
  }
  size_t start = std::min(before.find("operator"), before.size());
  while (start > 0 && (is_word(before[start - 1]) || before[start - 1] == ':' || before[start - 1] == '~')) --start;
  const std::string_view name = before.substr(start);
  return std::string(name.empty() ? before : name);
}

// Walks the braces once. `head_` is where the text of the next declaration starts.
class FunctionScanner {
 public:
  explicit FunctionScanner(std::string_view code) : code_(code) {}

  std::vector<Function> scan() {
    for (size_t i = 0; i < code_.size(); ++i) {
      const char c = code_[i];
      if (c == '(') ++parentheses_;
      if (c == ')') --parentheses_;
      if (c == '{') open(i);
      if (c == '}') close(i);
      if (c == ';' && at_names()) head_ = i + 1;
    }
    return std::move(functions_);
  }

 private:
  bool at_names() const { return parentheses_ == 0 && (scopes_.empty() || scopes_.back() == Scope::kNames); }

  void open(size_t at) {
    if (!at_names()) {
      scopes_.push_back(Scope::kInitializer);  // inside a function or a value: only the depth matters
      return;
    }
    const std::string_view head = without_prefixes(code_.substr(head_, at - head_));
    scopes_.push_back(scope_of(head));
    if (scopes_.back() == Scope::kNames) head_ = at + 1;
    if (scopes_.back() == Scope::kFunction) {
      const auto start = static_cast<size_t>(head.data() - code_.data());
      functions_.push_back({.name = name_of(head), .line = line_of(code_, start)});
    }
  }

  void close(size_t at) {
    if (scopes_.empty()) return;
    const Scope closed = scopes_.back();
    scopes_.pop_back();
    if (closed == Scope::kFunction) functions_.back().lines = line_of(code_, at) - functions_.back().line + 1;
    // After a member initialiser or a braced value the same declaration goes on.
    if (closed != Scope::kInitializer) head_ = at + 1;
  }

  std::string_view code_;
  std::vector<Scope> scopes_;
  std::vector<Function> functions_;
  size_t head_ = 0;
  int parentheses_ = 0;
};

}  // namespace

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string code_only(std::string_view text) {
  std::string code(text);
  for (size_t i = 0; i < text.size();) i = blank_one(text, i, true, code);
  return code;
}

std::string without_literals(std::string_view text) {
  std::string rest(text);
  for (size_t i = 0; i < text.size();) i = blank_one(text, i, false, rest);
  return rest;
}

int line_of(std::string_view text, size_t offset) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

std::vector<Include> includes_of(std::string_view text) {
  std::vector<Include> found;
  const std::string code = code_only(text);
  int line = 1;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view directive = trimmed(std::string_view(code).substr(begin, end - begin));
    if (directive.substr(0, 1) == "#" && first_word(trimmed(directive.substr(1))) == "include") {
      const size_t open = text.find_first_of("\"<", begin);
      const size_t close = open < end ? text.find_first_of("\">", open + 1) : end;
      if (close < end) found.push_back({.path = std::string(text.substr(open + 1, close - open - 1)), .line = line});
    }
    begin = end + 1;
  }
  return found;
}

std::vector<Function> functions_of(std::string_view text) {
  std::string code = code_only(text);
  blank_directives(code);
  return FunctionScanner(code).scan();
}

}  // namespace scalai::tidy
