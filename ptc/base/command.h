#pragma once
// The command line. One CommandSpec per command feeds parsing, `--help`, shell completion and the man page. A Program
// is a set of commands under one name (git style: `scalai validate FILE`). Boost.Program_options splits the words. This
// layer refuses more than Boost does: abbreviated options, a sign on a count, unknown options (with a suggestion by
// edit distance), missing values, values given twice. Usage errors go to stderr with exit code 2. For the main thread.

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai {

// kList: texts separated by commas. kTexts: any text, and the option may be repeated.
enum class ValueType { kFlag, kText, kCount, kBytes, kSeconds, kChoice, kList, kTexts };

struct OptionSpec {
  std::string name;  // long name without dashes
  ValueType type = ValueType::kText;
  std::string value_name;                     // shown as --name=VALUE
  std::string help;                           // one sentence, with the unit if there is one
  std::string default_value;                  // shown in --help; applies when the option is absent ("" = none)
  std::vector<std::string> choices;           // accepted values of kChoice; also of each kList item, unless empty
  std::vector<std::string> suggestions = {};  // values that a shell offers; others are good as well
  std::vector<std::string> former = {};       // earlier names: accepted with a note, shown nowhere
  char short_name = 0;                        // 'h': -h is --help
  std::string program = {};                   // as CommandSpec::program, for calls that have this option
};

// One option a function; an empty value name is shown as its type's own.
OptionSpec flag_option(std::string name, std::string help);
OptionSpec text_option(std::string name, std::string value_name, std::string help, std::string default_value = "");
OptionSpec texts_option(std::string name, std::string value_name, std::string help);
OptionSpec count_option(std::string name, std::string value_name, std::string help, std::string default_value = "");
OptionSpec bytes_option(std::string name, std::string value_name, std::string help, std::string default_value = "");
OptionSpec seconds_option(std::string name, std::string value_name, std::string help, std::string default_value = "");
OptionSpec choice_option(std::string name, std::string value_name, std::string help, std::vector<std::string> choices,
                         std::string default_value = "");
OptionSpec list_option(std::string name, std::string value_name, std::string help,
                       std::vector<std::string> choices = {}, std::string default_value = "");
OptionSpec suggesting(OptionSpec option, std::vector<std::string> values);
OptionSpec formerly(OptionSpec option, std::vector<std::string> names);
OptionSpec answered_by(std::string program, OptionSpec option);
// --format of a command that prints a result.
OptionSpec format_option(std::vector<std::string> choices = {"table", "json", "csv"});
std::vector<OptionSpec> joined(std::initializer_list<std::vector<OptionSpec>> parts);

// A first argument that says what to do.
struct Verb {
  std::string name, help;
};

class Arguments;

struct CommandSpec {
  std::string name;         // one word, or two: "accuracy model"
  std::string summary;      // one line in `scalai --help`
  std::string usage;        // e.g. "scalai validate FILE…"
  std::string description;  // paragraphs of --help
  std::vector<OptionSpec> options;
  std::vector<std::string> examples;
  int min_arguments = 0;  // positional arguments
  int max_arguments = 0;  // -1 = any number
  std::vector<Verb> verbs = {};
  // Arguments that a shell offers. Endings: of files, ".json"; without them all files are offered, if the command takes
  // arguments and has no `operands`.
  std::vector<std::string> operands = {};
  std::vector<std::string> endings = {};
  // The program of the family that answers, "scalai-near": this process becomes it, unless it is that program. "": this
  // one. So a lab registers itself: its program has the same command, with all that this one leaves out.
  std::string program = {};
  // The same where the call decides. A program of one command, "scalai-sim", gets the words without the command's name.
  std::function<std::string(const Arguments&)> program_of = {};
};

// --wide, --color, --quiet, --verbose and --help, which every command has (screen.h).
std::vector<OptionSpec> common_options();

// The options and arguments of one call, validated against the spec. CHECK: the spec has the option, and a number has a
// value or a default; ask has() first.
class Arguments {
 public:
  bool flag(const std::string& name) const;
  bool has(const std::string& name) const;          // given, or with a default
  std::string text(const std::string& name) const;  // also kChoice; "" if absent
  int64_t count(const std::string& name) const;
  int64_t bytes(const std::string& name) const;
  double seconds(const std::string& name) const;
  std::vector<std::string> list(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;  // kTexts, in the order on the command line
  // Notes on former names of options in this call.
  const std::vector<std::string>& notes() const { return notes_; }
  // The reference lives as long as this object.
  const std::vector<std::string>& positional() const { return positional_; }

 private:
  friend absl::StatusOr<Arguments> parse_arguments(const CommandSpec&, const std::vector<std::string>&);
  std::map<std::string, std::string> values_;  // validated texts
  std::map<std::string, std::vector<std::string>> texts_;
  std::vector<std::string> positional_, notes_;
};

// Parses `words`, which exclude the program and command names. "--" ends the options; "-" is a positional argument.
// -h, -q and -v are --help, --quiet and --verbose. Errors (InvalidArgument) are usage errors for the user.
absl::StatusOr<Arguments> parse_arguments(const CommandSpec& spec, const std::vector<std::string>& words);

// The page that defines the terms of tables and messages; in /usr/share/doc/scalai where Scalai is a package.
inline constexpr const char* kGlossary = "docs/glossary.md";

// The text of `--help`: usage, description, options with defaults and units, examples, and the exit codes of DESIGN
// section 9.
std::string help_text(const CommandSpec& spec);

struct Command {
  CommandSpec spec;
  std::function<int(const Arguments&)> run;  // returns the exit code
};

struct Part;

struct Program {
  std::string name;  // "scalai"
  std::string summary;
  std::vector<Command> commands;
  // Commands of other executables of the family, listed in the overview: name → summary. `scalai sim …` replaces this
  // process by `scalai-sim …`, found beside this executable or on PATH. Exit code 4 with a hint if it is in neither
  // place.
  std::map<std::string, std::string> external;
  // Programs inside this one: `scalai data …` is scalai-data, whose file may be a link to this one.
  std::vector<std::shared_ptr<const Part>> parts = {};
  // The external commands that belong to a program with several commands: name → program. {"doctor", "exec"}: `scalai
  // doctor` runs `scalai-exec doctor`.
  std::map<std::string, std::string> external_of = {};
  // Earlier names of commands → the words that replace them, as in {"reshard", {"checkpoint", "reshard"}}. They work,
  // with a note on stderr, and are listed nowhere.
  std::map<std::string, std::vector<std::string>> former = {};
  // True: the executable is a single command (scalai-sim), and its first word is already an argument. CHECK in
  // run_program: `commands` has one entry.
  bool single = false;
  // What people type before a command of this program, for messages; "" = the name with a blank for its first "-"
  // ("scalai fs" for scalai-fs).
  std::string typed = {};
};

struct Part {
  std::string summary;  // its line in the overview
  // Named after its word, "scalai-data". Its commands follow the word, or begin with it: "checkpoint reshard".
  Program program;
};

// Runs the program, or a part by whose name it was called, and returns the exit code. Handles --help, --version, `help
// COMMAND`, `completion bash|zsh|fish`, `man [COMMAND]` (roff on stdout) and unknown commands (with a suggestion).
// `complete WORDS…` prints what a shell offers for the last word; the scripts of `completion` call it. Exit code 5:
// stdout could not be written. Restores the default SIGPIPE handling, so that a closed pipe ends the process. In a
// single program a file named help, completion or man is given as ./help.
int run_program(const Program& program, int argc, char** argv);

// Prints `scalai sim: error: …` (the command as it was typed) to stderr unless the status is OK, or the message as it
// is if it ends in a newline: problems with their places (ptc/base/diagnostics.h). Returns the exit code of DESIGN
// section 9.
int report_error(const absl::Status& status);

}  // namespace scalai
