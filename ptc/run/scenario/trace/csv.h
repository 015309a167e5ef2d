#pragma once
// Reader of CSV (RFC 4180, one line a row) or tab-separated files, row by row; fields by column, read as values. A
// problem of a field goes to the problems with its place and column, and the value is absent. One thread at a time.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/scenario/trace/lines.h"
#include "ptc/run/scenario/trace/problems.h"

namespace scalai::trace {

// Splits one line into fields. False: a quote is not closed, or text follows a closing quote.
bool split_fields(std::string_view line, char separator, std::vector<std::string>& fields);

struct Bounds {
  double low = 0, high = 0;
};
inline constexpr Bounds kAnyTime{-1e11, 1e11};  // seconds: 3,000 years
inline constexpr Bounds kNotNegative{0, 1e11};  // a duration
inline constexpr Bounds kGpuCount{1, 1e6};      // of one job
inline constexpr Bounds kWork{1e-9, 1e18};      // iterations

class Csv {
 public:
  enum class Header : uint8_t { kNone, kFirstLine };

  // `problems` must outlive the reader. Errors: those of LineReader::open.
  static absl::StatusOr<Csv> open(const std::string& path, Problems& problems, char separator = ',',
                                  BytesRead read = {});

  // Reads the first line as names of columns. False, with a problem each: an empty file, an unclosed quote, required
  // columns that are missing, a column twice.
  bool read_header(const std::vector<std::string>& required);
  // Names of columns for a file without a header, in order; each row must have as many fields.
  void set_header(const std::vector<std::string>& names) { names_ = names; }
  // Allows any number of fields in a row, for formats with several kinds of rows. read_header() ends this mode.
  void set_free() { free_ = true; }

  // Reads the next row that is not blank; false at the end or after an error, see status(). Rows of another width are
  // problems and are skipped.
  bool next();
  int64_t rows() const { return rows_; }  // number of rows, skipped ones included
  // The place refers to the reader's path.
  Place place() const { return {lines_.path(), lines_.row()}; }
  const std::vector<std::string>& fields() const { return fields_; }
  const absl::Status& status() const { return lines_.status(); }

  bool has(std::string_view column) const { return index_of(column) >= 0; }
  const std::vector<std::string>& header() const { return names_; }
  // The trimmed field, valid until the next row. CHECK: the column exists.
  std::string_view text(std::string_view column) const;
  // CHECK in all: the column exists.
  std::optional<std::string> name(std::string_view column);              // a valid name
  std::optional<double> number(std::string_view column, Bounds bounds);  // in the bounds, both included
  std::optional<int64_t> count(std::string_view column, Bounds bounds);  // a whole number in the bounds
  std::optional<double> time(std::string_view column);                   // a date and time, in seconds since 1970
  void problem(std::string_view column, const std::string& reason, const std::string& hint = "");

 private:
  Csv(LineReader lines, Problems& problems, char separator)
      : lines_(std::move(lines)), problems_(&problems), separator_(separator) {}
  int index_of(std::string_view column) const;

  LineReader lines_;
  Problems* problems_;
  char separator_;
  bool free_ = false;
  int64_t rows_ = 0;
  std::vector<std::string> names_;
  std::vector<std::string> fields_;
};

}  // namespace scalai::trace
