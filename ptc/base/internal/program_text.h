#pragma once
// The texts a Program writes about itself: overview, completion scripts and man pages. All come from its CommandSpecs.

#include <string>
#include <string_view>
#include <vector>

#include "ptc/base/command.h"

namespace scalai {

// --- help.cpp: pieces that help, completion and man pages share ---------------------------------------------------

// "--format=FORMAT", or "--quiet" for a flag.
std::string option_form(const OptionSpec& option);
std::string option_help(const OptionSpec& option);
// The command's options and --help, which every command has.
std::vector<OptionSpec> options_with_help(const CommandSpec& spec);
// "scalai validate"; "scalai-sim" for a program that is one command.
std::string full_name(const Program& program, const CommandSpec& spec);

struct ExitCode {
  int code;
  std::string_view meaning;
};
const std::vector<ExitCode>& exit_codes();

std::string overview_text(const Program& program);

// --- completion.cpp -----------------------------------------------------------------------------------------------

// A script that teaches `shell` (bash, zsh or fish) the program's commands, options, choices and file arguments.
// Arguments of external commands complete as file names.
std::string completion_script(const Program& program, const std::string& shell);

// --- man_page.cpp -------------------------------------------------------------------------------------------------

// Manual pages in roff, section 1: the program as a whole, and one command.
std::string program_man_page(const Program& program);
std::string command_man_page(const Program& program, const CommandSpec& spec);

// --- program.cpp --------------------------------------------------------------------------------------------------

// `help`, `completion` and `man`, which every program has.
std::vector<CommandSpec> builtin_specs(const Program& program);

}  // namespace scalai
