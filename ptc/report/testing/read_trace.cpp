#include "ptc/report/testing/read_trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "ptc/proto/perfetto.pb.h"

namespace scalai::report::testing {

namespace pb = proto::perfetto;

struct ReadTrace::Reader {
  void add(const pb::TrackDescriptor& descriptor) {
    EXPECT_NE(descriptor.uuid(), 0U);
    EXPECT_FALSE(trace.tracks_.count(descriptor.uuid())) << "one uuid, two tracks";
    ReadTrack& track = trace.tracks_[descriptor.uuid()];
    track.name = descriptor.has_process() ? descriptor.process().process_name() : descriptor.name();
    track.counter = descriptor.has_counter();
    track.unit = descriptor.counter().unit_name();
    if (descriptor.has_process()) return;
    ASSERT_TRUE(trace.tracks_.count(descriptor.parent_uuid())) << track.name << " has no group";
    track.group = trace.tracks_[descriptor.parent_uuid()].name;
    EXPECT_TRUE(names.insert(track.group + "/" + track.name).second)
        << "viewers merge tracks of one name: " << track.name;
  }

  void add(bool has_timestamp, uint64_t at, const pb::TrackEvent& event) {
    EXPECT_TRUE(has_timestamp);
    ASSERT_TRUE(trace.tracks_.count(event.track_uuid())) << "an event of no track";
    ReadTrack& track = trace.tracks_[event.track_uuid()];
    EXPECT_GE(at, track.last) << track.name << " goes back in time";
    track.last = at;
    EXPECT_EQ(track.counter, event.type() == pb::TrackEvent::TYPE_COUNTER) << track.name;
    switch (event.type()) {
      case pb::TrackEvent::TYPE_SLICE_BEGIN:
        track.open.push_back({at, 0, event.name(), notes_of(event)});
        follow(track, event);
        break;
      case pb::TrackEvent::TYPE_SLICE_END: close(track, at); break;
      case pb::TrackEvent::TYPE_INSTANT: track.instants.emplace_back(at, event.name()); break;
      case pb::TrackEvent::TYPE_COUNTER: track.values.emplace_back(at, value_of(event)); break;
      default: ADD_FAILURE() << "event of no type";
    }
  }

  static std::map<std::string, std::string> notes_of(const pb::TrackEvent& event) {
    std::map<std::string, std::string> notes;
    for (const pb::DebugAnnotation& note : event.debug_annotations())
      notes[note.name()] = note.has_int_value() ? std::to_string(note.int_value()) : note.string_value();
    return notes;
  }

  void follow(const ReadTrack& track, const pb::TrackEvent& event) {
    for (const uint64_t flow : event.flow_ids())
      EXPECT_TRUE(flows.emplace(flow, std::pair(track.name, track.open.back())).second) << "two arrows, one number";
    for (const uint64_t flow : event.terminating_flow_ids()) {
      const auto begun = flows.find(flow);
      ASSERT_TRUE(begun != flows.end()) << "an arrow ends before it begins";
      trace.arrows_.push_back({begun->second.first, track.name, begun->second.second, track.open.back()});
      flows.erase(begun);
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

  ReadTrace& trace;
  std::set<std::string> names = {};
  std::map<uint64_t, std::pair<std::string, ReadSlice>> flows = {};  // that have begun: track and slice
};

ReadTrace::ReadTrace(const std::string& bytes) {
  pb::Trace trace;
  EXPECT_TRUE(trace.ParseFromString(bytes));
  Reader reader{.trace = *this};
  for (const pb::TracePacket& packet : trace.packet()) {
    EXPECT_NE(packet.trusted_packet_sequence_id(), 0U);
    if (packet.has_track_descriptor()) reader.add(packet.track_descriptor());
    if (packet.has_track_event()) reader.add(packet.has_timestamp(), packet.timestamp(), packet.track_event());
  }
  for (const auto& [uuid, track] : tracks_) EXPECT_TRUE(track.open.empty()) << track.name << ": a slice never ends";
  EXPECT_TRUE(reader.flows.empty()) << reader.flows.size() << " arrows end nowhere";
}

const ReadTrack& ReadTrace::track(const std::string& name) const {
  for (const auto& [uuid, track] : tracks_) {
    if (track.name == name) return track;
  }
  ADD_FAILURE() << "no track " << name;
  static const ReadTrack none;
  return none;
}

std::vector<std::string> slice_texts(const ReadTrack& track) {
  std::vector<std::string> texts;
  for (const ReadSlice& slice : track.slices) {
    texts.push_back(fmt::format("{} {}-{}", slice.name, static_cast<double>(slice.begin) / 1e9,
                                static_cast<double>(slice.end) / 1e9));
  }
  return texts;
}

}  // namespace scalai::report::testing
