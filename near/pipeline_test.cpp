#include "near/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::near {
namespace pipeline_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

std::vector<Words> words_of(const std::string& text, const std::vector<std::string>& names = {}) {
  const auto pipeline = parse_pipeline(text, names);
  EXPECT_TRUE(pipeline.ok()) << pipeline.status();
  std::vector<Words> all;
  if (pipeline.ok())
    for (const Command& command : *pipeline) all.push_back(command.words);
  return all;
}

std::string problem_of(const std::string& text) {
  const auto pipeline = parse_pipeline(text, {});
  EXPECT_EQ(pipeline.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return message_of(pipeline.status());
}

TEST(ParsePipeline, ReadsWordsQuotesAndBars) {
  EXPECT_THAT(words_of("cat a|wc  -l"), ElementsAre(Words{"cat", "a"}, Words{"wc", "-l"}));
  EXPECT_THAT(words_of(R"(grep 'a | b' "c d" e\ f '' "\"\\\$\x")"),
              ElementsAre(Words{"grep", "a | b", "c d", "e f", "", "\"\\$\\x"}));
  EXPECT_THAT(words_of("a'b'\"c\"d"), ElementsAre(Words{"abcd"}));
  EXPECT_THAT(words_of("find {} a=b c#d"), ElementsAre(Words{"find", "{}", "a=b", "c#d"}));
}

TEST(ParsePipeline, PutsNamesInPlaceOfPatterns) {
  const std::vector<std::string> names = {"b.txt", "a.txt", "B.txt", ".h.txt", "sub/c.txt", "x*.txt", "xy.txt"};
  EXPECT_THAT(words_of("cat *.txt", names), ElementsAre(Words{"cat", "B.txt", "a.txt", "b.txt", "x*.txt", "xy.txt"}));
  EXPECT_THAT(words_of("cat */*.txt", names), ElementsAre(Words{"cat", "sub/c.txt"}));
  EXPECT_THAT(words_of("cat [ab].txt ?.txt", names),
              ElementsAre(Words{"cat", "a.txt", "b.txt", "B.txt", "a.txt", "b.txt"}));
  EXPECT_THAT(words_of("cat x'*'.txt x\"*\".txt x\\*.txt '*.txt'", names),
              ElementsAre(Words{"cat", "x*.txt", "x*.txt", "x*.txt", "*.txt"}));
  EXPECT_THAT(words_of("cat 'x*'*.txt", names), ElementsAre(Words{"cat", "x*.txt"}));
  EXPECT_THAT(words_of("cat *.none", names), ElementsAre(Words{"cat", "*.none"}));
}

// Everything else of a shell: each with its column, all at once.
TEST(ParsePipeline, RefusesWhatIsForAShell) {
  for (const char* text : {"cat $HOME",  "cat `x`",    "cat a; rm b", "cat a & b", "cat <a",  "cat >a",  "(cat)",
                           "cat {a,b}",  "cat \"$x\"", "cat \"`x`\"", "cat ~/x",   "cat #x",  "! cat a", "A=b cat",
                           "cat a || b", "cat a |& b", "cat a\nrm b", "cat 'a",    "cat \"a", "cat \\",  "",
                           " ",          "| cat",      "cat |",       "cat || wc"}) {
    EXPECT_FALSE(parse_pipeline(text, {}).ok()) << text;
  }
  const std::string problem = problem_of("cat é $a | | wc > x");
  EXPECT_THAT(problem, HasSubstr("pipeline:1:7: error: \"$\" is for a shell"));
  EXPECT_THAT(problem, HasSubstr("pipeline:1:12: error: a command is missing here"));
  EXPECT_THAT(problem, HasSubstr("pipeline:1:17: error: \">\" is for a shell"));
  EXPECT_THAT(problem, HasSubstr("3 errors"));
}

TEST(SplitPipeline, TakesWordsAsTheyAre) {
  const auto pipeline = split_pipeline({"grep", "$a|*", "|", "wc"});
  ASSERT_TRUE(pipeline.ok());
  EXPECT_THAT((*pipeline)[0].words, ElementsAre("grep", "$a|*"));
  EXPECT_THAT((*pipeline)[1].words, ElementsAre("wc"));
  for (const std::vector<std::string>& words : {Words{"|", "a"}, Words{"a", "|"}, Words{"a", "|", "|", "b"}, Words{}})
    EXPECT_FALSE(split_pipeline(words).ok());
}

TEST(TextOf, IsReadBack) {
  const Pipeline pipeline = {{{"gr'ep", "", "a b", "*", "\\", "$x", "|", "\"", "é", "-n"}}, {{"wc"}}};
  const auto again = parse_pipeline(text_of(pipeline), {"a"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)[0].words, pipeline[0].words);
  EXPECT_EQ((*again)[1].words, pipeline[1].words);
}

}  // namespace pipeline_test
}  // namespace scalai::near
