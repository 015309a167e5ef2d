#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>

#include "ptc/base/command.h"
#include "ptc/base/diagnostics.h"
#include "ptc/base/internal/program_text.h"
#include "ptc/base/process.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/base/version.h"

namespace scalai {
namespace {

constexpr int kUsageError = 2;
constexpr int kFailed = 5;

using Words = std::vector<std::string>;

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

int usage_error(const std::string& who, const std::string& message) {
  std::fputs(fmt::format("{}: error: {}\nTry '{} --help'.\n", who, message, who).c_str(), stderr);
  return kUsageError;
}

const Command* find_command(const Program& program, const std::string& name) {
  for (const Command& command : program.commands) {
    if (command.spec.name == name) return &command;
  }
  return nullptr;
}

std::optional<CommandSpec> find_builtin(const Program& program, const std::string& name) {
  for (const CommandSpec& spec : builtin_specs(program)) {
    if (spec.name == name) return spec;
  }
  return std::nullopt;
}

std::optional<CommandSpec> find_spec(const Program& program, const std::string& name) {
  if (const Command* command = find_command(program, name)) return command->spec;
  return find_builtin(program, name);
}

int unknown_command(const Program& program, const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : program.commands) names.push_back(command.spec.name);
  for (const auto& [name, summary] : program.external) names.push_back(name);
  for (const CommandSpec& spec : builtin_specs(program)) names.push_back(spec.name);
  const std::string nearest = closest(word, names);
  return usage_error(program.name, fmt::format("unknown command \"{}\"{}", clipped(word, 41),
                                               nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
}

int unknown_program_option(const Program& program, const std::string& word) {
  const std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  const std::string nearest = word == "-h" ? "help" : closest(name, {"help", "version"});
  return usage_error(program.name, fmt::format("unknown option {}{}", clipped(word, 41),
                                               nearest.empty() ? "" : fmt::format("; did you mean --{}?", nearest)));
}

// Replaces this process by `<program>-<command> words…`, or `<program>-<its program> <command> words…`; returns only when
// that is impossible.
int exec_external(const Program& program, const std::string& command, Words words) {
  const auto found = program.external_of.find(command);
  const bool one_of_several = found != program.external_of.end();
  const std::string file = fmt::format("{}-{}", program.name, one_of_several ? found->second : command);
  if (one_of_several) {
    const bool man_page = words == Words{"man"};
    words.insert(man_page ? words.end() : words.begin(), command);
  }
  const absl::Status status = become(file, words);
  std::fputs(fmt::format("{}: error: {}\n", program.name, message_of(status)).c_str(), stderr);
  return exit_code_of(status);
}

int run_help(const Program& program, const Words& topic) {
  if (topic.empty()) {
    print(program.single ? help_text(program.commands.front().spec) : overview_text(program));
    return 0;
  }
  if (program.external.contains(topic[0])) return exec_external(program, topic[0], {"--help"});
  const std::optional<CommandSpec> spec = find_spec(program, topic[0]);
  if (!spec) return unknown_command(program, topic[0]);
  print(help_text(*spec));
  return 0;
}

int run_man(const Program& program, const Words& topic) {
  if (topic.empty()) {
    print(program.single ? command_man_page(program, program.commands.front().spec) : program_man_page(program));
    return 0;
  }
  if (program.external.contains(topic[0])) return exec_external(program, topic[0], {"man"});
  const std::optional<CommandSpec> spec = find_spec(program, topic[0]);
  if (!spec) return unknown_command(program, topic[0]);
  print(command_man_page(program, *spec));
  return 0;
}

int run_completion(const Program& program, const Words& shell) {
  const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  if (std::find(shells.begin(), shells.end(), shell[0]) == shells.end()) {
    return usage_error(program.name + " completion",
                       fmt::format("unknown shell \"{}\" (bash, zsh or fish)", clipped(shell[0], 41)));
  }
  print(completion_script(program, shell[0]));
  return 0;
}

int run_builtin(const Program& program, const std::string& name, const Words& arguments) {
  if (name == "help") return run_help(program, arguments);
  if (name == "man") return run_man(program, arguments);
  return run_completion(program, arguments);
}

bool asks_for_help(const Words& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::any_of(words.begin(), end,
                     [](const std::string& word) { return word == "--help" || word.starts_with("--help="); });
}

int run_command(const Program& program, const CommandSpec& spec, const Words& words) {
  if (asks_for_help(words)) {
    print(help_text(spec));
    return 0;
  }
  const absl::StatusOr<Arguments> arguments = parse_arguments(spec, words);
  if (!arguments.ok()) return usage_error(full_name(program, spec), message_of(arguments.status()));
  if (const Command* command = find_command(program, spec.name)) return command->run(*arguments);
  return run_builtin(program, spec.name, arguments->positional());
}

int dispatch(const Program& program, const Words& words) {
  const std::string first = words.empty() ? "" : words[0];
  if (first == "--version") {
    print(fmt::format("{} {}\n", program.name, kVersion));
    return 0;
  }
  const bool is_command = program.single && !find_builtin(program, first);
  if (is_command) return run_command(program, program.commands.front().spec, words);
  if (words.empty()) return usage_error(program.name, "a command is missing");
  const Words rest(words.begin() + 1, words.end());
  if (program.external.contains(first)) return exec_external(program, first, rest);
  if (const auto spec = find_spec(program, first)) return run_command(program, *spec, rest);
  if (asks_for_help(words)) return run_help(program, {});
  if (first.starts_with('-')) return unknown_program_option(program, first);
  return unknown_command(program, first);
}

// A result that did not reach its file is a failure even if the command thought it was done.
int checked_output(const Program& program, int code) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || code >= kUsageError) return code;
  const std::string why = errno == 0 ? "" : fmt::format(": {}", std::strerror(errno));
  std::fputs(fmt::format("{}: error: cannot write the output{}\n", program.name, why).c_str(), stderr);
  return kFailed;
}

}  // namespace

std::vector<CommandSpec> builtin_specs(const Program& program) {
  const std::string& name = program.name;
  CommandSpec help;
  help.name = "help";
  help.summary = "Explain a command.";
  help.usage = name + " help [COMMAND]";
  help.description = "Prints what a command does, its options and its exit codes.";
  help.max_arguments = 1;

  CommandSpec completion;
  completion.name = "completion";
  completion.summary = "Print a completion script for a shell.";
  completion.usage = name + " completion bash|zsh|fish";
  completion.description = "Prints a script that teaches the shell commands, options, their values and file arguments.";
  completion.examples = {fmt::format("source <({} completion bash)", name),
                         fmt::format("{0} completion fish > ~/.config/fish/completions/{0}.fish", name)};
  completion.min_arguments = 1;
  completion.max_arguments = 1;

  CommandSpec man;
  man.name = "man";
  man.summary = "Print a manual page.";
  man.usage = name + " man [COMMAND]";
  man.description = "Prints a manual page as roff.";
  man.examples = {name + " man | man -l -"};
  man.max_arguments = 1;
  return {help, completion, man};
}

int run_program(const Program& program, int argc, char** argv) {
  SCALAI_CHECK(!program.single || program.commands.size() == 1, "a single program has one command");
  std::signal(SIGPIPE, SIG_DFL);  // a parent may have left it ignored; `… | head` must end us quietly
  return checked_output(program, dispatch(program, Words(argv + std::min(argc, 1), argv + argc)));
}

int report_error(const absl::Status& status) {
  if (!status.ok()) std::fputs(fmt::format("scalai: error: {}\n", message_of(status)).c_str(), stderr);
  return exit_code_of(status);
}

}  // namespace scalai
