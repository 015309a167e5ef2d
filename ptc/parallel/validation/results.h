#pragma once
// What validation says of each published row, and of each table.

#include <optional>
#include <string>
#include <vector>

#include "ptc/parallel/validation/published.h"
#include "ptc/parallel/validation/statistics.h"

namespace scalai::parallel::validation {

struct RowResult {
  std::string label;
  std::string unit;            // of the next two: "s", "tflops_model", "GiB", "%" …
  std::string published_text;  // as printed
  double published = 0;
  double predicted = 0;
  double error =
      0;  // a share (of the step's time where that is what is predicted), or points for tables of percentages
  bool fitted = false;  // constants of the model come from this row
  bool exact = true;    // the prediction rounds to what is printed
  std::string assumed;  // what the publication does not say, as taken: "b 2, vpp 3"
  std::string problem;  // why there is no prediction; the row counts as missed

  // What rows are ordered by: how well the GPUs are used, or the value itself.
  double rank_published = 0, rank_predicted = 0;

  std::string machine;  // "a100-80g 16-bit", "a100-80g collectives": rows that share constants

  // Steps only. The two shares are of the peak that the row's products have.
  double published_s = 0, predicted_s = 0;
  double model_peak_s = 0, hardware_peak_s = 0;  // the step at the peak: model FLOPs, and with what is computed again
  std::optional<double> constant_mfu_error, constant_hfu_error;
};

struct Goal {
  std::string text;  // "mape<=8"
  std::string said;  // "7.1 %"
  bool met = false;
};

struct TableResult {
  PublishedTable table;
  std::vector<RowResult> rows;
  bool percentages = false;                               // errors are points, not shares
  Summary fitted, predicted, constant_mfu, constant_hfu;  // constant_*: of the predicted rows
  std::optional<double> best_mfu, best_hfu;  // mean error of the best constant, chosen knowing the predicted rows
  std::optional<double> tau;
  int exact = 0;    // rows whose prediction rounds to what is printed
  int missing = 0;  // rows without prediction
  std::vector<Goal> goals;
};

}  // namespace scalai::parallel::validation
