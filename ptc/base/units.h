#pragma once
// Numbers with units in their usual notation: "48GiB", "100Gbps", "1.5TB/s", "35min", "500us". Parsing is strict: a
// number, optional blanks, a known unit. Only 0 may omit the unit. Not-a-number, infinities, negative values and
// overflow are errors (InvalidArgument); their messages list the accepted units. Any thread may call.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace scalai {

// Bytes: B, kB, MB, GB, TB, PB (powers of 1000) and KiB, MiB, GiB, TiB, PiB (powers of 1024). Exact; a fraction of a
// byte is an error.
absl::StatusOr<int64_t> parse_bytes(std::string_view text);
// Seconds: ns, us, ms, s, min, h, d. 0, or a picosecond to 1e10 seconds (317 years).
absl::StatusOr<double> parse_seconds(std::string_view text);
// Bytes per second: bit rates (bps, kbps, Mbps, Gbps, Tbps; powers of 1000, divided by 8)
// and byte rates (B/s, kB/s, MB/s, GB/s, TB/s, and KiB/s, MiB/s, GiB/s, TiB/s). 0, or 1 bit/s to 1e18 bytes/s.
absl::StatusOr<double> parse_bandwidth(std::string_view text);
// A whole number >= 0 without sign, exponent or unit ("-3" and "1e3" are errors).
absl::StatusOr<int64_t> parse_count(std::string_view text);

// For people, with three significant digits: "20.2 GB", "4.80 s", "12.5 min", "12.5 GB/s". Durations from 1 h read "1 h
// 12 min", from 100 h "4.50 d".
std::string format_bytes(int64_t bytes);
std::string format_seconds(double seconds);

// "1 box", "2 boxes"; without a plural of its own the noun gets an "s".
std::string counted(int64_t count, std::string_view noun, std::string_view plural = "");
std::string format_bandwidth(double bytes_per_s);

// The shortest decimal text that reads back as the same double ("0.1", "1e+30"). All files contain this form.
std::string shortest(double value);

}  // namespace scalai
