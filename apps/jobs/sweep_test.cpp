#include "apps/jobs/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ptc/base/file.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SweepAxes, RowsSayWhatWasRun) {
  const scenario::Axis policy{"policy.name", {"a", "b"}}, seed{"seed", {"1", "2"}};
  EXPECT_EQ(check_sweep({policy, seed}, 1, 4), absl::OkStatus());
  EXPECT_THAT(message_of(check_sweep({policy, seed}, 2, 100)), HasSubstr("exclude each other"));
}

TEST(SweepAxes, NoMoreRunsThanCanBe) {
  const scenario::Axis four{"a", {"1", "2", "3", "4"}}, none{"b", {"1"}};
  EXPECT_EQ(check_sweep({four, none}, 25, 100), absl::OkStatus());
  EXPECT_FALSE(check_sweep({four, none}, 26, 100).ok());
  EXPECT_FALSE(check_sweep({}, 101, 100).ok());
  EXPECT_FALSE(check_sweep({four}, size_t{1} << 62, 100).ok()) << "four of those are none in 64 bits";
}

TEST(SweepNumbers, NamesAndPointers) {
  const std::string summary = R"({"metrics":{"a":1.5,"n":null},"jobs":[{"steps":7,"ok":true,"name":"x"}]})";
  const auto numbers = read_numbers(summary, {"a", "n", "/jobs/0/steps", "/jobs/0/ok"});
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_EQ(*numbers, (Numbers{1.5, std::nullopt, 7.0, 1.0}));
  EXPECT_THAT(message_of(read_numbers(summary, {"b"}).status()), HasSubstr("no \"b\""));
  EXPECT_THAT(message_of(read_numbers(summary, {"/jobs/1/steps"}).status()), HasSubstr("no \"/jobs/1/steps\""));
  EXPECT_THAT(message_of(read_numbers(summary, {"/jobs/0/name"}).status()), HasSubstr("no number"));
  EXPECT_FALSE(read_numbers("oops", {"a"}).ok());
}

class Journal : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "scalai-sweep-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/x.csv.part"; }
  std::string folder_;
};

TEST_F(Journal, GoesOnWhereItWas) {
  {
    SweepJournal journal;
    ASSERT_EQ(journal.open(path(), "d", 2), absl::OkStatus());
    ASSERT_EQ(journal.add(3, 0, {1.25, std::nullopt}), absl::OkStatus());
    ASSERT_EQ(journal.add(0, 1, {0.1, 1e300}), absl::OkStatus());
  }
  std::ofstream(path(), std::ios::app) << "7,0,1";  // half a row
  SweepJournal journal;
  ASSERT_EQ(journal.open(path(), "d", 2), absl::OkStatus());
  EXPECT_EQ(journal.size(), 2u);
  ASSERT_NE(journal.find(3, 0), nullptr);
  EXPECT_EQ(*journal.find(3, 0), (Numbers{1.25, std::nullopt}));
  EXPECT_EQ(*journal.find(0, 1), (Numbers{0.1, 1e300}));
  EXPECT_EQ(journal.find(7, 0), nullptr);
  ASSERT_EQ(journal.add(7, 0, {1.0, 2.0}), absl::OkStatus());
  EXPECT_THAT(read_file(path()).value(), ::testing::EndsWith("\n7,0,1,2\n")) << "not behind the half row";
}

// Blocks that a loss of power has left as zeros, with later ones behind them.
TEST_F(Journal, EndsWhereZerosBegin) {
  {
    SweepJournal journal;
    ASSERT_EQ(journal.open(path(), "d", 1), absl::OkStatus());
    for (size_t point = 0; point < 4; ++point) ASSERT_EQ(journal.add(point, 0, {1.0}), absl::OkStatus());
  }
  const std::string text = read_file(path()).value();
  for (size_t zeros = 0; zeros < text.size(); ++zeros) {
    SCOPED_TRACE(zeros);
    std::string cut = text;
    cut.replace(zeros, std::min<size_t>(9, text.size() - zeros), std::min<size_t>(9, text.size() - zeros), '\0');
    ASSERT_EQ(write_file(path(), cut), absl::OkStatus());
    const auto lines =
        static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(zeros), '\n'));
    {
      SweepJournal journal;
      ASSERT_EQ(journal.open(path(), "d", 1), absl::OkStatus());
      EXPECT_EQ(journal.size(), lines == 0 ? 0 : lines - 1);
      ASSERT_EQ(journal.add(9, 0, {2.0}), absl::OkStatus());
    }
    SweepJournal again;
    ASSERT_EQ(again.open(path(), "d", 1), absl::OkStatus());
    EXPECT_NE(again.find(9, 0), nullptr);
  }
}

TEST_F(Journal, RefusesWhatIsNotItsOwn) {
  {
    SweepJournal journal;
    ASSERT_EQ(journal.open(path(), "d", 1), absl::OkStatus());
  }
  {
    SweepJournal other;
    EXPECT_THAT(message_of(other.open(path(), "e", 1)), HasSubstr("another scenario"));
  }
  std::ofstream(path(), std::ios::app) << "garbage\n";
  SweepJournal broken;
  EXPECT_THAT(message_of(broken.open(path(), "d", 1)), HasSubstr("\"garbage\" is no row"));
  SweepJournal nowhere;
  EXPECT_EQ(exit_code_of(nowhere.open(folder_ + "/none/x", "d", 1)), 4);
}

TEST_F(Journal, OneAtATime) {
  SweepJournal first, second;
  ASSERT_EQ(first.open(path(), "d", 1), absl::OkStatus());
  EXPECT_THAT(message_of(second.open(path(), "d", 1)), HasSubstr("another sweep is at work"));
}

TEST_F(Journal, PoliciesAreComparedSeedBySeed) {
  SweepTable table{.axes = {{"n", {"1", "2"}}, {"policy.name", {"fifo", "srtf"}}, {"m", {"x", "y"}}},
                   .metrics = {"jct"},
                   .seeds = 3};
  EXPECT_EQ(compared_with(table.axes, 4), std::nullopt);
  EXPECT_EQ(compared_with(table.axes, 7), 5u);
  EXPECT_EQ(compared_with({{"n", {"1", "2"}}}, 1), std::nullopt);
  table.axes = {{"policy.name", {"fifo", "srtf"}}, {"n", {"1", "2"}}};
  SweepJournal journal;
  ASSERT_EQ(journal.open(path(), "d", 1), absl::OkStatus());
  for (size_t seed = 0; seed < 3; ++seed) {
    ASSERT_EQ(journal.add(0, seed, {100.0 * static_cast<double>(seed + 1)}), absl::OkStatus());
    ASSERT_EQ(journal.add(2, seed, {101.0 * static_cast<double>(seed + 1)}), absl::OkStatus());
  }
  ASSERT_EQ(journal.add(1, 0, {7.0}), absl::OkStatus());
  ASSERT_EQ(journal.add(3, 0, {8.0}), absl::OkStatus());
  EXPECT_EQ(sweep_csv(table, journal, {}),
            "policy.name,n,jct,jct_low,jct_high,jct_diff,jct_diff_low,jct_diff_high,status\n"
            "fifo,1,200,100,300,,,,ok\nfifo,2,7,7,7,,,,ok\nsrtf,1,202,101,303,2,1,3,ok\nsrtf,2,8,8,8,,,,ok\n");
  EXPECT_THAT(sweep_csv(table, journal, {{0, "failed"}}), HasSubstr("srtf,1,202,101,303,,,,ok\n"));
}

TEST_F(Journal, TheTable) {
  SweepJournal journal;
  ASSERT_EQ(journal.open(path(), "d", 2), absl::OkStatus());
  SweepTable table{.axes = {{"p", {"a", "b,c"}}}, .metrics = {"x", "y"}};
  ASSERT_EQ(journal.add(0, 0, {1.5, std::nullopt}), absl::OkStatus());
  EXPECT_EQ(sweep_csv(table, journal, {{1, "failed: \"why\""}}),
            "p,x,y,status\na,1.5,,ok\n\"b,c\",,,\"failed: \"\"why\"\"\"\n");
  table.seeds = 3;
  ASSERT_EQ(journal.add(0, 1, {2.5, std::nullopt}), absl::OkStatus());
  ASSERT_EQ(journal.add(0, 2, {0.5, 7.0}), absl::OkStatus());
  EXPECT_EQ(sweep_csv(table, journal, {{1, "failed"}}),
            "p,x,x_low,x_high,y,y_low,y_high,status\na,1.5,0.5,2.5,7,7,7,ok\n\"b,c\",,,,,,,failed\n");
}

// Job 1 has none, and the second run's job 0 is not complete.
TEST_F(Journal, OneSeedHasTheIntervalsOfTheModels) {
  SweepTable table{.axes = {{"p", {"a", "b"}}}, .metrics = {"/jobs/0/wall_s", "/jobs/1/downtime_s", "/jobs/0/steps"}};
  const std::vector<std::string> metrics = with_intervals(table.metrics);
  EXPECT_THAT(metrics, ElementsAre("/jobs/0/wall_s", "/jobs/1/downtime_s", "/jobs/0/steps",
                                   "/jobs/0/interval/wall_s/low", "/jobs/0/interval/wall_s/high",
                                   "/jobs/1/interval/downtime_s/low", "/jobs/1/interval/downtime_s/high"));
  const std::string jobs = R"({"wall_s": 8, "steps": 3, "interval": {"wall_s": X}}, {"downtime_s": 2}]})";
  const auto run = [&](const std::string& interval) {
    std::string text = R"({"jobs": [)" + jobs;
    return *read_numbers(text.replace(text.find('X'), 1, interval), metrics);
  };
  SweepJournal journal;
  ASSERT_EQ(journal.open(path(), "d", metrics.size()), absl::OkStatus());
  ASSERT_EQ(journal.add(0, 0, run(R"({"low": 7, "high": 10})")), absl::OkStatus());
  ASSERT_EQ(journal.add(1, 0, run("null")), absl::OkStatus());
  EXPECT_EQ(
      sweep_csv(table, journal, {}),
      "p,/jobs/0/wall_s,/jobs/0/wall_s_model_low,/jobs/0/wall_s_model_high,/jobs/1/downtime_s,/jobs/0/steps,status\n"
      "a,8,7,10,2,3,ok\nb,8,,,2,3,ok\n");
}

}  // namespace
}  // namespace scalai::apps
