#pragma once
// Results of a validation, by published row and by table. Values.

#include <optional>
#include <string>
#include <vector>

#include "labs/validation/model/published.h"
#include "labs/validation/model/statistics.h"

namespace scalai::step::validation {

struct RowResult {
  std::string label;
  std::string unit;            // of the next two: "s", "tflops_model", "GiB", "%" …
  std::string published_text;  // as printed
  double published = 0;
  double predicted = 0;
  double error = 0;     // a share (for steps of the step time), or points for tables of percentages
  bool fitted = false;  // the row was used to fit constants of the model
  bool exact = true;    // the prediction rounds to the printed value
  std::string assumed;  // assumptions for facts missing in the publication: "b 2, vpp 3"
  std::string problem;  // the reason of a missing prediction; the row counts as missed

  // Values for the order of rows: utilisation of the GPUs, or the value itself.
  double rank_published = 0, rank_predicted = 0;

  // Constants and mechanisms may be chosen with the rows in view that are not held out; the others judge. Of steps and
  // of memory, which is which follows from the row's name alone (PublishedTable::held_out).
  bool held_out = false;
  std::string group;   // "dense A100 16-bit", "experts", "memory, peak", "restart" …: rows that are judged together
  std::string source;  // of tables whose rows have several; "": the table's

  std::string machine;  // "a100-80g 16-bit", "a100-80g collectives": rows that share constants

  // Steps only. constant_*_error: error of a constant share of the peak of the row's products.
  double published_s = 0, predicted_s = 0;
  // Seconds of the step at the peak: by model FLOPs, and by hardware FLOPs.
  double model_peak_s = 0, hardware_peak_s = 0;
  std::optional<double> constant_mfu_error, constant_hfu_error;
  // Of what a user gives who knows no flag (price_by_preset): with the software named, and with that of the GPU's
  // generation. Nothing: the table does not say the software, or the answer is that it does not fit.
  std::optional<double> named_error, guessed_error;
  std::string refused;  // why the run, which ran, would not be answered with its software named
};

struct Goal {
  std::string text;  // "mape<=8"
  std::string said;  // "7.1 %"
  bool met = false;
};

// Rows of one group of all tables, by what they may be used for.
struct GroupResult {
  std::string group;
  Summary fit, held_out;     // fitted rows in neither
  double low = 1, high = 1;  // nine in ten of the held-out steps took `low` to `high` times the prediction
  // Of all rows of steps: with flags as the recipe has them, its software named, that of the GPU's generation.
  Summary flags, named, guessed;
  RatioInterval named_interval, guessed_interval;
  int refused = 0;  // ran, and would be refused with its software named
};

struct TableResult {
  PublishedTable table;
  std::vector<RowResult> rows;
  bool percentages = false;                               // errors are points, not shares
  Summary fitted, predicted, constant_mfu, constant_hfu;  // constant_*: over the predicted rows
  // Mean error of the best constant, chosen with knowledge of the predicted rows.
  std::optional<double> best_mfu, best_hfu;
  std::optional<double> tau;
  int exact = 0;    // rows whose prediction rounds to the printed value
  int missing = 0;  // rows without a prediction
  std::vector<Goal> goals;
};

}  // namespace scalai::step::validation
