#pragma once
// Kind "models": the sizes of published models, referenced by other tables, and their printed parameter counts.

#include <string>
#include <vector>

#include "labs/validation/model/results.h"
#include "labs/validation/model/training_run.h"

namespace scalai::step::validation {

std::vector<std::string> model_columns();

ModelShape read_model(RowReader& row);

// `params` in millions or billions ("unit" M or B) against the count from the sizes; `cut`: the publication truncates
// digits instead of rounding them (65.29 billion as 65.2). Rows without a printed count predict nothing.
RowResult model_result(RowReader& row, const ModelShape& model);

}  // namespace scalai::step::validation
