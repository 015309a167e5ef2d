#pragma once
// Texts of traces as values. Strict: the whole text has to be one, blanks around it are not looked at; neither
// not-a-number nor infinity nor a sign on a count passes.

#include <cstdint>
#include <optional>
#include <string_view>

namespace scalai::trace {

std::string_view trimmed(std::string_view text);

std::optional<double> number_of(std::string_view text);  // finite decimal number: "-1.5", "2e3"
std::optional<int64_t> whole_of(std::string_view text);  // decimal digits with an optional "-"; "8.0" is one too
// Seconds since 1970 of "2017-10-07 01:12:09", "2020-03-15T10:07:33Z", "… 11:00:58.250+08:00", "2023-03-01". A time
// without a zone counts as UTC; the calendar is checked (no 30 February).
std::optional<double> time_of(std::string_view text);
// Of "2/24/2020" (month first), at 0 h.
std::optional<double> american_date_of(std::string_view text);
// Valid UTF-8 without control characters, at most 200 bytes, not empty: fit to be a name.
bool fit_as_name(std::string_view text);

}  // namespace scalai::trace
