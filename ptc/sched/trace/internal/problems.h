#pragma once
// What is wrong with a trace, all of it: the first problems as text, the others counted, so that a file of another kind
// of a gigabyte does not fill memory. One line each: `file:row: field: reason` (rows from 1, headers count) or, in JSON,
// `file:/12/attempts/0: field: reason`.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace scalai::sched::trace {

// Where in which file. A JSON place has a pointer instead of a row.
struct Place {
  std::string_view file;
  int64_t row = 0;  // 0: the file as a whole
  std::string_view pointer = {};
};

class Problems {
 public:
  static constexpr size_t kShown = 20;

  // `field` may be empty. The value is quoted in `reason` by whoever writes it (see in_quotes()).
  void add(const Place& place, std::string_view field, const std::string& reason, const std::string& hint = "");
  bool empty() const { return count_ == 0; }
  int64_t count() const { return count_; }
  // Ok, or InvalidArgument with the first kShown and the count.
  absl::Status status() const;

 private:
  std::vector<std::string> shown_;
  int64_t count_ = 0;
};

// A value of the user's as messages show it: printable, clipped, in quotes.
std::string in_quotes(std::string_view value);

}  // namespace scalai::sched::trace
