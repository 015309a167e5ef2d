#pragma once
// Rows of training runs: predicted step times.

#include <string>
#include <vector>

#include "apps/accuracy/model/results.h"
#include "apps/accuracy/model/training_run.h"

namespace scalai::parallel::validation {

// Kind "step": prediction against `published` in `unit` (units.h); errors are relative to the step time.
RowResult step_result(RowReader& row, const Models& models);
std::vector<std::string> step_columns();

// Kind "arithmetic": `given` in `given_unit`, converted to `unit`, must equal `published`. Predicts nothing.
RowResult arithmetic_result(RowReader& row, const Models& models);
std::vector<std::string> arithmetic_columns();

}  // namespace scalai::parallel::validation
