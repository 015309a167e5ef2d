#include "ptc/report/page/internal/trace_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/report/testing/example_report.h"

namespace scalai::report {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(ReadTrace, HasWhatTheRunWrote) {
  const scenario::Scenario scenario = testing::example_scenario();
  const auto trace = read_trace(perfetto_trace(testing::example_report(scenario)));
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->jobs.size(), 2U);
  EXPECT_EQ(trace->jobs[0].first, "gpt");
  ASSERT_EQ(trace->jobs[0].second.size(), 6U);
  EXPECT_EQ(trace->jobs[0].second[4].what, "train");
  EXPECT_EQ(trace->jobs[0].second[4].low_s, 15);
  EXPECT_EQ(trace->jobs[0].second[4].high_s, 50);
  EXPECT_EQ(trace->devices.at("g2").front().what, "gpt: restart");
  EXPECT_THAT(trace->state_bytes.at("g0"), ElementsAre(Pair(0, 600), Pair(14, 900), Pair(15, 300)));
  EXPECT_THAT(trace->link_use.at("h1.nic0.down"), ElementsAre(Pair(14, 0.5), Pair(15, 0)));  // 5e8 of 1e9 B/s
  EXPECT_EQ(trace->devices.count("g0 send"), 0U);
}

TEST(ReadTrace, RefusesOtherFiles) { EXPECT_EQ(exit_code_of(read_trace("no trace").status()), 3); }

}  // namespace
}  // namespace scalai::report
