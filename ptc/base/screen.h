#pragma once
// What standard output can show: how wide it is, whether colour reaches a person, and how much the user wants to read.
// The options --wide, --color, --quiet and --verbose, which every command has, become variables of the environment (in
// run_program), so the programs that a command starts, or turns into, follow them too. Any thread may read.

#include <cstddef>
#include <string>
#include <string_view>

namespace scalai {

struct Screen {
  size_t columns = 0;  // a table is fitted into so many; 0 = as wide as it is
  bool colour = false;
};

// Columns: no limit under SCALAI_WIDE; else COLUMNS, else the terminal's width, else 80 (a file or a pipe).
// Colour: CLICOLOR_FORCE gives it, NO_COLOR takes it; else a terminal has it, unless TERM is "dumb".
// A variable that is empty counts as absent, CLICOLOR_FORCE=0 as well.
Screen stdout_screen();

// SCALAI_QUIET: no progress, no legends, no next steps. Results, warnings and errors stay.
bool quiet();
// SCALAI_VERBOSE: each program says at its end how long it took, and its peak memory.
bool verbose();

// `text` in one of the terminal's styles; unchanged where the screen has no colour.
enum class Style { kBold, kDim };
std::string styled(const Screen& screen, Style style, const std::string& text);
// A result as a terminal may get it: escaped (utf8.h), but for sequences of styled(). Files and pipes get it as it is.
std::string for_terminal(std::string_view text);

}  // namespace scalai
