#include "ptc/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <span>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024, kMi = kKi * kKi, kGi = kMi * kKi, kTi = kGi * kKi, kPi = kTi * kKi;
constexpr Unit kBytes[] = {{"B", 1},     {"kB", 1e3},  {"MB", 1e6},  {"GB", 1e9},  {"TB", 1e12}, {"PB", 1e15},
                           {"KiB", kKi}, {"MiB", kMi}, {"GiB", kGi}, {"TiB", kTi}, {"PiB", kPi}};
constexpr Unit kSeconds[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1},
                             {"min", 60},  {"h", 3600},  {"d", 86400}};
constexpr Unit kBandwidths[] = {{"bps", 1.0 / 8},   {"kbps", 1e3 / 8}, {"Mbps", 1e6 / 8}, {"Gbps", 1e9 / 8},
                                {"Tbps", 1e12 / 8}, {"B/s", 1},        {"kB/s", 1e3},     {"MB/s", 1e6},
                                {"GB/s", 1e9},      {"TB/s", 1e12},    {"KiB/s", kKi},    {"MiB/s", kMi},
                                {"GiB/s", kGi},     {"TiB/s", kTi}};

std::string unit_list(std::span<const Unit> units) {
  std::string list;
  for (const Unit& unit : units) fmt::format_to(std::back_inserter(list), "{}{}", list.empty() ? "" : ", ", unit.name);
  return list;
}

// What we echo back is short and printable, so that a hostile input cannot flood or steer the terminal.
std::string in_quotes(std::string_view text) { return fmt::format("\"{}\"", clipped(text, 41)); }

struct Quantity {
  std::string_view what;
  std::string_view example;
  std::span<const Unit> units;
  // What is not 0 lies between these. Beyond them sums lose whole terms, and products are 0 or infinite.
  double least = 0, most = 0;
  std::string_view range = {};
};
constexpr Quantity kByteQuantity{"a number of bytes", "48GiB", kBytes};
constexpr Quantity kSecondQuantity{"a duration", "35min", kSeconds, 1e-12, 1e10, "0.001ns to 1e10s"};
constexpr Quantity kBandwidthQuantity{"a bandwidth", "100Gbps", kBandwidths, 0.125, 1e18, "1bps to 1e6TB/s"};

absl::Status reject(std::string_view text, const Quantity& quantity, std::string_view why) {
  return invalid(fmt::format("{} is not {}: {}; write it like \"{}\" (units: {})", in_quotes(text), quantity.what, why,
                             quantity.example, unit_list(quantity.units)));
}

struct Amount {
  double number = 0;
  std::string_view digits;  // the number as written
  double factor = 1;
};

absl::StatusOr<Amount> parse_amount(std::string_view text, const Quantity& quantity) {
  Amount amount;
  const char* end = text.data() + text.size();
  if (text.starts_with('-')) return reject(text, quantity, "it is negative");
  const auto [rest, error] = std::from_chars(text.data(), end, amount.number);
  if (error == std::errc::result_out_of_range) return reject(text, quantity, "the number is out of range");
  if (error != std::errc{} || !std::isfinite(amount.number)) {
    return reject(text, quantity, "it does not start with a number");
  }
  std::string_view unit(rest, static_cast<size_t>(end - rest));
  amount.digits = text.substr(0, text.size() - unit.size());
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.empty() && amount.number == 0) return amount;
  if (unit.empty()) return reject(text, quantity, "the unit is missing");
  for (const Unit& candidate : quantity.units) {
    if (candidate.name != unit) continue;
    amount.factor = candidate.factor;
    return amount;
  }
  return reject(text, quantity, fmt::format("unknown unit {}", in_quotes(unit)));
}

absl::StatusOr<double> parse_real(std::string_view text, const Quantity& quantity) {
  SCALAI_ASSIGN_OR_RETURN(const Amount amount, parse_amount(text, quantity));
  const double value = amount.number * amount.factor;
  if (value != 0 && !(value >= quantity.least && value <= quantity.most))
    return reject(text, quantity, fmt::format("it is out of range, which is 0, or {}", quantity.range));
  return value;
}

// A decimal number as mantissa / 10^decimals; decimals may be negative.
struct Decimal {
  int64_t mantissa = 0;
  int64_t decimals = 0;
};

// `digits` has passed from_chars. nullopt: the mantissa has more digits than fit in 63 bits.
std::optional<Decimal> parse_decimal(std::string_view digits) {
  Decimal result;
  const size_t exponent_at = std::min(digits.find_first_of("eE"), digits.size());
  bool in_fraction = false;
  for (const char c : digits.substr(0, exponent_at)) {
    if (c == '.') {
      in_fraction = true;
      continue;
    }
    const bool too_many = __builtin_mul_overflow(result.mantissa, 10, &result.mantissa) ||
                          __builtin_add_overflow(result.mantissa, c - '0', &result.mantissa);
    if (too_many) return std::nullopt;
    result.decimals += in_fraction ? 1 : 0;
  }
  if (exponent_at == digits.size()) return result;
  std::string_view written = digits.substr(exponent_at + 1);
  if (written.starts_with('+')) written.remove_prefix(1);
  int exponent = 0;
  std::from_chars(written.data(), written.data() + written.size(), exponent);
  result.decimals -= exponent;
  return result;
}

std::string three_digits(double value, std::string_view unit) {
  const double magnitude = std::fabs(value);
  const int decimals = magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : 2;  // where rounding adds a digit
  return fmt::format("{:.{}f} {}", value, decimals, unit);
}

std::string scaled(double value, std::string_view suffix) {
  constexpr std::array<std::string_view, 6> kPrefixes = {"", "k", "M", "G", "T", "P"};
  size_t prefix = 0;
  while (std::fabs(value) >= 999.5 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  if (prefix == 0 && value == std::floor(value)) return fmt::format("{:.0f} {}", value, suffix);
  return three_digits(value, fmt::format("{}{}", kPrefixes[prefix], suffix));
}

}  // namespace

// Exact where double is not: "1.001kB" is 1001 bytes, and 2^53 + 1 bytes stay so.
absl::StatusOr<int64_t> parse_bytes(std::string_view text) {
  SCALAI_ASSIGN_OR_RETURN(const Amount amount, parse_amount(text, kByteQuantity));
  if (amount.number == 0) return 0;
  const std::optional<Decimal> decimal = parse_decimal(amount.digits);
  if (!decimal) return reject(text, kByteQuantity, "the number has too many digits");
  int64_t value = decimal->mantissa;
  int64_t factor = static_cast<int64_t>(amount.factor);
  bool overflow = false;
  for (int64_t i = decimal->decimals; i < 0 && !overflow; ++i) overflow = __builtin_mul_overflow(value, 10, &value);
  for (int64_t i = 0; i < decimal->decimals; ++i) {
    // Divide by 10 = 2 * 5, each taken from whichever side has it.
    for (const int64_t prime : {2, 5}) {
      int64_t& side = value % prime == 0 ? value : factor;
      if (side % prime != 0) return reject(text, kByteQuantity, "it is not a whole number of bytes");
      side /= prime;
    }
  }
  overflow = overflow || __builtin_mul_overflow(value, factor, &value);
  if (overflow) return reject(text, kByteQuantity, "it is more than fits in 63 bits");
  return value;
}

absl::StatusOr<double> parse_seconds(std::string_view text) { return parse_real(text, kSecondQuantity); }

absl::StatusOr<double> parse_bandwidth(std::string_view text) { return parse_real(text, kBandwidthQuantity); }

absl::StatusOr<int64_t> parse_count(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const bool digits_only = text.find_first_not_of("0123456789") == std::string_view::npos;
  if (text.empty() || !digits_only) return invalid(fmt::format("{} is not a whole number >= 0", in_quotes(text)));
  if (std::from_chars(text.data(), end, value).ec != std::errc{}) {
    return invalid(fmt::format("{} is a larger number than fits in 63 bits", in_quotes(text)));
  }
  return value;
}

std::string format_bytes(int64_t bytes) { return scaled(static_cast<double>(bytes), "B"); }

std::string format_bandwidth(double bytes_per_s) { return scaled(bytes_per_s, "B/s"); }

std::string format_seconds(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 0) return fmt::format("-{}", format_seconds(-seconds));
  if (seconds < 0.9995e-6) return three_digits(seconds * 1e9, "ns");
  if (seconds < 0.9995e-3) return three_digits(seconds * 1e6, "us");
  if (seconds < 0.9995) return three_digits(seconds * 1e3, "ms");
  if (seconds < 600) return three_digits(seconds, "s");
  if (seconds < 59.95 * 60) return three_digits(seconds / 60, "min");
  if (!(seconds < 100 * 3600)) return three_digits(seconds / 86400, "d");
  const auto minutes = static_cast<int64_t>(std::llround(seconds / 60));
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string counted(int64_t count, std::string_view noun, std::string_view plural) {
  if (count == 1) return fmt::format("1 {}", noun);
  return plural.empty() ? fmt::format("{} {}s", count, noun) : fmt::format("{} {}", count, plural);
}

std::string shortest(double value) { return fmt::format("{}", value); }

}  // namespace scalai
