#include "ptc/base/json.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai {
namespace {

using ::testing::ElementsAre;

std::string json_refusal(const std::string& text, const std::string& file = "") {
  const std::string message = message_of(read_json(text, file).status());
  EXPECT_EQ(message_of(read_ordered_json(text, file).status()), message);
  return message;
}

std::string levels_of(size_t levels, const std::string& open, const std::string& close) {
  std::string text;
  for (size_t i = 0; i < levels; ++i) text += open;
  text += "1";
  for (size_t i = 0; i < levels; ++i) text += close;
  return text;
}

TEST(Json, Reads) {
  EXPECT_EQ(*read_json(R"( {"b": [1, 2.5, null], "a": "]\"\\[{"} )"),
            nlohmann::json({{"a", "]\"\\[{"}, {"b", {1, 2.5, nullptr}}}));
  EXPECT_EQ(read_ordered_json(R"({"b": 1, "a": 2})")->dump(), R"({"b":1,"a":2})");
}

TEST(Json, SaysWhereATextIsNoJson) {
  EXPECT_EQ(json_refusal(""), "line 1, column 1: this is not JSON: unexpected end of the file");
  EXPECT_EQ(json_refusal("{\n  \"a\": 1,\n  \"b\": x\n}"), "line 3, column 8: this is not JSON: unexpected \"x\"");
  EXPECT_EQ(json_refusal("{\n  \"\xC3\xBC\": }", "c.json"), "c.json:2:8: this is not JSON: unexpected \"}\"");
  EXPECT_EQ(json_refusal("[1, -1e400]", "c.json"), "c.json:1:5: -1e400 is not a finite number");
  EXPECT_EQ(json_refusal("\"\xFF\""), "line 1, column 2: this is not JSON: unexpected \"?\"");
  EXPECT_EQ(json_refusal("{} x"), "line 1, column 4: this is not JSON: unexpected \"x\"");
}

TEST(Json, RefusesWhatNobodyCanWalk) {
  const std::string array = levels_of(kMaxJsonDepth, "[", "]"), object = levels_of(kMaxJsonDepth, "{\"a\":\n", "}");
  EXPECT_TRUE(read_json(array).ok() && read_json(object).ok());
  EXPECT_EQ(json_refusal("[" + array + "]"), "line 1, column 65: nested more than 64 levels deep");
  EXPECT_EQ(json_refusal("{\"a\":" + object + "}", "t.json"), "t.json:64:1: nested more than 64 levels deep");
  for (const auto& [open, close] : {std::pair("[", "]"), {"{\"a\":", "}"}, {"[{\"a\":", "}]"}}) {
    EXPECT_NE(json_refusal(levels_of(1'000'000, open, close)), "");
    EXPECT_NE(json_refusal(levels_of(1'000'000, open, "")), "");
  }
  // Brackets in texts are no levels, whatever the quotes.
  EXPECT_TRUE(read_json("[\"\\\"" + std::string(1000, '[') + "\\\\\", \"" + std::string(1000, '{') + "\"]").ok());
}

TEST(Json, NamesKeysThatAreThereTwice) {
  std::vector<std::string> doubled;
  ASSERT_TRUE(read_ordered_json(R"({"a": 1, "b": {"a": 1, "a": 2}, "c": 1, "a": 3})", "", &doubled).ok());
  EXPECT_EQ(doubled, std::vector<std::string>{"a"});
}

TEST(JsonText, SaysWhichBytesItReplaced) {
  std::vector<std::string> replaced = {"old"};
  EXPECT_EQ(json_text(nlohmann::json{{"a", {1, "\xC3\xBC"}}}, {}, &replaced), "{\"a\":[1,\"\xC3\xBC\"]}");
  const nlohmann::ordered_json json = {{"b", {"x", "caf\xE9"}}, {"a\xFF", true}, {"c", "\xEF\xBF\xBD"}};
  EXPECT_EQ(json_text(json, {.ascii = true}, &replaced), R"({"b":["x","caf\ufffd"],"a\ufffd":true,"c":"\ufffd"})");
  EXPECT_THAT(replaced, ElementsAre("/b/1", "/a?"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(json_text(nlohmann::json{{"path", "\xFF"}}, {.indent = 1}), "{\n \"path\": \"\xEF\xBF\xBD\"\n}");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: bytes that are not UTF-8 are written as U+FFFD, in JSON at /path\n");
}

// Whatever bytes there are: what is written is read, and a text of any bytes is read back as it was.
TEST(JsonText, IsReadBack) {
  const uint64_t seed = 21;
  Random random(seed);
  for (int i = 0; i < 5000; ++i) {
    std::string bytes;
    for (int64_t n = random.below(6); n > 0; --n)
      bytes += "a\"\\\n\xC3\xBC\xF0\x9F\x98\x80\xED\xA0\x80\xFF"[random.below(15)];
    std::vector<std::string> replaced;
    const auto json = read_json(json_text(nlohmann::json{{bytes, bytes}}, {}, &replaced));
    ASSERT_TRUE(json.ok()) << "seed " << seed << ": " << json.status();
    ASSERT_EQ(replaced.empty(), *json == nlohmann::json({{bytes, bytes}})) << "seed " << seed;
    const auto again = read_json(json_text(json_of_bytes(bytes), {}, &replaced));
    ASSERT_TRUE(again.ok()) << "seed " << seed << ": " << again.status();
    ASSERT_EQ(bytes_of_json(*again), bytes) << "seed " << seed;
  }
  for (const char* text : {"1", "{}", R"({"hex": 1})", R"({"hex": "0"})", R"({"hex": "0g"})", R"({"hex": "-1"})", "[]"})
    EXPECT_EQ(bytes_of_json(*read_json(text)), std::nullopt) << text;
}

// Texts of the characters that the count of levels looks at: accepted is what the library accepts, at most 64 deep.
TEST(Json, CountsAsTheLibraryDoes) {
  const uint64_t seed = 20;
  Random random(seed);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = "[";
    for (int64_t n = random.below(12); n > 0; --n) text += "[]{}\"\\,:1"[random.below(9)];
    text += "]";
    const bool ok = nlohmann::json::accept(text);
    accepted += ok ? 1 : 0;
    ASSERT_EQ(read_json(text).ok(), ok) << "seed " << seed << ": " << text;
    // The same below 63 levels more: the first text that is too deep by one is refused.
    const std::string deep = std::string(kMaxJsonDepth, '[') + text + std::string(kMaxJsonDepth, ']');
    ASSERT_FALSE(read_json(deep).ok()) << "seed " << seed << ": " << deep;
  }
  EXPECT_GT(accepted, 100) << "seed " << seed;
}

}  // namespace
}  // namespace scalai
