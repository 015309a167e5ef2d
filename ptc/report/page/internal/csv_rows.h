#pragma once
// A CSV file of a report: fields by column. Files are ours, so any problem is an error of the file.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::report {

class CsvRows {
 public:
  // Errors: NotFound (no such file); InvalidArgument, with file and line: no header, a quote that is not closed, a row
  // of another width.
  static absl::StatusOr<CsvRows> read(const std::string& path);

  const std::vector<std::string>& header() const { return header_; }
  bool has(std::string_view column) const { return index_.count(std::string(column)) != 0; }
  size_t size() const { return rows_.size(); }
  // "" where the file has no such column: of an earlier version.
  const std::string& text(size_t row, std::string_view column) const;
  std::optional<double> number(size_t row, std::string_view column) const;  // nothing: empty, or no number
  double number_or_zero(size_t row, std::string_view column) const { return number(row, column).value_or(0); }

 private:
  std::vector<std::string> header_;
  std::map<std::string, size_t> index_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace scalai::report
