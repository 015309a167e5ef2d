#pragma once
// Kind "models": the sizes of published models, which other tables name, and their printed parameter counts.

#include <string>
#include <vector>

#include "ptc/parallel/validation/results.h"
#include "ptc/parallel/validation/training_run.h"

namespace scalai::parallel::validation {

std::vector<std::string> model_columns();

// The model of a row.
ModelShape read_model(RowReader& row);

// `params` in millions or billions ("unit" M or B) against what the sizes give; `cut` where the publication drops digits
// rather than rounding them (65.29 billion as 65.2). Rows that print none predict nothing.
RowResult model_result(RowReader& row, const ModelShape& model);

}  // namespace scalai::parallel::validation
