#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>

#include "ptc/base/command.h"
#include "ptc/base/diagnostics.h"
#include "ptc/base/internal/program_text.h"
#include "ptc/base/process.h"
#include "ptc/base/say.h"
#include "ptc/base/screen.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/base/version.h"

namespace scalai {
namespace {

constexpr int kUsageError = 2;
constexpr int kFailed = 5;
constexpr const char* kComplete = "complete";
constexpr const char* kHandedOver = "SCALAI_HANDED_OVER";    // by the program that this process was
constexpr const char* kCommandName = "SCALAI_COMMAND_NAME";  // of this process, for report_error()

using Words = std::vector<std::string>;

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

int usage_error(const std::string& who, const std::string& message) {
  say("{}: error: {}\nTry '{} --help'.\n", who, message, who);
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

// The part that `word` names: "data" of scalai-data.
const Program* find_part(const Program& program, const std::string& word) {
  const auto found = std::find_if(program.parts.begin(), program.parts.end(),
                                  [&](const auto& part) { return word_of(*part) == word; });
  return found == program.parts.end() ? nullptr : &(*found)->program;
}

// What a part is asked: without its word, unless its commands begin with it. `words` begin with the part's word.
Words asked(const Program& part, const Words& words) {
  const auto begins = [&](const Command& command) { return words_of(command.spec.name).front() == words[0]; };
  const bool keep = std::any_of(part.commands.begin(), part.commands.end(), begins);
  return {words.begin() + (keep ? 0 : 1), words.end()};
}

int unknown_command(const Program& program, const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : program.commands) names.push_back(command.spec.name);
  for (const auto& part : program.parts) names.push_back(word_of(*part));
  for (const auto& [name, summary] : program.external) names.push_back(name);
  for (const CommandSpec& spec : builtin_specs(program)) names.push_back(spec.name);
  const std::string nearest = closest(word, names);
  return usage_error(typed_name(program),
                     fmt::format("unknown command \"{}\"{}", clipped(word, 41),
                                 nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
}

int unknown_program_option(const Program& program, const std::string& word) {
  const std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  const std::string nearest = closest(name, {"help", "version"});
  return usage_error(typed_name(program),
                     fmt::format("unknown option {}{}", clipped(word, 41),
                                 nearest.empty() ? "" : fmt::format("; did you mean --{}?", nearest)));
}

// Replaces this process by that program; returns only when that is impossible.
int exec_program(const std::string& who, const std::string& file, const Words& words, const std::string& why = "") {
  const absl::Status status = become(file, words);
  say("{}: error: {}{}\n", who, why, message_of(status));
  return exit_code_of(status);
}

// Replaces this process by `<program>-<command> [builtin] words…`, or `<program>-<its program> [builtin] <command>
// words…`; returns only when that is impossible.
int exec_external(const Program& program, const std::string& command, Words words, const std::string& builtin = "") {
  const auto found = program.external_of.find(command);
  const bool one_of_several = found != program.external_of.end();
  const std::string file = fmt::format("{}-{}", program.name, one_of_several ? found->second : command);
  if (one_of_several) words.insert(words.begin(), command);
  if (!builtin.empty()) words.insert(words.begin(), builtin);
  return exec_program(program.name, file, words);
}

int dispatch(const Program& program, const Words& given);

int run_help(const Program& program, Words topic) {
  if (topic.empty()) {
    print(program.single ? help_text(program.commands.front().spec) : overview_text(program));
    return 0;
  }
  if (const Program* const part = find_part(program, topic[0])) {
    topic.push_back("--help");
    return dispatch(*part, asked(*part, topic));
  }
  if (program.external.contains(topic[0])) {
    topic.push_back("--help");
    return exec_external(program, topic[0], {topic.begin() + 1, topic.end()});
  }
  const std::string name = fmt::format("{}", fmt::join(topic, " "));
  const std::optional<CommandSpec> spec = find_spec(program, name);
  if (!spec) return unknown_command(program, name);
  print(help_text(*spec));
  return 0;
}

int run_man(const Program& program, const Words& topic) {
  if (topic.empty()) {
    print(program.single ? command_man_page(program, program.commands.front().spec) : program_man_page(program));
    return 0;
  }
  if (program.external.contains(topic[0]))
    return exec_external(program, topic[0], {topic.begin() + 1, topic.end()}, "man");
  if (const Program* const part = find_part(program, topic[0])) return run_man(*part, asked(*part, topic));
  const std::string name = fmt::format("{}", fmt::join(topic, " "));
  const std::optional<CommandSpec> spec = find_spec(program, name);
  if (!spec) return unknown_command(program, name);
  print(command_man_page(program, *spec));
  return 0;
}

int run_completion(const Program& program, const Words& shell) {
  const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  if (std::find(shells.begin(), shells.end(), shell[0]) == shells.end()) {
    return usage_error(typed_name(program) + " completion",
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
  return std::any_of(words.begin(), end, [](const std::string& word) {
    return word == "-h" || word == "--help" || word.starts_with("--help=");
  });
}

bool asks_for_quiet(const Words& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return quiet() || std::any_of(words.begin(), end, [](const auto& word) { return word == "-q" || word == "--quiet"; });
}

// screen.h reads them, here and in every program that this one starts or becomes.
void set_variables(const Arguments& arguments) {
  const auto set = [](const char* name, const char* value) { ::setenv(name, value, 1); };
  if (arguments.flag("wide")) set("SCALAI_WIDE", "1");
  if (arguments.flag("quiet")) set("SCALAI_QUIET", "1");
  if (arguments.flag("verbose")) set("SCALAI_VERBOSE", "1");
  const std::string color = arguments.text("color");
  if (color == "always") set("CLICOLOR_FORCE", "1");
  if (color != "never") return;
  set("CLICOLOR_FORCE", "0");
  set("NO_COLOR", "1");
}

void say_effort(const std::string& name, double seconds) {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  say("{}: {}, {} of memory at most\n", name, format_seconds(seconds), format_bytes(usage.ru_maxrss * 1024));
}

// The other program that answers this call, with the option by which it does; "": this one answers.
std::pair<std::string, std::string> answering(const Program& program, const CommandSpec& spec, const Arguments& call) {
  const auto found = std::find_if(spec.options.begin(), spec.options.end(), [&](const OptionSpec& option) {
    return !option.program.empty() && call.has(option.name);
  });
  const bool by_option = found != spec.options.end();
  const std::string by_call = spec.program_of ? spec.program_of(call) : "";
  const std::string file = by_option ? found->program : by_call.empty() ? spec.program : by_call;
  if (file == program.name) return {};
  return {file, by_option ? fmt::format("--{}: ", found->name) : ""};
}

int run_command(const Program& program, const CommandSpec& spec, const Words& words) {
  if (asks_for_help(words)) {
    print(help_text(spec));
    return 0;
  }
  const std::string name = typed_name(program, spec);
  ::setenv(kCommandName, name.c_str(), 1);
  const char* const before = std::getenv(kHandedOver);
  const std::string handed_over = before == nullptr ? "" : before;
  ::unsetenv(kHandedOver);  // what this process starts is another call
  const auto started = std::chrono::steady_clock::now();
  const absl::StatusOr<Arguments> arguments = parse_arguments(spec, words);
  if (!arguments.ok()) return usage_error(name, message_of(arguments.status()));
  if (const auto [file, option] = answering(program, spec, *arguments); !file.empty()) {
    Words all(words_of(spec.name));
    if (file.ends_with("-" + spec.name)) all.clear();
    if (!handed_over.empty()) {
      say("{}: error: {} and {} hand this call to each other, so they are of different builds\nhint: install both "
          "from one\n",
          name, handed_over, program.name);
      return exit_code_of(missing(""));
    }
    ::setenv(kHandedOver, program.name.c_str(), 1);
    all.insert(all.end(), words.begin(), words.end());
    return exec_program(name, file, all, option);
  }
  set_variables(*arguments);
  for (const std::string& note : arguments->notes()) {
    if (!quiet()) say("{}: note: {}\n", name, note);
  }
  const Command* const command = find_command(program, spec.name);
  if (command == nullptr) return run_builtin(program, spec.name, arguments->positional());
  const int code = command->run(*arguments);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
  if (verbose()) say_effort(name, elapsed.count());
  return code;
}

// The command that `words` begin with, and how many of them name it: one or two.
std::pair<const Command*, size_t> leading_command(const Program& program, const Words& words) {
  if (words.size() > 1) {
    if (const Command* const found = find_command(program, words[0] + " " + words[1])) return {found, 2};
  }
  return {words.empty() ? nullptr : find_command(program, words[0]), 1};
}

// Words that begin with a former name, with the present one.
Words with_present_name(const Program& program, const Words& words) {
  const auto found = words.empty() ? program.former.end() : program.former.find(words[0]);
  if (found == program.former.end()) return words;
  Words present = found->second;
  present.insert(present.end(), words.begin() + 1, words.end());
  return present;
}

int run_complete(const Program& program, const Words& given) {
  Words words = with_present_name(program, given.empty() ? Words{""} : given);
  const auto answer = [](const Words& lines) {
    for (const std::string& line : lines) print(line + "\n");
    return 0;
  };
  if (program.single) return answer(offers_for_command(program, program.commands.front().spec, words));
  if (words.size() == 1) return answer(offers_for_commands(program, words[0]));
  if (const Program* const part = find_part(program, words[0])) return run_complete(*part, asked(*part, words));
  if (program.external.contains(words[0]))
    return exec_external(program, words[0], {words.begin() + 1, words.end()}, kComplete);
  const std::string current = words.back();
  words.pop_back();
  const auto [command, named] = leading_command(program, words);
  const std::optional<CommandSpec> spec = command != nullptr ? command->spec : find_builtin(program, words[0]);
  if (!spec) return 0;
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(named));
  words.push_back(current);
  return answer(offers_for_command(program, *spec, words));
}

int dispatch(const Program& program, const Words& given) {
  const Words words = with_present_name(program, given);
  const std::string first = words.empty() ? "" : words[0];
  if (first == "--version") {
    print(fmt::format("{} {}\n", program.name, kVersion));
    return 0;
  }
  if (first == kComplete) return run_complete(program, {words.begin() + 1, words.end()});
  const bool is_command = program.single && !find_builtin(program, first);
  if (is_command) return run_command(program, program.commands.front().spec, words);
  if (words.empty()) return usage_error(typed_name(program), "a command is missing");
  if (words != given && !asks_for_quiet(given)) {
    say("{0}: note: \"{0} {1}\" is now \"{0} {2}\"\n", program.name, given[0],
        fmt::join(program.former.at(given[0]), " "));
  }
  const Words rest(words.begin() + 1, words.end());
  if (program.external.contains(first)) return exec_external(program, first, rest);
  if (const Program* const part = find_part(program, first)) return dispatch(*part, asked(*part, words));
  if (const auto [command, named] = leading_command(program, words); command != nullptr)
    return run_command(program, command->spec, {words.begin() + static_cast<std::ptrdiff_t>(named), words.end()});
  if (const auto spec = find_builtin(program, first)) return run_command(program, *spec, rest);
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
  say("{}: error: cannot write the output{}\n", typed_name(program), why);
  return kFailed;
}

void say_out_of_memory() {  // without taking any
  const char* const name = std::getenv(kCommandName);
  for (const char* const part : {name == nullptr ? "scalai" : name,
                                 ": error: out of memory\nhint: it needs more than it may have (ulimit -v, the cgroup "
                                 "of the job, the machine)\n"})
    std::fputs(part, stderr);
}

// Memory also runs out in threads, and in functions that must not throw.
std::terminate_handler terminate_otherwise = nullptr;
[[noreturn]] void on_terminate() {
  const std::exception_ptr thrown = std::current_exception();
  if (thrown != nullptr) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      say_out_of_memory();
      std::_Exit(kFailed);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a bug, of which the other handler tells
    }
  }
  terminate_otherwise();
  std::abort();
}

}  // namespace

std::vector<CommandSpec> builtin_specs(const Program& program) {
  const std::string& name = program.name;
  CommandSpec help;
  help.name = "help";
  help.summary = "Explain a command.";
  help.usage = name + " help [COMMAND]";
  help.description = "Prints what a command does, its options and its exit codes.";
  help.max_arguments = 2;

  CommandSpec completion;
  completion.name = "completion";
  completion.summary = "Print a completion script for a shell.";
  completion.usage = name + " completion bash|zsh|fish";
  completion.description =
      "Prints a script by which the shell asks the program for its commands, options, their values and file arguments.";
  completion.examples = {fmt::format("source <({} completion bash)", name),
                         fmt::format("{0} completion fish > ~/.config/fish/completions/{0}.fish", name)};
  completion.operands = {"bash", "zsh", "fish"};
  completion.min_arguments = 1;
  completion.max_arguments = 1;

  CommandSpec man;
  man.name = "man";
  man.summary = "Print a manual page.";
  man.usage = name + " man [COMMAND]";
  man.description = "Prints a manual page as roff.";
  man.examples = {name + " man | man -l -"};
  man.max_arguments = 2;
  return {help, completion, man};
}

int run_program(const Program& program, int argc, char** argv) {
  SCALAI_CHECK(!program.single || program.commands.size() == 1, "a single program has one command");
  std::signal(SIGPIPE, SIG_DFL);  // a parent may have left it ignored; `… | head` must end us quietly
  terminate_otherwise = std::set_terminate(on_terminate);
  try {
    const std::string_view called = argc > 0 ? argv[0] : "";
    const auto linked = std::find_if(program.parts.begin(), program.parts.end(), [&](const auto& part) {
      return called.substr(called.rfind('/') + 1) == part->program.name;
    });
    const Program& asked = linked == program.parts.end() ? program : (*linked)->program;
    return checked_output(asked, dispatch(asked, Words(argv + std::min(argc, 1), argv + argc)));
  } catch (const std::bad_alloc&) {  // what was taken is given back by now, and temporary files are gone
    say_out_of_memory();
    return kFailed;
  }
}

int report_error(const absl::Status& status) {
  if (status.ok()) return 0;
  const std::string message = message_of(status);
  const char* const name = std::getenv(kCommandName);
  // Problems of a file have its name and place already.
  const std::string who = message.ends_with('\n') ? "" : fmt::format("{}: error: ", name == nullptr ? "scalai" : name);
  say("{}{}{}", who, message, message.ends_with('\n') ? "" : "\n");
  return exit_code_of(status);
}

}  // namespace scalai
