#pragma once
// The command line. One CommandSpec a command feeds parsing, `--help`, shell completion and the man page; a Program is
// a set of them under one name (git style: `scalai validate FILE`). Boost.Program_options does the splitting behind
// this layer. What it would let pass, we refuse: abbreviated options, a sign on a count, an unknown option (with a
// suggestion by edit distance), a value missing or given twice. Usage errors go to stderr and exit with 2.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai {

// kList: comma separated texts; kTexts: any text, given as often as one likes.
enum class ValueType { kFlag, kText, kCount, kBytes, kSeconds, kChoice, kList, kTexts };

struct OptionSpec {
  std::string name;  // long name without dashes
  ValueType type = ValueType::kText;
  std::string value_name;            // shown as --name=VALUE
  std::string help;                  // one sentence, with unit where there is one
  std::string default_value;         // shown in --help and used when the option is absent ("" = none)
  std::vector<std::string> choices;  // kChoice: what is accepted (also checked for each kList item when not empty)
};

struct CommandSpec {
  std::string name;
  std::string summary;      // one line in `scalai --help`
  std::string usage;        // e.g. "scalai validate FILE…"
  std::string description;  // paragraphs of --help
  std::vector<OptionSpec> options;
  std::vector<std::string> examples;
  int min_arguments = 0;  // positional ones
  int max_arguments = 0;  // -1 = any number
};

// What the user gave, validated against the spec. Asking for an option that the spec lacks is a bug (CHECK), and so is
// asking for the number of an absent one without default: ask has() first.
class Arguments {
 public:
  bool flag(const std::string& name) const;
  bool has(const std::string& name) const;          // given, or has a default
  std::string text(const std::string& name) const;  // also kChoice; "" when absent
  int64_t count(const std::string& name) const;
  int64_t bytes(const std::string& name) const;
  double seconds(const std::string& name) const;
  std::vector<std::string> list(const std::string& name) const;
  std::vector<std::string> texts(const std::string& name) const;  // kTexts, in the order given
  const std::vector<std::string>& positional() const { return positional_; }

 private:
  friend absl::StatusOr<Arguments> parse_arguments(const CommandSpec&, const std::vector<std::string>&);
  std::map<std::string, std::string> values_;  // validated texts
  std::map<std::string, std::vector<std::string>> texts_;
  std::vector<std::string> positional_;
};

// `words` without program and command name. "--" ends options; "-" is a positional argument.
absl::StatusOr<Arguments> parse_arguments(const CommandSpec& spec, const std::vector<std::string>& words);

// The text of `--help`: usage, description, options with defaults and units, examples, exit codes of DESIGN section 9.
std::string help_text(const CommandSpec& spec);

struct Command {
  CommandSpec spec;
  std::function<int(const Arguments&)> run;  // returns the exit code
};

struct Program {
  std::string name;  // "scalai"
  std::string summary;
  std::vector<Command> commands;
  // Commands of other executables of the family, shown in the overview: name → summary. `scalai sim …` runs
  // `scalai-sim …` found beside this executable or on PATH (exec; exit 4 with a hint when it is not there).
  std::map<std::string, std::string> external;
  // Of these, the ones that are a command of a program with several: name → program. {"doctor", "exec"}: `scalai doctor`
  // runs `scalai-exec doctor`.
  std::map<std::string, std::string> external_of = {};
  // True for executables that are one command themselves (scalai-sim): words are options at once.
  bool single = false;
};

// Runs the program: --help, --version, `help COMMAND`, `completion bash|zsh|fish`, `man [COMMAND]` (roff on stdout),
// unknown commands with a suggestion. Returns the exit code; 5 when stdout could not be written. A reader that closes
// the pipe ends the process (SIGPIPE). In a single program a file named help, completion or man is given as ./help.
int run_program(const Program& program, int argc, char** argv);

// Prints `scalai: error: …` to stderr and returns the exit code of DESIGN section 9.
int report_error(const absl::Status& status);

}  // namespace scalai
