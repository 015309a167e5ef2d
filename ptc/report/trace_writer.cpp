#include "ptc/report/internal/trace_writer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "ptc/proto/perfetto.pb.h"

namespace scalai::report {

namespace pb = proto::perfetto;

uint64_t nanoseconds(double seconds) { return static_cast<uint64_t>(std::llround(std::max(seconds, 0.0) * 1e9)); }

// A track's events are added in order of time; the file has all events in that order. A big run has millions of them,
// so that one message is filled again and again, and its bytes lie one after the other.
struct TraceWriter::Impl {
  struct Packet {  // in packets
    uint64_t at = 0;
    bool receives = false;
    size_t begin = 0, size = 0;
  };

  static pb::Trace trace_of_one_packet() {
    pb::Trace trace;
    trace.add_packet()->set_trusted_packet_sequence_id(1);
    return trace;
  }

  pb::TrackDescriptor child_of(uint64_t parent, const std::string& name) {
    pb::TrackDescriptor descriptor;
    descriptor.set_parent_uuid(parent);
    descriptor.set_name(name);
    descriptor.set_sibling_order_rank(++ranks[parent]);
    return descriptor;
  }

  uint64_t add(pb::TrackDescriptor descriptor) {
    const uint64_t uuid = ++tracks;
    descriptor.set_uuid(uuid);
    pb::Trace one = trace_of_one_packet();
    *one.mutable_packet(0)->mutable_track_descriptor() = std::move(descriptor);
    one.AppendToString(&descriptors);
    return uuid;
  }

  // The next event, to be filled.
  pb::TrackEvent& event(uint64_t track, pb::TrackEvent::Type type) {
    pb::TrackEvent& next = *trace.mutable_packet(0)->mutable_track_event();
    next.Clear();
    next.set_track_uuid(track);
    next.set_type(type);
    return next;
  }

  // Writes the event at hand. A Trace of one packet; traces one after another are a Trace again, so no message ever
  // grows to protobuf's 2 GiB.
  void add(uint64_t at, bool receives = false) {
    trace.mutable_packet(0)->set_timestamp(at);
    const size_t begin = packets.size();
    trace.AppendToString(&packets);
    events.push_back({.at = at, .receives = receives, .begin = begin, .size = packets.size() - begin});
  }

  void add_slice(uint64_t track, const Slice& slice, bool receives, const Notes& notes) {
    pb::TrackEvent& begin = event(track, pb::TrackEvent::TYPE_SLICE_BEGIN);
    begin.set_name(slice.name);
    const auto flow = static_cast<uint64_t>(slice.about + 1);
    if (slice.arrow == Slice::Arrow::kSends) begin.add_flow_ids(flow);
    if (slice.arrow == Slice::Arrow::kReceives) begin.add_terminating_flow_ids(flow);
    if (slice.about >= 0 && notes) annotate(begin, notes(slice.about));
    add(slice.begin, receives);
    event(track, pb::TrackEvent::TYPE_SLICE_END);
    add(slice.end, receives);
  }

  static void annotate(pb::TrackEvent& event, const std::vector<Note>& notes) {
    for (const Note& note : notes) {
      pb::DebugAnnotation* annotation = event.add_debug_annotations();
      annotation->set_name(note.name);
      if (const auto* number = std::get_if<int64_t>(&note.value)) {
        annotation->set_int_value(*number);
      } else {
        const std::string_view text = std::get<std::string_view>(note.value);
        annotation->set_string_value(text.data(), text.size());
      }
    }
  }

  int groups = 0;
  uint64_t tracks = 0;
  std::map<uint64_t, int> ranks;
  std::string descriptors;
  pb::Trace trace = trace_of_one_packet();  // with the event at hand
  std::string packets;
  std::vector<Packet> events;
};

TraceWriter::TraceWriter() : impl_(std::make_unique<Impl>()) {}
TraceWriter::~TraceWriter() = default;

uint64_t TraceWriter::group(const std::string& name) {
  pb::TrackDescriptor descriptor;
  descriptor.mutable_process()->set_pid(++impl_->groups);
  descriptor.mutable_process()->set_process_name(name);
  descriptor.set_child_ordering(pb::TrackDescriptor::ORDER_EXPLICIT);
  return impl_->add(std::move(descriptor));
}

uint64_t TraceWriter::track(uint64_t parent, const std::string& name) {
  return impl_->add(impl_->child_of(parent, name));
}

uint64_t TraceWriter::counter(uint64_t parent, const std::string& name, const std::string& unit) {
  pb::TrackDescriptor descriptor = impl_->child_of(parent, name);
  descriptor.mutable_counter()->set_unit_name(unit);
  return impl_->add(std::move(descriptor));
}

uint64_t TraceWriter::byte_counter(uint64_t parent, const std::string& name) {
  pb::TrackDescriptor descriptor = impl_->child_of(parent, name);
  descriptor.mutable_counter()->set_unit(pb::CounterDescriptor::UNIT_SIZE_BYTES);
  return impl_->add(std::move(descriptor));
}

void TraceWriter::slices(uint64_t parent, const std::string& name, std::vector<Slice> slices, const Notes& notes) {
  std::stable_sort(slices.begin(), slices.end(),
                   [](const Slice& a, const Slice& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  const bool receives = std::any_of(slices.begin(), slices.end(),
                                    [](const Slice& slice) { return slice.arrow == Slice::Arrow::kReceives; });
  struct Lane {
    uint64_t track = 0;
    uint64_t free_from = 0;
  };
  std::vector<Lane> lanes = {{track(parent, name)}};
  for (const Slice& slice : slices) {
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& l) { return l.free_from <= slice.begin; });
    if (lane == lanes.end()) lane = lanes.insert(lane, {track(parent, name + " " + std::to_string(lanes.size() + 1))});
    impl_->add_slice(lane->track, slice, receives, notes);
    lane->free_from = slice.end;
  }
}

void TraceWriter::instants(uint64_t track, std::vector<std::pair<uint64_t, std::string>> instants) {
  std::stable_sort(instants.begin(), instants.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [at, name] : instants) {
    impl_->event(track, pb::TrackEvent::TYPE_INSTANT).set_name(name);
    impl_->add(at);
  }
}

void TraceWriter::value(uint64_t track, double at_s, double value) {
  impl_->event(track, pb::TrackEvent::TYPE_COUNTER).set_double_counter_value(value);
  impl_->add(nanoseconds(at_s));
}

void TraceWriter::value(uint64_t track, double at_s, int64_t value) {
  impl_->event(track, pb::TrackEvent::TYPE_COUNTER).set_counter_value(value);
  impl_->add(nanoseconds(at_s));
}

// At one instant tracks that receive come last, so that an arrow begins before it ends.
std::string TraceWriter::finish() {
  std::stable_sort(impl_->events.begin(), impl_->events.end(), [](const Impl::Packet& a, const Impl::Packet& b) {
    return std::tie(a.at, a.receives) < std::tie(b.at, b.receives);
  });
  std::string bytes = std::move(impl_->descriptors);
  bytes.reserve(bytes.size() + impl_->packets.size());
  for (const Impl::Packet& event : impl_->events) bytes.append(impl_->packets, event.begin, event.size);
  return bytes;
}

std::vector<bool> largest(size_t count, size_t most, const std::function<double(size_t)>& size) {
  std::vector<bool> kept(count, count <= most);
  if (count <= most) return kept;
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < count; ++i) order.emplace_back(-size(i), i);
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most), order.end());
  for (size_t i = 0; i < most; ++i) kept[order[i].second] = true;
  return kept;
}

}  // namespace scalai::report
