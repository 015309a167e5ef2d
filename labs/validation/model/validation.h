#pragma once
// Predictions of the cost models against published measurements: a result for every row, and a summary for each table.
// Fitted rows are separate from predicted ones; failed rows stay. One thread.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "labs/validation/model/results.h"

namespace scalai::step::validation {

struct TableFile {
  std::string path;  // "published/ptdp_table1.csv"; the table is named after the file
  std::string text;
};

// The tables compiled into this program (results/perfmodel/published).
std::vector<TableFile> built_in_tables();
// All *.csv files of a folder, sorted by name. Errors: no such folder, no table in it, or an unreadable one.
absl::StatusOr<std::vector<TableFile>> tables_in(const std::string& folder);
std::string table_name(const TableFile& file);

// Predicts every row. `only`: the tables to return (empty: all). Tables of models are always read; fitted rows of the
// other tables give the constant shares for comparison. InvalidArgument: all problems of all files, with file, line and
// column.
absl::StatusOr<std::vector<TableResult>> validate(const std::vector<TableFile>& files,
                                                  const std::vector<std::string>& only = {});

// Rows of all tables by group, in the order of names.
std::vector<GroupResult> groups_of(const std::vector<TableResult>& tables);

// Effects that the models leave out, one sentence per entry.
std::vector<std::string> not_modelled();

}  // namespace scalai::step::validation
