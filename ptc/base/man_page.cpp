#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/internal/program_text.h"
#include "ptc/base/version.h"

namespace scalai {
namespace {

// Text as roff prints it unchanged: a dash stays a dash, and no line starts a request.
std::string roff(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    const bool request = line_start && (c == '.' || c == '\'');
    if (request) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    line_start = c == '\n';
  }
  return out;
}

std::string title(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return fmt::format(".TH \"{}\" 1 \"\" \"Scalai {}\"\n", roff(upper), kVersion);
}

std::string name_section(std::string name, const std::string& summary) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return fmt::format(".SH NAME\n{} \\- {}\n", roff(name), roff(summary));
}

std::string unfilled(const std::string& text) { return ".nf\n" + text + "\n.fi\n"; }

std::string roff_paragraphs(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    const std::string_view paragraph = text.substr(0, end);
    const bool verbatim = paragraph.starts_with(' ');
    out += ".PP\n" + (verbatim ? unfilled(roff(paragraph)) : roff(paragraph) + "\n");
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
  }
  return out;
}

std::string item(const std::string& term, const std::string& text) {
  return fmt::format(".TP\n.B {}\n{}\n", roff(term), roff(text));
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
  out += fmt::format(".SH SYNOPSIS\n{}\n.SH DESCRIPTION\n", roff(spec.usage));
  out += roff_paragraphs(spec.description.empty() ? spec.summary : spec.description);
  out += ".SH OPTIONS\n";
  for (const OptionSpec& option : options_with_help(spec)) out += item(option_form(option), option_help(option));
  if (!spec.examples.empty()) out += ".SH EXAMPLES\n";
  for (const std::string& example : spec.examples) out += ".PP\n" + unfilled(roff(example));
  return out + exit_section();
}

std::string program_man_page(const Program& program) {
  std::string out = title(program.name) + name_section(program.name, program.summary);
  out += fmt::format(".SH SYNOPSIS\n{} COMMAND [ARGUMENT…]\n.SH DESCRIPTION\n", roff(program.name));
  out += roff_paragraphs(program.summary) + ".SH COMMANDS\n";
  for (const Command& command : program.commands) out += item(command.spec.name, command.spec.summary);
  for (const auto& [name, summary] : program.external) out += item(name, summary);
  for (const CommandSpec& spec : builtin_specs(program)) out += item(spec.name, spec.summary);
  return out + exit_section();
}

}  // namespace scalai
