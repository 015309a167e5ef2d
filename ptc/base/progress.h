#pragma once
// Progress of long work: one line on stderr, redrawn at most ten times a second, only when stderr is a terminal.

#include <chrono>
#include <string>
#include <string_view>

namespace scalai {

class Progress {
 public:
  explicit Progress(std::string what);  // silent when stderr is not a terminal
  ~Progress();                          // wipes its line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(double fraction, std::string_view detail);  // fraction in [0, 1]

 private:
  std::string what_;
  bool terminal_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace scalai
