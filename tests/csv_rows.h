#pragma once
// CSV of reports, without quotes: a map from column to cell for each line.

#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace scalai::testing {

using Row = std::map<std::string, std::string>;

inline std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

inline std::vector<Row> rows_of(const std::string& csv) {
  std::vector<Row> rows;
  std::vector<std::string> names;
  for (const std::string& line : split(csv, '\n')) {
    const std::vector<std::string> cells = split(line, ',');
    if (names.empty()) {
      names = cells;
      continue;
    }
    Row& row = rows.emplace_back();
    for (size_t i = 0; i < names.size(); ++i) row[names[i]] = i < cells.size() ? cells[i] : "";
  }
  return rows;
}

inline double number(const Row& row, const std::string& column) { return std::stod(row.at(column)); }

}  // namespace scalai::testing
