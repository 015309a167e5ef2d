#pragma once
// Result tables: one content, two forms. Text is aligned for a terminal. CSV follows RFC 4180, but lines end in "\n".
// No colour. One thread at a time.

#include <string>
#include <vector>

namespace scalai {

class Table {
 public:
  // A header that ends in ">" makes a right-aligned column; the ">" is not printed. CHECK: at least one header.
  explicit Table(std::vector<std::string> headers);
  void row(std::vector<std::string> cells);  // CHECK: one cell for each header
  void rule();                               // a horizontal line before the next row, in the text form only
  std::string text() const;
  std::string csv() const;

 private:
  std::vector<std::string> headers_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

// One CSV cell, quoted if RFC 4180 requires it.
std::string csv_cell(const std::string& text);

}  // namespace scalai
