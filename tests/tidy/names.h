#pragma once
// Rules about names: what is declared is used, what is described is there.

#include <vector>

#include "tests/tidy/tidy.h"

namespace scalai::tidy {

// Functions that a header declares, and that nothing names but their definition.
std::vector<Finding> unused_functions(const std::vector<File>& files);

// Of README.md files: what the first column of a table `| file | …` or `| folder | …` names in backticks, and is not
// there; and identifiers in backticks, anywhere, that no source has.
std::vector<Finding> unknown_names(const std::vector<File>& files);

// Namespaces scalai::a::b whose last name is no folder of the file's path, nor the file's own name. `internal` and
// `testing` do not count, nor do blocks that only declare types of other folders, nor tests/ and testing/. Files of
// ptc/base are in `scalai` itself, those of executor/x in scalai::executor::x; commands of labs are in `apps`, as all
// commands are.
std::vector<Finding> foreign_namespaces(const std::vector<File>& files);

}  // namespace scalai::tidy
