#include "labs/validation/model/published.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "ptc/base/hash.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"

namespace scalai::step::validation {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

int columns_before(std::string_view line, size_t at) { return static_cast<int>(characters(line.substr(0, at)).size()); }

// The cells of a line; a quote that nothing closes is a problem.
std::vector<Cell> cells_of(std::string_view line, int number, Diagnostics& problems) {
  std::vector<Cell> cells;
  for (size_t at = 0; at <= line.size();) {
    const size_t begin = at;
    std::string text;
    if (at < line.size() && line[at] == '"') {
      ++at;
      while (at < line.size() && (line[at] != '"' || line.substr(at, 2) == "\"\"")) {
        at += line[at] == '"' ? 1 : 0;
        text += line[at++];
      }
      if (at++ >= line.size())
        problems.error({number, columns_before(line, begin) + 1, 1}, "this quote is never closed");
    }
    const size_t end = std::min(line.find(',', std::min(at, line.size())), line.size());
    text += line.substr(std::min(at, end), end - std::min(at, end));
    const int length = std::max(1, columns_before(line.substr(begin), end - begin));
    cells.push_back({std::string(trimmed(text)), {number, columns_before(line, begin) + 1, length}});
    at = end + 1;
  }
  return cells;
}

// "key: text", where key is one word in small letters.
bool split_key(std::string_view comment, std::string& key, std::string& text) {
  const size_t colon = comment.find(": ");
  if (colon == std::string_view::npos) return false;
  const std::string_view word = comment.substr(0, colon);
  const bool is_key =
      !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  if (!is_key) return false;
  key = word;
  text = trimmed(comment.substr(colon + 2));
  return true;
}

void read_defaults(const std::string& text, SourcePlace place, PublishedTable& table, Diagnostics& problems) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string pair = text.substr(at, end - at);
    const size_t equals = pair.find('=');
    if (equals != std::string::npos && equals > 0) {
      table.defaults[pair.substr(0, equals)] = pair.substr(equals + 1);
    } else if (!pair.empty()) {
      problems.error(place, fmt::format("\"{}\" is not COLUMN=VALUE", pair));
    }
    at = end + 1;
  }
}

}  // namespace

std::string PublishedTable::said(const std::string& key) const {
  const auto found = header.find(key);
  return found == header.end() ? "" : found->second;
}

std::string PublishedTable::source() const {
  const std::string text = said("source");
  return text.substr(0, std::min({text.find(','), text.find(':'), text.find(';'), text.find(" at ")}));
}

bool PublishedTable::held_out(const std::string& label) const {
  return is_held_out(said("split") == "source" ? source() : name + "/" + label);
}

bool PublishedTable::is_held_out(const std::string& name) {
  return std::string_view("02468ace").find(digest_of(name).back()) != std::string_view::npos;
}

PublishedTable read_table(std::string name, std::string_view text, Diagnostics& problems) {
  PublishedTable table{.name = std::move(name)};
  std::string key;
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty()) continue;
    if (line.front() == '#') {
      std::string said;
      const std::string_view comment = trimmed(line.substr(1));
      if (split_key(comment, key, said)) {
        table.header_at[key] = {number, 1, static_cast<int>(characters(line).size())};
      } else {
        said = comment;
      }
      if (!key.empty()) table.header[key] += (table.header[key].empty() ? "" : " ") + said;
    } else if (table.columns.empty()) {
      table.columns = cells_of(line, number, problems);
    } else {
      std::vector<Cell> cells = cells_of(line, number, problems);
      if (cells.size() == table.columns.size()) {
        table.rows.push_back(std::move(cells));
      } else {
        problems.error({number, 1, static_cast<int>(characters(line).size())},
                       fmt::format("{} cells, but the table has {} columns", cells.size(), table.columns.size()));
      }
    }
  }
  for (const char* needed : {"kind", "title", "source"}) {
    if (table.said(needed).empty()) problems.error(SourcePlace{}, fmt::format("no comment line \"# {}: …\"", needed));
  }
  if (table.rows.empty()) problems.error(SourcePlace{}, "no rows");
  if (table.header.contains("default"))
    read_defaults(table.said("default"), table.header_at["default"], table, problems);
  return table;
}

RowReader::RowReader(const PublishedTable& table, size_t row, Diagnostics& problems)
    : table_(table), cells_(table.rows.at(row)), problems_(problems) {}

const Cell* RowReader::find(const std::string& column) const {
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (table_.columns[i].text == column && !cells_[i].text.empty()) return &cells_[i];
  }
  return nullptr;
}

SourcePlace RowReader::place_of(const std::string& column) const {
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (table_.columns[i].text == column) return cells_[i].place;
  }
  if (table_.defaults.contains(column)) return table_.header_at.at("default");
  return {cells_.front().place.line, 1, 1};
}

bool RowReader::has(const std::string& column) const {
  return find(column) != nullptr || table_.defaults.contains(column);
}

std::string RowReader::text(const std::string& column, const std::optional<std::string>& fallback) {
  if (const Cell* cell = find(column)) return cell->text;
  if (const auto found = table_.defaults.find(column); found != table_.defaults.end()) return found->second;
  if (!fallback) problem(column, fmt::format("no \"{}\"", column), "fill in the column, or name a default above");
  return fallback.value_or("");
}

int RowReader::count(const std::string& column, std::optional<int> fallback) {
  if (!has(column) && fallback) return *fallback;
  const std::string value = text(column);
  if (value.empty()) return 0;
  const auto number = parse_count(value);
  if (number.ok() && *number <= 1'000'000'000) return static_cast<int>(*number);
  problem(column, fmt::format("\"{}\" is not a count", value));
  return 0;
}

double RowReader::number(const std::string& column, std::optional<double> fallback) {
  if (!has(column) && fallback) return *fallback;
  const std::string value = text(column);
  if (value.empty()) return 0;
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (end == value.c_str() + value.size() && std::isfinite(number) && number >= 0) return number;
  problem(column, fmt::format("\"{}\" is not a number >= 0", value));
  return 0;
}

bool RowReader::flag(const std::string& column, bool fallback) {
  const std::string value = text(column, fallback ? "1" : "0");
  if (value != "0" && value != "1") problem(column, fmt::format("\"{}\" is neither 0 nor 1", value));
  return value == "1";
}

void RowReader::problem(const std::string& column, std::string message, std::string hint) {
  ok_ = false;
  problems_.error(place_of(column), std::move(message), std::move(hint));
}

void check_columns(const PublishedTable& table, const std::vector<std::string>& known, Diagnostics& problems) {
  const auto check = [&](const std::string& column, SourcePlace place) {
    if (std::find(known.begin(), known.end(), column) != known.end()) return;
    const std::string near = closest(column, known);
    problems.error(
        place, fmt::format("tables of this kind have no column \"{}\"", column),
        near.empty() ? fmt::format("they have {}", fmt::join(known, ", ")) : fmt::format("did you mean \"{}\"?", near));
  };
  for (const Cell& column : table.columns) check(column.text, column.place);
  for (const auto& [column, value] : table.defaults) check(column, table.header_at.at("default"));
}

}  // namespace scalai::step::validation
