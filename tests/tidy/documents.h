#pragma once
// Rules about documents: what they promise is there, and what is there has its row.

#include <string>
#include <vector>

#include "tests/tidy/tidy.h"

namespace scalai::tidy {

// Tests that a document names as `Suite.Name` in backticks, and that are nowhere.
std::vector<Finding> unknown_tests(const std::vector<File>& files, const std::string& document);

// Sources that pause or count attempts, and that the document does not name in backticks.
std::vector<Finding> unlisted_retries(const std::vector<File>& files, const std::string& document);

// Scenarios that do not open with a question, or have no row in scenarios/README.md.
std::vector<Finding> unindexed_scenarios(const std::vector<File>& files);

// Folders of results/ without a row in results/README.md, `| [name](name/README.md) | answer | `command` | takes |
// needs |`, which `./dev results` reads; and those with a `run` that their row's command does not call.
std::vector<Finding> unindexed_results(const std::vector<File>& files);

}  // namespace scalai::tidy
