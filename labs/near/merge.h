#pragma once
// Outputs of parts, in files, become the output of the whole, for the merges that no command does. Functions; any
// thread.
//
//   concatenate   the files one after the other
//   sum           lines of columns of numbers are added, as wc and grep -c print them of a stream
//   columns       lines of wc of files, all as wide as wc makes them for all files together, and their total
//   counts        uniq -c: the last line of a part and the first of the next may be one; of sorted parts any may

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace scalai::near {

using Sink = std::function<absl::Status(std::string_view bytes)>;

absl::Status concatenate(const std::vector<std::string>& paths, const Sink& sink);

// FailedPrecondition, as of all that follows: a part did not put out what is expected; nothing was written.
absl::Status sum_columns(const std::vector<std::string>& paths, int columns, const Sink& sink);

struct CountedFiles {
  std::string path;  // of the output of wc for
  size_t files = 0;  // so many files
};
// `bytes_total` of all files: wc's width is that of this number.
absl::Status align_columns(const std::vector<CountedFiles>& parts, int columns, int64_t bytes_total, const Sink& sink);

absl::Status add_counts(const std::vector<std::string>& paths, bool sorted, const Sink& sink);

}  // namespace scalai::near
