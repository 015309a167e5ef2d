#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "ptc/base/random.h"
#include "ptc/proto/perfetto.pb.h"
#include "ptc/report/report.h"
#include "ptc/report/testing/example_report.h"

namespace scalai::report {
namespace {

namespace pb = proto::perfetto;

struct ReadSlice {
  uint64_t begin = 0, end = 0;
  std::string name;
};

// A trace as a viewer sees it.
struct ReadTrack {
  std::string group, name, unit;
  bool counter = false;
  std::vector<ReadSlice> slices;  // in order of end
  std::vector<std::pair<uint64_t, double>> values;
  std::vector<std::pair<uint64_t, std::string>> instants;
  std::vector<ReadSlice> open;
  uint64_t last = 0;
};

class ReadTrace {
 public:
  explicit ReadTrace(const std::string& bytes) {
    pb::Trace trace;
    EXPECT_TRUE(trace.ParseFromString(bytes));
    for (const pb::TracePacket& packet : trace.packet()) {
      EXPECT_NE(packet.trusted_packet_sequence_id(), 0U);
      if (packet.has_track_descriptor()) add(packet.track_descriptor());
      if (packet.has_track_event()) add(packet.has_timestamp(), packet.timestamp(), packet.track_event());
    }
    for (const auto& [uuid, track] : tracks_) EXPECT_TRUE(track.open.empty()) << track.name << ": a slice never ends";
  }

  const ReadTrack& track(const std::string& name) const {
    for (const auto& [uuid, track] : tracks_) {
      if (track.name == name) return track;
    }
    ADD_FAILURE() << "no track " << name;
    static const ReadTrack none;
    return none;
  }

  const std::map<uint64_t, ReadTrack>& tracks() const { return tracks_; }

 private:
  void add(const pb::TrackDescriptor& descriptor) {
    EXPECT_NE(descriptor.uuid(), 0U);
    EXPECT_FALSE(tracks_.count(descriptor.uuid())) << "one uuid, two tracks";
    ReadTrack& track = tracks_[descriptor.uuid()];
    track.name = descriptor.has_process() ? descriptor.process().process_name() : descriptor.name();
    track.counter = descriptor.has_counter();
    track.unit = descriptor.counter().unit_name();
    if (descriptor.has_process()) return;
    ASSERT_TRUE(tracks_.count(descriptor.parent_uuid())) << track.name << " has no group";
    track.group = tracks_[descriptor.parent_uuid()].name;
    EXPECT_TRUE(names_.insert(track.group + "/" + track.name).second)
        << "viewers merge tracks of one name: " << track.name;
  }

  void add(bool has_timestamp, uint64_t at, const pb::TrackEvent& event) {
    EXPECT_TRUE(has_timestamp);
    ASSERT_TRUE(tracks_.count(event.track_uuid())) << "an event of no track";
    ReadTrack& track = tracks_[event.track_uuid()];
    EXPECT_GE(at, track.last) << track.name << " goes back in time";
    track.last = at;
    EXPECT_EQ(track.counter, event.type() == pb::TrackEvent::TYPE_COUNTER) << track.name;
    switch (event.type()) {
      case pb::TrackEvent::TYPE_SLICE_BEGIN: track.open.push_back({at, 0, event.name()}); break;
      case pb::TrackEvent::TYPE_SLICE_END: close(track, at); break;
      case pb::TrackEvent::TYPE_INSTANT: track.instants.emplace_back(at, event.name()); break;
      case pb::TrackEvent::TYPE_COUNTER: track.values.emplace_back(at, value_of(event)); break;
      default: ADD_FAILURE() << "event of no type";
    }
  }

  static double value_of(const pb::TrackEvent& event) {
    EXPECT_NE(event.counter_case(), pb::TrackEvent::COUNTER_NOT_SET);
    return event.has_counter_value() ? static_cast<double>(event.counter_value()) : event.double_counter_value();
  }

  static void close(ReadTrack& track, uint64_t at) {
    ASSERT_FALSE(track.open.empty()) << track.name << ": a slice ends that never began";
    track.slices.push_back(track.open.back());
    track.slices.back().end = at;
    track.open.pop_back();
  }

  std::map<uint64_t, ReadTrack> tracks_;
  std::set<std::string> names_;
};

std::vector<std::string> slice_texts(const ReadTrack& track) {
  std::vector<std::string> texts;
  for (const ReadSlice& slice : track.slices) {
    texts.push_back(fmt::format("{} {}-{}", slice.name, static_cast<double>(slice.begin) / 1e9,
                                static_cast<double>(slice.end) / 1e9));
  }
  return texts;
}

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
