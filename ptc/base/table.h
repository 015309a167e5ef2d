#pragma once
// Result tables: one content, two forms. Text is aligned for a terminal. CSV follows RFC 4180, but lines end in "\n".
// One thread at a time.
//
// Text that is wider than its screen is fitted: sentences go on several lines, then long names are shortened in the
// middle, then columns are left out. A line under the table says what is missing. CSV is always whole.

#include <string>
#include <string_view>
#include <vector>

#include "ptc/base/screen.h"

namespace scalai {

class Table {
 public:
  // A header that ends in ">" makes a right-aligned column, one that ends in "~" a column of sentences; the sign is not
  // printed. CHECK: at least one header.
  explicit Table(std::vector<std::string> headers);
  // The columns that a narrow screen loses first, in this order; of several with one name the last first. After
  // them the last columns; the first column always stays. CHECK: each is a header.
  void leave_out_first(const std::vector<std::string>& headers);
  void row(std::vector<std::string> cells);  // CHECK: one cell for each header
  void rule();                               // a horizontal line before the next row, in the text form only
  std::string text(const Screen& screen = {}) const;
  std::string csv() const;

 private:
  enum class Kind { kName, kNumber, kSentence };
  struct Fit {                   // what a screen shows
    std::vector<size_t> shown;   // columns, ascending
    std::vector<size_t> widths;  // of all columns
  };
  std::vector<size_t> widths() const;
  Fit fit(size_t columns) const;
  bool narrowed(Fit& fit, size_t columns, size_t narrowest_name) const;
  std::string line(const std::vector<std::string>& cells, const Fit& fit) const;
  std::string missing_text(const Fit& fit, const Screen& screen) const;

  std::vector<std::string> headers_;
  std::vector<Kind> kinds_;
  std::vector<size_t> left_out_;                // first to last
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

// One CSV cell, quoted if RFC 4180 requires it. A spreadsheet runs a text that begins as "=cmd…" does, in quotes, too:
// it gets an apostrophe in front. Numbers, with and without unit, stay as they are: "-3", "+5 %".
std::string csv_cell(const std::string& text);
// The text of a cell whose quotes are taken off: without that apostrophe.
std::string_view csv_text(std::string_view cell);

}  // namespace scalai
