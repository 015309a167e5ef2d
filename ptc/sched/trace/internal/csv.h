#pragma once
// Rows of a CSV (RFC 4180, a row a line) or tab-separated file, streamed; fields by column, read as values. What is wrong
// with a field is added to the problems under its place and column, and the value is absent.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/sched/trace/internal/lines.h"
#include "ptc/sched/trace/internal/problems.h"

namespace scalai::sched::trace {

// Fields of one line; false: a quote is not closed, or something follows a closing one.
bool split_fields(std::string_view line, char separator, std::vector<std::string>& fields);

struct Bounds {
  double low = 0, high = 0;
};
inline constexpr Bounds kAnyTime{-1e11, 1e11};  // seconds: 3,000 years
inline constexpr Bounds kNotNegative{0, 1e11};  // a span of time
inline constexpr Bounds kGpuCount{1, 1e6};      // of one job
inline constexpr Bounds kWork{1e-9, 1e18};      // iterations

class Csv {
 public:
  enum class Header : uint8_t { kNone, kFirstLine };

  static absl::StatusOr<Csv> open(const std::string& path, Problems& problems, char separator = ',');

  // Reads the first line as names of columns. A wrong file has none of these: one problem that names what is missing; false.
  bool read_header(const std::vector<std::string>& required);
  // Names of columns for files that have none: `names` in order; a row has to have as many fields.
  void set_header(const std::vector<std::string>& names) { names_ = names; }
  // Any number of fields, for forms that are told apart row by row. read_header() ends it.
  void set_free() { free_ = true; }

  // The next row that is no blank line; rows of another width are problems and are passed over.
  bool next();
  int64_t rows() const { return rows_; }  // given and passed over
  Place place() const { return {lines_.path(), lines_.row()}; }
  const std::vector<std::string>& fields() const { return fields_; }
  const absl::Status& status() const { return lines_.status(); }

  bool has(std::string_view column) const { return index_of(column) >= 0; }
  const std::vector<std::string>& header() const { return names_; }
  // As it stands, trimmed. The column exists (CHECK).
  std::string_view text(std::string_view column) const;
  std::optional<std::string> name(std::string_view column);              // fit to be a name
  std::optional<double> number(std::string_view column, Bounds bounds);  // within, both ends included
  std::optional<int64_t> count(std::string_view column, Bounds bounds);  // a whole number within
  std::optional<double> time(std::string_view column);                   // a date and time: seconds since 1970
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

}  // namespace scalai::sched::trace
