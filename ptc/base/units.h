#pragma once
// Numbers with units as people write them: "48GiB", "100Gbps", "1.5TB/s", "35min", "500us".
// Parsing is strict: a number, optional blanks, a known unit; no unit means the base unit only for 0.
// Not-a-number, infinities, negative values and overflow are errors whose message names accepted units.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace scalai {

// Bytes: B, kB, MB, GB, TB, PB (powers of 1000) and KiB, MiB, GiB, TiB, PiB (powers of 1024).
absl::StatusOr<int64_t> parse_bytes(std::string_view text);
// Seconds: ns, us, ms, s, min, h, d.
absl::StatusOr<double> parse_seconds(std::string_view text);
// Bytes per second: bit rates (bps, kbps, Mbps, Gbps, Tbps; powers of 1000, divided by 8)
// and byte rates (B/s, kB/s, MB/s, GB/s, TB/s, and KiB/s, MiB/s, GiB/s, TiB/s).
absl::StatusOr<double> parse_bandwidth(std::string_view text);
// A whole number >= 0 without sign, exponent or unit ("-3" and "1e3" are errors).
absl::StatusOr<int64_t> parse_count(std::string_view text);

// For people, three significant digits: "20.2 GB", "4.80 s", "12.5 min", "12.5 GB/s"; hours as "1 h 12 min".
std::string format_bytes(int64_t bytes);
std::string format_seconds(double seconds);
std::string format_bandwidth(double bytes_per_s);

// Shortest decimal text that reads back as the same double ("0.1", "1e+30"); used in every file we write.
std::string shortest(double value);

}  // namespace scalai
