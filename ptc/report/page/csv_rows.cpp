// internal/csv_rows.h

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/report/page/internal/csv_rows.h"
#include "ptc/run/scenario/trace/csv.h"

namespace scalai::report {

absl::StatusOr<CsvRows> CsvRows::read(const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  CsvRows result;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::vector<std::string> fields;
    ++number;
    if (!trace::split_fields(std::string_view(text).substr(begin, end - begin), ',', fields))
      return invalid(fmt::format("{}:{}: error: a quote is not closed", path, number));
    begin = end + 1;
    if (number == 1) {
      for (size_t i = 0; i < fields.size(); ++i) result.index_[fields[i]] = i;
      result.header_ = std::move(fields);
    } else if (fields.size() != result.header_.size()) {
      return invalid(fmt::format("{}:{}: error: {} fields; the header has {}", path, number, fields.size(),
                                 result.header_.size()));
    } else {
      result.rows_.push_back(std::move(fields));
    }
  }
  if (result.header_.empty()) return invalid(fmt::format("{}: error: the file is empty", path));
  return result;
}

const std::string& CsvRows::text(size_t row, std::string_view column) const {
  static const std::string none;
  const auto found = index_.find(std::string(column));
  return found == index_.end() ? none : rows_.at(row)[found->second];
}

std::optional<double> CsvRows::number(size_t row, std::string_view column) const {
  const std::string& field = text(row, column);
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace scalai::report
