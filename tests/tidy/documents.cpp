#include "tests/tidy/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string_view>

#include "tests/tidy/source_text.h"

namespace scalai::tidy {
namespace {

bool opens_with_a_question(std::string_view text) {
  while (text.starts_with("#")) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (text.substr(0, end).find('?') != std::string_view::npos) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

bool is_name_part(char c) { return is_word(c) || c == '-'; }

// The scenario's name, in full, in a line of a table.
bool has_row(std::string_view table, const std::string& name) {
  for (size_t at = table.find(name); at != std::string_view::npos; at = table.find(name, at + 1)) {
    const size_t end = at + name.size();
    const size_t line = table.rfind('\n', at) + 1;  // npos + 1 = 0
    const bool whole = !(at > 0 && is_name_part(table[at - 1])) && !(end < table.size() && is_name_part(table[end]));
    if (whole && table[line] == '|') return true;
  }
  return false;
}

}  // namespace

std::vector<Finding> unknown_tests(const std::vector<File>& files, const std::string& document) {
  static const std::regex test(R"(TEST(?:_F|_P)?\((\w+), (\w+)\))"), name("`(\\w+\\.(?:[A-Z]\\w+|case))`");
  std::set<std::string> known;
  std::vector<Finding> findings;
  for (const File& file : files) {
    if (file.path.starts_with("tests/cases/")) known.insert(file.path.substr(std::string("tests/cases/").size()));
    if (!file.path.ends_with("_test.cpp")) continue;
    for (std::sregex_iterator it(file.text.begin(), file.text.end(), test), end; it != end; ++it)
      known.insert((*it)[1].str() + "." + (*it)[2].str());
  }
  for (const File& file : files) {
    if (file.path != document) continue;
    for (std::sregex_iterator it(file.text.begin(), file.text.end(), name), end; it != end; ++it) {
      const auto line = std::count(file.text.begin(), file.text.begin() + it->position(), '\n') + 1;
      if (!known.contains((*it)[1]))
        findings.push_back({document, static_cast<int>(line), "no test " + (*it)[1].str()});
    }
  }
  return findings;
}

std::vector<Finding> unlisted_retries(const std::vector<File>& files, const std::string& document) {
  static const std::regex retry(
      R"(\bsleep_for\(|\busleep\(|\btime\.sleep\(|\bBackoff\b|\bk\w*(?:Tries|Starts)\b|\bkMost(?:Attempts|Failures)\b|\bkAskedMost\b)");
  static const std::vector<const char*> parts = {"sleep", "Backoff", "Tries", "Starts", "kMost", "kAskedMost"};
  const auto listed = std::find_if(files.begin(), files.end(), [&](const File& file) { return file.path == document; });
  std::vector<Finding> findings;
  for (const File& file : files) {
    const bool source = file.path.ends_with(".cpp") || file.path.ends_with(".h") || file.path.ends_with(".cu");
    const bool python = file.path.starts_with("python/scalai/") && file.path.ends_with(".py");
    const bool test = file.path.find("_test.") != std::string::npos ||
                      file.path.find("testing/") != std::string::npos || file.path.starts_with("tests/");
    if ((!source && !python) || test) continue;
    // std::regex takes seconds for the whole tree; few files have any of these.
    if (std::none_of(parts.begin(), parts.end(),
                     [&](const char* part) { return file.text.find(part) != std::string::npos; }))
      continue;
    const std::string code = source ? code_only(file.text) : file.text;
    std::smatch found;
    if (!std::regex_search(code, found, retry)) continue;
    if (listed == files.end() || listed->text.find("`" + file.path + "`") == std::string::npos)
      findings.push_back({file.path, line_of(code, static_cast<size_t>(found.position())),
                          found.str() + ": a retry, or a wait? It has no row in " + document});
  }
  return findings;
}

std::vector<Finding> unindexed_scenarios(const std::vector<File>& files) {
  const auto index =
      std::find_if(files.begin(), files.end(), [](const File& file) { return file.path == "scenarios/README.md"; });
  std::vector<Finding> findings;
  for (const File& file : files) {
    if (std::filesystem::path(file.path).parent_path() != "scenarios" || !file.path.ends_with(".textproto")) continue;
    const std::string name = std::filesystem::path(file.path).stem().string();
    if (!opens_with_a_question(file.text)) findings.push_back({file.path, 1, "does not open with its question"});
    if (index == files.end() || !has_row(index->text, name)) {
      findings.push_back({file.path, 0, "has no row in scenarios/README.md"});
    }
  }
  return findings;
}

std::vector<Finding> unindexed_results(const std::vector<File>& files) {
  std::string index;
  std::set<std::string> folders, with_run;
  for (const File& file : files) {
    if (file.path == "results/README.md") index = file.text;
    if (!file.path.starts_with("results/")) continue;
    const size_t end = file.path.find('/', std::string_view("results/").size());
    if (end == std::string::npos) continue;
    folders.insert(file.path.substr(0, end));
    if (file.path.substr(end) == "/run") with_run.insert(file.path.substr(0, end));
  }
  std::vector<Finding> findings;
  for (const std::string& folder : folders) {
    const std::string name = folder.substr(folder.find('/') + 1);
    const std::regex row(fmt::format(
        R"((^|\n)\| \[{0}\]\({0}/README\.md\) \| [^|\n]+ \| `([^`\n]+)` \| [^|\n]+ \| [^|\n]+ \|\n)", name));
    std::smatch found;
    if (!std::regex_search(index, found, row)) {
      findings.push_back({folder, 0, "has no row in results/README.md"});
    } else if (with_run.count(folder) != 0 && found[2].str().find(folder + "/run") != 0) {
      findings.push_back({folder, 0, "has a run that its row in results/README.md does not call"});
    }
  }
  return findings;
}

}  // namespace scalai::tidy
