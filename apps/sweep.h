#pragma once
// A sweep: the same scenario with all combinations of some values, one row each. The arithmetic, the journal that makes it
// resumable and the statistics; sweep_command.cpp runs it.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::apps {

// "PATH=a,b,c": a comma inside a value is written "\,".
struct SweepAxis {
  std::string path;
  std::vector<std::string> values;
};
absl::StatusOr<SweepAxis> parse_axis(const std::string& text);

// Whether these axes make rows that say what was run. Errors: a path twice, a seed both as an axis and by `seeds`, more than
// `most` runs in all.
absl::Status check_sweep(const std::vector<SweepAxis>& axes, size_t seeds, size_t most);

// Combinations in order, the last axis fastest. `point` counts them from 0.
size_t point_count(const std::vector<SweepAxis>& axes);
std::vector<std::string> values_at(const std::vector<SweepAxis>& axes, size_t point);

// Numbers of a summary.json: names ("avg_jct_s" is "/metrics/avg_jct_s") and JSON pointers. Null is nothing. Error: no JSON, or a
// pointer to what is no number or not there.
using Numbers = std::vector<std::optional<double>>;
absl::StatusOr<Numbers> read_numbers(const std::string& summary, const std::vector<std::string>& metrics);

// Median (the mean of the middle two of an even number) and its 95 % interval by order statistics, whatever the distribution: from
// the k-th smallest to the k-th largest of n, k the largest with P(Binomial(n, 1/2) < k) <= 2.5 %. Of fewer than six values
// no k is that sure, and the interval is from the smallest to the largest.
struct Spread {
  double median = 0, low = 0, high = 0;
};
Spread spread_of(std::vector<double> values);

// Finished runs by (point, seed), appended as they end: a line each, so that a kill loses at most the line under way. The first
// line is a digest of what is swept. One process at a time (a lock on the file).
class SweepJournal {
 public:
  SweepJournal() = default;
  ~SweepJournal();
  SweepJournal(const SweepJournal&) = delete;
  SweepJournal& operator=(const SweepJournal&) = delete;

  // Opens or begins it; half a line at the end is dropped. Errors: it is of another sweep (FailedPrecondition, which says how to
  // go on), another process has it, it cannot be written, it holds what is no row.
  absl::Status open(const std::string& path, const std::string& digest, size_t columns);
  const Numbers* find(size_t point, size_t seed) const;
  absl::Status add(size_t point, size_t seed, const Numbers& numbers);
  size_t size() const { return runs_.size(); }
  // All is written elsewhere: the file goes.
  void remove();

 private:
  absl::Status read(const std::string& text, const std::string& digest, size_t columns, size_t& whole);

  std::string path_;
  int file_ = -1;
  std::map<std::pair<size_t, size_t>, Numbers> runs_;
};

// The finished table. `failures`: by point, why; such a row has no numbers.
struct SweepTable {
  std::vector<SweepAxis> axes;
  std::vector<std::string> metrics;
  size_t seeds = 1;  // > 1: each metric is a median with two more columns, _low and _high
};
std::string sweep_csv(const SweepTable& table, const SweepJournal& journal,
                      const std::map<size_t, std::string>& failures);

}  // namespace scalai::apps
