// perfetto_trace(): a run as Perfetto track events.

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/proto/perfetto.pb.h"
#include "ptc/report/internal/report_files.h"
#include "ptc/report/report.h"

namespace scalai::report {
namespace {

namespace pb = proto::perfetto;

uint64_t nanoseconds(double seconds) { return static_cast<uint64_t>(std::llround(std::max(seconds, 0.0) * 1e9)); }

struct Slice {
  uint64_t begin = 0, end = 0;
  std::string name;
  const control::TransferRecord* transfer = nullptr;  // shown beside the slice; outlives the writer
};

// Collects tracks and their events. A track's events are added in order of time; the file has all events in that order.
// A big run has millions of them, so that one message is filled again and again, and its bytes lie one after the other.
class TraceWriter {
 public:
  explicit TraceWriter(const control::RunReport& report) : report_(report) {}

  // A group of tracks, shown in the order they are added.
  uint64_t group(const std::string& name) {
    pb::TrackDescriptor descriptor;
    descriptor.mutable_process()->set_pid(++groups_);
    descriptor.mutable_process()->set_process_name(name);
    descriptor.set_child_ordering(pb::TrackDescriptor::ORDER_EXPLICIT);
    return add(std::move(descriptor));
  }

  uint64_t track(uint64_t parent, const std::string& name) { return add(child_of(parent, name)); }

  uint64_t byte_counter(uint64_t parent, const std::string& name) {
    pb::TrackDescriptor descriptor = child_of(parent, name);
    descriptor.mutable_counter()->set_unit(pb::CounterDescriptor::UNIT_SIZE_BYTES);
    return add(std::move(descriptor));
  }

  uint64_t counter(uint64_t parent, const std::string& name, const std::string& unit) {
    pb::TrackDescriptor descriptor = child_of(parent, name);
    descriptor.mutable_counter()->set_unit_name(unit);
    return add(std::move(descriptor));
  }

  // Slices that overlap cannot share a track unless they nest: they go to "name 2", "name 3", …
  void slices(uint64_t parent, const std::string& name, std::vector<Slice> slices) {
    std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
      return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
    });
    struct Lane {
      uint64_t track = 0;
      uint64_t free_from = 0;
    };
    std::vector<Lane> lanes = {{track(parent, name)}};
    for (const Slice& slice : slices) {
      auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& l) { return l.free_from <= slice.begin; });
      if (lane == lanes.end()) {
        lane = lanes.insert(lane, {track(parent, name + " " + std::to_string(lanes.size() + 1))});
      }
      add_slice(lane->track, slice);
      lane->free_from = slice.end;
    }
  }

  void instant(uint64_t track, uint64_t at, const std::string& name) {
    event(track, pb::TrackEvent::TYPE_INSTANT).set_name(name);
    add(at);
  }

  void value(uint64_t track, double at_s, double value) {
    event(track, pb::TrackEvent::TYPE_COUNTER).set_double_counter_value(value);
    add(nanoseconds(at_s));
  }

  void value(uint64_t track, double at_s, int64_t value) {
    event(track, pb::TrackEvent::TYPE_COUNTER).set_counter_value(value);
    add(nanoseconds(at_s));
  }

  std::string finish() {
    std::stable_sort(events_.begin(), events_.end(), [](const Packet& a, const Packet& b) { return a.at < b.at; });
    std::string bytes = std::move(descriptors_);
    bytes.reserve(bytes.size() + packets_.size());
    for (const Packet& event : events_) bytes.append(packets_, event.begin, event.size);
    return bytes;
  }

 private:
  struct Packet {  // in packets_
    uint64_t at = 0;
    size_t begin = 0, size = 0;
  };

  pb::TrackDescriptor child_of(uint64_t parent, const std::string& name) {
    pb::TrackDescriptor descriptor;
    descriptor.set_parent_uuid(parent);
    descriptor.set_name(name);
    descriptor.set_sibling_order_rank(++ranks_[parent]);
    return descriptor;
  }

  // The next event, to be filled.
  pb::TrackEvent& event(uint64_t track, pb::TrackEvent::Type type) {
    pb::TrackEvent& next = *trace_.mutable_packet(0)->mutable_track_event();
    next.Clear();
    next.set_track_uuid(track);
    next.set_type(type);
    return next;
  }

  void add_slice(uint64_t track, const Slice& slice) {
    pb::TrackEvent& begin = event(track, pb::TrackEvent::TYPE_SLICE_BEGIN);
    begin.set_name(slice.name);
    if (slice.transfer != nullptr) annotate(begin, *slice.transfer);
    add(slice.begin);
    event(track, pb::TrackEvent::TYPE_SLICE_END);
    add(slice.end);
  }

  void annotate(pb::TrackEvent& event, const control::TransferRecord& transfer) {
    const auto number = [&](const char* name, int64_t value) {
      pb::DebugAnnotation* annotation = event.add_debug_annotations();
      annotation->set_name(name);
      annotation->set_int_value(value);
    };
    const auto text = [&](const char* name, std::string_view value) {
      pb::DebugAnnotation* annotation = event.add_debug_annotations();
      annotation->set_name(name);
      annotation->set_string_value(value.data(), value.size());
    };
    number("bytes", transfer.bytes);
    number("reconfiguration", transfer.reconfiguration);
    number("round", transfer.round);
    text("job", job_name(report_, transfer.job));
    text("phase", transfer.phase);
    text("class", name_of(transfer.transfer_class));
    text("status", transfer.status);
  }

  uint64_t add(pb::TrackDescriptor descriptor) {
    const uint64_t uuid = ++tracks_;
    descriptor.set_uuid(uuid);
    pb::Trace trace;
    pb::TracePacket& packet = *trace.add_packet();
    *packet.mutable_track_descriptor() = std::move(descriptor);
    packet.set_trusted_packet_sequence_id(1);
    trace.AppendToString(&descriptors_);
    return uuid;
  }

  // Writes the event at hand. A Trace of one packet; traces one after another are a Trace again, so no message ever
  // grows to protobuf's 2 GiB.
  void add(uint64_t at) {
    trace_.mutable_packet(0)->set_timestamp(at);
    const size_t begin = packets_.size();
    trace_.AppendToString(&packets_);
    events_.push_back({.at = at, .begin = begin, .size = packets_.size() - begin});
  }

  static pb::Trace trace_of_one_packet() {
    pb::Trace trace;
    trace.add_packet()->set_trusted_packet_sequence_id(1);
    return trace;
  }

  const control::RunReport& report_;
  int groups_ = 0;
  uint64_t tracks_ = 0;
  std::map<uint64_t, int> ranks_;
  std::string descriptors_;
  pb::Trace trace_ = trace_of_one_packet();  // with the event at hand
  std::string packets_;
  std::vector<Packet> events_;
};

Slice slice_of(const control::JobSpan& span, std::string name) {
  return {nanoseconds(span.start_s), nanoseconds(span.end_s), std::move(name)};
}

Slice slice_of(const control::TransferRecord& transfer, std::string name) {
  return {nanoseconds(transfer.start_s), nanoseconds(transfer.end_s), std::move(name), &transfer};
}

void write_jobs(const control::RunReport& report, TraceWriter& trace) {
  const uint64_t group = trace.group("jobs");
  std::vector<std::vector<Slice>> slices(report.scenario->jobs.size());
  for (const control::JobSpan& span : report.spans)
    slices.at(static_cast<size_t>(span.job)).push_back(slice_of(span, span.what));
  for (size_t job = 0; job < slices.size(); ++job) {
    trace.slices(group, report.scenario->jobs[job].name, std::move(slices[job]));
  }
}

// What a place (a device, a host's memory, storage) does: the spans of the jobs on it and its transfers.
struct Activity {
  std::vector<Slice> spans, sent, received;
  std::vector<uint64_t> lost_at;
  std::vector<const control::MemorySample*> memory;
};

std::map<plan::Location, Activity> activities(const control::RunReport& report) {
  std::map<plan::Location, Activity> result;
  for (int device = 0; device < report.scenario->cluster.device_count(); ++device) {
    result[plan::Location::device(DeviceId(device))];
  }
  for (const control::JobSpan& span : report.spans) {
    const Slice slice = slice_of(span, job_name(report, span.job) + ": " + span.what);
    for (const DeviceId device : span.devices) result[plan::Location::device(device)].spans.push_back(slice);
  }
  for (const control::TransferRecord& transfer : report.recorder.transfers) {
    result[transfer.src].sent.push_back(slice_of(transfer, "to " + transfer.dst.str()));
    result[transfer.dst].received.push_back(slice_of(transfer, "from " + transfer.src.str()));
  }
  for (const control::Event& event : report.events) {
    const auto* lost = std::get_if<control::DevicesLost>(&event.body);
    if (lost == nullptr) continue;
    for (const DeviceId device : lost->devices) {
      result[plan::Location::device(device)].lost_at.push_back(nanoseconds(lost->failed_at_s));
    }
  }
  for (const control::MemorySample& sample : report.memory) {
    result[plan::Location::device(sample.device)].memory.push_back(&sample);
  }
  return result;
}

void write_places(const control::RunReport& report, TraceWriter& trace) {
  const uint64_t group = trace.group("devices");
  for (auto& [place, activity] : activities(report)) {
    const std::string name = place.str();
    if (place.kind == plan::Location::Kind::kDevice) trace.slices(group, name, std::move(activity.spans));
    if (!activity.lost_at.empty()) {
      const uint64_t failures = trace.track(group, name + " failures");
      for (const uint64_t at : activity.lost_at) trace.instant(failures, at, "lost");
    }
    if (!activity.sent.empty()) trace.slices(group, name + " send", std::move(activity.sent));
    if (!activity.received.empty()) trace.slices(group, name + " receive", std::move(activity.received));
    if (activity.memory.empty()) continue;
    const uint64_t memory = trace.byte_counter(group, name + " state");
    for (const control::MemorySample* sample : activity.memory) trace.value(memory, sample->at_s, sample->bytes);
  }
}

void write_links(const control::RunReport& report, TraceWriter& trace) {
  const uint64_t group = trace.group("links");
  struct Counters {
    uint64_t rate = 0, use = 0;
  };
  std::vector<Counters> counters;
  const std::vector<cluster::NamedLink>& links = report.recorder.links;
  for (const cluster::NamedLink& link : links) {
    const uint64_t rate = trace.counter(group, link.name, "B/s");
    counters.push_back({rate, trace.counter(group, link.name + " use", "%")});
  }
  for (const control::LinkSample& sample : report.recorder.link_samples) {
    const auto link = static_cast<size_t>(sample.link);
    SCALAI_CHECK(link < links.size());
    trace.value(counters[link].rate, sample.at_s, sample.bytes_per_s);
    const double bandwidth = links[link].bandwidth_bytes_per_s;
    if (bandwidth > 0) trace.value(counters[link].use, sample.at_s, 100 * sample.bytes_per_s / bandwidth);
  }
}

}  // namespace

std::string perfetto_trace(const control::RunReport& report) {
  SCALAI_CHECK(report.scenario != nullptr);
  TraceWriter trace(report);
  write_jobs(report, trace);
  write_places(report, trace);
  write_links(report, trace);
  return trace.finish();
}

}  // namespace scalai::report
