#pragma once
// Results go to standard output here: a full disk is noticed at the end of run_program (fmt::print would throw).

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace scalai::apps {

inline void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print(fmt::format(format, std::forward<Args>(args)...));
}

// What a command line asks for that cannot be; the exit code.
inline int usage_error(std::string_view command, std::string_view message) {
  fmt::print(stderr, "scalai {0}: error: {1}\nTry 'scalai {0} --help'.\n", command, message);
  return 2;
}

// Exit codes of DESIGN section 9 that commands give themselves.
inline constexpr int kExpectationFailed = 1, kInvalidExit = 3;

inline constexpr std::string_view kNoStandardInput = "standard input is not read here; give a file";

}  // namespace scalai::apps
