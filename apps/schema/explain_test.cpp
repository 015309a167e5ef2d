#include "apps/schema/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalai::apps {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Explanation* of(const std::vector<Explanation>& all, const std::string& kind) {
  for (const Explanation& one : all) {
    if (one.kind == kind) return &one;
  }
  return nullptr;
}

TEST(Explain, AFieldByPathOrLastName) {
  const auto by_path = explanations("jobs.checkpoint");
  ASSERT_NE(of(by_path, "field"), nullptr);
  EXPECT_EQ(of(by_path, "field")->about, "Checkpoint");
  EXPECT_THAT(of(by_path, "field")->text, HasSubstr("every_steps"));
  const auto by_name = explanations("oversubscription");
  EXPECT_EQ(of(by_name, "field")->name, "cluster.fabric.oversubscription");
  EXPECT_EQ(of(explanations("fabric.oversubscription"), "field")->name, "cluster.fabric.oversubscription");
  EXPECT_THAT(of(by_name, "term")->text, HasSubstr("Sum of the NICs")) << "and it is a word";
}

TEST(Explain, AValueOfAField) {
  const auto found = explanations("DRAGONFLY");
  ASSERT_NE(of(found, "value"), nullptr);
  EXPECT_EQ(of(found, "value")->about, "of cluster.fabric.kind");
  EXPECT_THAT(of(found, "value")->text, HasSubstr("global links"));
}

TEST(Explain, AMetricByKeyOrPointer) {
  for (const std::string word : {"downtime_s", "/jobs/0/downtime_s"}) {
    const auto found = explanations(word);
    ASSERT_NE(of(found, "metric"), nullptr) << word;
    EXPECT_EQ(of(found, "metric")->about, "s");
    EXPECT_THAT(of(found, "metric")->where, HasSubstr("docs/reports.md"));
    EXPECT_THAT(of(found, "metric")->text, Not(HasSubstr("`"))) << "no markup";
  }
}

TEST(Explain, ATermByAnyOfItsNames) {
  EXPECT_THAT(of(explanations("kept"), "term")->text, Not(IsEmpty()));
  EXPECT_EQ(of(explanations("zero1"), "term")->name, of(explanations("ZeRO"), "term")->name);
  EXPECT_EQ(of(explanations("NVLink domain"), "term")->name, "NVLink domain");
}

TEST(Explain, UnknownWordsHaveNeighbours) {
  EXPECT_THAT(explanations("chekpoint"), IsEmpty());
  EXPECT_THAT(words_like("chekpoint"), Contains("checkpoint"));
  EXPECT_THAT(words_like("fabric.oversub"), Contains("oversubscription"));
  EXPECT_THAT(explanations(""), IsEmpty());
}

}  // namespace
}  // namespace scalai::apps
