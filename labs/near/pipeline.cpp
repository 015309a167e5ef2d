#include "labs/near/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai::near {
namespace {

// A word while it is read: as it is, and as a pattern, in which what was quoted is escaped.
struct Word {
  std::string text, pattern;
  size_t begin = 0;  // in the text
  bool begun = false, glob = false, quoted = false, refused = false;
};

struct Problem {
  std::string message, hint;  // no message: none
};

// Words at the head of a command for which no program does the same: reserved words, and builtins that act on the
// shell.
const std::set<std::string>& words_of_shells() {
  static const std::set<std::string> words = {
      "!",        ".",      ":",        "[[",      "alias",    "bg",      "break",  "case",  "cd",    "command",
      "continue", "do",     "done",     "elif",    "else",     "esac",    "eval",   "exec",  "exit",  "export",
      "fc",       "fg",     "fi",       "for",     "function", "getopts", "hash",   "if",    "in",    "jobs",
      "local",    "read",   "readonly", "return",  "set",      "shift",   "source", "then",  "times", "trap",
      "type",     "ulimit", "umask",    "unalias", "unset",    "until",   "wait",   "while", "{",     "}"};
  return words;
}

// Whether sh would not run a program with these words, or would put out something else than it.
Problem problem_of_command(const std::vector<std::string>& words) {
  if (words_of_shells().contains(words[0]))
    return {fmt::format("\"{}\" is for a shell, and none reads this", words[0]), "for a script: sh FILE"};
  if (words[0] != "echo") return {};
  for (size_t i = 1; i < words.size(); ++i)
    if (words[i].starts_with("-") || words[i].find('\\') != std::string::npos)
      return {"echo of a word that begins with - or has a \\: shells and programs differ in it", "printf FORMAT WORD…"};
  return {};
}

std::vector<std::string> components_of(const std::string& path) {
  std::vector<std::string> components(1);
  for (const char c : path) {
    if (c == '/') {
      components.emplace_back();
    } else {
      components.back() += c;
    }
  }
  return components;
}

// Of each "./" in front of a pattern, in which a byte may be escaped.
size_t size_of_dots(const std::string& pattern) {
  size_t size = 0;
  for (size_t at = 0;; size = at)
    for (const char c : {'.', '/'}) {
      if (at < pattern.size() && pattern[at] == '\\') ++at;
      if (at >= pattern.size() || pattern[at++] != c) return size;
    }
}

// A pattern of names of the source's files. sh matches each component for itself.
class Pattern {
 public:
  explicit Pattern(const Word& word)
      : dots_(dots_of(word.text)),
        below_(word.text.substr(dots_.size())),
        components_(components_of(word.pattern.substr(size_of_dots(word.pattern)))) {
    // An escaped / leaves its \ behind.
    for (size_t i = 0; i + 1 < components_.size(); ++i) {
      std::string& one = components_[i];
      const size_t last = one.find_last_not_of('\\');
      const size_t escapes = one.size() - (last == std::string::npos ? 0 : last + 1);
      if (escapes % 2 == 1) one.pop_back();
    }
  }

  // Why sh would look where the listing of files knows nothing.
  Problem problem() const {
    const std::string quotes = "quotes take it as it is";
    const std::vector<std::string> plain = components_of(below_);
    for (size_t i = 0; i < plain.size(); ++i) {
      if (plain[i] == ".." || (i == 0 && plain[i].empty())) return {"a pattern of names outside of the source", quotes};
      if (plain[i] == "." || (plain[i].empty() && i + 1 < plain.size()))
        return {"a pattern with an empty folder or . amid it", "one / between folders; " + quotes};
      if (plain[i].starts_with(".")) return {"a pattern of hidden names, which are no files of the source", quotes};
    }
    for (const std::string& one : components_)
      for (size_t at = 0; at < one.size(); at += one[at] == '\\' ? 2 : 1)
        if (one.compare(at, 2, "[^") == 0) return {"shells differ in [^", "[! is every byte but those that follow"};
    return {};
  }

  // The names that fit, sorted; none if no one does.
  std::vector<std::string> fitting(const std::vector<std::string>& names) const {
    std::vector<std::string> words;
    for (const std::string& name : names)
      if (fits(components_, components_of(name))) words.push_back(dots_ + name);
    std::sort(words.begin(), words.end());
    return words;
  }

  // A folder with files that fits, too; "" if there is none.
  std::string fitting_folder(const std::vector<std::string>& names) const {
    std::vector<std::string> wanted = components_;
    if (wanted.size() > 1 && wanted.back().empty()) wanted.pop_back();  // "d*/" is folders alone
    for (const std::string& name : names) {
      std::vector<std::string> folder = components_of(name);
      if (folder.size() <= wanted.size()) continue;
      folder.resize(wanted.size());
      if (fits(wanted, folder)) return fmt::format("{}", fmt::join(folder, "/"));
    }
    return "";
  }

 private:
  static std::string dots_of(const std::string& text) {
    size_t size = 0;
    while (text.compare(size, 2, "./") == 0) size += 2;
    return text.substr(0, size);
  }

  static bool fits(const std::vector<std::string>& wanted, const std::vector<std::string>& components) {
    return std::equal(wanted.begin(), wanted.end(), components.begin(), components.end(),
                      [](const std::string& pattern, const std::string& name) {
                        return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
                      });
  }

  const std::string dots_, below_;
  std::vector<std::string> components_;
};

class Reader {
 public:
  Reader(const std::string& text, const std::vector<std::string>& names)
      : text_(text), names_(names), problems_("pipeline", text) {}

  absl::StatusOr<Pipeline> read() {
    while (at_ < text_.size()) step();
    check_command();
    if (!problems_.empty()) return invalid(problems_.render());
    return std::move(pipeline_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == ' ' || c == '\t') {
      end_word();
      ++at_;
    } else if (c == '|') {
      end_command();
    } else if (c == '\'') {
      single_quoted();
    } else if (c == '"') {
      double_quoted();
    } else if (text_.compare(at_, 2, "\\\n") == 0) {  // the line goes on
      at_ += 2;
    } else if (c == '\\') {
      if (at_ + 1 == text_.size()) problem(at_, "a \\ with nothing behind it", "");
      if (at_ + 1 < text_.size()) literal(text_[at_ + 1]);
      at_ += 2;
    } else if (text_.compare(at_, 2, "{}") == 0) {  // itself, in shells too
      literal('{');
      literal('}');
      at_ += 2;
    } else {
      plain(c);
      ++at_;
    }
  }

  void begin_word() {
    if (!word_.begun) word_.begin = at_;
    word_.begun = true;
  }

  // A byte that stands for itself.
  void literal(char c) {
    begin_word();
    word_.quoted = true;
    word_.text += c;
    word_.pattern += '\\';
    word_.pattern += c;
  }

  void plain(char c) {
    const bool first = !word_.begun;
    const bool anywhere = c == '\n' || std::string_view("$;&<>(){}`").find(c) != std::string_view::npos;
    if (anywhere || (first && (c == '#' || c == '~' || (c == '!' && pipeline_.back().words.empty())))) {
      refuse(c);
    } else if (c == '=' && !word_.quoted && pipeline_.back().words.empty()) {
      problem(at_, "a variable is not set here", "env NAME=value COMMAND sets it for one command");
    }
    begin_word();
    word_.glob = word_.glob || c == '*' || c == '?' || c == '[';
    word_.text += c;
    word_.pattern += c;
  }

  void refuse(char c) {
    begin_word();
    word_.refused = true;
    problem(at_,
            fmt::format("{} is for a shell, and none reads this",
                        c == '\n' ? "the end of a line" : fmt::format("\"{}\"", c)),
            c == '\n' ? "" : fmt::format("'{0}' in quotes is the character; for a script: sh FILE", c));
  }

  void single_quoted() {
    const size_t end = text_.find('\'', at_ + 1);
    if (end == std::string::npos) {
      problem(at_, "a ' that nothing closes", "");
      at_ = text_.size();
      return;
    }
    begin_word();
    word_.quoted = true;
    for (size_t i = at_ + 1; i < end; ++i) literal(text_[i]);
    at_ = end + 1;
  }

  void double_quoted() {
    begin_word();
    const size_t begin = at_++;
    word_.quoted = true;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
      if (text_[at_] == '\\' && (next == '"' || next == '\\' || next == '$' || next == '`')) {
        literal(text_[++at_]);
      } else if (text_[at_] == '\\' && next == '\n') {
        ++at_;
      } else if (text_[at_] == '$' || text_[at_] == '`') {
        problem(at_, fmt::format("\"{}\" is for a shell, also within \"…\"", text_[at_]),
                "'…' takes everything as it is");
      } else {
        literal(text_[at_]);
      }
    }
    if (at_ == text_.size()) problem(begin, "a \" that nothing closes", "");
    ++at_;
  }

  void end_command() {
    check_command();
    pipeline_.emplace_back();
    ++at_;
  }

  void check_command() {
    end_word();
    const std::vector<std::string>& words = pipeline_.back().words;
    if (words.empty()) {
      nothing_before(std::min(at_, text_.size()));
    } else if (!first_refused_) {
      report(command_begin_, problem_of_command(words));
    }
  }

  void end_word() {
    if (!word_.begun) return;
    std::vector<std::string>& words = pipeline_.back().words;
    if (words.empty()) {
      command_begin_ = word_.begin;
      first_refused_ = word_.refused;
    }
    const std::vector<std::string> fitting = word_.glob ? names_that_fit() : std::vector<std::string>();
    words.insert(words.end(), fitting.begin(), fitting.end());
    if (fitting.empty()) words.push_back(word_.text);
    word_ = {};
  }

  std::vector<std::string> names_that_fit() {
    const Pattern pattern(word_);
    if (const Problem found = pattern.problem(); !found.message.empty()) {
      report(word_.begin, found);
      return {};
    }
    if (const std::string folder = pattern.fitting_folder(names_); !folder.empty())
      problem(word_.begin, fmt::format("the pattern fits the folder {}, which a shell would name, too", folder),
              "a pattern that fits files alone, such as *.txt, or their names");
    return pattern.fitting(names_);
  }

  void report(size_t at, const Problem& found) {
    if (!found.message.empty()) problem(at, found.message, found.hint);
  }

  void nothing_before(size_t at) { problem(at, "a command is missing here", "commands stand between |"); }

  void problem(size_t at, const std::string& message, const std::string& hint) {
    const auto line_begin = text_.rfind('\n', at == 0 ? 0 : at - 1);
    const size_t begin = line_begin == std::string::npos || at == 0 ? 0 : line_begin + 1;
    problems_.error(
        {.line = 1 + static_cast<int>(std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(begin), '\n')),
         .column = 1 + static_cast<int>(columns_of(text_.substr(begin, at - begin)))},
        message, hint);
  }

  const std::string& text_;
  const std::vector<std::string>& names_;
  Diagnostics problems_;
  Pipeline pipeline_{1};
  Word word_;
  size_t at_ = 0;
  size_t command_begin_ = 0;    // of the command that is read
  bool first_refused_ = false;  // its first word
};

// Whether parse_pipeline() reads the word as it is.
bool is_plain(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,+-@%^";
  return !word.empty() && word.find_first_not_of(kPlain) == std::string::npos;
}

}  // namespace

absl::StatusOr<Pipeline> parse_pipeline(const std::string& text, const std::vector<std::string>& names) {
  return Reader(text, names).read();
}

absl::StatusOr<Pipeline> split_pipeline(const std::vector<std::string>& words) {
  Pipeline pipeline(1);
  for (const std::string& word : words) {
    if (word == "|") {
      pipeline.emplace_back();
    } else {
      pipeline.back().words.push_back(word);
    }
  }
  if (std::any_of(pipeline.begin(), pipeline.end(), [](const Command& one) { return one.words.empty(); }))
    return invalid("a command is missing before or after a |");
  for (const Command& command : pipeline)
    if (const Problem found = problem_of_command(command.words); !found.message.empty())
      return invalid(fmt::format("{}\nhint: {}", found.message, found.hint));
  return pipeline;
}

std::string text_of(const Pipeline& pipeline) {
  std::string text;
  for (const Command& command : pipeline) {
    if (!text.empty()) text += " |";
    for (const std::string& word : command.words) {
      if (!text.empty()) text += ' ';
      if (is_plain(word)) {
        text += word;
        continue;
      }
      text += '\'';
      for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
      text += '\'';
    }
  }
  return text;
}

}  // namespace scalai::near
