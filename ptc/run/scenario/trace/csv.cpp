#include "ptc/run/scenario/trace/csv.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/run/scenario/trace/internal/values.h"

namespace scalai::trace {
namespace {

// A field in quotes from line[at] = '"' on; `at` moves behind the closing one.
bool quoted_field(std::string_view line, size_t& at, std::string& field) {
  for (++at; at < line.size(); ++at) {
    if (line[at] != '"') {
      field += line[at];
    } else if (at + 1 < line.size() && line[at + 1] == '"') {
      field += '"';
      ++at;
    } else {
      ++at;
      return true;
    }
  }
  return false;
}

std::string out_of_bounds(std::string_view value, Bounds bounds) {
  return fmt::format("{} is not within {} to {}", in_quotes(value), shortest(bounds.low), shortest(bounds.high));
}

bool within(double value, Bounds bounds) { return value >= bounds.low && value <= bounds.high; }

}  // namespace

bool split_fields(std::string_view line, char separator, std::vector<std::string>& fields) {
  size_t count = 0;
  const auto fresh = [&]() -> std::string& {
    if (count == fields.size()) fields.emplace_back();
    fields[count].clear();
    return fields[count++];
  };
  size_t at = 0;
  for (;;) {
    std::string& field = fresh();
    if (separator == ',' && at < line.size() && line[at] == '"') {
      if (!quoted_field(line, at, field)) return false;
      field = csv_text(field);
      if (at < line.size() && line[at] != separator) return false;
    } else {
      const size_t end = std::min(line.find(separator, at), line.size());
      const std::string_view cell = line.substr(at, end - at);
      field.assign(separator == ',' ? csv_text(cell) : cell);
      at = end;
    }
    if (at >= line.size()) break;
    ++at;
  }
  fields.resize(count);
  return true;
}

absl::StatusOr<Csv> Csv::open(const std::string& path, Problems& problems, char separator, BytesRead read) {
  SCALAI_ASSIGN_OR_RETURN(LineReader lines, LineReader::open(path, std::move(read)));
  return Csv(std::move(lines), problems, separator);
}

bool Csv::read_header(const std::vector<std::string>& required) {
  std::string_view line;
  free_ = false;
  if (!lines_.next(line)) {
    if (lines_.status().ok()) problems_->add({lines_.path()}, "", "is empty");
    return false;
  }
  if (line.substr(0, 3) == "\xEF\xBB\xBF") line.remove_prefix(3);  // spreadsheets mark UTF-8 so
  if (!split_fields(line, separator_, names_)) {
    problems_->add(place(), "", "the header has a quote that is not closed");
    return false;
  }
  for (std::string& name : names_) name = std::string(trimmed(name));
  bool complete = true;
  for (const std::string& name : required) {
    if (has(name)) continue;
    complete = false;
    const std::string near = closest(name, names_);
    problems_->add(place(), name, "the header has no such column",
                   near.empty() ? "" : fmt::format("there is {}", in_quotes(near)));
  }
  std::vector<std::string> sorted = names_;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end() && !twice->empty()) {
    problems_->add(place(), *twice, "the header has this column twice");
    return false;
  }
  return complete;
}

bool Csv::next() {
  std::string_view line;
  while (lines_.next(line)) {
    if (trimmed(line).empty()) continue;
    ++rows_;
    if (!split_fields(line, separator_, fields_)) {
      problems_->add(place(), "", "a quote is not closed, or text follows a closing one");
    } else if (!free_ && fields_.size() != names_.size()) {
      problems_->add(place(), "", fmt::format("has {} fields instead of {}", fields_.size(), names_.size()));
    } else {
      return true;
    }
  }
  return false;
}

int Csv::index_of(std::string_view column) const {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == column) return static_cast<int>(i);
  }
  return -1;
}

std::string_view Csv::text(std::string_view column) const {
  const int index = index_of(column);
  SCALAI_CHECK(index >= 0 && static_cast<size_t>(index) < fields_.size(), std::string(column));
  return trimmed(fields_[static_cast<size_t>(index)]);
}

std::optional<std::string> Csv::name(std::string_view column) {
  const std::string_view value = text(column);
  if (fit_as_name(value)) return std::string(value);
  problem(column, value.empty() ? "is empty" : fmt::format("{} is no name", in_quotes(value)));
  return std::nullopt;
}

std::optional<double> Csv::number(std::string_view column, Bounds bounds) {
  const std::string_view value = text(column);
  const std::optional<double> number = number_of(value);
  if (number && within(*number, bounds)) return number;
  problem(column, number ? out_of_bounds(value, bounds) : fmt::format("{} is not a number", in_quotes(value)));
  return std::nullopt;
}

std::optional<int64_t> Csv::count(std::string_view column, Bounds bounds) {
  const std::string_view value = text(column);
  const std::optional<int64_t> number = whole_of(value);
  if (number && within(static_cast<double>(*number), bounds)) return number;
  problem(column, number ? out_of_bounds(value, bounds) : fmt::format("{} is not a whole number", in_quotes(value)));
  return std::nullopt;
}

std::optional<double> Csv::time(std::string_view column) {
  const std::string_view value = text(column);
  const std::optional<double> seconds = time_of(value);
  if (!seconds) {
    problem(column, fmt::format("{} is not a date and time", in_quotes(value)), "write it like 2020-06-09 18:41:01");
  }
  return seconds;
}

void Csv::problem(std::string_view column, const std::string& reason, const std::string& hint) {
  problems_->add(place(), column, reason, hint);
}

}  // namespace scalai::trace
