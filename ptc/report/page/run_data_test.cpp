#include "ptc/report/page/internal/run_data.h"

#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/report/page/testing/example_pages.h"

namespace scalai::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunDataTest : public testing::PageTest {
 protected:
  RunData load(const std::string& folder) {
    auto run = load_run("run", folder, *read_file(folder + "/summary.json"));
    EXPECT_TRUE(run.ok()) << run.status();
    return *std::move(run);
  }
};

std::vector<std::string> words_of(const JobTimeline& timeline) {
  std::vector<std::string> words;
  for (const Stretch& s : timeline.stretches)
    words.push_back(fmt::format("{} {}-{} {}", s.what, s.low_s, s.high_s, s.layout));
  return words;
}

std::vector<std::string> words_of(const std::vector<chart::Point>& points) {
  std::vector<std::string> words;
  for (const chart::Point& point : points) words.push_back(fmt::format("{}:{:.4g}", point.x, point.y));
  return words;
}

TEST_F(RunDataTest, ReadsAllOfAFolder) {
  const RunData run = load(example("run"));
  EXPECT_THAT(run.left_out, IsEmpty());
  EXPECT_EQ(run.origin.revision, "abc");
  EXPECT_EQ(run.origin.wall_clock_s, 1.5);
  EXPECT_THAT(run.origin.scenario_text, HasSubstr("grow-then-lose"));
  EXPECT_EQ(run.transfers->size(), 6U);
}

TEST_F(RunDataTest, SaysWhatIsMissing) {
  const std::string folder = example("run");
  for (const char* name :
       {"trace.pftrace", "transfers.csv", "devices.csv", "scenario.resolved.textproto", "manifest.json"})
    std::filesystem::remove(folder + "/" + name);
  const RunData run = load(folder);
  EXPECT_EQ(run.left_out.size(), 4U);
  EXPECT_FALSE(run.trace || run.transfers || run.devices);
}

TEST_F(RunDataTest, ABrokenFileIsAnError) {
  const std::string folder = example("run");
  write("run/trace.pftrace", "nonsense");
  EXPECT_THAT(message_of(load_run("run", folder, *read_file(folder + "/summary.json")).status()),
              HasSubstr("run/trace.pftrace: no trace of Scalai"));
}

// Spans of the example: train 0–10, stop to 11, restart to 14, transfer to 15, train to 50; detection is a gap for the
// page, too, but here the run recorded it as a phase. After that nothing.
TEST_F(RunDataTest, TimelinesOfTheTrace) {
  const std::vector<JobTimeline> timelines = timelines_of(load(example("run")));
  ASSERT_EQ(timelines.size(), 2U);
  EXPECT_THAT(words_of(timelines[0]),
              ElementsAre("train 0-10 dp2", "pause 10-15 ", "train 15-50 tp2,dp2", "pause 50-65 ", "down 65-100 "));
  EXPECT_THAT(words_of(timelines[1]), ElementsAre("waiting 0-100 "));
  EXPECT_THAT(words_of(timelines[0].gpus), ElementsAre("0:0", "0:2", "11:4", "50:2", "65:0", "100:0"));
}

// 3200 samples in 100 steps: 32 a step. Steps 0 to 10 in 10 s of training: 32 samples/s. The job never resumes after
// the second change, so all later steps, 10 to 100, are over the 35 s from 15 to 50: 82.29.
TEST_F(RunDataTest, ThroughputIsStepsOverTheirTime) {
  const std::vector<JobTimeline> timelines = timelines_of(load(example("run")));
  EXPECT_THAT(words_of(timelines[0].throughput), ElementsAre("0:32", "10:0", "15:82.29", "50:0", "65:0", "100:0"));
}

TEST_F(RunDataTest, TimelinesWithoutATrace) {
  const std::string folder = example("run");
  std::filesystem::remove(folder + "/trace.pftrace");
  const std::vector<JobTimeline> timelines = timelines_of(load(folder));
  EXPECT_THAT(words_of(timelines[0]),
              ElementsAre("train 0-10 dp2", "pause 10-15 ", "train 15-50 tp2,dp2", "pause 50-100 "));
  EXPECT_THAT(words_of(timelines[0].gpus), ElementsAre("0:2", "10:4", "50:2", "100:2"));
}

TEST(LargestByInterval, HoldsAValueUntilTheNext) {  // intervals of 10 s
  EXPECT_THAT(largest_by_interval({{0, 0.5}, {5, 0}, {25, 1}, {31, 0}}, 50, 5), ElementsAre(0.5, 0, 1, 1, 0));
  EXPECT_THAT(largest_by_interval({{40, 2}}, 50, 5), ElementsAre(0, 0, 0, 0, 2));
  EXPECT_THAT(largest_by_interval({{10, 2}, {20, 0}}, 50, 5), ElementsAre(0, 2, 0, 0, 0));
  EXPECT_THAT(largest_by_interval({}, 0, 2), ElementsAre(0, 0));
}

TEST(LinkHeat, JoinsLinksOfAHostAndKind) {
  RunTrace trace;
  trace.link_use = {{"h10.nic0.up", {{0, 0.2}}},
                    {"h2.nic0.up", {{0, 0.5}}},
                    {"h2.nic1.up", {{0, 0.7}}},
                    {"h2.g3.down", {{0, 0.1}}},
                    {"h2.store.serve", {{0, 0}}}};
  const Heat heat = link_heat(trace, 10, 2, 9);
  EXPECT_THAT(heat.rows, ElementsAre("h2 GPU links in", "h2 NIC out", "h10 NIC out"));
  EXPECT_THAT(heat.values[1], ElementsAre(0.7, 0.7));
  EXPECT_EQ(heat.highest, 0.7);
  EXPECT_THAT(link_heat(trace, 10, 2, 1).rows, ElementsAre("h2 NIC out"));  // the hottest
  EXPECT_EQ(link_heat(trace, 10, 2, 1).all_rows, 3U);
}

// Of the example: reconfiguration 1 moves 1000 B from g0 to g1 (both h0) and 5000 B from g0 to g2 (h1); 2 loads 60 B
// from storage to g1, and was aborted otherwise; 700 B of a redundant copy are elsewhere.
TEST_F(RunDataTest, TrafficIsByHost) {
  const RunData run = load(example("run"));
  const Traffic traffic = traffic_of(*run.transfers, *run.devices, 24);
  EXPECT_THAT(traffic.hosts, ElementsAre("h0", "h1", "storage"));
  EXPECT_THAT(traffic.bytes, ElementsAre(ElementsAre(1000, 5000, 0), ElementsAre(0, 0, 0), ElementsAre(60, 0, 0)));
  EXPECT_EQ(traffic.elsewhere.at("redundancy"), 700);
  const Traffic together = traffic_of(*run.transfers, *run.devices, 1);
  EXPECT_THAT(together.hosts, ElementsAre("h0–h1", "storage"));
  EXPECT_THAT(together.bytes, ElementsAre(ElementsAre(6000, 0), ElementsAre(60, 0)));
}

}  // namespace
}  // namespace scalai::report
