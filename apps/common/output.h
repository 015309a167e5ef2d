#pragma once
// Results go to standard output here: a full disk is noticed at the end of run_program (fmt::print would throw).

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "ptc/base/command.h"
#include "ptc/base/say.h"

namespace scalai::apps {

inline void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print(fmt::format(format, std::forward<Args>(args)...));
}

// Under a table that a person reads: the page that defines its terms. Nothing when the table goes to a file or a pipe.
inline void note_terms() {
  std::fflush(stdout);
  if (::isatty(STDOUT_FILENO) != 0) say("terms: {}\n", kGlossary);
}

// Under the table of a run with a report: how to look at its trace.
inline void note_trace(const std::string& folder) {
  std::fflush(stdout);
  if (!folder.empty() && ::isatty(STDOUT_FILENO) != 0)
    say("trace: open https://ui.perfetto.dev and drag {}/trace.pftrace onto it; the file stays in your browser\n",
        folder);
}

// What a command line asks for that cannot be; the exit code.
inline int usage_error(std::string_view command, std::string_view message) {
  say("scalai {0}: error: {1}\nTry 'scalai {0} --help'.\n", command, message);
  return 2;
}

// Exit codes of DESIGN section 9 that commands give themselves.
inline constexpr int kExpectationFailed = 1, kInvalidExit = 3;

inline constexpr std::string_view kNoStandardInput = "standard input is not read here; give a file";

}  // namespace scalai::apps
