#pragma once
// Predictions of the cost models against published measurements: every row, and what that says of each table. Fitted rows are
// kept apart from predicted ones; rows that fail stay.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/parallel/validation/results.h"

namespace scalai::parallel::validation {

struct TableFile {
  std::string path;  // "published/ptdp_table1.csv"; the table is named after the file
  std::string text;
};

// The tables this program was built with (results/perfmodel/published).
std::vector<TableFile> built_in_tables();
// All *.csv of a folder, by name. Errors: no such folder, none in it, one that cannot be read.
absl::StatusOr<std::vector<TableFile>> tables_in(const std::string& folder);
std::string table_name(const TableFile& file);

// Prices every row. `only`: tables to return (all when empty); those of models are read always, fitted rows of the others
// give the constant shares that predictions are compared with. Errors: all problems of all files, with file, line and column.
absl::StatusOr<std::vector<TableResult>> validate(const std::vector<TableFile>& files,
                                                  const std::vector<std::string>& only = {});

// What the models leave out, a sentence a line.
std::vector<std::string> not_modelled();

}  // namespace scalai::parallel::validation
