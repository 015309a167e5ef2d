#pragma once
// What is wrong with a command line: collected, so that all of it is reported at once.

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace scalai::apps {

// Problems of one command line. Malformed values exit with 2, else the first problem decides.
class Problems {
 public:
  explicit Problems(std::string command = "plan") : command_(std::move(command)) {}

  static constexpr int kMalformed = 2, kMisfit = 3;

  void malformed(const std::string& text) { add(kMalformed, text); }
  void misfit(const std::string& text) { add(kMisfit, text); }
  // Each line of a status' message (none when it is OK) after `prefix`; the status gives the exit code.
  void status(const std::string& prefix, const absl::Status& status);
  // What the loader of a file says: several lines with their places are passed on as they are.
  void file(const absl::Status& status);

  bool empty() const { return code_ == 0; }
  int report() const;  // prints them to stderr; the exit code

 private:
  void add(int code, const std::string& text);
  void note(int code);

  std::string command_;  // of scalai
  std::string text_;
  int code_ = 0;
};

}  // namespace scalai::apps
