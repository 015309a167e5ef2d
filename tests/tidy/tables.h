#pragma once
// The tables of the tree's rules: who may include whom, words, exceptions with their reasons. Static storage.

#include <vector>

#include "tests/tidy/tidy.h"

namespace scalai::tidy {

const std::vector<FolderRule>& folder_rules();
const std::vector<LibraryRule>& library_rules();
const std::vector<BannedWord>& words();
const std::vector<Exception>& long_function_exceptions();
const std::vector<Exception>& scattered_exceptions();
const std::vector<Exception>& untested_exceptions();

}  // namespace scalai::tidy
