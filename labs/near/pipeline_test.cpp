#include "labs/near/pipeline.h"

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

// Programs of these names would put out something else than sh does, or are not there.
TEST(ParsePipeline, RefusesWordsThatAreNoPrograms) {
  for (const char* word :
       {".",      ":",        "[[",      "alias",    "bg",      "break",  "case",  "cd",    "command", "continue",
        "do",     "done",     "elif",    "else",     "esac",    "eval",   "exec",  "exit",  "export",  "fc",
        "fg",     "fi",       "for",     "function", "getopts", "hash",   "if",    "in",    "jobs",    "local",
        "read",   "readonly", "return",  "set",      "shift",   "source", "then",  "times", "trap",    "type",
        "ulimit", "umask",    "unalias", "unset",    "until",   "wait",   "while", "{",     "}",       "!"}) {
    EXPECT_FALSE(parse_pipeline(std::string(word) + " a", {}).ok()) << word;
    EXPECT_FALSE(parse_pipeline("cat a | '" + std::string(word) + "'", {}).ok()) << word;
    EXPECT_FALSE(split_pipeline({word, "a"}).ok()) << word;
    EXPECT_TRUE(parse_pipeline("cat " + std::string(1, '\'') + word + "'", {}).ok()) << word;
  }
  for (const char* text :
       {"echo a", "printf 'a\\n'", "test a", "[ a = a ]", "true", "false", "pwd", "kill -l", "env cd"})
    EXPECT_TRUE(parse_pipeline(text, {}).ok()) << text;
  const std::string problem = problem_of("cat a | cd b | set");
  EXPECT_THAT(problem, HasSubstr("pipeline:1:9: error: \"cd\" is for a shell"));
  EXPECT_THAT(problem, HasSubstr("pipeline:1:16: error: \"set\" is for a shell"));
  EXPECT_THAT(problem, HasSubstr("hint: for a script: sh FILE"));
}

// Shells and programs differ in what they make of them.
TEST(ParsePipeline, RefusesEchoOfOptionsAndBackslashes) {
  for (const char* text : {"echo -n a", "cat a | echo 'a\\nb'", "echo \\\\", "echo -*"})
    EXPECT_THAT(parse_pipeline(text, {"-n"}).status().message(), HasSubstr("hint: printf")) << text;
  EXPECT_FALSE(parse_pipeline("echo *", {"-n"}).ok());
  EXPECT_FALSE(split_pipeline({"echo", "-e"}).ok());
}

TEST(ParsePipeline, GoesOnAfterABackslashAtTheEndOfALine) {
  EXPECT_THAT(words_of("cat a\\\nb \\\n c | \\\n  w\\\nc"), ElementsAre(Words{"cat", "ab", "c"}, Words{"wc"}));
  EXPECT_THAT(words_of("cat a \\\n"), ElementsAre(Words{"cat", "a"}));
  EXPECT_FALSE(parse_pipeline("cat a |\\\n| wc", {}).ok());
}

TEST(ParsePipeline, MatchesPatternsFolderByFolder) {
  const std::vector<std::string> names = {"b.txt", "a.txt", "[x", "d/c.txt", "d/e/f.txt"};
  EXPECT_THAT(words_of("cat ./*.txt", names), ElementsAre(Words{"cat", "./a.txt", "./b.txt"}));
  EXPECT_THAT(words_of("cat '.'\\/././*.txt", names), ElementsAre(Words{"cat", "./././a.txt", "./././b.txt"}));
  EXPECT_THAT(words_of("cat ./*.none", names), ElementsAre(Words{"cat", "./*.none"}));
  EXPECT_THAT(words_of("cat d/*.txt ?/e/*", names), ElementsAre(Words{"cat", "d/c.txt", "d/e/f.txt"}));
  EXPECT_THAT(words_of("cat a.txt/* a.*/", names), ElementsAre(Words{"cat", "a.txt/*", "a.*/"}));
  EXPECT_THAT(words_of("cat [!a].txt [a'-'z].txt", names), ElementsAre(Words{"cat", "b.txt", "a.txt"}));
}

TEST(ParsePipeline, RefusesPatternsThatAreNotOfFilesOfTheSource) {
  const auto refused = [](const std::string& text) {
    const auto pipeline = parse_pipeline(text, {"b.txt", "a.txt", "d/c.txt", "d/e/f.txt"});
    EXPECT_FALSE(pipeline.ok()) << text;
    return message_of(pipeline.status());
  };
  EXPECT_THAT(refused("cat /tmp/*"), HasSubstr("pipeline:1:5: error: a pattern of names outside of the source"));
  EXPECT_THAT(refused("cat ../*.txt"), HasSubstr("outside of the source"));
  EXPECT_THAT(refused("cat a.txt d/../*.txt"), HasSubstr("pipeline:1:11: error"));
  for (const char* text : {"cat d//*.txt", "cat .//*.txt", "cat d/./*.txt"}) refused(text);
  EXPECT_THAT(refused("cat .*"), HasSubstr("hidden"));
  EXPECT_THAT(refused("cat [^a].txt"), HasSubstr("hint: [! "));
  EXPECT_THAT(words_of("cat '\\./'*"), ElementsAre(Words{"cat", "\\./*"}));
  EXPECT_THAT(words_of("cat '[^'*"), ElementsAre(Words{"cat", "[^*"}));
  EXPECT_THAT(refused("cat *"), HasSubstr("folder d, which"));
  EXPECT_THAT(refused("cat */"), HasSubstr("folder d, which"));
  EXPECT_THAT(refused("cat ./d/*"), HasSubstr("folder d/e, which"));
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
