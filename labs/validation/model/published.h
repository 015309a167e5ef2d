#pragma once
// Tables of published measurements, as text files (results/perfmodel/published/README.md): comment lines with the
// source of the numbers, a line of column names, one line per published row. Values; one thread.
//
//     # kind: step
//     # title: What the table shows
//     # source: paper, table, address
//     # default: recompute=full host=dgx-a100-80g
//     # goal: mape<=8 max<=15
//     label,model,gpus,tp,…,published,unit
//     "a label, quoted",gpt-1.7b,32,1,…,137,tflops
//
// A comment line without "key:" continues the previous one. Cells may be quoted as in RFC 4180.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ptc/base/diagnostics.h"

namespace scalai::step::validation {

struct Cell {
  std::string text;
  SourcePlace place;
};

struct PublishedTable {
  std::string name;                              // name of the file without ".csv"
  std::map<std::string, std::string> header;     // "kind", "title", "source", "goal", "assumed" …
  std::map<std::string, SourcePlace> header_at;  // for messages
  std::map<std::string, std::string> defaults;   // for columns that are absent, or empty in a row
  std::vector<Cell> columns;
  std::vector<std::vector<Cell>> rows;  // as many cells as columns

  std::string said(const std::string& key) const;  // value in the header; "" if absent
  // Who says the numbers, "github.com/NVIDIA/NeMo" or "Smith et al.": `source` up to the first comma, colon, semicolon
  // or "at". Rows of one source stand or fall together.
  std::string source() const;
  // Whether a row judges constants instead of choosing them. True for about half of all names: an even XXH3 digest of
  // "table/label" or, where the table says "split: source", of its source. Nobody chooses it.
  bool held_out(const std::string& label) const;
  static bool is_held_out(const std::string& name);  // the digest of this name
};

// Returns the parsed part; adds all parse errors to `problems`.
PublishedTable read_table(std::string name, std::string_view text, Diagnostics& problems);

// The cells of one row by column name, converted and checked. A missing or malformed value is a problem at its place,
// and the reader continues with the fallback (or 0), so that all problems of a file are found together. Table and
// problems outlive the reader.
class RowReader {
 public:
  RowReader(const PublishedTable& table, size_t row, Diagnostics& problems);

  bool has(const std::string& column) const;  // in the row or as a default
  std::string text(const std::string& column, const std::optional<std::string>& fallback = std::nullopt);
  int count(const std::string& column, std::optional<int> fallback = std::nullopt);  // >= 0
  double number(const std::string& column, std::optional<double> fallback = std::nullopt);
  bool flag(const std::string& column, bool fallback);  // 0 or 1
  void problem(const std::string& column, std::string message, std::string hint = "");
  bool ok() const { return ok_; }  // no problem so far
  const PublishedTable& table() const { return table_; }
  bool apart() const { return !table_.said("apart").empty(); }

 private:
  const Cell* find(const std::string& column) const;
  SourcePlace place_of(const std::string& column) const;

  const PublishedTable& table_;
  const std::vector<Cell>& cells_;
  Diagnostics& problems_;
  bool ok_ = true;
};

// Adds a problem for each column that is not in `known`, with the nearest known name.
void check_columns(const PublishedTable& table, const std::vector<std::string>& known, Diagnostics& problems);

}  // namespace scalai::step::validation
