#pragma once
// Collects the problems of a trace: the first ones as text, the number of the others, so that a huge file of another
// kind does not fill the memory. One line each: `file:row: field: reason` (rows from 1, headers count) or, in JSON,
// `file:/12/attempts/0: field: reason`. One thread at a time.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace scalai::trace {

// A place in a file; in JSON a pointer instead of a row. The texts must outlive it.
struct Place {
  std::string_view file;
  int64_t row = 0;  // 0: the whole file
  std::string_view pointer = {};
};

class Problems {
 public:
  static constexpr size_t kShown = 20;

  // Adds a problem; the texts are copied. `field` may be empty. Quote user values in `reason` with in_quotes().
  void add(const Place& place, std::string_view field, const std::string& reason, const std::string& hint = "");
  bool empty() const { return count_ == 0; }
  int64_t count() const { return count_; }
  // OK, or InvalidArgument with the first kShown problems and the count.
  absl::Status status() const;

 private:
  std::vector<std::string> shown_;
  int64_t count_ = 0;
};

// A user value for messages: printable, clipped to 60 characters, in quotes.
std::string in_quotes(std::string_view value);

}  // namespace scalai::trace
