#pragma once
// Rows of training runs: predicted step times.

#include <string>
#include <vector>

#include "labs/validation/model/results.h"
#include "labs/validation/model/training_run.h"

namespace scalai::step::validation {

// The group of rows of tables whose header says "# apart: reason": hardware, model or software that cannot be said
// here.
inline constexpr const char* kApart = "apart";

// Kind "step": prediction against `published` in `unit` (units.h); errors are relative to the step time.
RowResult step_result(RowReader& row, const Models& models);
std::vector<std::string> step_columns();

// Kind "arithmetic": `given` in `given_unit`, converted to `unit`, must equal `published`. Predicts nothing.
RowResult arithmetic_result(RowReader& row, const Models& models);
std::vector<std::string> arithmetic_columns();

}  // namespace scalai::step::validation
