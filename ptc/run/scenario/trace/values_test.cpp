#include "ptc/run/scenario/trace/internal/values.h"

#include "gtest/gtest.h"

namespace scalai::trace {
namespace {

TEST(Values, NumbersAreStrict) {
  EXPECT_EQ(number_of(" -1.5 "), -1.5);
  EXPECT_EQ(number_of("2e3\r"), 2000);
  for (const char* text : {"", " ", "1,5", "0x10", "nan", "inf", "-inf", "1e400", "12 3", "12s", "+1", "--1"}) {
    EXPECT_EQ(number_of(text), std::nullopt) << text;
  }
}

TEST(Values, WholeNumbersMayBeWrittenWithAZeroFraction) {
  EXPECT_EQ(whole_of("8"), 8);
  EXPECT_EQ(whole_of("-8"), -8);
  EXPECT_EQ(whole_of("8.00"), 8);
  EXPECT_EQ(whole_of("8."), 8);
  for (const char* text : {"", "8.5", ".0", "8e1", "9223372036854775808", "8.0.0", "a", "8 8"}) {
    EXPECT_EQ(whole_of(text), std::nullopt) << text;
  }
}

TEST(Values, TimesCountFrom1970InUtc) {
  EXPECT_EQ(time_of("1970-01-01"), 0);
  EXPECT_EQ(time_of("2000-03-01 00:00:00"), 951868800);
  EXPECT_EQ(time_of("2017-10-07 01:12:09"), 1507338729);
  EXPECT_EQ(time_of("2020-03-15T10:07:33Z"), 1584266853);
  EXPECT_EQ(time_of("2023-03-01 00:18:22+08:00"), 1677601102);
  EXPECT_EQ(time_of("2023-03-01 00:18:22-0130"), 1677635302);
  EXPECT_EQ(time_of("2023-03-01 00:18:22.250"), 1677629902.25);
  EXPECT_EQ(time_of("2024-02-29 23:59:59").value() + 1, time_of("2024-03-01"));
  EXPECT_EQ(american_date_of("2/24/2020"), time_of("2020-02-24"));
}

TEST(Values, TimesThatAreNone) {
  for (const char* text :
       {"", "2017-13-01", "2017-02-29", "1900-02-29", "2017-00-10", "2017-10-07 24:00:00", "2017-10-07 01:60:00",
        "2017-10-07 1", "2017-10-07 01:12", "2017-10-07 01:12:09x", "2017-10-07 01:12:09+25:00", "2017-10-07 01:12:09.",
        "17-10-07", "2017/10/07", "1507338729", "2017-10-07T", "2017-10-07 01:12:09 PDT"}) {
    EXPECT_EQ(time_of(text), std::nullopt) << text;
  }
  for (const char* text : {"13/1/2020", "2/30/2020", "2/24/20", "2020-02-24", "2/24/2020 "}) {
    EXPECT_EQ(american_date_of(text).has_value(), std::string_view(text) == "2/24/2020 ") << text;
  }
}

TEST(Values, NamesArePrintable) {
  EXPECT_TRUE(fit_as_name("ResNet-18 (batch size 128)"));
  EXPECT_TRUE(fit_as_name("作業"));
  EXPECT_FALSE(fit_as_name(""));
  EXPECT_FALSE(fit_as_name("a\tb"));
  EXPECT_FALSE(fit_as_name("a\nb"));
  EXPECT_FALSE(fit_as_name(std::string_view("a\0b", 3)));
  EXPECT_FALSE(fit_as_name("\xff"));
  EXPECT_FALSE(fit_as_name(std::string(201, 'a')));
}

}  // namespace
}  // namespace scalai::trace
