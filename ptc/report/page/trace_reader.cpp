// internal/trace_reader.h

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/proto/perfetto.pb.h"
#include "ptc/report/page/internal/trace_reader.h"

namespace scalai::report {
namespace {

namespace pb = proto::perfetto;

struct Track {
  std::string group, name;
  std::vector<TraceStretch> stretches;
  TraceValues values;
};

double value_of(const pb::TrackEvent& event) {
  return event.has_counter_value() ? static_cast<double>(event.counter_value()) : event.double_counter_value();
}

class Reader {
 public:
  absl::Status add(const pb::TracePacket& packet) {
    if (packet.has_track_descriptor()) {
      const pb::TrackDescriptor& descriptor = packet.track_descriptor();
      order_.push_back(descriptor.uuid());
      Track& track = tracks_[descriptor.uuid()];
      track.name = descriptor.has_process() ? descriptor.process().process_name() : descriptor.name();
      if (!descriptor.has_process()) track.group = tracks_[descriptor.parent_uuid()].name;
    }
    if (!packet.has_track_event()) return absl::OkStatus();
    const pb::TrackEvent& event = packet.track_event();
    const auto found = tracks_.find(event.track_uuid());
    if (found == tracks_.end()) return invalid("an event of no track");
    const double at_s = static_cast<double>(packet.timestamp()) / 1e9;
    Track& track = found->second;
    if (event.type() == pb::TrackEvent::TYPE_SLICE_BEGIN) track.stretches.push_back({at_s, at_s, event.name()});
    if (event.type() == pb::TrackEvent::TYPE_SLICE_END && !track.stretches.empty())
      track.stretches.back().high_s = at_s;
    if (event.type() == pb::TrackEvent::TYPE_COUNTER) track.values.emplace_back(at_s, value_of(event));
    return absl::OkStatus();
  }

  RunTrace finish() {
    RunTrace trace;
    for (const uint64_t uuid : order_) {
      Track& track = tracks_[uuid];
      if (track.group == "jobs") trace.jobs.emplace_back(track.name, std::move(track.stretches));
      if (track.group == "devices") {
        add_device(std::move(track), trace);
      } else if (track.group == "links" && track.name.ends_with(" use")) {
        for (auto& [at_s, percent] : track.values) percent /= 100;
        trace.link_use[track.name.substr(0, track.name.size() - 4)] = std::move(track.values);
      }
    }
    return trace;
  }

 private:
  static void add_device(Track track, RunTrace& trace) {
    const size_t blank = track.name.find(' ');
    if (blank == std::string::npos) {
      trace.devices[track.name] = std::move(track.stretches);
    } else if (track.name.substr(blank) == " state") {
      trace.state_bytes[track.name.substr(0, blank)] = std::move(track.values);
    }
  }

  std::map<uint64_t, Track> tracks_;
  std::vector<uint64_t> order_;
};

}  // namespace

absl::StatusOr<RunTrace> read_trace(const std::string& bytes) {
  pb::Trace trace;
  if (!trace.ParseFromString(bytes)) return invalid("no trace of Scalai");
  Reader reader;
  for (const pb::TracePacket& packet : trace.packet()) SCALAI_RETURN_IF_ERROR(reader.add(packet));
  return reader.finish();
}

}  // namespace scalai::report
