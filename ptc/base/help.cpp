#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/internal/program_text.h"
#include "ptc/base/utf8.h"

namespace scalai {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kLeftColumns = 26;  // an option form wider than this gets a line of its own

// Words filled into lines of kColumns; every line but the first starts with `indent` blanks.
std::string filled(std::string_view text, size_t indent) {
  return fmt::format("{}", fmt::join(wrapped(text, kColumns - indent), fmt::format("\n{:{}}", "", indent)));
}

// A command line that goes on behind a "\" where it is too long for a line.
std::string example_text(const std::string& example) {
  if (columns_of(example) + 2 <= kColumns) return fmt::format("  {}\n", example);
  std::vector<std::string> lines = {" "};
  for (const std::string_view word : split_at(example, " ")) {
    if (columns_of(lines.back()) + 1 + columns_of(word) + 2 > kColumns) lines.emplace_back("     ");
    lines.back() += fmt::format(" {}", word);
  }
  return fmt::format("{}\n", fmt::join(lines, " \\\n"));
}

// A line of a list, "  word   what it is": what does not fit goes on under its explanation.
std::string list_line(std::string_view line) {
  const size_t word = line.find_first_not_of(' ');
  const size_t gap = word == std::string_view::npos ? word : line.find("  ", word);
  if (columns_of(line) <= kColumns || gap == std::string_view::npos) return std::string(line);
  const size_t indent = line.find_first_not_of(' ', gap);
  return std::string(line.substr(0, indent)) + filled(line.substr(indent), columns_of(line.substr(0, indent)));
}

// Paragraphs are separated by empty lines; one that starts with a blank keeps its lines.
std::string filled_paragraphs(std::string_view text) {
  std::string out;
  for (const std::string_view paragraph : split_at(text, "\n\n")) {
    if (paragraph.starts_with(' ')) {
      for (const std::string_view line : split_at(paragraph, "\n")) out += list_line(line) + "\n";
      out += "\n";
    } else {
      out += filled(paragraph, 0) + "\n\n";
    }
  }
  return out;
}

// "  left      right", the right side filled in its own column.
std::string two_columns(const std::string& left, std::string_view right, size_t left_columns) {
  const size_t indent = 2 + left_columns + 2;
  const size_t width = columns_of(left);
  std::string out = fmt::format("  {}", left);
  if (right.empty()) return out + "\n";
  out += width > left_columns ? fmt::format("\n{:{}}", "", indent) : std::string(indent - 2 - width, ' ');
  return out + filled(right, indent) + "\n";
}

std::string default_value_name(ValueType type) {
  switch (type) {
    case ValueType::kFlag: return "";
    case ValueType::kText:
    case ValueType::kTexts: return "TEXT";
    case ValueType::kCount: return "N";
    case ValueType::kBytes: return "SIZE";
    case ValueType::kSeconds: return "DURATION";
    case ValueType::kChoice: return "WORD";
    case ValueType::kList: return "A,B,…";
  }
  return "";
}

std::string options_text(const std::string& title, const std::vector<OptionSpec>& options, size_t left) {
  if (options.empty()) return "";
  std::string out = title + ":\n";
  for (const OptionSpec& option : options) out += two_columns(option_form(option), option_help(option), left);
  return out + "\n";
}

std::string verbs_text(const CommandSpec& spec) {
  if (spec.verbs.empty()) return "";
  size_t left = 0;
  for (const Verb& verb : spec.verbs) left = std::max(left, columns_of(verb.name));
  std::string out = "Verbs:\n";
  for (const Verb& verb : spec.verbs) out += two_columns(verb.name, verb.help, left);
  return out + "\n";
}

size_t left_columns(const std::vector<OptionSpec>& options) {
  size_t left = 0;
  for (const OptionSpec& option : options) {
    const size_t width = columns_of(option_form(option));
    if (width <= kLeftColumns) left = std::max(left, width);
  }
  return left;
}

}  // namespace

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  size_t end = 0;
  while ((end = text.find(separator)) != std::string_view::npos) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string_view line : split_at(text, "\n")) {
    for (const std::string_view word : split_at(line, " ")) {
      if (!word.empty()) words.emplace_back(word);
    }
  }
  return words;
}

std::string option_form(const OptionSpec& option) {
  const std::string letter = option.short_name == 0 ? "" : fmt::format("-{}, ", option.short_name);
  if (option.type == ValueType::kFlag) return fmt::format("{}--{}", letter, option.name);
  const bool named = !option.value_name.empty();
  return fmt::format("{}--{}={}", letter, option.name, named ? option.value_name : default_value_name(option.type));
}

std::string option_help(const OptionSpec& option) {
  std::string text = option.help;
  if (option.type == ValueType::kTexts) text += " As often as you like.";
  if (!option.choices.empty()) text += fmt::format(" One of: {}.", fmt::join(option.choices, ", "));
  if (!option.default_value.empty()) text += fmt::format(" Default: {}.", option.default_value);
  return text;
}

std::string full_name(const Program& program, const CommandSpec& spec) {
  const bool is_program = program.single && spec.name == program.commands.front().spec.name;
  return is_program ? program.name : program.name + " " + spec.name;
}

std::string typed_name(const Program& program) {
  if (!program.typed.empty()) return program.typed;
  std::string name = program.name;
  if (const size_t dash = name.find('-'); dash != std::string::npos) name[dash] = ' ';
  return name;
}

std::string typed_name(const Program& program, const CommandSpec& spec) {
  const bool is_program = program.single && spec.name == program.commands.front().spec.name;
  return is_program ? typed_name(program) : typed_name(program) + " " + spec.name;
}

std::string word_of(const Part& part) { return part.program.name.substr(part.program.name.find('-') + 1); }

const std::vector<ExitCode>& exit_codes() {
  static const std::vector<ExitCode> codes = {{0, "done"},
                                              {1, "an expectation failed"},
                                              {2, "the command line is wrong"},
                                              {3, "the scenario, plan or checkpoint is invalid"},
                                              {4, "a device, library, file or permission is missing"},
                                              {5, "failed while running"},
                                              {70, "a bug in Scalai; please report it"}};
  return codes;
}

std::string help_text(const CommandSpec& spec) {
  std::string out;
  for (const std::string_view line : split_at(spec.usage, "\n"))
    out += fmt::format("{}{}\n", out.empty() ? "Usage: " : "       ", filled(line, 7));
  out += "\n";
  out += filled_paragraphs(spec.description.empty() ? spec.summary : spec.description);
  const size_t left = left_columns(joined({spec.options, common_options()}));
  out += verbs_text(spec) + options_text("Options", spec.options, left);
  out += options_text("Options of every command", common_options(), left);
  if (!spec.examples.empty()) out += "Examples:\n";
  for (const std::string& example : spec.examples) out += example_text(example);
  if (!spec.examples.empty()) out += "\n";
  out += "Exit codes:\n";
  for (const auto& [code, meaning] : exit_codes()) out += two_columns(fmt::format("{}", code), meaning, 2);
  return out + fmt::format("\nTerms: {}\n", kGlossary);
}

std::string overview_text(const Program& program) {
  size_t left = 0;
  for (const CommandSpec& spec : builtin_specs(program)) left = std::max(left, columns_of(spec.name));
  for (const Command& command : program.commands) left = std::max(left, columns_of(command.spec.name));
  for (const auto& part : program.parts) left = std::max(left, columns_of(word_of(*part)));
  for (const auto& [name, summary] : program.external) left = std::max(left, columns_of(name));

  std::string out =
      fmt::format("Usage: {} COMMAND [ARGUMENT…]\n\n{}", program.name, filled_paragraphs(program.summary));
  out += "Commands:\n";
  for (const Command& command : program.commands) out += two_columns(command.spec.name, command.spec.summary, left);
  for (const auto& part : program.parts) out += two_columns(word_of(*part), part->summary, left);
  if (!program.external.empty()) out += "\nCommands of programs installed separately:\n";
  for (const auto& [name, summary] : program.external) out += two_columns(name, summary, left);
  out += "\nAbout the program itself:\n";
  for (const CommandSpec& spec : builtin_specs(program)) out += two_columns(spec.name, spec.summary, left);
  out += two_columns("--version", "Print the version.", left);
  return out + fmt::format("\n`{} help COMMAND` explains one command. Terms: {}\n", program.name, kGlossary);
}

}  // namespace scalai
