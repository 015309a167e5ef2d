#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "ptc/base/random.h"
#include "ptc/base/units.h"
#include "ptc/proto/perfetto.pb.h"
#include "ptc/report/internal/report_files.h"
#include "ptc/report/report.h"
#include "ptc/report/testing/example_report.h"
#include "ptc/report/testing/read_trace.h"

namespace scalai::report {
namespace {

namespace pb = proto::perfetto;

using testing::ReadArrow;
using testing::ReadSlice;
using testing::ReadTrace;
using testing::ReadTrack;
using testing::slice_texts;
using Texts = std::vector<std::string>;
using Values = std::vector<std::pair<uint64_t, double>>;

TEST(Trace, JobsAreSlicesOfTheirPhases) {
  const scenario::Scenario scenario = testing::example_scenario();
  const ReadTrace trace(perfetto_trace(testing::example_report(scenario)));
  EXPECT_EQ(trace.track("gpt").group, "jobs");
  EXPECT_EQ(slice_texts(trace.track("gpt")),
            (Texts{"train 0-10", "stop 10-11", "restart 11-14", "transfer 14-15", "train 15-50", "detect 50-65"}));
  EXPECT_EQ(slice_texts(trace.track("bert, large")), Texts{"waiting 0-100"});
}

TEST(Trace, DevicesShowJobsTransfersFailuresAndMemory) {
  const scenario::Scenario scenario = testing::example_scenario();
  const ReadTrace trace(perfetto_trace(testing::example_report(scenario)));
  EXPECT_EQ(trace.track("g2").group, "devices");
  EXPECT_EQ(slice_texts(trace.track("g2")), (Texts{"gpt: restart 11-14", "gpt: transfer 14-15", "gpt: train 15-50"}));
  EXPECT_EQ(slice_texts(trace.track("g0 send")), (Texts{"to g1 14-14.5", "to h1.mem 14.5-15", "to g2 70-71"}));
  EXPECT_EQ(slice_texts(trace.track("g0 send 2")), Texts{"to g2 14-14.75"});
  EXPECT_EQ(slice_texts(trace.track("g1 receive")), (Texts{"from g0 14-14.5", "from g1 71-71", "from storage 71-72"}));
  EXPECT_EQ(slice_texts(trace.track("h1.mem receive")), Texts{"from g0 14.5-15"});
  EXPECT_EQ(slice_texts(trace.track("storage send")), Texts{"to g1 71-72"});
  EXPECT_EQ(trace.track("g3 failures").instants.size(), 1U);
  EXPECT_EQ(trace.track("g3 failures").instants[0].first, 50'000'000'000U);
  EXPECT_EQ(trace.track("g0 state").values, (Values{{0, 600}, {14'000'000'000U, 900}, {15'000'000'000U, 300}}));
}

TEST(Trace, ArrowsLeadFromSendersToReceivers) {
  const scenario::Scenario scenario = testing::example_scenario();
  const ReadTrace trace(perfetto_trace(testing::example_report(scenario)));
  Texts arrows;
  for (const ReadArrow& arrow : trace.arrows()) {
    EXPECT_EQ(arrow.sent.begin, arrow.received.begin);
    EXPECT_EQ(arrow.sent.notes, arrow.received.notes);
    arrows.push_back(fmt::format("{} → {}: {} B at {} s", arrow.from, arrow.to, arrow.sent.notes.at("bytes"),
                                 static_cast<double>(arrow.sent.begin) / 1e9));
  }
  EXPECT_EQ(arrows, (Texts{"g0 send → g1 receive: 1000 B at 14 s", "g0 send 2 → g2 receive: 5000 B at 14 s",
                           "g0 send → h1.mem receive: 700 B at 14.5 s", "g0 send → g2 receive: 9000 B at 70 s",
                           "g1 send → g1 receive: 40 B at 71 s", "storage send → g1 receive: 60 B at 71 s"}));
}

TEST(Trace, EventsAreInstants) {
  scenario::Scenario scenario = testing::example_scenario();
  scenario.events = {
      {scenario::AtTime{10}, scenario::Resize{.job = 0, .gpus = 4}},
      {scenario::AtStep{.job = 0, .step = 40}, scenario::Fail{.devices = {DeviceId(2), DeviceId(3)}, .links = {}}},
      {scenario::AtTime{60}, scenario::Degrade{.links = {"h0.nic0.up"}, .devices = {}, .factor = 0.25}},
      {scenario::AtTime{90}, scenario::Repair{.devices = {DeviceId(2)}, .links = {"h0.nic0.up"}}},
      {scenario::AtStep{.job = 0, .step = 4000}, scenario::Resize{.job = 0, .gpus = 2}}};
  control::RunReport report = testing::example_report(scenario);
  report.script = {
      {.event = 0, .at_s = 10}, {.event = 1, .at_s = 50}, {.event = 2, .at_s = 60}, {.event = 3, .at_s = 90}};
  report.events.push_back({95, control::UserDrain{{DeviceId(1)}}});
  report.jobs[0].notices = {{.at_s = 92, .devices = {DeviceId(1)}, .answer = "leaves"}};
  const ReadTrace trace(perfetto_trace(report));
  EXPECT_EQ(trace.track("timeline").group, "events");
  Texts texts;
  for (const auto& [at, name] : trace.track("timeline").instants)
    texts.push_back(fmt::format("{} {}", static_cast<double>(at) / 1e9, name));
  EXPECT_EQ(texts, (Texts{"10 resize gpt to 4 GPUs", "50 g2-g3 fail", "50 g2-g3 lost", "60 h0.nic0.up degrade to 0.25",
                          "65 the loss of g2-g3 is noticed", "90 g2 h0.nic0.up are repaired",
                          "92 gpt, told that g1 will be taken: leaves", "95 request: drain g1"}));
}

// Beyond the bound the largest transfers stay, with their arrows, and the trace says what is missing.
TEST(Trace, OfTooManyTransfersTheLargestAreShown) {
  const scenario::Scenario scenario = testing::example_scenario();
  control::RunReport report = testing::example_report(scenario);
  std::vector<control::TransferRecord>& transfers = report.recorder.transfers;
  const control::TransferRecord one = transfers.front();
  transfers.clear();
  Random random(1);
  std::multiset<int64_t> sizes;
  for (int i = 0; i < 107; ++i) {
    transfers.push_back(one);
    transfers.back().bytes = 1000 + random.below(50);
    transfers.back().start_s = i;
    transfers.back().end_s = i + 0.5;
    sizes.insert(transfers.back().bytes);
  }
  const ReadTrace trace(perfetto_trace(report, {.transfers = 100}));
  int64_t missing = 0;
  for (int i = 0; i < 7; ++i) {
    missing += *sizes.begin();
    sizes.erase(sizes.begin());
  }
  std::multiset<int64_t> shown;
  for (const ReadArrow& arrow : trace.arrows()) {
    EXPECT_EQ(arrow.sent.notes.at("bytes"), arrow.received.notes.at("bytes"));
    shown.insert(std::stoll(arrow.sent.notes.at("bytes")));
  }
  EXPECT_TRUE(shown == sizes);
  EXPECT_EQ(trace.track("g0 send").slices.size(), 100U);
  ASSERT_EQ(trace.track("left out").instants.size(), 1U);
  EXPECT_EQ(trace.track("left out").instants[0].second,
            fmt::format("7 smaller transfers with {} together", format_bytes(missing)));
}

TEST(Trace, LinksCountRateAndUse) {
  const scenario::Scenario scenario = testing::example_scenario();
  const ReadTrace trace(perfetto_trace(testing::example_report(scenario)));
  EXPECT_EQ(trace.track("h0.nic0.up").group, "links");
  EXPECT_EQ(trace.track("h0.nic0.up").unit, "B/s");
  EXPECT_EQ(trace.track("h0.nic0.up").values, (Values{{14'000'000'000U, 1e9}, {15'000'000'000U, 0}}));
  EXPECT_EQ(trace.track("h0.nic0.up use").unit, "%");
  EXPECT_EQ(trace.track("h0.nic0.up use").values, (Values{{14'000'000'000U, 100}, {15'000'000'000U, 0}}));
  EXPECT_EQ(trace.track("h1.nic0.down use").values, (Values{{14'000'000'000U, 50}, {15'000'000'000U, 0}}));
}

TEST(Trace, OfTooManyValuesTheLinksThatCarryMostAreShown) {
  const scenario::Scenario scenario = testing::example_scenario();
  control::RunReport report = testing::example_report(scenario);
  report.end_s = 300;
  report.recorder.link_samples.clear();
  for (int i = 0; i < 300; ++i) {
    report.recorder.link_samples.push_back({static_cast<double>(i), 0, 1e8 + i % 2});
    report.recorder.link_samples.push_back({static_cast<double>(i), 1, 2e8 + i % 2});
  }
  const ReadTrace trace(perfetto_trace(report, {.link_samples = 500}));
  EXPECT_EQ(trace.track("h1.nic0.down").values.size(), 300U);
  EXPECT_EQ(trace.track("left out").group, "links");
  EXPECT_EQ(trace.track("left out").instants[0].second, "1 links that carry less");
  for (const auto& [uuid, track] : trace.tracks()) EXPECT_NE(track.name, "h0.nic0.up");
}

TEST(Trace, OfTooManyStretchesOnDevicesTheLongestAreShown) {
  const scenario::Scenario scenario = testing::example_scenario();
  const ReadTrace trace(
      perfetto_trace(testing::example_report(scenario), {.device_slices = 8}));  // two of four devices
  EXPECT_EQ(slice_texts(trace.track("g0")), (Texts{"gpt: train 15-50", "gpt: detect 50-65"}));
  EXPECT_EQ(slice_texts(trace.track("g3")), Texts{"gpt: train 15-50"});
  EXPECT_EQ(trace.track("gpt").slices.size(), 6U) << "all of them";
  EXPECT_EQ(trace.track("left out").instants[0].second, "4 shorter stretches of jobs");
}

control::RunReport random_report(const scenario::Scenario& scenario, Random& random) {
  control::RunReport report = testing::example_report(scenario);
  const auto moment = [&] { return static_cast<double>(random.below(40)) / 3; };  // many ties
  const auto place = [&] {
    const int64_t index = random.below(7);
    if (index < 4) return plan::Location::device(DeviceId(index));
    return index < 6 ? plan::Location::host_memory(HostId(index - 4)) : plan::Location::storage();
  };
  report.spans.clear();
  report.recorder.transfers.clear();
  for (int64_t n = random.below(30); n > 0; --n) {
    const double start = moment();
    const std::vector<DeviceId> devices = {DeviceId(random.below(2)), DeviceId(2 + random.below(2))};
    report.spans.push_back({static_cast<int>(random.below(2)), "train", start, start + moment(), devices});
  }
  for (int64_t n = random.below(60); n > 0; --n) {
    const double start = moment();
    report.recorder.transfers.push_back({.phase = "transfer",
                                         .src = place(),
                                         .dst = place(),
                                         .bytes = random.below(1000),
                                         .start_s = start,
                                         .end_s = start + moment()});
  }
  return report;
}

std::multiset<std::pair<uint64_t, uint64_t>> intervals(const ReadTrace& trace, const std::string& group) {
  std::multiset<std::pair<uint64_t, uint64_t>> result;
  for (const auto& [uuid, track] : trace.tracks()) {
    if (track.group != group) continue;
    for (const ReadSlice& slice : track.slices) result.emplace(slice.begin, slice.end);
  }
  return result;
}

// However spans and transfers overlap: no slice is lost, and the slices of one track follow one another.
TEST(Trace, OverlappingSlicesAreSpreadOverTracks) {
  const scenario::Scenario scenario = testing::example_scenario();
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const control::RunReport report = random_report(scenario, random);
    const std::string bytes = perfetto_trace(report);
    ASSERT_EQ(bytes, perfetto_trace(report));
    const ReadTrace trace(bytes);
    for (const auto& [uuid, track] : trace.tracks()) {
      for (size_t i = 1; i < track.slices.size(); ++i) {
        ASSERT_LE(track.slices[i - 1].end, track.slices[i].begin) << track.name;
      }
    }
    std::multiset<std::pair<uint64_t, uint64_t>> expected;
    const auto ns = [](double seconds) { return static_cast<uint64_t>(std::llround(seconds * 1e9)); };
    for (const control::JobSpan& span : report.spans) expected.emplace(ns(span.start_s), ns(span.end_s));
    ASSERT_EQ(intervals(trace, "jobs"), expected);
    for (const control::JobSpan& span : report.spans)
      expected.emplace(ns(span.start_s), ns(span.end_s));  // two devices a span
    for (const control::TransferRecord& transfer : report.recorder.transfers) {
      expected.emplace(ns(transfer.start_s), ns(transfer.end_s));
      expected.emplace(ns(transfer.start_s), ns(transfer.end_s));
    }
    ASSERT_EQ(intervals(trace, "devices"), expected);
    ASSERT_EQ(trace.arrows().size(), report.recorder.transfers.size());
    for (const ReadArrow& arrow : trace.arrows()) {
      ASSERT_EQ(arrow.sent.notes, arrow.received.notes);
      ASSERT_EQ("to " + arrow.to.substr(0, arrow.to.find(' ')), arrow.sent.name);
      ASSERT_EQ("from " + arrow.from.substr(0, arrow.from.find(' ')), arrow.received.name);
    }
  }
}

TEST(Trace, EventsOfTheWholeFileAreInOrderOfTime) {
  const scenario::Scenario scenario = testing::example_scenario();
  pb::Trace trace;
  ASSERT_TRUE(trace.ParseFromString(perfetto_trace(testing::example_report(scenario))));
  uint64_t last = 0;
  for (const pb::TracePacket& packet : trace.packet()) {
    if (!packet.has_track_event()) continue;
    EXPECT_GE(packet.timestamp(), last);
    last = packet.timestamp();
  }
  EXPECT_EQ(last, 100'000'000'000U);
}

}  // namespace
}  // namespace scalai::report
