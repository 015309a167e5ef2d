#pragma once
// Results go to standard output here: a full disk is noticed at the end of run_program (fmt::print would throw).

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "ptc/base/command.h"
#include "ptc/base/say.h"
#include "ptc/base/screen.h"
#include "ptc/base/utf8.h"

namespace scalai::apps {

inline void print(const std::string& text) {
  const std::string shown = ::isatty(STDOUT_FILENO) == 0 ? text : for_terminal(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
}

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print(fmt::format(format, std::forward<Args>(args)...));
}

// Under a table that a person reads: its words, the next step, and the page that defines terms. Nothing when the table
// goes to a file or a pipe, or under --quiet.
inline void note_terms(const std::string& legend = "", const std::string& next = "", const std::string& trace = "") {
  std::fflush(stdout);
  if (::isatty(STDOUT_FILENO) == 0 || quiet()) return;
  std::string text;
  for (const std::string& paragraph :
       {legend, next.empty() ? "" : "next: " + next, trace, fmt::format("terms: {}", kGlossary)}) {
    if (paragraph.empty()) continue;
    for (const std::string& line : wrapped(paragraph, stdout_screen().columns))
      text += styled(stdout_screen(), Style::kDim, line) + "\n";
  }
  std::fwrite(text.data(), 1, text.size(), stderr);  // with its style
}

// File names that shells offer for a scenario, and for a report's folder.
inline const std::vector<std::string> kScenarioEndings = {".textproto", ".json"};
inline const std::vector<std::string> kFolderEndings = {"/"};

// For note_terms(): how to look at the trace of a report; "" without a report.
inline std::string trace_hint(const std::string& folder) {
  if (folder.empty()) return "";
  return fmt::format(
      "trace: open https://ui.perfetto.dev and drag {}/trace.pftrace onto it; the file stays in your browser", folder);
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
