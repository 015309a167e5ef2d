#pragma once
// Messages for people, on stderr. One that cannot be written (a full disk, a closed pipe) is lost, and whoever says it
// goes on; fmt::print would throw. What steers a terminal is shown escaped: messages quote files and names. Any thread.

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

#include "ptc/base/utf8.h"

namespace scalai {

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = escaped(fmt::format(format, std::forward<Args>(args)...));
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace scalai
