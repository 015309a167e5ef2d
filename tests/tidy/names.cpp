#include "tests/tidy/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tidy/source_text.h"

namespace scalai::tidy {
namespace {

namespace fs = std::filesystem;

bool is_cpp(const std::string& path) {
  return path.ends_with(".h") || path.ends_with(".cpp") || path.ends_with(".cu") || path.ends_with(".in");
}

// ---- functions ------------------------------------------------------------------------------------------------------

// Whether the word at `at`, which a parenthesis follows, is declared or defined there: a type stands before it, and a
// space. Operators have spaces on both sides, the marks of types only after them.
bool is_declared_at(std::string_view code, size_t at) {
  const auto skip_word = [&] {
    while (at > 0 && is_word(code[at - 1])) --at;
  };
  while (at >= 2 && code.substr(at - 2, 2) == "::") {  // Class::
    at -= 2;
    skip_word();
  }
  const size_t begin = at;
  while (at > 0 && std::isspace(static_cast<unsigned char>(code[at - 1])) != 0) --at;
  if (at == 0 || at == begin) return false;
  const size_t type_end = at;
  while (at > 0 && (code[at - 1] == '&' || code[at - 1] == '*' || code[at - 1] == '>')) --at;
  if (at < type_end) return at > 0 && code[at - 1] != ' ';
  skip_word();
  static const std::set<std::string_view> kNoTypes = {"return", "else", "case", "throw", "new", "delete", "do"};
  return at < type_end && !kNoTypes.contains(code.substr(at, type_end - at));
}

struct Occurrences {
  int declared = 0, other = 0;
  std::string header;  // the first that declares it
  int line = 0;
};

void count_names(const File& file, const std::string& text, std::map<std::string, Occurrences>& names) {
  const std::string_view code = text;
  for (size_t i = 0; i < code.size(); ++i) {
    if (!is_word(code[i]) || (i > 0 && is_word(code[i - 1]))) continue;
    size_t end = i;
    while (end < code.size() && is_word(code[end])) ++end;
    Occurrences& name = names[std::string(code.substr(i, end - i))];
    if (end >= code.size() || code[end] != '(' || !is_declared_at(code, i)) {
      ++name.other;
      continue;
    }
    ++name.declared;
    if (!file.path.ends_with(".h") || !name.header.empty()) continue;
    name.header = file.path;
    name.line = line_of(code, i);
  }
}

}  // namespace

std::vector<Finding> unused_functions(const std::vector<File>& files) {
  std::map<std::string, Occurrences> names;
  for (const File& file : files) {
    if (is_cpp(file.path)) count_names(file, code_only(file.text), names);
  }
  std::vector<Finding> findings;
  for (const auto& [name, seen] : names) {
    const bool macro = name.starts_with('_') || name == "PrintTo";  // called by macros of others
    if (!seen.header.empty() && seen.other == 0 && !macro)
      findings.push_back({seen.header, seen.line, fmt::format("nobody calls {}", name)});
  }
  return findings;
}

// ---- READMEs --------------------------------------------------------------------------------------------------------

namespace {

// What a word in a README may be: words of sources, names of files and folders.
std::set<std::string> known_words(const std::vector<File>& files) {
  std::set<std::string> words;
  for (const File& file : files) {
    for (const fs::path& part : fs::path(file.path)) words.insert(part.stem().string());
    if (file.path.ends_with(".md")) continue;
    for (size_t i = 0; i < file.text.size();) {
      size_t end = i;
      while (end < file.text.size() && is_word(file.text[end])) ++end;
      if (end > i) words.insert(file.text.substr(i, end - i));
      i = end + 1;
    }
  }
  return words;
}

// In or below the folder, with or without its ending; `*` is anything.
bool is_there(const std::string& folder, const std::string& name, const std::set<std::string>& paths) {
  std::string pattern = folder.empty() ? "" : folder + "/(.*/)?";
  for (const char c : name) pattern += c == '*' ? ".*" : c == '.' ? "\\." : std::string(1, c);
  if (pattern.ends_with('/')) pattern.pop_back();
  const std::regex wanted(pattern + R"((\.\w+)*)");
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& one) { return std::regex_match(one, wanted); });
}

// Whether each word of `Class::member`, `function(arguments)`, `some_name` or `kConstant` is known. Other words may be
// anybody's.
bool has_words(const std::string& name, const std::set<std::string>& known) {
  static const std::regex ours(R"(\w+(::\w+)+|[a-z]\w*(::\w+)*\(.*\)|[a-z]+(_[a-z0-9]+)+|k[A-Z][a-z]\w*)"),
      separator("::");
  if (!std::regex_match(name, ours)) return true;
  const std::string bare = name.substr(0, name.find('('));
  return std::all_of(std::sregex_token_iterator(bare.begin(), bare.end(), separator, -1), std::sregex_token_iterator(),
                     [&](const auto& word) { return known.contains(word.str()); });
}

std::set<std::string> all_paths(const std::vector<File>& files) {
  std::set<std::string> paths;
  for (const File& file : files) {
    for (fs::path path = file.path; !path.empty(); path = path.parent_path()) paths.insert(path.generic_string());
  }
  return paths;
}

}  // namespace

std::vector<Finding> unknown_names(const std::vector<File>& files) {
  static const std::regex quoted("`([^`]+)`"), table(R"(\| (file|folder)s? \|.*)");
  const std::set<std::string> words = known_words(files), paths = all_paths(files);
  std::vector<Finding> findings;
  for (const File& file : files) {
    if (fs::path(file.path).filename() != "README.md") continue;
    const std::string folder = fs::path(file.path).parent_path().generic_string();
    std::istringstream lines(file.text);
    bool in_table = false;
    int number = 1;
    for (std::string line; std::getline(lines, line); ++number) {
      in_table = line.starts_with('|') && (in_table || std::regex_match(line, table));
      const size_t column = in_table ? line.find('|', 1) : 0;
      for (std::sregex_iterator it(line.begin(), line.end(), quoted), end; it != end; ++it) {
        const bool is_path = static_cast<size_t>(it->position()) < column;
        if (is_path ? is_there(folder, (*it)[1], paths) : has_words((*it)[1], words)) continue;
        findings.push_back({file.path, number, fmt::format("{} is nowhere", (*it)[1].str())});
      }
    }
  }
  return findings;
}

// Whether the block that begins at `at` only declares types: "class Plan;".
bool only_declares(const std::string& text, size_t at) {
  static const std::regex kDeclarations(R"(\s*((class|struct|enum class) [^;{]*;(\s*//[^\n]*)?\s*)+\})");
  return std::regex_search(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), kDeclarations,
                           std::regex_constants::match_continuous);
}

std::vector<Finding> foreign_namespaces(const std::vector<File>& files) {
  static const std::regex kNamespace(R"((^|\n)namespace scalai((::\w+)*) \{)"), kOuter(R"(::(internal|testing)\b)");
  std::vector<Finding> findings;
  for (const File& file : files) {
    if (!is_cpp(file.path) || file.path.starts_with("tests/")) continue;
    const fs::path path(file.path);
    const std::string stem = std::regex_replace(path.stem().string(), std::regex("_test$"), "");
    std::set<std::string> own(path.begin(), path.end());
    own.insert(stem);
    if (own.count("testing") != 0) continue;
    // Folders of the executor share no namespace, though `executor` is in the path of each.
    const bool of_executor = file.path.starts_with("executor/") && std::distance(path.begin(), path.end()) > 2;
    const std::string root = of_executor ? "::executor::" + std::next(path.begin())->string() + "::" : "";
    if (own.count("labs") != 0 && (own.count("commands") != 0 || stem.ends_with("command"))) own.insert("apps");
    for (std::sregex_iterator at(file.text.begin(), file.text.end(), kNamespace), end; at != end; ++at) {
      const std::string names = std::regex_replace((*at)[2].str(), kOuter, "");
      const size_t begin = static_cast<size_t>(at->position() + at->length());
      const bool fits =
          names.empty() ? file.path.starts_with("ptc/base/") : own.count(names.substr(names.rfind(':') + 1)) != 0;
      if ((fits && (names + "::").starts_with(root)) || only_declares(file.text, begin)) continue;
      const int line = 1 + static_cast<int>(std::count(file.text.begin(), file.text.begin() + at->position(2), '\n'));
      findings.push_back({file.path, line, fmt::format("scalai{} is no namespace of this folder", (*at)[2].str())});
    }
  }
  return findings;
}

}  // namespace scalai::tidy
