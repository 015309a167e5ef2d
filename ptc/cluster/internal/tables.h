#pragma once
// The tables gpus.csv and hosts.csv, compiled in, and what reads them: lines that begin with '#' are comments, the
// first other line names the columns, cells have no quotes.

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::cluster {

std::string_view gpus_csv();
std::string_view hosts_csv();

// The next cell of a row, which is taken off.
inline std::string_view next_cell(std::string_view& row) {
  const std::string_view cell = row.substr(0, row.find(','));
  row.remove_prefix(std::min(cell.size() + 1, row.size()));
  return cell;
}

inline double number(std::string_view text) {
  double value = 0;
  if (text.empty()) return 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  SCALAI_CHECK(error == std::errc{} && end == text.data() + text.size(), std::string(text));
  return value;
}

// One row for each line of a table.
template <class Row>
std::vector<Row> rows_of(std::string_view text, Row (*row_of)(std::string_view line)) {
  std::vector<Row> rows;
  bool header = true;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    if (!std::exchange(header, false)) rows.push_back(row_of(line));
  }
  return rows;
}

}  // namespace scalai::cluster
