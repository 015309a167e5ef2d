#pragma once
// Progress of long work: one line on stderr, redrawn at most ten times a second, and only if stderr is a terminal and
// the user did not ask for --quiet. From two seconds on it says how long the rest will take at the pace so far. One
// thread at a time.

#include <chrono>
#include <string>
#include <string_view>

namespace scalai {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // fraction in [0, 1]. The line is cut at the width of the terminal.
  void update(double fraction, std::string_view detail);

 private:
  std::string what_;
  bool drawn_on_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point drawn_;
};

// The line itself, `elapsed_s` after the start.
std::string progress_line(std::string_view what, double fraction, std::string_view detail, double elapsed_s);

}  // namespace scalai
