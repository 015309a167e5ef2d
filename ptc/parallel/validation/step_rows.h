#pragma once
// Rows of training runs, by how long a step took.

#include <string>
#include <vector>

#include "ptc/parallel/validation/results.h"
#include "ptc/parallel/validation/training_run.h"

namespace scalai::parallel::validation {

// Kind "step": predicted against `published` in `unit` (units.h); errors are of the step's time.
RowResult step_result(RowReader& row, const Models& models);
std::vector<std::string> step_columns();

// Kind "arithmetic": `given` in `given_unit` converted into `unit`, which must come out as `published`. Nothing is predicted.
RowResult arithmetic_result(RowReader& row, const Models& models);
std::vector<std::string> arithmetic_columns();

}  // namespace scalai::parallel::validation
