#include "tests/tidy/documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace scalai::tidy {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> subjects_of(const std::vector<Finding>& findings) {
  std::vector<std::string> paths;
  for (const Finding& finding : findings) paths.push_back(finding.path);
  return paths;
}

TEST(UnindexedScenarios, WantsAQuestionAndARow) {
  const File index{"scenarios/README.md", "elastic is fine\n| `elastic-xl` | … |\n| [storm](storm.textproto) | … |\n"};
  const File good{"scenarios/elastic-xl.textproto", "# What if\n# it shrinks?\nname: 1\n"};
  const File no_row{"scenarios/elastic.textproto", "# What if?\n"};
  const File no_question{"scenarios/storm.textproto", "# A storm.\nname: \"?\"\n# Why?\n"};
  const File elsewhere{"tests/golden/bad.textproto", ""};
  EXPECT_THAT(subjects_of(unindexed_scenarios({index, good, no_row, no_question, elsewhere})),
              ElementsAre(no_row.path, no_question.path));
  EXPECT_THAT(subjects_of(unindexed_scenarios({good})), ElementsAre(good.path));
}

TEST(UnindexedResults, WantsARowThatCallsTheRun) {
  const File index{"results/README.md",
                   "| [a](a/README.md) | Why? So. | `results/a/run x` | 1 s | – |\n"
                   "| [b](b/README.md) | Why? So. | `./dev soak` | 1 s | – |\n"
                   "[c](c/README.md)\n"};
  const File a{"results/a/run", ""}, b{"results/b/README.md", ""}, run{"results/b/run", ""},
      c{"results/c/README.md", ""};
  EXPECT_THAT(subjects_of(unindexed_results({index, a, b})), ElementsAre());
  EXPECT_THAT(subjects_of(unindexed_results({index, a, b, run, c})), ElementsAre("results/b", "results/c"));
  EXPECT_THAT(subjects_of(unindexed_results({a})), ElementsAre("results/a"));
}

TEST(UnknownTests, AreNamedWithTheirLine) {
  const std::vector<File> files = {{"a_test.cpp", "TEST_F(Suite, Holds) {}"},
                                   {"tests/cases/plan.case", ""},
                                   {"d.md", "`plan.case`\n`Suite.Holds` `Suite.Gone`\n`gone.case`"}};
  const std::vector<Finding> findings = unknown_tests(files, "d.md");
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].str(), "d.md:2: no test Suite.Gone");
  EXPECT_EQ(findings[1].str(), "d.md:3: no test gone.case");
}

TEST(UnlistedRetries, AreSourcesThatPauseOrCountAttempts) {
  const std::vector<File> files = {{"d.md", "| `a.cpp` | once |"},
                                   {"a.cpp", "std::this_thread::sleep_for(x);"},
                                   {"b.cpp", "// sleep_for(x)\n\nfor (int i = 0; i < kMostTries; ++i) {}"},
                                   {"c_test.cpp", "sleep_for(x);"},
                                   {"e.h", "Backoff pauses;"},
                                   {"python/scalai/f.py", "time.sleep(1)"},
                                   {"g.cpp", "run();"}};
  std::vector<std::string> found;
  for (const Finding& finding : unlisted_retries(files, "d.md")) found.push_back(finding.str());
  EXPECT_THAT(found, ElementsAre("b.cpp:3: kMostTries: a retry, or a wait? It has no row in d.md",
                                 "e.h:1: Backoff: a retry, or a wait? It has no row in d.md",
                                 "python/scalai/f.py:1: time.sleep(: a retry, or a wait? It has no row in d.md"));
}

}  // namespace
}  // namespace scalai::tidy
