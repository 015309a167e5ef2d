#pragma once
// The rules of the tree. Each rule is a pure function from files and a table to findings, so that a test can show it a
// made-up tree that breaks it. Paths are relative to the root with '/'. A folder, in the tables, is a path prefix such
// as "ptc/base"; the longest one that fits a file is the file's folder.

#include <string>
#include <string_view>
#include <vector>

namespace scalai::tidy {

struct File {
  std::string path;
  std::string text;
};

struct Finding {
  std::string path;
  int line = 0;  // 0 = the file or folder as a whole
  std::string message;

  std::string str() const;  // "path:line: message"
};

// Every file below `root`, by path, and the text of sources, schemas, scenarios, documents and CMake files. Hidden
// folders, build folders and out/ are left out.
std::vector<File> read_tree(const std::string& root);

// --- include direction -----------------------------------------------------------------------------------------------

struct FolderRule {
  std::string folder;                           // or one file
  std::vector<std::string> may_use;             // folders; what these may use may be used too; "*" = everything of ours
  std::vector<std::string> tests_may_use = {};  // *_test.cpp and testing/ besides
};

// A library behind an adapter: its headers never stand in a header of ours, but for private ones.
struct LibraryRule {
  std::string prefix;                             // of the include, e.g. "simgrid/"
  std::vector<std::string> folders;               // whose .cpp files may include it; empty = all
  std::vector<std::string> private_folders = {};  // whose headers may, too
};

// Also: headers of an internal/ folder are for the folder around it.
std::vector<Finding> include_direction(const std::vector<File>& files, const std::vector<FolderRule>& folders,
                                       const std::vector<LibraryRule>& libraries);

// Includes of labs/ outside of labs/ and tests/: labs use the core, which does without them (-DSCALAI_LABS=OFF).
std::vector<Finding> labs_in_core(const std::vector<File>& files);

// --- sizes -----------------------------------------------------------------------------------------------------------

struct Exception {
  std::string subject;  // a path, or "path:function" for a function
  std::string reason;
};

std::vector<Finding> long_functions(const std::vector<File>& files, int most_lines,
                                    const std::vector<Exception>& exceptions);
std::vector<Finding> long_files(const std::vector<File>& files, int most_lines);
// Lines of C++ with more characters, those within literals apart.
std::vector<Finding> wide_lines(const std::vector<File>& files, int most_characters);

// Classes that a header declares and whose member functions more than one source of the folder defines. The subject of
// an exception is "folder:Class"; one that excepts nothing is a finding, too.
std::vector<Finding> scattered_classes(const std::vector<File>& files, const std::vector<Exception>& exceptions);

struct FunctionStatistics {
  int functions = 0;
  double mean_lines = 0;
  int median_lines = 0;
};
FunctionStatistics function_statistics(const std::vector<File>& files);

// --- words -----------------------------------------------------------------------------------------------------------

enum class Where { kText, kCode };  // kCode: in C++ only, outside comments and literals

struct BannedWord {
  std::string word;  // found as a whole word where it begins or ends with a letter
  Where where = Where::kText;
  std::vector<std::string> allowed_in;  // path prefixes
  std::string instead;                  // what to do
  bool tests_may = false;               // *_test.cpp
};

std::vector<Finding> banned_words(const std::vector<File>& files, const std::vector<BannedWord>& words);

// --- companions ------------------------------------------------------------------------------------------------------

// Folders with sources, without README.md, and which the README.md above does not name as `folder/` (internal/ and
// testing/ belong to the folder above).
std::vector<Finding> missing_readmes(const std::vector<File>& files);

// A source has a test when its folder holds x_test.cpp, or the test of the header it implements a part of
// (scenario_jobs.cpp: scenario_test.cpp), or any test that includes its header. Tests, their support in testing/,
// benchmarks, fuzzers, examples, mains and commands (which tests/ runs as programs) need none. An exception for a file
// that is not there is a finding too.
std::vector<Finding> untested_sources(const std::vector<File>& files, const std::vector<Exception>& exceptions);

}  // namespace scalai::tidy
