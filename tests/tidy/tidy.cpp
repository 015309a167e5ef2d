#include "tests/tidy/tidy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "tests/tidy/source_text.h"

namespace scalai::tidy {
namespace {

namespace fs = std::filesystem;

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }
bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

bool is_header(const File& file) { return ends_with(file.path, ".h"); }
bool is_source(const File& file) { return is_header(file) || ends_with(file.path, ".cpp"); }

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

bool lies_in(std::string_view path, std::string_view folder) {
  return starts_with(path, folder) && path.size() > folder.size() && path[folder.size()] == '/';
}

// --- reading ---------------------------------------------------------------------------------------------------------

// Of scripts without an ending those that make results.
bool is_read(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name == "run" && path.parent_path().parent_path().filename() == "results") return true;
  for (const char* ending : {".h", ".cpp", ".cu", ".py", ".cmake", ".proto", ".textproto", ".md", ".in", ".case"}) {
    if (ends_with(name, ending)) return true;
  }
  return name == "CMakeLists.txt" || name == "dev";
}

bool is_skipped_folder(const std::string& path) {
  return path == "build" || starts_with(path, "build-") || path == "out" || path.find("/.") != std::string::npos ||
         path.front() == '.';
}

std::string text_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// --- include direction -----------------------------------------------------------------------------------------------

// The longest rule folder that holds the path or is the path, or "".
std::string owner_of(const std::string& path, const std::vector<FolderRule>& rules) {
  std::string owner;
  for (const FolderRule& rule : rules) {
    if ((path == rule.folder || lies_in(path, rule.folder)) && rule.folder.size() > owner.size()) owner = rule.folder;
  }
  return owner;
}

void add_reachable(const std::string& folder, const std::vector<FolderRule>& rules, std::set<std::string>& reachable) {
  if (!reachable.insert(folder).second) return;
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const FolderRule& r) { return r.folder == folder; });
  if (rule == rules.end()) return;
  for (const std::string& used : rule->may_use) add_reachable(used, rules, reachable);
}

bool is_test(const std::string& path) {
  return ends_with(path, "_test.cpp") || path.find("/testing/") != std::string::npos;
}

std::string problem_with_folder(const std::string& path, const std::string& include,
                                const std::vector<FolderRule>& rules) {
  const std::string folder = owner_of(path, rules);
  const std::string target = owner_of(include, rules);
  if (target.empty()) return "";
  std::set<std::string> reachable;
  add_reachable(folder, rules, reachable);
  if (reachable.count("*") != 0) return "";
  if (const size_t internal = include.find("/internal/"); internal != std::string::npos) {
    const std::string around = include.substr(0, internal);
    if (!lies_in(path, around)) return fmt::format("{} is internal to {}", include, around);
  }
  if (reachable.count(target) != 0) return "";
  const FolderRule& rule =
      *std::find_if(rules.begin(), rules.end(), [&](const FolderRule& r) { return r.folder == folder; });
  std::set<std::string> of_tests;
  for (const std::string& used : rule.tests_may_use) add_reachable(used, rules, of_tests);
  if (is_test(path) && of_tests.count(target) != 0) return "";
  return fmt::format("{} may not include {} ({}); it may use {}, and what these may use", folder, target, include,
                     fmt::join(rule.may_use, ", "));
}

std::string problem_with_library(const File& file, const std::string& include,
                                 const std::vector<LibraryRule>& libraries) {
  if (is_header(file) && ends_with(include, ".pb.h"))
    return fmt::format("{} in a header; only .cpp files may", include);
  for (const LibraryRule& rule : libraries) {
    if (!starts_with(include, rule.prefix)) continue;
    const bool is_private = std::any_of(rule.private_folders.begin(), rule.private_folders.end(),
                                        [&](const std::string& folder) { return lies_in(file.path, folder); });
    if (is_header(file) && !is_private) return fmt::format("{} in a header; only .cpp files may", include);
    const bool allowed = rule.folders.empty() || std::any_of(rule.folders.begin(), rule.folders.end(),
                                                             [&](const auto& f) { return lies_in(file.path, f); });
    if (!allowed) return fmt::format("{} belongs behind {}", include, fmt::join(rule.folders, ", "));
  }
  return "";
}

// --- words -----------------------------------------------------------------------------------------------------------

bool stands_alone(std::string_view text, size_t at, std::string_view word) {
  const bool joined_before = at > 0 && is_word(word.front()) && is_word(text[at - 1]);
  const size_t end = at + word.size();
  return !joined_before && !(end < text.size() && is_word(word.back()) && is_word(text[end]));
}

void find_word(const File& file, std::string_view text, const BannedWord& banned, std::vector<Finding>& findings) {
  for (size_t at = text.find(banned.word); at != std::string_view::npos; at = text.find(banned.word, at + 1)) {
    if (!stands_alone(text, at, banned.word)) continue;
    findings.push_back({file.path, line_of(text, at), fmt::format("\"{}\": {}", banned.word, banned.instead)});
  }
}

// --- tests of sources ------------------------------------------------------------------------------------------------

bool needs_no_test(const std::string& path) {
  for (const char* ending : {"_test.cpp", "_bench.cpp", "_fuzz.cpp", "_main.cpp", "/main.cpp", "_command.cpp"}) {
    if (ends_with(path, ending)) return true;
  }
  return path.find("/testing/") != std::string::npos || starts_with(path, "examples/");
}

// "ptc/run/control/internal" → "ptc/run/control": where the tests of a source lie.
std::string test_folder_of(const std::string& path) {
  std::string folder = folder_of(path);
  if (ends_with(folder, "/internal") || ends_with(folder, "/testing")) folder = folder_of(folder);
  return folder;
}

// a/scenario_jobs → a/scenario_jobs, a/scenario: the stems whose test covers the source.
bool has_test_by_name(const std::string& folder, std::string stem, const std::set<std::string>& paths) {
  while (true) {
    if (paths.count(fmt::format("{}/{}_test.cpp", folder, stem)) != 0) return true;
    const size_t underscore = stem.rfind('_');
    if (underscore == std::string::npos) return false;
    stem.resize(underscore);
  }
}

// Every header that a test of the folder includes, as "folder header".
std::set<std::string> headers_under_test(const std::vector<File>& files) {
  std::set<std::string> headers;
  for (const File& file : files) {
    if (!ends_with(file.path, "_test.cpp")) continue;
    for (const Include& include : includes_of(file.text)) headers.insert(folder_of(file.path) + " " + include.path);
  }
  return headers;
}

}  // namespace

std::string Finding::str() const {
  return line > 0 ? fmt::format("{}:{}: {}", path, line, message) : fmt::format("{}: {}", path, message);
}

std::vector<File> read_tree(const std::string& root) {
  std::vector<File> files;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string path = fs::relative(entry->path(), root).generic_string();
    if (entry->is_directory()) {
      if (is_skipped_folder(path)) entry.disable_recursion_pending();
    } else {
      files.push_back({path, is_read(entry->path()) ? text_of(entry->path()) : ""});
    }
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.path < b.path; });
  return files;
}

std::vector<Finding> include_direction(const std::vector<File>& files, const std::vector<FolderRule>& folders,
                                       const std::vector<LibraryRule>& libraries) {
  std::vector<Finding> findings;
  for (const File& file : files) {
    if (!is_source(file)) continue;
    const std::string folder = owner_of(file.path, folders);
    if (folder.empty()) {
      findings.push_back({file.path, 0, "its folder has no row in the table of who may include whom"});
      continue;
    }
    for (const Include& include : includes_of(file.text)) {
      for (const std::string& problem : {problem_with_folder(file.path, include.path, folders),
                                         problem_with_library(file, include.path, libraries)}) {
        if (!problem.empty()) findings.push_back({file.path, include.line, problem});
      }
    }
  }
  return findings;
}

std::vector<Finding> labs_in_core(const std::vector<File>& files) {
  std::vector<Finding> findings;
  for (const File& file : files) {
    if (!is_source(file) || lies_in(file.path, "labs") || lies_in(file.path, "tests")) continue;
    for (const Include& include : includes_of(file.text)) {
      if (!lies_in(include.path, "labs")) continue;
      findings.push_back(
          {file.path, include.line,
           fmt::format("the core may not include {}; a lab registers itself (labs/README.md)", include.path)});
    }
  }
  return findings;
}

std::vector<Finding> long_functions(const std::vector<File>& files, int most_lines,
                                    const std::vector<Exception>& exceptions) {
  std::vector<Finding> findings;
  for (const File& file : files) {
    if (!is_source(file)) continue;
    for (const Function& function : functions_of(file.text)) {
      const std::string subject = file.path + ":" + function.name;
      const bool excepted = std::any_of(exceptions.begin(), exceptions.end(),
                                        [&](const Exception& exception) { return exception.subject == subject; });
      if (function.lines <= most_lines || excepted) continue;
      findings.push_back({file.path, function.line,
                          fmt::format("{} has {} lines, {} are allowed", function.name, function.lines, most_lines)});
    }
  }
  return findings;
}

std::vector<Finding> long_files(const std::vector<File>& files, int most_lines) {
  std::vector<Finding> findings;
  for (const File& file : files) {
    const auto lines = std::count(file.text.begin(), file.text.end(), '\n');
    if (!is_source(file) || lines <= most_lines) continue;
    findings.push_back({file.path, 0, fmt::format("has {} lines, {} are allowed", lines, most_lines)});
  }
  return findings;
}

std::vector<Finding> wide_lines(const std::vector<File>& files, int most_characters) {
  std::vector<Finding> findings;
  for (const File& file : files) {
    if (!is_source(file)) continue;
    const std::string rest = without_literals(file.text);
    int line = 1, characters = 0;
    for (size_t i = 0; i < rest.size(); ++i) {
      const bool continues = (static_cast<unsigned char>(rest[i]) & 0xC0) == 0x80;  // of UTF-8
      if (rest[i] == file.text[i] && rest[i] != '\n' && !continues) ++characters;
      if (rest[i] != '\n') continue;
      if (characters > most_characters)
        findings.push_back(
            {file.path, line, fmt::format("{} characters, {} are allowed", characters, most_characters)});
      ++line;
      characters = 0;
    }
  }
  return findings;
}

std::vector<Finding> scattered_classes(const std::vector<File>& files, const std::vector<Exception>& exceptions) {
  static const std::regex member(R"(((?:\w+::)*([A-Z]\w*))::~?(\w+|operator.*))");
  std::map<std::string, std::string> source_of;  // by "folder:Class"
  std::set<std::string> scattered;
  std::vector<Finding> findings;
  for (const File& file : files) {
    if (!ends_with(file.path, ".cpp") && !ends_with(file.path, ".cu")) continue;
    const std::string code = code_only(file.text);
    std::string class_name;  // of the function before
    bool is_private = false;
    for (const Function& function : functions_of(file.text)) {
      std::smatch name;
      if (!std::regex_match(function.name, name, member)) continue;
      if (name[2] != class_name) {
        class_name = name[2];
        const std::regex definition(R"(\b(class|struct) (\w+::)*)" + class_name + R"(\b[^;{]*\{)");
        is_private = std::regex_search(code, definition);  // others may have a class of this name for themselves
      }
      if (is_private) continue;
      const std::string subject = test_folder_of(file.path) + ":" + name[1].str();
      const std::string& source = source_of.try_emplace(subject, file.path).first->second;
      if (source == file.path || !scattered.insert(subject).second) continue;
      const bool allowed = std::any_of(exceptions.begin(), exceptions.end(),
                                       [&](const Exception& exception) { return exception.subject == subject; });
      if (!allowed)
        findings.push_back({file.path, function.line, fmt::format("{} defines {}, too", source, name[1].str())});
    }
  }
  for (const Exception& exception : exceptions) {
    if (scattered.count(exception.subject) == 0)
      findings.push_back({exception.subject, 0, "excepted, but in one source"});
  }
  return findings;
}

FunctionStatistics function_statistics(const std::vector<File>& files) {
  std::vector<int> lines;
  for (const File& file : files) {
    if (!is_source(file)) continue;
    for (const Function& function : functions_of(file.text)) lines.push_back(function.lines);
  }
  if (lines.empty()) return {};
  std::sort(lines.begin(), lines.end());
  double total = 0;
  for (const int n : lines) total += n;
  return {.functions = static_cast<int>(lines.size()),
          .mean_lines = total / static_cast<double>(lines.size()),
          .median_lines = lines[lines.size() / 2]};
}

std::vector<Finding> banned_words(const std::vector<File>& files, const std::vector<BannedWord>& words) {
  std::vector<Finding> findings;
  for (const File& file : files) {
    const std::string code = is_source(file) ? code_only(file.text) : "";
    for (const BannedWord& banned : words) {
      const bool is_test = ends_with(file.path, "_test.cpp");
      const bool allowed = (banned.tests_may && is_test) ||
                           std::any_of(banned.allowed_in.begin(), banned.allowed_in.end(),
                                       [&](const auto& prefix) { return starts_with(file.path, prefix); });
      if (!allowed) find_word(file, banned.where == Where::kCode ? code : file.text, banned, findings);
    }
  }
  return findings;
}

std::vector<Finding> missing_readmes(const std::vector<File>& files) {
  std::set<std::string> with_sources;
  std::map<std::string, std::string> with_readme;
  for (const File& file : files) {
    if (is_source(file) || ends_with(file.path, ".proto")) with_sources.insert(test_folder_of(file.path));
    if (ends_with(file.path, "/README.md")) with_readme[folder_of(file.path)] = file.text;
  }
  std::vector<Finding> findings;
  for (const std::string& folder : with_sources) {
    const std::string row = fmt::format("`{}/`", fs::path(folder).filename().string());
    const auto above = with_readme.find(folder_of(folder));
    if (with_readme.count(folder) != 0 ||
        (above != with_readme.end() && above->second.find(row) != std::string::npos)) {
      continue;
    }
    findings.push_back({folder, 0, "has sources, no README.md, and no row in the README.md above"});
  }
  return findings;
}

std::vector<Finding> untested_sources(const std::vector<File>& files, const std::vector<Exception>& exceptions) {
  std::set<std::string> paths;
  for (const File& file : files) paths.insert(file.path);
  const std::set<std::string> headers = headers_under_test(files);
  std::set<std::string> excepted;
  std::vector<Finding> findings;
  for (const Exception& exception : exceptions) {
    excepted.insert(exception.subject);
    if (paths.count(exception.subject) == 0) findings.push_back({exception.subject, 0, "excepted, but not there"});
  }
  for (const std::string& path : paths) {
    if (!ends_with(path, ".cpp") || needs_no_test(path) || excepted.count(path) != 0) continue;
    const std::string folder = test_folder_of(path);
    const std::string stem = fs::path(path).stem().string();
    const bool included = headers.count(fmt::format("{} {}/{}.h", folder, folder, stem)) != 0 ||
                          headers.count(fmt::format("{} {}/internal/{}.h", folder, folder, stem)) != 0;
    if (!included && !has_test_by_name(folder, stem, paths)) {
      findings.push_back({path, 0,
                          fmt::format("has no test: neither {}/{}_test.cpp nor a test there that includes its "
                                      "header",
                                      folder, stem)});
    }
  }
  return findings;
}

}  // namespace scalai::tidy
