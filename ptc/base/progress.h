#pragma once
// Progress of long work: one line on stderr, redrawn at most ten times a second, and only if stderr is a terminal. One
// thread at a time.

#include <chrono>
#include <string>
#include <string_view>

namespace scalai {

class Progress {
 public:
  explicit Progress(std::string what);  // prints nothing if stderr is not a terminal
  ~Progress();                          // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // fraction in [0, 1]. The line is cut at the width of the terminal.
  void update(double fraction, std::string_view detail);

 private:
  std::string what_;
  bool terminal_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace scalai
