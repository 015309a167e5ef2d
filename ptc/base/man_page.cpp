#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/internal/program_text.h"
#include "ptc/base/utf8.h"
#include "ptc/base/version.h"

namespace scalai {
namespace {

// Longer input lines are poor style (mandoc -Tlint), which reads a character beyond ASCII as its name, \[u2026].
constexpr size_t kLineBytes = 78;

size_t read_size(std::string_view text) {
  size_t size = 0;
  for (const std::string_view character : characters(text)) size += character.size() == 1 ? 1 : 8;
  return size;
}

// Text as roff prints it unchanged: a dash stays a dash.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

// A line that starts no request.
std::string roff_line(const std::string& line) {
  return line.starts_with('.') || line.starts_with('\'') ? "\\&" + line : line;
}

// Running text, in lines of its own.
std::string filled(std::string_view text) {
  std::string out, line;
  for (const std::string& word : words_of(text)) {
    const std::string next = roff(word);
    if (!line.empty() && read_size(line) + 1 + read_size(next) > kLineBytes) {
      out += roff_line(line) + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + next;
  }
  return out + roff_line(line) + "\n";
}

// Lines as they are; a long one goes on behind "\c", which the reader does not see, and never with a blank, which would
// break the text.
std::string unfilled(std::string_view text) {
  std::string out = ".nf\n";
  for (const std::string_view whole : split_at(text, "\n")) {
    std::string rest = roff(whole), part;
    while (!rest.empty()) {
      const size_t blank = rest.find(' ', rest.find_first_not_of(' '));
      const size_t end = std::min(rest.find_first_not_of(' ', blank), rest.size());  // a word and the blanks behind it
      const std::string word = rest.substr(0, end);
      if (!part.empty() && read_size(part) + read_size(word) > kLineBytes - 2) {
        out += part + "\\c\n";
        part.clear();
      }
      part += part.empty() ? roff_line(word) : word;
      rest.erase(0, end);
    }
    out += part + "\n";
  }
  return out + ".fi\n";
}

std::string title(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return fmt::format(".TH \"{}\" 1 \"{}\" \"Scalai {}\"\n", roff(upper), kVersionDate, kVersion);
}

std::string name_section(std::string name, const std::string& summary) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return fmt::format(".SH NAME\n{}", filled(fmt::format("{} - {}", name, summary)));
}

std::string synopsis(std::string_view usage) {
  std::string out;
  for (const std::string_view line : split_at(usage, "\n")) out += (out.empty() ? "" : ".br\n") + filled(line);
  return ".SH SYNOPSIS\n" + out;
}

std::string roff_paragraphs(std::string_view text) {
  std::string out;
  for (const std::string_view paragraph : split_at(text, "\n\n")) {
    if (!out.empty()) out += ".PP\n";
    out += paragraph.starts_with(' ') ? unfilled(paragraph) : filled(paragraph);
  }
  return out;
}

std::string item(const std::string& term, const std::string& text) {
  return fmt::format(".TP\n.B {}\n{}", roff(term), filled(text));
}

std::string exit_section() {
  std::string out = ".SH \"EXIT STATUS\"\n";
  for (const auto& [code, meaning] : exit_codes()) out += item(fmt::format("{}", code), std::string(meaning));
  return out;
}

}  // namespace

std::string command_man_page(const Program& program, const CommandSpec& spec) {
  const std::string name = full_name(program, spec);
  std::string out = title(name) + name_section(name, spec.summary);
  out += synopsis(spec.usage) + ".SH DESCRIPTION\n";
  out += roff_paragraphs(spec.description.empty() ? spec.summary : spec.description);
  if (!spec.verbs.empty()) out += ".SH VERBS\n";
  for (const Verb& verb : spec.verbs) out += item(verb.name, verb.help);
  out += ".SH OPTIONS\n";
  for (const OptionSpec& option : joined({spec.options, common_options()}))
    out += item(option_form(option), option_help(option));
  if (!spec.examples.empty()) out += ".SH EXAMPLES\n";
  for (const std::string& example : spec.examples) {
    if (&example != &spec.examples.front()) out += ".PP\n";
    out += unfilled(example);
  }
  return out + exit_section();
}

std::string program_man_page(const Program& program) {
  std::string out = title(program.name) + name_section(program.name, program.summary);
  out += synopsis(program.name + " COMMAND [ARGUMENT…]") + ".SH DESCRIPTION\n";
  out += roff_paragraphs(program.summary) + ".SH COMMANDS\n";
  for (const Command& command : program.commands) out += item(command.spec.name, command.spec.summary);
  for (const auto& part : program.parts) out += item(word_of(*part), part->summary);
  for (const auto& [name, summary] : program.external) out += item(name, summary);
  for (const CommandSpec& spec : builtin_specs(program)) out += item(spec.name, spec.summary);
  return out + exit_section();
}

}  // namespace scalai
