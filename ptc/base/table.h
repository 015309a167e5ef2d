#pragma once
// Result tables: one content, two forms. Text is aligned for a terminal (numbers right, words left); CSV quotes
// as RFC 4180 says, with lines that end in "\n". No colour, ever.

#include <string>
#include <vector>

namespace scalai {

class Table {
 public:
  // A header that ends in ">" is right-aligned (the ">" is not printed).
  explicit Table(std::vector<std::string> headers);
  void row(std::vector<std::string> cells);  // as many cells as headers
  void rule();                               // a horizontal line before the next row (text form only)
  std::string text() const;
  std::string csv() const;

 private:
  std::vector<std::string> headers_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

// One CSV cell, quoted where RFC 4180 asks for it.
std::string csv_cell(const std::string& text);

}  // namespace scalai
