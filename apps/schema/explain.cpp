#include "apps/schema/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "apps/schema/internal/texts.h"
#include "apps/schema/schema.h"
#include "ptc/base/diagnostics.h"

namespace scalai::apps {
namespace {

// A row of a table of a page.
struct Row {
  std::string section;
  std::vector<std::string> head, cells;  // as written, trimmed
};

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

std::vector<std::string> split(const std::string& text, const std::string& by) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = text.find(by); end != std::string::npos; end = text.find(by, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + by.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// Cells of "| a | b |"; a bar inside `code` may be written \|.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  for (size_t i = 1; i + 1 < line.size(); ++i) {
    if (line[i] == '\\' && line[i + 1] == '|') {
      cells.back() += line[++i];
    } else if (line[i] == '|') {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  for (std::string& cell : cells) cell = trimmed(cell);
  return cells;
}

std::vector<Row> rows_of(std::string_view page) {
  std::vector<Row> rows;
  std::string section;
  std::vector<std::string> head;
  for (const std::string& line : split(std::string(page), "\n")) {
    if (line.starts_with('#')) section = trimmed(line.substr(std::min(line.find_first_not_of('#'), line.size())));
    if (!line.starts_with('|')) {
      head.clear();
    } else if (head.empty()) {
      head = cells_of(line);
    } else if (!line.starts_with("|---") && !line.starts_with("| ---")) {
      rows.push_back({section, head, cells_of(line)});
    }
  }
  return rows;
}

// Without anchors, links and marks of code.
std::string plain(std::string text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<' && (text.compare(i, 3, "<a ") == 0 || text.compare(i, 4, "</a>") == 0)) {
      i = text.find('>', i);
      if (i == std::string::npos) break;
    } else if (text[i] == '[' && text.find("](", i) != std::string::npos && text.find(']', i) == text.find("](", i)) {
      const size_t end = text.find("](", i);
      out += plain(text.substr(i + 1, end - i - 1));
      i = text.find(')', end);
      if (i == std::string::npos) break;
    } else if (text[i] != '`' && text[i] != '*') {
      out += text[i];
    }
  }
  return out;
}

// The texts between marks of code, or between commas where there are none.
std::vector<std::string> names_in(const std::string& cell) {
  std::vector<std::string> names;
  if (cell.find('`') == std::string::npos) return split(plain(cell), ", ");
  const std::vector<std::string> parts = split(cell, "`");
  for (size_t i = 1; i < parts.size(); i += 2) names.push_back(parts[i]);
  return names;
}

std::vector<std::string> anchors_in(const std::string& cell) {
  std::vector<std::string> anchors;
  constexpr std::string_view kMark = "id=\"";
  for (size_t at = cell.find(kMark); at != std::string::npos; at = cell.find(kMark, at)) {
    at += kMark.size();
    anchors.push_back(cell.substr(at, cell.find('"', at) - at));
  }
  return anchors;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool is(const std::vector<std::string>& names, const std::string& word) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return lower(name) == word; });
}

const std::vector<Row>& terms() {
  static const std::vector<Row> kRows = rows_of(built_in_text("docs/glossary.md"));
  return kRows;
}
const std::vector<Row>& metrics() {
  static const std::vector<Row> kRows = rows_of(built_in_text("docs/reports.md"));
  return kRows;
}

Explanation of_field(const FieldHelp& help) {
  Explanation one{"field", help.path, help.type, help.comment, help.file};
  if (!help.fields.empty())
    one.text += fmt::format("{}Fields: {}.", one.text.empty() ? "" : ". ", fmt::join(help.fields, ", "));
  return one;
}

// A metric may be written as a path: /jobs/0/downtime_s.
std::string last_part(const std::string& word) {
  const size_t slash = word.rfind('/');
  return slash == std::string::npos ? word : word.substr(slash + 1);
}

void add_metrics(const std::string& word, std::vector<Explanation>& found) {
  for (const Row& row : metrics()) {
    if (row.cells.size() < 2 || !is(names_in(row.cells.front()), word)) continue;
    const size_t unit = static_cast<size_t>(std::find(row.head.begin(), row.head.end(), "unit") - row.head.begin());
    found.push_back({"metric", plain(row.cells.front()), unit < row.cells.size() ? plain(row.cells[unit]) : "",
                     plain(row.cells.back()), fmt::format("docs/reports.md, {}", plain(row.section))});
  }
}

void add_terms(const std::string& word, std::vector<Explanation>& found) {
  for (const Row& row : terms()) {
    if (row.cells.size() < 2) continue;
    const std::string dashed = [&] {
      std::string text = word;
      std::replace(text.begin(), text.end(), ' ', '-');
      return text;
    }();
    if (!is(names_in(row.cells.front()), word) && !is(anchors_in(row.cells.front()), dashed)) continue;
    found.push_back({"term", plain(row.cells.front()), "", plain(row.cells.back()),
                     fmt::format("docs/glossary.md, {}", plain(row.section))});
  }
}

}  // namespace

std::vector<Explanation> explanations(const std::string& word) {
  std::vector<Explanation> found;
  if (word.empty()) return found;
  if (const std::optional<FieldHelp> help = field_help(word)) {
    found.push_back(of_field(*help));
  } else {
    for (const std::string& path : paths_of(word)) found.push_back(of_field(*field_help(path)));
  }
  for (const FieldHelp& help : fields_with_value(word))
    found.push_back({"value", word, "of " + help.path, help.comment, help.file});
  const std::string small = lower(last_part(word));
  add_metrics(small, found);
  add_terms(small, found);
  return found;
}

std::vector<std::string> words_like(const std::string& word) {
  std::set<std::string> known;
  for (const std::string& name : field_names()) known.insert(name);
  for (const std::vector<Row>* rows : {&metrics(), &terms()}) {
    for (const Row& row : *rows) {
      if (row.cells.size() < 2) continue;
      for (const std::string& name : names_in(row.cells.front())) known.insert(name);
      for (const std::string& name : anchors_in(row.cells.front())) known.insert(name);
    }
  }
  std::vector<std::string> left(known.begin(), known.end()), near;
  const std::string last = word.substr(word.find_last_of("./") + 1);
  for (const std::string& one : left) {
    if (near.size() < 3 && last.size() >= 3 && one.starts_with(last)) near.push_back(one);
  }
  while (near.size() < 3) {
    const std::string one = closest(last, left);
    if (one.empty()) break;
    near.push_back(one);
    std::erase(left, one);
  }
  return near;
}

}  // namespace scalai::apps
