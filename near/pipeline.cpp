#include "near/pipeline.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai::near {
namespace {

// A word while it is read: as it is, and as a pattern, in which what was quoted is escaped.
struct Word {
  std::string text, pattern;
  bool begun = false, glob = false, quoted = false;
};

class Reader {
 public:
  Reader(const std::string& text, const std::vector<std::string>& names)
      : text_(text), names_(names), problems_("pipeline", text) {}

  absl::StatusOr<Pipeline> read() {
    while (at_ < text_.size()) step();
    end_word();
    if (pipeline_.back().words.empty()) nothing_before(text_.size());
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

  // A byte that stands for itself.
  void literal(char c) {
    word_.begun = word_.quoted = true;
    word_.text += c;
    word_.pattern += '\\';
    word_.pattern += c;
  }

  void plain(char c) {
    const bool first = !word_.begun;
    if (c == '\n' || std::string_view("$;&<>(){}`").find(c) != std::string_view::npos) {
      refuse(c);
    } else if (first && (c == '#' || c == '~')) {
      refuse(c);
    } else if (first && c == '!' && pipeline_.back().words.empty()) {
      refuse(c);
    } else if (c == '=' && !word_.quoted && pipeline_.back().words.empty()) {
      problem(at_, "a variable is not set here", "env NAME=value COMMAND sets it for one command");
    }
    word_.begun = true;
    word_.glob = word_.glob || c == '*' || c == '?' || c == '[';
    word_.text += c;
    word_.pattern += c;
  }

  void refuse(char c) {
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
    word_.begun = word_.quoted = true;
    for (size_t i = at_ + 1; i < end; ++i) literal(text_[i]);
    at_ = end + 1;
  }

  void double_quoted() {
    const size_t begin = at_++;
    word_.begun = word_.quoted = true;
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
    end_word();
    if (pipeline_.back().words.empty()) nothing_before(at_);
    pipeline_.emplace_back();
    ++at_;
  }

  void end_word() {
    if (!word_.begun) return;
    std::vector<std::string>& words = pipeline_.back().words;
    const size_t before = words.size();
    if (word_.glob) {
      for (const std::string& name : names_) {
        if (::fnmatch(word_.pattern.c_str(), name.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0) words.push_back(name);
      }
      std::sort(words.begin() + static_cast<ptrdiff_t>(before), words.end());
    }
    if (words.size() == before) words.push_back(word_.text);
    word_ = {};
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
