#include "ptc/report/run_notes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalai::report {
namespace run_notes_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RunNotes, OfSummaries) {
  const RunWords words = words_of_run(
      R"({"kind": "recovery", "rules": "steady", "policy_remarks": "4 rounds", "notes": ["one", 2, "three"]})");
  EXPECT_THAT(words.notes, ElementsAre("one", "three"));
  EXPECT_EQ(words.remarks, "4 rounds");
  EXPECT_EQ(words.rules, "steady");
  for (const char* other : {"", "{", "[1]", "{}", R"({"notes": "x", "rules": 1})"})
    EXPECT_THAT(words_of_run(other).notes, IsEmpty()) << other;
}

// Those of all first come first, whatever the order in which the runs end.
TEST(RunNotes, OfAllRunsHaveNoLabels) {
  for (const bool turned : {false, true}) {
    RunNotes notes;
    for (size_t i = 0; i < 2; ++i) {
      if ((i == 0) != turned) notes.add(0, 0, "fifo", {{"all", "fifo's"}, "", ""});
      if ((i == 1) != turned) notes.add(1, 0, "ideal", {{"first", "all"}, "4 rounds", ""});
    }
    EXPECT_THAT(notes.sentences(), ElementsAre("all", "fifo: fifo's", "ideal: first", "ideal: policy: 4 rounds"));
    EXPECT_EQ(notes.warning(), "");
  }
}

TEST(RunNotes, ManyLabelsAndManySentencesAreCut) {
  RunNotes notes;
  for (size_t i = 0; i < 9; ++i) {
    const std::string own = fmt::format("n{}", i);
    notes.add(i, 0, fmt::format("r{}", i),
              {i < 5 ? std::vector<std::string>{"five", own} : std::vector<std::string>{"x", own}, own, ""});
  }
  notes.add(9, 0, "r9", {{"x"}, "", ""});
  notes.add(10, 0, "r10", {{"x", "n9"}, "n10", ""});
  const std::vector<std::string> sentences = notes.sentences();
  EXPECT_EQ(sentences[0], "r0, r1, r2, r3, r4: five");
  EXPECT_EQ(sentences[6], "r5, r6, r7, r8 and 2 more: x");
  ASSERT_EQ(sentences.size(), 21u);
  EXPECT_EQ(sentences[20], "and 2 more notes, which summary.json of each run has");
}

// Twenty seeds of a generator are one note, and hide no others.
TEST(RunNotes, OfSeedsTheFirstWhereOnlyNumbersDiffer) {
  for (const bool turned : {false, true}) {
    RunNotes notes;
    for (size_t k = 1; k <= 30; ++k) {
      const size_t seed = turned ? 31 - k : k;
      const std::string text = fmt::format("generator: seed {}", seed);
      notes.add(0, seed, "a", {{text, "same", "host 1", "host 2"}, fmt::format("{} rounds", seed), ""});
      notes.add(1, seed, "b", {{text, "same"}, "7 rounds", ""});
      if (seed == 9) notes.add(1, seed, "b", {{"odd 9"}, "7 rounds", ""});
    }
    EXPECT_THAT(notes.sentences(),
                ElementsAre("generator: seed 1 (of the first seed)", "same", "a: host 1", "a: host 2", "b: odd 9",
                            "a: policy: 1 rounds (of the first seed)", "b: policy: 7 rounds"));
  }
}

TEST(RunNotes, RulesThatDifferAreAWarning) {
  RunNotes notes;
  notes.add(0, 0, "a", {{}, "", "steady"});
  notes.add(1, 0, "b", {{}, "", "steady"});
  EXPECT_EQ(notes.warning(), "");
  notes.add(2, 0, "c", {{}, "", "published"});
  EXPECT_EQ(notes.warning(),
            "the runs' rules differ, and what they differ in may be that: a is steady, b is steady, c is published");
  for (size_t i = 3; i < 10; ++i) notes.add(i, 0, "d", {});
  EXPECT_TRUE(notes.warning().ends_with(", d is not said and 2 more")) << notes.warning();
}

}  // namespace run_notes_test
}  // namespace scalai::report
