#include "ptc/base/table.h"

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai {
namespace {

constexpr const char* kGap = "  ";

std::string padded(const std::string& cell, size_t width, bool right) {
  const std::string blanks(width - columns_of(cell), ' ');
  const std::string shown = printable_text(cell);
  return right ? blanks + shown : shown + blanks;
}

std::string text_line(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                      const std::vector<bool>& right) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += kGap;
    line += padded(cells[i], widths[i], right[i]);
  }
  while (line.ends_with(' ')) line.pop_back();
  return line + "\n";
}

std::string csv_line(const std::vector<std::string>& cells) {
  // A lone empty cell would read back as no record at all.
  if (cells.size() == 1 && cells[0].empty()) return "\"\"\n";
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += ',';
    line += csv_cell(cells[i]);
  }
  return line + "\n";
}

}  // namespace

Table::Table(std::vector<std::string> headers) : headers_(std::move(headers)) {
  SCALAI_CHECK(!headers_.empty());
  for (std::string& header : headers_) {
    right_.push_back(header.ends_with('>'));
    if (right_.back()) header.pop_back();
  }
}

void Table::row(std::vector<std::string> cells) {
  SCALAI_CHECK(cells.size() == headers_.size());
  rows_.push_back(std::move(cells));
}

void Table::rule() { rows_.emplace_back(); }

std::string Table::text() const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < headers_.size(); ++i) {
    size_t width = columns_of(headers_[i]);
    for (const auto& cells : rows_) width = cells.empty() ? width : std::max(width, columns_of(cells[i]));
    widths.push_back(width);
  }
  std::vector<std::string> dashes;
  for (const size_t width : widths) dashes.emplace_back(width, '-');
  std::string out = text_line(headers_, widths, right_) + text_line(dashes, widths, right_);
  for (const auto& cells : rows_) out += text_line(cells.empty() ? dashes : cells, widths, right_);
  return out;
}

std::string Table::csv() const {
  std::string out = csv_line(headers_);
  for (const auto& cells : rows_) {
    if (!cells.empty()) out += csv_line(cells);
  }
  return out;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace scalai
