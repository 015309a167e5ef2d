#pragma once
// A sweep: one scenario with all combinations of some values, one row each. Contains the arithmetic, the statistics and
// the journal for resuming; sweep_command.cpp runs it. One thread.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/run/scenario/scenario_vary.h"

namespace scalai::apps {

// Checks that each row identifies its run. Errors: the seed both as an axis and by `seeds`, more than `most` runs in
// total.
absl::Status check_sweep(const std::vector<scenario::Axis>& axes, size_t seeds, size_t most);

// Numbers of a summary.json, by names ("avg_jct_s" is "/metrics/avg_jct_s") or JSON pointers. nullopt: null. Errors: no
// JSON, or a pointer to a missing value or a non-number; an interval of a job that has none is null.
using Numbers = std::vector<std::optional<double>>;
absl::StatusOr<Numbers> read_numbers(const std::string& summary, const std::vector<std::string>& metrics);

// With those that tell how far the model may be off (`interval` of summary.json) behind them: low and high of each sum
// that has one.
std::vector<std::string> with_intervals(std::vector<std::string> metrics);

// Finished runs by (point, seed), appended as they end, one line each, so that a kill loses at most the line being
// written. The first line is a digest of the sweep. One process at a time (file lock).
class SweepJournal {
 public:
  SweepJournal() = default;
  ~SweepJournal();
  SweepJournal(const SweepJournal&) = delete;
  SweepJournal& operator=(const SweepJournal&) = delete;

  // Opens or creates the journal; drops an incomplete last line. Errors: it belongs to another sweep
  // (FailedPrecondition, with the way to continue), another process has it, it is not writable, or it contains a
  // malformed row.
  absl::Status open(const std::string& path, const std::string& digest, size_t columns);
  // nullptr: not finished. Valid as long as this object, until add() for the same run.
  const Numbers* find(size_t point, size_t seed) const;
  absl::Status add(size_t point, size_t seed, const Numbers& numbers);
  size_t size() const { return runs_.size(); }
  // Deletes the file, after its content is written elsewhere.
  void remove();

 private:
  absl::Status read(const std::string& text, const std::string& digest, size_t columns, size_t& whole);

  std::string path_;
  int file_ = -1;
  std::map<std::pair<size_t, size_t>, Numbers> runs_;
};

// The point with the first of the policies (axes policy.name, recovery.design, strategy), all else as at `point`;
// nothing for such a point itself, and where policies do not vary.
std::optional<size_t> compared_with(const std::vector<scenario::Axis>& axes, size_t point);

// The finished table. `failures`: reason by point; such a row has no numbers.
struct SweepTable {
  std::vector<scenario::Axis> axes;
  std::vector<std::string> metrics;
  // 1: metrics with an interval have it in the columns _model_low and _model_high, if some run has one; the numbers in
  // the journal are those of with_intervals(metrics). > 1: each metric is a median, with two more columns, _low and
  // _high; where policies vary also _diff, _diff_low and _diff_high, the median and interval of the differences to
  // compared_with() on the same seeds.
  size_t seeds = 1;
};
std::string sweep_csv(const SweepTable& table, const SweepJournal& journal,
                      const std::map<size_t, std::string>& failures);

}  // namespace scalai::apps
