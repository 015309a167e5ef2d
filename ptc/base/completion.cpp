#include <fmt/format.h>

#include "ptc/base/internal/program_text.h"
#include "ptc/base/status.h"

namespace scalai {
namespace {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// A word for bash and zsh, in which nothing is special.
std::string shell_quoted(const std::string& text) { return fmt::format("'{}'", replaced(text, "'", "'\\''")); }

std::string fish_quoted(const std::string& text) {
  return fmt::format("'{}'", replaced(replaced(text, "\\", "\\\\"), "'", "\\'"));
}

// Explanations in _arguments end at "]" or ":".
std::string zsh_escaped(const std::string& text) {
  return replaced(replaced(replaced(text, "[", "("), "]", ")"), ":", "\\:");
}

std::string function_name(const Program& program) { return fmt::format("_{}", replaced(program.name, "-", "_")); }

// What a positional argument of the command completes to.
struct Operands {
  std::vector<std::string> words;
  bool files = false;
};

std::vector<std::string> command_names(const Program& program) {
  std::vector<std::string> names;
  for (const Command& command : program.commands) names.push_back(command.spec.name);
  for (const auto& [name, summary] : program.external) names.push_back(name);
  for (const CommandSpec& spec : builtin_specs(program)) names.push_back(spec.name);
  return names;
}

Operands operands_of(const Program& program, const CommandSpec& spec) {
  if (spec.name == "help" || spec.name == "man") return {command_names(program), false};
  if (spec.name == "completion") return {{"bash", "zsh", "fish"}, false};
  return {{}, spec.max_arguments != 0};
}

// Every command this executable runs itself; a single program is offered without the built-in ones.
std::vector<CommandSpec> own_specs(const Program& program) {
  std::vector<CommandSpec> specs;
  for (const Command& command : program.commands) specs.push_back(command.spec);
  if (program.single) return specs;
  for (const CommandSpec& spec : builtin_specs(program)) specs.push_back(spec);
  return specs;
}

bool is_free_text(const OptionSpec& option) {
  const bool text =
      option.type == ValueType::kText || option.type == ValueType::kList || option.type == ValueType::kTexts;
  return text && option.choices.empty();
}

// The executable of an external command, and how many of our words it replaces.
std::pair<std::string, int> other_program(const Program& program, const std::string& command) {
  const auto found = program.external_of.find(command);
  if (found == program.external_of.end()) return {fmt::format("{}-{}", program.name, command), 2};
  return {fmt::format("{}-{}", program.name, found->second), 1};
}

std::string bash_value_case(const CommandSpec& spec, const OptionSpec& option) {
  if (option.type == ValueType::kFlag) return "";
  std::string action;
  if (!option.choices.empty()) action = fmt::format("words={} ", shell_quoted(joined(option.choices)));
  if (option.type == ValueType::kList) action += "list=1 ";
  if (is_free_text(option)) action += "files=1 ";
  return fmt::format("    {}) {};;\n", shell_quoted(spec.name + ":--" + option.name), action);
}

std::string bash_command_case(const Program& program, const CommandSpec& spec) {
  std::string options;
  for (const OptionSpec& option : options_with_help(spec)) {
    options += fmt::format("--{}{} ", option.name, option.type == ValueType::kFlag ? "" : "=");
  }
  const Operands operands = operands_of(program, spec);
  std::string line = fmt::format("    {}*) options={}", shell_quoted(spec.name + ":"), shell_quoted(options));
  if (!operands.words.empty()) line += fmt::format(" words={}", shell_quoted(joined(operands.words)));
  return line + (operands.files ? " files=1 ;;\n" : " ;;\n");
}

std::string bash_cases(const Program& program) {
  std::string cases;
  for (const CommandSpec& spec : own_specs(program)) {
    for (const OptionSpec& option : spec.options) cases += bash_value_case(spec, option);
    cases += bash_command_case(program, spec);
  }
  for (const auto& [name, summary] : program.external) {
    const auto [other, words] = other_program(program, name);
    cases += fmt::format("    {}*) {}_other {} {} && return; files=1 ;;\n", shell_quoted(name + ":"),
                         function_name(program), shell_quoted(other), words);
  }
  if (!program.single) {
    cases +=
        fmt::format("    ':'*) words={} options='--help --version' ;;\n", shell_quoted(joined(command_names(program))));
  }
  return cases;
}

// Commands of other executables are completed by these, as if they had been called by name.
std::string bash_other(const Program& program) {
  if (program.external.empty()) return "";
  return fmt::format(
      "{0}_other() {{\n"
      "  local program name=_${{1//-/_}}\n"
      "  program=$(type -P -- \"${{COMP_WORDS[0]}}\")\n"
      "  program=${{program%/*}}/$1\n"
      "  if ! declare -F \"$name\" >/dev/null; then eval \"$(\"$program\" completion bash 2>/dev/null)\"; fi\n"
      "  declare -F \"$name\" >/dev/null || return 1\n"
      "  COMP_WORDS=(\"$program\" \"${{COMP_WORDS[@]:$2}}\")\n"
      "  ((COMP_CWORD -= $2 - 1))\n"
      "  \"$name\"\n"
      "}}\n",
      function_name(program));
}

std::string bash_script(const Program& program) {
  const std::string command = program.single ? shell_quoted(program.commands.front().spec.name) : "${COMP_WORDS[1]}";
  const std::string at_command = program.single ? "" : "  if ((COMP_CWORD == 1)); then command=''; fi\n";
  return fmt::format(
      "# bash completion of {0}; try it with: source <({0} completion bash)\n"
      "{5}"
      "{1}() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command={2}\n"
      "  local words='' options='' files='' list='' prefix='' found\n"
      "{3}"
      "  # bash takes --key=value as three words.\n"
      "  if [[ $current == '=' ]]; then current=''\n"
      "  elif [[ $previous == '=' ]]; then previous=${{COMP_WORDS[COMP_CWORD-2]}}; fi\n"
      "  case \"$command:$previous\" in\n"
      "{4}"
      "  esac\n"
      "  if [[ $current == -* || -z $words$files ]]; then words=\"$words $options\"; fi\n"
      "  if [[ -n $list && $current == *,* ]]; then prefix=${{current%,*}},; fi\n"
      "  mapfile -t COMPREPLY < <(compgen -P \"$prefix\" -W \"$words\" -- \"${{current#\"$prefix\"}}\")\n"
      "  if [[ -n $files && $current != -* ]]; then\n"
      "    mapfile -t found < <(compgen -f -- \"$current\")\n"
      "    COMPREPLY+=(\"${{found[@]}}\")\n"
      "    compopt -o filenames 2>/dev/null\n"
      "  fi\n"
      "  if [[ ${{COMPREPLY[0]}} == *= ]]; then compopt -o nospace 2>/dev/null; fi\n"
      "  return 0\n"
      "}}\n"
      "complete -F {1} {0}\n",
      program.name, function_name(program), command, at_command, bash_cases(program), bash_other(program));
}

std::string zsh_option(const OptionSpec& option) {
  const std::string help = zsh_escaped(option_help(option));
  if (option.type == ValueType::kFlag) return shell_quoted(fmt::format("--{}[{}]", option.name, help));
  std::string action = is_free_text(option) ? "_files" : " ";
  const std::string choices = joined(option.choices);
  if (option.type == ValueType::kChoice) action = "(" + choices + ")";
  if (option.type == ValueType::kList && !choices.empty()) action = "_sequence compadd - " + choices;
  const char* again = option.type == ValueType::kTexts ? "*" : "";
  return shell_quoted(fmt::format("{}--{}=[{}]:{}:{}", again, option.name, help, zsh_escaped(option.name), action));
}

std::string zsh_arguments(const Program& program, const CommandSpec& spec) {
  std::string out = "_arguments";
  for (const OptionSpec& option : options_with_help(spec)) out += " \\\n        " + zsh_option(option);
  const Operands operands = operands_of(program, spec);
  if (operands.files) out += " \\\n        '*:file:_files'";
  if (!operands.words.empty()) {
    out += " \\\n        " + shell_quoted(fmt::format("1:word:({})", fmt::join(operands.words, " ")));
  }
  return out;
}

std::string zsh_described(const std::string& name, const std::string& summary) {
  return fmt::format("    {}\n", shell_quoted(replaced(name, ":", "\\:") + ":" + summary));
}

std::string zsh_body(const Program& program) {
  if (program.single) return "  " + zsh_arguments(program, program.commands.front().spec) + "\n";
  std::string out = "  local -a commands\n  commands=(\n";
  for (const CommandSpec& spec : own_specs(program)) out += zsh_described(spec.name, spec.summary);
  for (const auto& [name, summary] : program.external) out += zsh_described(name, summary);
  out +=
      "  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    if [[ $words[2] == -* ]]; then compadd -- --help --version\n"
      "    else _describe command commands; fi\n"
      "    return\n"
      "  fi\n"
      "  shift words\n"
      "  (( CURRENT-- ))\n"
      "  case $words[1] in\n";
  for (const auto& [name, summary] : program.external) {  // as if the other executable had been called by name
    const auto [other, words] = other_program(program, name);
    out += words == 2 ? fmt::format("    {}) words[1]={}; _normal ;;\n", shell_quoted(name), shell_quoted(other))
                      : fmt::format("    {}) words=({} $words); (( CURRENT++ )); _normal ;;\n", shell_quoted(name),
                                    shell_quoted(other));
  }
  for (const CommandSpec& spec : own_specs(program)) {
    out += fmt::format("    {})\n      {} ;;\n", shell_quoted(spec.name), zsh_arguments(program, spec));
  }
  return out + "    *) _files ;;\n  esac\n";
}

std::string zsh_script(const Program& program) {
  return fmt::format(
      "#compdef {0}\n"
      "# zsh completion of {0}; try it with: source <({0} completion zsh)\n"
      "{1}() {{\n"
      "{2}"
      "}}\n"
      "# As an autoloaded file this text is the function; sourced, it registers the function.\n"
      "if [[ $funcstack[1] == {1} ]]; then {1} \"$@\"; else compdef {1} {0}; fi\n",
      program.name, function_name(program), zsh_body(program));
}

std::string fish_option(const std::string& start, const OptionSpec& option) {
  std::string line = fmt::format("{} -l {}", start, option.name);
  if (option.type != ValueType::kFlag) line += is_free_text(option) ? " -r -F" : " -x";
  const std::string choices = joined(option.choices);
  if (option.type == ValueType::kList && !choices.empty()) {
    line += fmt::format(" -a {}", fish_quoted(fmt::format("(__fish_append , {})", choices)));
  } else if (!choices.empty()) {
    line += fmt::format(" -a {}", fish_quoted(choices));
  }
  return line + fmt::format(" -d {}\n", fish_quoted(option_help(option)));
}

std::string fish_command(const Program& program, const CommandSpec& spec) {
  std::string start = "complete -c " + program.name;
  if (!program.single) start += " -n " + fish_quoted("__fish_seen_subcommand_from " + spec.name);
  std::string out;
  for (const OptionSpec& option : options_with_help(spec)) out += fish_option(start, option);
  const Operands operands = operands_of(program, spec);
  if (!operands.files) out += start + " -f\n";
  if (!operands.words.empty()) out += fmt::format("{} -a {}\n", start, fish_quoted(joined(operands.words)));
  return out;
}

std::string fish_script(const Program& program) {
  std::string out = fmt::format("# fish completion of {0}; try it with: {0} completion fish | source\n", program.name);
  const std::string at_command = fmt::format("complete -c {} -n __fish_use_subcommand -f", program.name);
  const auto offer = [&](const std::string& name, const std::string& summary) {
    out += fmt::format("{} -a {} -d {}\n", at_command, name, fish_quoted(summary));
  };
  if (!program.single) {
    for (const CommandSpec& spec : own_specs(program)) offer(spec.name, spec.summary);
    for (const auto& [name, summary] : program.external) offer(name, summary);
    out += at_command + " -l help -d 'Print the overview.'\n" + at_command + " -l version -d 'Print the version.'\n";
  }
  for (const CommandSpec& spec : own_specs(program)) out += fish_command(program, spec);
  return out;
}

}  // namespace

std::string completion_script(const Program& program, const std::string& shell) {
  if (shell == "bash") return bash_script(program);
  if (shell == "zsh") return zsh_script(program);
  SCALAI_CHECK(shell == "fish", shell);
  return fish_script(program);
}

}  // namespace scalai
