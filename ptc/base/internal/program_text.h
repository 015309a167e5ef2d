#pragma once
// The texts a Program writes about itself: overview, completion scripts and man pages. All come from its CommandSpecs.

#include <string>
#include <string_view>
#include <vector>

#include "ptc/base/command.h"

namespace scalai {

// --- help.cpp: pieces that help, completion and man pages share ---------------------------------------------------

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator);  // views of `text`
std::vector<std::string> words_of(std::string_view text);  // parted by blanks and line ends

// "--format=FORMAT", or "--quiet" for a flag.
std::string option_form(const OptionSpec& option);
std::string option_help(const OptionSpec& option);
// "scalai validate"; "scalai-sim" for a program that is one command.
std::string full_name(const Program& program, const CommandSpec& spec);
// The same as people type it, for messages: "scalai sim" of scalai-sim.
std::string typed_name(const Program& program);
std::string typed_name(const Program& program, const CommandSpec& spec);

std::string word_of(const Part& part);  // "data" of scalai-data

struct ExitCode {
  int code;
  std::string_view meaning;
};
const std::vector<ExitCode>& exit_codes();

std::string overview_text(const Program& program);

// --- completion.cpp -----------------------------------------------------------------------------------------------

// A script that teaches `shell` (bash, zsh or fish) to ask the program itself, by `complete WORDS…`.
std::string completion_script(const Program& program, const std::string& shell);

// The answers, one a line: a word, with "\t" and its explanation if it has one; ":files ENDINGS" (files that end so,
// and folders; no ending: all files); ":folders". A word that ends in "=" is not whole yet. Of the program's first
// word, and of the last of `words` that follow a command's name. CHECK: `words` is not empty.
std::vector<std::string> offers_for_commands(const Program& program, const std::string& current);
std::vector<std::string> offers_for_command(const Program& program, const CommandSpec& spec,
                                            const std::vector<std::string>& words);

// --- man_page.cpp -------------------------------------------------------------------------------------------------

// Manual pages in roff, section 1: the program as a whole, and one command.
std::string program_man_page(const Program& program);
std::string command_man_page(const Program& program, const CommandSpec& spec);

// --- program.cpp --------------------------------------------------------------------------------------------------

// `help`, `completion` and `man`, which every program has.
std::vector<CommandSpec> builtin_specs(const Program& program);

// --- process.cpp --------------------------------------------------------------------------------------------------

// What to do about a program that is not there. Builds may leave out those of labs/.
std::string missing_program_hint(const std::string& program);

}  // namespace scalai
