#include "vfs/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::vfs {
namespace {

using ::testing::HasSubstr;

TEST(ControlMessage, CarriesTextsAndErrors) {
  const auto text = text_of(message_of_text("repartition dp=6 step=1234"));
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "repartition dp=6 step=1234");
  EXPECT_EQ(*text_of(message_of_answer(std::string(""))), "");
  const auto error = text_of(message_of_answer(invalid("dp=0: no rank")));
  EXPECT_EQ(error.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(message_of(error.status()), "dp=0: no rank");
}

TEST(ControlMessage, CutsWhatDoesNotFit) {
  const auto text = text_of(message_of_text(std::string(kMostText + 5, 'x')));
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->size(), kMostText);
}

TEST(ControlMessage, RefusesOtherVersionsAndSizes) {
  ControlMessage message = message_of_text("status");
  message.version = 7;
  EXPECT_THAT(message_of(text_of(message).status()), HasSubstr("version 7, this program has version 1"));
  message = message_of_text("status");
  message.bytes = kMostText + 1;
  EXPECT_EQ(text_of(message).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ControlRequest, IsAVerbAndNumbers) {
  const auto request = parse_request("repartition dp=6 step=1234");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->verb, "repartition");
  EXPECT_EQ(request->numbers, (std::map<std::string, int64_t>{{"dp", 6}, {"step", 1234}}));
  EXPECT_TRUE(parse_request("status")->numbers.empty());
  for (const char* bad : {"", "  ", "repartition dp", "repartition dp=", "repartition dp=-1", "repartition dp=1e3",
                          "repartition dp=1 dp=1"}) {
    EXPECT_EQ(parse_request(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(Ask, SaysThatNothingOfOursIsThere) {
  EXPECT_THAT(message_of(ask(::testing::TempDir(), "status").status()), HasSubstr("nothing is mounted there"));
  EXPECT_EQ(ask("/nowhere/at/all", "status").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace scalai::vfs
