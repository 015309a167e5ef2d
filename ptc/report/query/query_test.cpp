#include "ptc/report/query/query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ptc/base/status.h"

namespace scalai::report {
namespace query_test {

using ::testing::HasSubstr;

// Four jobs; of one the time is not known.
const QueryTable kTable{
    .name = "jobs",
    .columns = {"job", "gpus", "jct_s", "isolated_s"},
    .text_columns = {"job"},
    .rows = {{"a", "1", "10", "10"}, {"b", "2", "40", "10"}, {"it's", "4", "60", "20"}, {"d", "1", "", ""}}};

std::optional<double> value(const std::string& expression, const QueryTable& table = kTable) {
  const auto values = evaluate(table, {expression});
  EXPECT_TRUE(values.ok()) << expression << ": " << message_of(values.status());
  return values.ok() ? values->front() : std::nullopt;
}
std::string problem(const std::string& expression) { return message_of(check_expression(kTable, expression)); }

TEST(Query, NumbersByHand) {
  EXPECT_EQ(value("mean(jct_s)"), 110.0 / 3);
  EXPECT_EQ(value("avg(jct_s)"), 110.0 / 3);
  EXPECT_EQ(value("sum(jct_s) / 2"), 55);
  EXPECT_EQ(value("min(jct_s) - max(jct_s)"), -50);
  EXPECT_EQ(value("median(jct_s)"), 40);
  EXPECT_EQ(value("percentile(jct_s / isolated_s, 50)"), 3) << "of 1, 3, 4";
  EXPECT_DOUBLE_EQ(*value("percentile(jct_s / isolated_s, 75)"), 3.5) << "it interpolates";
  EXPECT_EQ(value("percentile(jct_s, 0)"), 10);
  EXPECT_EQ(value("percentile(jct_s, 100)"), 60);
  EXPECT_DOUBLE_EQ(*value("stddev(jct_s)"),
                   std::sqrt((std::pow(80.0 / 3, 2) + std::pow(10.0 / 3, 2) + std::pow(70.0 / 3, 2)) / 2));
  EXPECT_EQ(value("sum(gpus * jct_s) FILTER (WHERE gpus > 1)"), 320);
  EXPECT_EQ(value("mean(jct_s) FILTER (WHERE job = 'it''s')"), 60);
  EXPECT_EQ(value("mean(CASE WHEN gpus > 1 THEN jct_s END)"), 50);
}

// Shares come out as one expects them, and what is not there is not 0.
TEST(Query, WholeNumbersDivideAsOthers) {
  EXPECT_EQ(value("count(*)"), 4);
  EXPECT_EQ(value("count(jct_s)"), 3);
  EXPECT_EQ(value("count(*) FILTER (WHERE jct_s > 30) / count(*)"), 0.5);
  EXPECT_EQ(value("mean(jct_s > 30)"), 2.0 / 3);
  EXPECT_EQ(value("sum(gpus) / count(*)"), 2);
}

TEST(Query, NothingToMeasureIsNoNumber) {
  QueryTable none = kTable;
  none.rows.clear();
  for (const char* text : {"mean(jct_s)", "median(jct_s)", "percentile(jct_s, 99)", "stddev(jct_s)", "max(jct_s)"}) {
    EXPECT_EQ(value(text, none), std::nullopt) << text;
  }
  EXPECT_EQ(value("count(*)", none), 0);
  EXPECT_EQ(value("sum(jct_s) / 0"), std::nullopt);
  EXPECT_EQ(value("stddev(jct_s) FILTER (WHERE gpus = 4)"), std::nullopt) << "of one value";
}

TEST(Query, ProblemsSayWhereAndWhat) {
  EXPECT_EQ(problem("mean(jct_s)"), "");
  EXPECT_EQ(problem("mean(jct)"), "no such column: jct, at \"jct)\"\nhint: did you mean \"jct_s\"?");
  EXPECT_THAT(problem("mean(price)"), HasSubstr("hint: there are job, gpus, jct_s, isolated_s"));
  EXPECT_THAT(problem("average(jct_s)"), HasSubstr("no such function: average"));
  EXPECT_THAT(problem("mean(jct_s"), HasSubstr("syntax error"));
  EXPECT_THAT(problem(""), HasSubstr("syntax error"));
  EXPECT_THAT(problem("percentile(jct_s)"), HasSubstr("wrong number of arguments"));
  EXPECT_THAT(problem("jct_s / 2"), HasSubstr("a number for each row"));
  EXPECT_THAT(problem("mean(jct_s), max(jct_s)"), HasSubstr("row value"));
  const auto wrong = [](const std::string& text) { return message_of(evaluate(kTable, {text}).status()); };
  EXPECT_THAT(wrong("max(job)"), HasSubstr("it gives the text \"it's\", no number"));
  EXPECT_THAT(wrong("percentile(jct_s, 101)"), HasSubstr("one number from 0 to 100"));
  EXPECT_THAT(wrong("percentile(jct_s, gpus)"), HasSubstr("one number from 0 to 100"));
  EXPECT_THAT(wrong("percentile(jct_s, 'p99')"), HasSubstr("one number from 0 to 100"));
  EXPECT_THAT(wrong("percentile(jct_s, NULL)"), HasSubstr("one number from 0 to 100"));
  for (const char* text : {"mean(job)", "median(job)", "percentile(job, 50)", "stddev(job)", "mean('jct')"})
    EXPECT_THAT(wrong(text), HasSubstr("it is computed of a text")) << text;
}

// It reads one table in memory and nothing else.
// Found before there is a row.
TEST(Query, NoNumberComesOfATextColumn) {
  for (const char* text : {"max(job)", "mean(job)", "percentile(job, 50)", "min(job || jct_s)"}) {
    EXPECT_EQ(problem(text),
              "it is computed of a text, not of numbers\nhint: these columns are texts: job; compare them, as in "
              "sum(job = 'a')")
        << text;
  }
  EXPECT_THAT(problem("max('a')"), HasSubstr("text"));
  for (const char* number :
       {"sum(job = 'a')", "count(job)", "max(length(job))", "mean(CASE job WHEN 'a' THEN 1 END)"}) {
    EXPECT_EQ(problem(number), "") << number;
  }
  EXPECT_THAT(message_of(check_expression({.name = "t", .columns = {"x"}, .text_columns = {}, .rows = {}}, "max('a')")),
              HasSubstr("text"));
}

TEST(Query, OnlyReads) {
  for (const char* text : {"random()", "max(randomblob(4))", "load_extension('x')", "max(strftime('%s', 'now'))",
                           "(SELECT count(*) FROM sqlite_temp_master)", "1) FROM jobs; DROP TABLE jobs; SELECT (1",
                           "1) FROM jobs; ATTACH 'x' AS y; --",
                           "(WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n)",
                           "(SELECT 1 FROM pragma_database_list)"}) {
    EXPECT_FALSE(check_expression(kTable, text).ok()) << text;
  }
  EXPECT_EQ(value("count(*) -- all"), 4);
}

TEST(Query, EndsInTime) {
  QueryTable large = kTable;
  for (int k = 0; k < 3000; ++k) large.rows.push_back({"x", "1", std::to_string(k), "1"});
  const auto values = evaluate(large, {"(SELECT sum(a.jct_s + b.jct_s + c.jct_s) FROM jobs a, jobs b, jobs c)"});
  EXPECT_THAT(message_of(values.status()), HasSubstr("it takes too long"));
}

}  // namespace query_test
}  // namespace scalai::report
