// perfetto_trace(): a run as Perfetto track events.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/report/internal/report_files.h"
#include "ptc/report/internal/trace_writer.h"
#include "ptc/report/report.h"

namespace scalai::report {
namespace {

Slice slice_of(const control::JobSpan& span, std::string name) {
  return {nanoseconds(span.start_s), nanoseconds(span.end_s), std::move(name)};
}

std::vector<Note> notes_of(const control::RunReport& report, const control::TransferRecord& transfer) {
  return {{"bytes", transfer.bytes},          {"reconfiguration", int64_t{transfer.reconfiguration}},
          {"round", int64_t{transfer.round}}, {"job", job_name(report, transfer.job)},
          {"phase", transfer.phase},          {"class", name_of(transfer.transfer_class)},
          {"status", transfer.status}};
}

// What happens to the cluster and the jobs, in words.
class EventWords {
 public:
  explicit EventWords(const control::RunReport& report) : report_(report) {}

  std::string operator()(const scenario::Resize& what) const {
    return fmt::format("resize {} to {} GPUs", job_name(report_, what.job), what.gpus);
  }
  std::string operator()(const scenario::Redeploy& what) const {
    return fmt::format("redeploy {} to {}", job_name(report_, what.job), control::device_list(what.devices));
  }
  std::string operator()(const scenario::Fail& what) const {
    return fmt::format("{} {}", places(what), what.hangs ? "hang" : "fail");
  }
  std::string operator()(const scenario::Repair& what) const { return fmt::format("{} are repaired", places(what)); }
  std::string operator()(const scenario::Degrade& what) const {
    return fmt::format("{} degrade to {:g}", places(what), what.factor);
  }
  std::string operator()(const scenario::Preempt& what) const {
    return fmt::format("{} are to be left within {}", control::device_list(what.devices),
                       format_seconds(what.notice_s));
  }

  std::string operator()(const control::UserResize& what) const {
    return fmt::format("request: resize {} to {} GPUs", job_name(report_, what.job), what.gpus);
  }
  std::string operator()(const control::UserDrain& what) const {
    return "request: drain " + control::device_list(what.devices) + within(what.notice_s);
  }
  std::string operator()(const control::UserStop& what) const { return "request: stop" + within(what.notice_s); }
  std::string operator()(const control::UserSave& what) const {
    return "request: checkpoint of " + job_name(report_, what.job);
  }
  std::string operator()(const control::CopyLost& what) const {
    return "a copy of " + job_name(report_, what.job) + " is lost";
  }
  template <class Other>
  std::string operator()(const Other&) const {
    return "";
  }

 private:
  static std::string within(const std::optional<double>& seconds) {
    return seconds ? " within " + format_seconds(*seconds) : "";
  }
  template <class What>
  static std::string places(const What& what) {
    std::vector<std::string> words = what.links;
    if (!what.devices.empty()) words.insert(words.begin(), control::device_list(what.devices));
    return fmt::format("{}", fmt::join(words, " "));
  }

  const control::RunReport& report_;
};

using Instants = std::vector<std::pair<uint64_t, std::string>>;

void write_events(const control::RunReport& report, TraceWriter& trace) {
  const EventWords words(report);
  Instants instants;
  for (const control::ScriptRecord& happened : report.script) {
    const scenario::ScenarioEvent& event = report.scenario->events.at(happened.event);
    instants.emplace_back(nanoseconds(happened.at_s), std::visit(words, event.what));
  }
  for (const control::Event& event : report.events) {
    if (std::string text = std::visit(words, event.body); !text.empty())
      instants.emplace_back(nanoseconds(event.at_s), std::move(text));
  }
  for (const control::JobRecord& job : report.jobs) {
    for (const control::NoticeRecord& notice : job.notices)
      instants.emplace_back(nanoseconds(notice.at_s), fmt::format("{}, told that {} will be taken: {}", job.name,
                                                                  control::device_list(notice.devices), notice.answer));
  }
  for (const control::LossRecord& loss : report.losses) {
    const std::string devices = control::device_list(loss.devices);
    instants.emplace_back(nanoseconds(loss.at_s), devices + " lost");
    instants.emplace_back(nanoseconds(loss.noticed_s), "the loss of " + devices + " is noticed");
  }
  if (instants.empty()) return;
  trace.instants(trace.track(trace.group("events"), "timeline"), std::move(instants));
}

void write_jobs(const control::RunReport& report, TraceWriter& trace) {
  const uint64_t group = trace.group("jobs");
  std::vector<std::vector<Slice>> slices(report.scenario->jobs.size());
  for (const control::JobSpan& span : report.spans)
    slices.at(static_cast<size_t>(span.job)).push_back(slice_of(span, span.what));
  for (size_t job = 0; job < slices.size(); ++job)
    trace.slices(group, report.scenario->jobs[job].name, std::move(slices[job]));
}

// What a place (a device, a host's memory, storage) does: the spans of the jobs on it and its transfers.
struct Activity {
  std::vector<Slice> spans, sent, received;
  Instants lost;
  std::vector<const control::MemorySample*> memory;
};

struct Activities {
  std::map<plan::Location, Activity> places;
  std::vector<std::string> left_out;
};

void add_spans(const control::RunReport& report, size_t most, Activities& result) {
  std::vector<const control::JobSpan*> spans;
  size_t slices = 0;
  for (const control::JobSpan& span : report.spans) {
    if (!span.devices.empty()) spans.push_back(&span);
    slices += span.devices.size();
  }
  std::vector<bool> kept(spans.size(), true);
  if (slices > most) {
    kept = largest(spans.size(), most / std::max<size_t>(result.places.size(), 1),
                   [&](size_t i) { return spans[i]->end_s - spans[i]->start_s; });
    result.left_out.push_back(fmt::format("{} shorter stretches of jobs", std::count(kept.begin(), kept.end(), false)));
  }
  for (size_t i = 0; i < spans.size(); ++i) {
    if (!kept[i]) continue;
    const Slice slice = slice_of(*spans[i], job_name(report, spans[i]->job) + ": " + spans[i]->what);
    for (const DeviceId device : spans[i]->devices)
      result.places[plan::Location::device(device)].spans.push_back(slice);
  }
}

void add_transfers(const std::vector<control::TransferRecord>& transfers, size_t most, Activities& result) {
  const std::vector<bool> kept =
      largest(transfers.size(), most, [&](size_t i) { return static_cast<double>(transfers[i].bytes); });
  int64_t bytes = 0;
  for (size_t i = 0; i < transfers.size(); ++i) {
    const control::TransferRecord& transfer = transfers[i];
    if (!kept[i]) {
      bytes += transfer.bytes;
      continue;
    }
    Slice slice{.begin = nanoseconds(transfer.start_s),
                .end = nanoseconds(transfer.end_s),
                .name = "to " + transfer.dst.str(),
                .about = static_cast<int64_t>(i),
                .arrow = Slice::Arrow::kSends};
    result.places[transfer.src].sent.push_back(slice);
    slice.name = "from " + transfer.src.str();
    slice.arrow = Slice::Arrow::kReceives;
    result.places[transfer.dst].received.push_back(std::move(slice));
  }
  if (transfers.size() > most) {
    result.left_out.push_back(
        fmt::format("{} smaller transfers with {} together", transfers.size() - most, format_bytes(bytes)));
  }
}

Activities activities(const control::RunReport& report, const TraceLimits& limits) {
  Activities result;
  for (int device = 0; device < report.scenario->cluster.device_count(); ++device)
    result.places[plan::Location::device(DeviceId(device))];
  add_spans(report, limits.device_slices, result);
  add_transfers(report.recorder.transfers, limits.transfers, result);
  for (const control::Event& event : report.events) {
    const auto* lost = std::get_if<control::DevicesLost>(&event.body);
    if (lost == nullptr) continue;
    for (const DeviceId device : lost->devices)
      result.places[plan::Location::device(device)].lost.emplace_back(nanoseconds(lost->failed_at_s), "lost");
  }
  for (const control::MemorySample& sample : report.memory)
    result.places[plan::Location::device(sample.device)].memory.push_back(&sample);
  return result;
}

void write_places(const control::RunReport& report, const TraceLimits& limits, TraceWriter& trace) {
  const uint64_t group = trace.group("devices");
  const auto notes = [&](int64_t about) {
    return notes_of(report, report.recorder.transfers[static_cast<size_t>(about)]);
  };
  Activities all = activities(report, limits);
  if (!all.left_out.empty()) {
    Instants left_out;
    for (const std::string& what : all.left_out) left_out.emplace_back(0, what);
    trace.instants(trace.track(group, "left out"), std::move(left_out));
  }
  for (auto& [place, activity] : all.places) {
    const std::string name = place.str();
    if (place.kind == plan::Location::Kind::kDevice) trace.slices(group, name, std::move(activity.spans));
    if (!activity.lost.empty()) trace.instants(trace.track(group, name + " failures"), std::move(activity.lost));
    if (!activity.sent.empty()) trace.slices(group, name + " send", std::move(activity.sent), notes);
    if (!activity.received.empty()) trace.slices(group, name + " receive", std::move(activity.received), notes);
    if (activity.memory.empty()) continue;
    const uint64_t memory = trace.byte_counter(group, name + " state");
    for (const control::MemorySample* sample : activity.memory) trace.value(memory, sample->at_s, sample->bytes);
  }
}

// Which links are shown: those that carry most, as long as their samples are not too many.
std::vector<bool> links_shown(const control::Recorder& recorder, double end_s, size_t most) {
  struct Total {
    double bytes = 0, since_s = 0, bytes_per_s = 0;
    size_t samples = 0, link = 0;
  };
  std::vector<Total> totals(recorder.links.size());
  for (size_t link = 0; link < totals.size(); ++link) totals[link].link = link;
  for (const control::LinkSample& sample : recorder.link_samples) {
    Total& total = totals.at(static_cast<size_t>(sample.link));
    total.bytes += total.bytes_per_s * (sample.at_s - total.since_s);
    total.since_s = sample.at_s;
    total.bytes_per_s = sample.bytes_per_s;
    ++total.samples;
  }
  for (Total& total : totals) total.bytes += total.bytes_per_s * std::max(0.0, end_s - total.since_s);
  std::stable_sort(totals.begin(), totals.end(), [](const Total& a, const Total& b) { return a.bytes > b.bytes; });
  std::vector<bool> shown(totals.size(), false);
  size_t samples = 0;
  for (const Total& total : totals) {
    if ((samples += total.samples) > most) break;
    shown[total.link] = true;
  }
  return shown;
}

void write_links(const control::RunReport& report, const TraceLimits& limits, TraceWriter& trace) {
  const uint64_t group = trace.group("links");
  struct Counters {
    uint64_t rate = 0, use = 0;
  };
  const std::vector<cluster::NamedLink>& links = report.recorder.links;
  const std::vector<bool> shown = links_shown(report.recorder, report.end_s, limits.link_samples);
  if (const auto hidden = std::count(shown.begin(), shown.end(), false); hidden > 0)
    trace.instants(trace.track(group, "left out"), {{0, fmt::format("{} links that carry less", hidden)}});
  std::vector<Counters> counters(links.size());
  for (size_t link = 0; link < links.size(); ++link) {
    if (!shown[link]) continue;
    const std::string& name = links[link].name;
    counters[link].rate = trace.counter(group, name, "B/s");
    counters[link].use = trace.counter(group, name + " use", "%");
  }
  for (const control::LinkSample& sample : report.recorder.link_samples) {
    const auto link = static_cast<size_t>(sample.link);
    if (!shown[link]) continue;
    trace.value(counters[link].rate, sample.at_s, sample.bytes_per_s);
    const double bandwidth = links[link].bandwidth_bytes_per_s;
    if (bandwidth > 0) trace.value(counters[link].use, sample.at_s, 100 * sample.bytes_per_s / bandwidth);
  }
}

}  // namespace

std::string perfetto_trace(const control::RunReport& report) { return perfetto_trace(report, {}); }

std::string perfetto_trace(const control::RunReport& report, const TraceLimits& limits) {
  SCALAI_CHECK(report.scenario != nullptr);
  TraceWriter trace;
  write_events(report, trace);
  write_jobs(report, trace);
  write_places(report, limits, trace);
  write_links(report, limits, trace);
  return trace.finish();
}

}  // namespace scalai::report
