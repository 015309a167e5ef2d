#pragma once
// The problems of a command line, collected and reported together.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ptc/base/command.h"

namespace scalai::apps {

// Problems of one command line. Malformed values exit with 2; otherwise the first problem decides. One thread.
class Problems {
 public:
  explicit Problems(std::string command = "plan") : command_(std::move(command)) {}

  static constexpr int kMalformed = 2, kMisfit = 3;

  void malformed(const std::string& text) { add(kMalformed, text); }
  void misfit(const std::string& text) { add(kMisfit, text); }
  // Adds each line of the status' message after `prefix` (none if OK); the status gives the exit code.
  void status(const std::string& prefix, const absl::Status& status);
  // Adds errors of a file's loader; several lines with their places stay as they are.
  void file(const absl::Status& status);

  // The ids that an option lists; nullopt if it is absent, or malformed (reported).
  std::optional<std::vector<int>> ids(const Arguments& arguments, const std::string& option);

  bool empty() const { return code_ == 0; }
  int report() const;  // prints them to stderr; returns the exit code

 private:
  void add(int code, const std::string& text);
  void note(int code);

  std::string command_;  // name of the scalai command
  std::string text_;
  int code_ = 0;
};

}  // namespace scalai::apps
