#pragma once
// Results go to standard output here: a full disk is noticed at the end of run_program (fmt::print would throw).

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace scalai::apps {

inline void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  print(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace scalai::apps
