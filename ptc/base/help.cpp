#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/internal/program_text.h"
#include "ptc/base/utf8.h"

namespace scalai {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kLeftColumns = 26;  // an option form wider than this gets a line of its own

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

// Words filled into lines of kColumns; every line but the first starts with `indent` blanks.
std::string filled(std::string_view text, size_t indent) {
  std::string out;
  size_t column = indent;
  for (const std::string_view line : split_at(text, "\n")) {
    for (const std::string_view word : split_at(line, " ")) {
      if (word.empty()) continue;
      const size_t width = columns_of(word);
      const bool fresh = column == indent;
      const bool wraps = !fresh && column + 1 + width > kColumns;
      if (wraps) out += fmt::format("\n{:{}}", "", indent);
      if (!fresh && !wraps) out += " ";
      column = (wraps ? indent : column + (fresh ? 0 : 1)) + width;
      out += word;
    }
  }
  return out;
}

// Paragraphs are separated by empty lines; one that starts with a blank is printed as it is.
std::string filled_paragraphs(std::string_view text) {
  std::string out;
  for (const std::string_view paragraph : split_at(text, "\n\n")) {
    out += (paragraph.starts_with(' ') ? std::string(paragraph) : filled(paragraph, 0)) + "\n\n";
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

std::string options_text(const CommandSpec& spec) {
  const std::vector<OptionSpec> options = options_with_help(spec);
  size_t left = 0;
  for (const OptionSpec& option : options) {
    const size_t width = columns_of(option_form(option));
    if (width <= kLeftColumns) left = std::max(left, width);
  }
  std::string out = "Options:\n";
  for (const OptionSpec& option : options) out += two_columns(option_form(option), option_help(option), left);
  return out;
}

}  // namespace

std::string option_form(const OptionSpec& option) {
  if (option.type == ValueType::kFlag) return "--" + option.name;
  const bool named = !option.value_name.empty();
  return fmt::format("--{}={}", option.name, named ? option.value_name : default_value_name(option.type));
}

std::string option_help(const OptionSpec& option) {
  std::string text = option.help;
  if (option.type == ValueType::kTexts) text += " As often as you like.";
  if (!option.choices.empty()) text += fmt::format(" One of: {}.", fmt::join(option.choices, ", "));
  if (!option.default_value.empty()) text += fmt::format(" Default: {}.", option.default_value);
  return text;
}

std::vector<OptionSpec> options_with_help(const CommandSpec& spec) {
  std::vector<OptionSpec> options = spec.options;
  options.push_back({"help", ValueType::kFlag, "", "Print this help.", "", {}});
  return options;
}

std::string full_name(const Program& program, const CommandSpec& spec) {
  const bool is_program = program.single && spec.name == program.commands.front().spec.name;
  return is_program ? program.name : program.name + " " + spec.name;
}

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
  std::string out = fmt::format("Usage: {}\n\n", spec.usage);
  out += filled_paragraphs(spec.description.empty() ? spec.summary : spec.description);
  out += options_text(spec);
  if (!spec.examples.empty()) out += "\nExamples:\n";
  for (const std::string& example : spec.examples) out += fmt::format("  {}\n", example);
  out += "\nExit codes:\n";
  for (const auto& [code, meaning] : exit_codes()) out += two_columns(fmt::format("{}", code), meaning, 2);
  return out + fmt::format("\nTerms: {}\n", kGlossary);
}

std::string overview_text(const Program& program) {
  size_t left = 0;
  for (const CommandSpec& spec : builtin_specs(program)) left = std::max(left, columns_of(spec.name));
  for (const Command& command : program.commands) left = std::max(left, columns_of(command.spec.name));
  for (const auto& [name, summary] : program.external) left = std::max(left, columns_of(name));

  std::string out =
      fmt::format("Usage: {} COMMAND [ARGUMENT…]\n\n{}", program.name, filled_paragraphs(program.summary));
  out += "Commands:\n";
  for (const Command& command : program.commands) out += two_columns(command.spec.name, command.spec.summary, left);
  if (!program.external.empty()) out += "\nCommands of programs installed separately:\n";
  for (const auto& [name, summary] : program.external) out += two_columns(name, summary, left);
  out += "\nAbout the program itself:\n";
  for (const CommandSpec& spec : builtin_specs(program)) out += two_columns(spec.name, spec.summary, left);
  out += two_columns("--version", "Print the version.", left);
  return out + fmt::format("\n`{} help COMMAND` explains one command. Terms: {}\n", program.name, kGlossary);
}

}  // namespace scalai
