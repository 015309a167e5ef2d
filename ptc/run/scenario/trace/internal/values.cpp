#include "ptc/run/scenario/trace/internal/values.h"

#include <charconv>
#include <cmath>

#include "ptc/base/utf8.h"

namespace scalai::trace {
namespace {

class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  // So many digits, or npos digits: one to `most`.
  std::optional<int> digits(size_t least, size_t most) {
    size_t count = 0;
    int value = 0;
    while (count < most && count < text_.size() && text_[count] >= '0' && text_[count] <= '9') {
      value = value * 10 + (text_[count++] - '0');
    }
    if (count < least) return std::nullopt;
    text_.remove_prefix(count);
    return value;
  }
  bool skip(char wanted) {
    if (text_.empty() || text_.front() != wanted) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool done() const { return text_.empty(); }
  std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
};

bool leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

int days_in(int year, int month) {
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && leap(year) ? 29 : kDays[month - 1];
}

// Days since 1970-01-01 of a date that exists.
std::optional<int64_t> day_number(int year, int month, int day) {
  if (year < 1970 || year > 2200 || month < 1 || month > 12 || day < 1 || day > days_in(year, month)) {
    return std::nullopt;
  }
  int64_t days = day - 1;
  for (int m = 1; m < month; ++m) days += days_in(year, m);
  for (int y = 1970; y < year; ++y) days += leap(y) ? 366 : 365;
  return days;
}

// "+08:00", "+0800", "-05", "Z", "" → seconds east of Greenwich.
std::optional<int> zone_of(Cursor at) {
  if (at.done()) return 0;
  if (at.skip('Z') || at.skip('z')) return at.done() ? std::optional<int>(0) : std::nullopt;
  const bool west = at.skip('-');
  if (!west && !at.skip('+')) return std::nullopt;
  const std::optional<int> hours = at.digits(2, 2);
  at.skip(':');
  const std::optional<int> minutes = at.done() ? std::optional<int>(0) : at.digits(2, 2);
  if (!hours || !minutes || !at.done() || *hours > 14 || *minutes > 59) return std::nullopt;
  return (west ? -1 : 1) * (*hours * 3600 + *minutes * 60);
}

// "01:12:09.25+08:00" → seconds, less the zone.
std::optional<double> clock_of(Cursor at) {
  const std::optional<int> hour = at.digits(1, 2);
  if (!hour || !at.skip(':')) return std::nullopt;
  const std::optional<int> minute = at.digits(2, 2);
  if (!minute || !at.skip(':')) return std::nullopt;
  const std::optional<int> second = at.digits(2, 2);
  if (!second || *hour > 23 || *minute > 59 || *second > 59) return std::nullopt;
  double fraction = 0;
  if (at.skip('.')) {
    const std::string_view digits = at.rest().substr(0, at.rest().find_first_not_of("0123456789"));
    const std::optional<double> value = number_of("0." + std::string(digits));
    if (digits.empty() || digits.size() > 9 || !value) return std::nullopt;
    fraction = *value;
    at = Cursor(at.rest().substr(digits.size()));
  }
  const std::optional<int> zone = zone_of(at);
  if (!zone) return std::nullopt;
  return *hour * 3600 + *minute * 60 + *second - *zone + fraction;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::optional<double> number_of(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<int64_t> whole_of(std::string_view text) {
  text = trimmed(text);
  if (const size_t point = text.find('.'); point != std::string_view::npos && point > 0) {
    if (text.find_first_not_of('0', point + 1) != std::string_view::npos) return std::nullopt;
    text = text.substr(0, point);
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> time_of(std::string_view text) {
  Cursor at(trimmed(text));
  const std::optional<int> year = at.digits(4, 4);
  if (!year || !at.skip('-')) return std::nullopt;
  const std::optional<int> month = at.digits(1, 2);
  if (!month || !at.skip('-')) return std::nullopt;
  const std::optional<int> day = at.digits(1, 2);
  if (!day) return std::nullopt;
  const std::optional<int64_t> days = day_number(*year, *month, *day);
  if (!days) return std::nullopt;
  double clock = 0;
  if (!at.done()) {
    if (!at.skip('T') && !at.skip(' ')) return std::nullopt;
    const std::optional<double> value = clock_of(at);
    if (!value) return std::nullopt;
    clock = *value;
  }
  return static_cast<double>(*days) * 86400 + clock;
}

std::optional<double> american_date_of(std::string_view text) {
  Cursor at(trimmed(text));
  const std::optional<int> month = at.digits(1, 2);
  if (!month || !at.skip('/')) return std::nullopt;
  const std::optional<int> day = at.digits(1, 2);
  if (!day || !at.skip('/')) return std::nullopt;
  const std::optional<int> year = at.digits(4, 4);
  if (!year || !at.done()) return std::nullopt;
  const std::optional<int64_t> days = day_number(*year, *month, *day);
  if (!days) return std::nullopt;
  return static_cast<double>(*days) * 86400;
}

bool fit_as_name(std::string_view text) {
  if (text.empty() || text.size() > 200) return false;
  for (const std::string_view character : characters(text)) {
    if (printable(character) != character) return false;
  }
  return true;
}

}  // namespace scalai::trace
