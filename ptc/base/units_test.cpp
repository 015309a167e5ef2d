#include "ptc/base/units.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai {
namespace {

TEST(ParseBytes, KnowsEveryUnit) {
  EXPECT_EQ(*parse_bytes("0"), 0);
  EXPECT_EQ(*parse_bytes("0.0"), 0);
  EXPECT_EQ(*parse_bytes("7B"), 7);
  EXPECT_EQ(*parse_bytes("7kB"), 7'000);
  EXPECT_EQ(*parse_bytes("7 MB"), 7'000'000);
  EXPECT_EQ(*parse_bytes("7  GB"), 7'000'000'000);
  EXPECT_EQ(*parse_bytes("7TB"), 7'000'000'000'000);
  EXPECT_EQ(*parse_bytes("7PB"), 7'000'000'000'000'000);
  EXPECT_EQ(*parse_bytes("7KiB"), 7ll << 10);
  EXPECT_EQ(*parse_bytes("7MiB"), 7ll << 20);
  EXPECT_EQ(*parse_bytes("48GiB"), 48ll << 30);
  EXPECT_EQ(*parse_bytes("7TiB"), 7ll << 40);
  EXPECT_EQ(*parse_bytes("7PiB"), 7ll << 50);
}

TEST(ParseBytes, IsExactWhereDoubleIsNot) {
  EXPECT_EQ(*parse_bytes("1.001kB"), 1'001);
  EXPECT_EQ(*parse_bytes("9007199254740993B"), 9'007'199'254'740'993);
  EXPECT_EQ(*parse_bytes("9223372036854775807B"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(*parse_bytes("0.5KiB"), 512);
  EXPECT_EQ(*parse_bytes("1.5e3GB"), 1'500'000'000'000);
  EXPECT_EQ(*parse_bytes("2500e-2B"), 25);
  EXPECT_EQ(*parse_bytes(".25KiB"), 256);
}

TEST(ParseBytes, AgreesWithIntegerArithmeticOnRandomDecimals) {
  const uint64_t seed = 1;
  Random random(seed);
  for (int i = 0; i < 10'000; ++i) {
    const int64_t milli = random.between(1, 1'000'000'000'000);
    const std::string number = std::to_string(milli / 1000) + "." + std::to_string(1000 + milli % 1000).substr(1);
    SCOPED_TRACE("seed " + std::to_string(seed) + " number " + number);
    EXPECT_EQ(*parse_bytes(number + "kB"), milli);
    EXPECT_EQ(*parse_bytes(number + "MB"), milli * 1000);
    EXPECT_EQ(parse_bytes(number + "B").ok(), milli % 1000 == 0);
    EXPECT_EQ(parse_bytes(number + "KiB").ok(), milli * 1024 % 1000 == 0);
  }
}

TEST(ParseBytes, RefusesTheRestAndSaysWhy) {
  const auto why = [](std::string_view text) { return message_of(parse_bytes(text).status()); };
  const std::string units = "; write it like \"48GiB\" (units: B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB)";
  EXPECT_EQ(why("48"), "\"48\" is not a number of bytes: the unit is missing" + units);
  EXPECT_EQ(why("-1GB"), "\"-1GB\" is not a number of bytes: it is negative" + units);
  EXPECT_EQ(why("48gb"), "\"48gb\" is not a number of bytes: unknown unit \"gb\"" + units);
  EXPECT_EQ(why(""), "\"\" is not a number of bytes: it does not start with a number" + units);
  EXPECT_EQ(why("GB"), "\"GB\" is not a number of bytes: it does not start with a number" + units);
  EXPECT_EQ(why("nanB"), "\"nanB\" is not a number of bytes: it does not start with a number" + units);
  EXPECT_EQ(why("infB"), "\"infB\" is not a number of bytes: it does not start with a number" + units);
  EXPECT_EQ(why("+1B"), "\"+1B\" is not a number of bytes: it does not start with a number" + units);
  EXPECT_EQ(why("0.3B"), "\"0.3B\" is not a number of bytes: it is not a whole number of bytes" + units);
  EXPECT_EQ(why("1e400B"), "\"1e400B\" is not a number of bytes: the number is out of range" + units);
  EXPECT_EQ(why("9223372036854775808B"),
            "\"9223372036854775808B\" is not a number of bytes: "
            "the number has too many digits" +
                units);
  EXPECT_EQ(why("10000PB"), "\"10000PB\" is not a number of bytes: it is more than fits in 63 bits" + units);
  EXPECT_EQ(why("1e300B"), "\"1e300B\" is not a number of bytes: it is more than fits in 63 bits" + units);
  EXPECT_EQ(why("0GB ").substr(0, 44), "\"0GB \" is not a number of bytes: unknown uni");
}

TEST(ParseBytes, EchoesHostileTextShortAndPrintable) {
  const std::string message = message_of(parse_bytes("\x1b[31m" + std::string(1'000, 'x')).status());
  EXPECT_EQ(message.substr(0, 12), "\"?[31mxxxxxx");
  EXPECT_LT(message.size(), 250u);
}

TEST(ParseSeconds, KnowsEveryUnit) {
  EXPECT_DOUBLE_EQ(*parse_seconds("3ns"), 3e-9);
  EXPECT_DOUBLE_EQ(*parse_seconds("500us"), 500e-6);
  EXPECT_DOUBLE_EQ(*parse_seconds("3ms"), 3e-3);
  EXPECT_DOUBLE_EQ(*parse_seconds("1.5s"), 1.5);
  EXPECT_DOUBLE_EQ(*parse_seconds("35min"), 2'100);
  EXPECT_DOUBLE_EQ(*parse_seconds("2 h"), 7'200);
  EXPECT_DOUBLE_EQ(*parse_seconds("2d"), 172'800);
  EXPECT_DOUBLE_EQ(*parse_seconds("1e3s"), 1'000);
  EXPECT_FALSE(std::signbit(*parse_seconds("0")));
}

TEST(ParseSeconds, RefusesSignsInfinitiesAndOverflow) {
  for (const char* text : {"-3s", "-0s", "-0", "inf s", "nan", "1e308d", "3", "3 m", "3min2s", "s", " 3s", "0x3s"}) {
    const absl::StatusOr<double> parsed = parse_seconds(text);
    EXPECT_FALSE(parsed.ok()) << text;
    EXPECT_NE(message_of(parsed.status()).find("(units: ns, us, ms, s, min, h, d)"), std::string::npos) << text;
    EXPECT_EQ(exit_code_of(parsed.status()), 3) << text;
  }
}

TEST(ParseSeconds, RefusesWhatNoClockTells) {
  for (const char* text : {"1e-320s", "1e-4ns", "1.1e10s", "1e300d", "1e-330s"}) {
    const absl::StatusOr<double> parsed = parse_seconds(text);
    EXPECT_EQ(exit_code_of(parsed.status()), 3) << text;
    EXPECT_NE(message_of(parsed.status()).find("out of range"), std::string::npos) << parsed.status();
  }
  for (const char* text : {"0", "0ns", "0.001ns", "1e10s", "100000d"}) EXPECT_TRUE(parse_seconds(text).ok()) << text;
}

TEST(ParseBandwidth, RefusesWhatNoLinkHas) {
  for (const char* text : {"1e-320Gbps", "0.9bps", "1.1e6TB/s", "1e300GB/s"}) {
    const absl::StatusOr<double> parsed = parse_bandwidth(text);
    EXPECT_EQ(exit_code_of(parsed.status()), 3) << text;
    EXPECT_NE(message_of(parsed.status()).find("out of range"), std::string::npos) << parsed.status();
  }
  for (const char* text : {"0", "0Gbps", "1bps", "1e6TB/s"}) EXPECT_TRUE(parse_bandwidth(text).ok()) << text;
}

TEST(ParseBandwidth, TellsBitsFromBytes) {
  EXPECT_DOUBLE_EQ(*parse_bandwidth("8bps"), 1);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("8kbps"), 1e3);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("8Mbps"), 1e6);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("100Gbps"), 12.5e9);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("8Tbps"), 1e12);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("3B/s"), 3);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("3kB/s"), 3e3);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("3MB/s"), 3e6);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("3GB/s"), 3e9);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("1.5TB/s"), 1.5e12);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("3KiB/s"), 3072);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("1MiB/s"), 1 << 20);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("1GiB/s"), 1 << 30);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("1TiB/s"), 0x1p40);
  EXPECT_FALSE(parse_bandwidth("100Gb").ok());
  EXPECT_FALSE(parse_bandwidth("1e308TB/s").ok());
}

TEST(ParseCount, TakesDigitsOnly) {
  EXPECT_EQ(*parse_count("0"), 0);
  EXPECT_EQ(*parse_count("64"), 64);
  EXPECT_EQ(*parse_count("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* text : {"", "-3", "+3", "1e3", "3.0", " 3", "3 ", "0x3", "three"}) {
    EXPECT_EQ(message_of(parse_count(text).status()), fmt::format("\"{}\" is not a whole number >= 0", text));
  }
  EXPECT_EQ(message_of(parse_count("9223372036854775808").status()),
            "\"9223372036854775808\" is a larger number than fits in 63 bits");
}

TEST(Format, BytesHaveThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1'000), "1.00 kB");
  EXPECT_EQ(format_bytes(9'994), "9.99 kB");
  EXPECT_EQ(format_bytes(9'996), "10.0 kB");
  EXPECT_EQ(format_bytes(99'960), "100 kB");
  EXPECT_EQ(format_bytes(999'499), "999 kB");
  EXPECT_EQ(format_bytes(999'500), "1.00 MB");
  EXPECT_EQ(format_bytes(20'200'000'000), "20.2 GB");
  EXPECT_EQ(format_bytes(-1'500), "-1.50 kB");
  EXPECT_EQ(format_bytes(std::numeric_limits<int64_t>::max()), "9223 PB");
}

TEST(Format, BandwidthHasThreeDigits) {
  EXPECT_EQ(format_bandwidth(0), "0 B/s");
  EXPECT_EQ(format_bandwidth(0.5), "0.50 B/s");
  EXPECT_EQ(format_bandwidth(12.5e9), "12.5 GB/s");
  EXPECT_EQ(format_bandwidth(3.35e12), "3.35 TB/s");
}

TEST(Format, SecondsPickTheirUnit) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(5e-9), "5.00 ns");
  EXPECT_EQ(format_seconds(0.9996e-6), "1.00 us");
  EXPECT_EQ(format_seconds(0.9996e-3), "1.00 ms");
  EXPECT_EQ(format_seconds(0.9996), "1.00 s");
  EXPECT_EQ(format_seconds(4.8), "4.80 s");
  EXPECT_EQ(format_seconds(599), "599 s");
  EXPECT_EQ(format_seconds(750), "12.5 min");
  EXPECT_EQ(format_seconds(3'599), "1 h 0 min");
  EXPECT_EQ(format_seconds(4'320), "1 h 12 min");
  EXPECT_EQ(format_seconds(864'000), "10.0 d");
  EXPECT_EQ(format_seconds(-4.8), "-4.80 s");
  EXPECT_EQ(format_seconds(std::numeric_limits<double>::infinity()), "inf d");
}

TEST(Counted, OneIsSingular) {
  EXPECT_EQ(counted(1, "device"), "1 device");
  EXPECT_EQ(counted(0, "device"), "0 devices");
  EXPECT_EQ(counted(2, "box", "boxes"), "2 boxes");
  EXPECT_EQ(counted(1, "box", "boxes"), "1 box");
}

TEST(Shortest, ReadsBackAsTheSameDouble) {
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(1e30), "1e+30");
  EXPECT_EQ(shortest(2), "2");
  const uint64_t seed = 2;
  Random random(seed);
  for (int i = 0; i < 10'000; ++i) {
    const double value = std::bit_cast<double>(random.next());
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(std::strtod(shortest(value).c_str(), nullptr), value) << "seed " << seed;
  }
}

}  // namespace
}  // namespace scalai
