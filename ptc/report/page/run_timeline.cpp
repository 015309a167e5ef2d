// Layouts, GPUs and throughput over time, and events (internal/run_sections.h).

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/units.h"
#include "ptc/report/page/internal/run_sections.h"

namespace scalai::report {
namespace {

std::string css_of_stretch(const std::string& what) {
  if (what == "train") return "k-train";
  if (what == "waiting") return "k-wait";
  return what == "pause" ? "k-pause" : "k-cut";
}

std::string words_of_stretch(const std::string& what) {
  if (what == "train") return "trains";
  if (what == "waiting") return "waits";
  return what == "pause" ? "pauses" : "detection, or a step cut off";
}

chart::Lane strip_of(const JobTimeline& timeline) {
  chart::Lane strip{.label = timeline.job};
  for (const Stretch& s : timeline.stretches) {
    const double seconds = s.high_s - s.low_s;
    strip.segments.push_back({.low = s.low_s,
                              .high = s.high_s,
                              .css = css_of_stretch(s.what),
                              .label = s.layout,
                              .note = {.title = fmt::format("{}{} from {} for {}", words_of_stretch(s.what),
                                                            s.layout.empty() ? "" : " as " + s.layout, moment(s.low_s),
                                                            format_seconds(seconds)),
                                       .series = s.what,
                                       .value = seconds}});
  }
  return strip;
}

// The highest of all runs: pictures of one scenario have the same scales.
struct Limits {
  double end_s = 0, gpus = 0, samples_per_s = 0;
};

Limits limits_of(const std::vector<RunData>& runs, const std::vector<std::vector<JobTimeline>>& all) {
  Limits limits;
  for (size_t i = 0; i < runs.size(); ++i) {
    limits.end_s = std::max(limits.end_s, runs[i].summary.end_s);
    for (const JobTimeline& timeline : all[i]) {
      for (const chart::Point& point : timeline.gpus) limits.gpus = std::max(limits.gpus, point.y);
      for (const chart::Point& point : timeline.throughput)
        limits.samples_per_s = std::max(limits.samples_per_s, point.y);
    }
  }
  return limits;
}

chart::Panels panels_of(const RunData& run, const std::vector<JobTimeline>& timelines, const Limits& limits) {
  chart::Panels chart{.title = "Timeline of " + run.label,
                      .description = "What jobs do, GPUs held and throughput over time."};
  chart.x = {"time", chart::Unit::kSeconds, "", 0, limits.end_s};
  chart::Panel gpus{.y = {"GPUs held", chart::Unit::kCount, "", 0, limits.gpus}, .height = 84};
  chart::Panel throughput{.y = {"throughput", chart::Unit::kPlain, "samples/s", 0, limits.samples_per_s}, .height = 84};
  for (size_t j = 0; j < timelines.size(); ++j) {
    chart.strips.push_back(strip_of(timelines[j]));
    if (timelines.size() == 1) chart.strips.back().label = "";
    const std::string css = fmt::format("k{}", j % 8 + 1);
    const bool only = timelines.size() == 1;
    gpus.series.push_back(
        {.name = timelines[j].job, .css = css, .points = timelines[j].gpus, .steps = true, .area = only});
    throughput.series.push_back(
        {.name = timelines[j].job, .css = css, .points = timelines[j].throughput, .steps = true, .area = only});
  }
  if (limits.gpus > 0) chart.panels.push_back(std::move(gpus));
  chart.panels.push_back(std::move(throughput));
  for (const JobSummary& job : run.summary.jobs) {
    for (const ReconfigurationSummary& change : job.reconfigurations)
      chart.marks.push_back({change.at_s, "event", fmt::format("{}: {}", moment(change.at_s), change.cause)});
  }
  for (const LossSummary& loss : losses_without_change(run.summary))
    chart.marks.push_back(
        {loss.at_s, "loss", fmt::format("{}: lost {}; {}", moment(loss.at_s), loss.devices, consequence_of(loss))});
  return chart;
}

constexpr size_t kMostDevices = 64;

// "g10" after "g9".
std::vector<std::string> devices_in_order(const RunTrace& trace) {
  std::vector<std::string> names;
  for (const auto& [name, stretches] : trace.devices) names.push_back(name);
  std::stable_sort(names.begin(), names.end(),
                   [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; });
  return names;
}

// A lane a device: which job holds it when, whatever it does there.
chart::Lane placement_of(const std::string& device, const std::vector<TraceStretch>& stretches,
                         const std::vector<JobTimeline>& timelines) {
  chart::Lane lane{.label = device};
  for (const TraceStretch& s : stretches) {
    const std::string job = s.what.substr(0, s.what.rfind(": "));
    const auto found = std::find_if(timelines.begin(), timelines.end(),
                                    [&](const JobTimeline& timeline) { return timeline.job == job; });
    if (found == timelines.end()) continue;
    const std::string css = fmt::format("k{}", (found - timelines.begin()) % 8 + 1);
    if (!lane.segments.empty() && lane.segments.back().css == css && lane.segments.back().high >= s.low_s) {
      lane.segments.back().high = s.high_s;
    } else {
      lane.segments.push_back(
          {.low = s.low_s, .high = s.high_s, .css = css, .note = {.title = device + ": " + job, .series = job}});
    }
  }
  for (chart::Segment& segment : lane.segments) segment.note.value = segment.high - segment.low;
  return lane;
}

// Of several jobs on one cluster.
void add_placement(Document& page, const RunData& run, const std::vector<JobTimeline>& timelines) {
  if (timelines.size() < 2 || !run.trace) return;
  const std::vector<std::string> devices = devices_in_order(*run.trace);
  if (devices.size() > kMostDevices) {
    page.paragraph(fmt::format("{}: which job holds which of {} devices is left out; a page shows {}.", run.label,
                               devices.size(), kMostDevices));
    return;
  }
  chart::Lanes lanes{.title = "Jobs on devices of " + run.label,
                     .description = "A lane a device, a colour a job.",
                     .x = {"time", chart::Unit::kSeconds, "", 0, run.summary.end_s},
                     .lane_height = 6};
  Figure figure{.title = run.label + ": jobs on devices"};
  figure.numbers.headers = {"job", "GPU hours>"};
  for (const std::string& device : devices)
    lanes.lanes.push_back(placement_of(device, run.trace->devices.at(device), timelines));
  for (size_t j = 0; j < timelines.size(); ++j) {
    figure.legend.push_back({fmt::format("k{}", j % 8 + 1), timelines[j].job});
    figure.numbers.rows.push_back({timelines[j].job, shown(run.summary.jobs[j].gpu_hours, "h")});
  }
  figure.draw = drawing(lanes, chart::lanes_svg);
  page.figure(figure);
}

PageTable numbers_of(const std::vector<JobTimeline>& timelines) {
  PageTable table{.headers = {"job", "from>", "for>", "what", "layout"}};
  for (const JobTimeline& timeline : timelines) {
    for (const Stretch& s : timeline.stretches)
      table.rows.push_back(
          {timeline.job, moment(s.low_s), format_seconds(s.high_s - s.low_s), words_of_stretch(s.what), s.layout});
  }
  return table;
}

std::vector<LegendEntry> legend_of(const std::vector<JobTimeline>& timelines) {
  std::vector<LegendEntry> legend;
  for (const char* what : {"train", "pause", "waiting", "down"}) {
    const bool there = std::any_of(timelines.begin(), timelines.end(), [&](const JobTimeline& timeline) {
      return std::any_of(timeline.stretches.begin(), timeline.stretches.end(),
                         [&](const Stretch& s) { return s.what == what; });
    });
    if (there) legend.push_back({css_of_stretch(what), words_of_stretch(what)});
  }
  if (timelines.size() < 2) return legend;
  for (size_t j = 0; j < timelines.size(); ++j)
    legend.push_back({fmt::format("k{}", j % 8 + 1), timelines[j].job, true});
  return legend;
}

}  // namespace

void add_timelines(Document& page, const std::vector<RunData>& runs) {
  page.heading(2, "Over time");
  std::vector<std::vector<JobTimeline>> all;
  for (const RunData& run : runs) all.push_back(timelines_of(run));
  const Limits limits = limits_of(runs, all);
  for (size_t i = 0; i < runs.size(); ++i) {
    const chart::Panels panels = panels_of(runs[i], all[i], limits);
    page.figure(
        {.title = runs[i].label,
         .caption =
             i == 0
                 ? "Dashed lines: changes and losses. Throughput is the pace while the job trains, 0 while it does not."
                 : "",
         .legend = legend_of(all[i]),
         .draw =
             [panels](const std::string& id, double width) {
               chart::Panels picture = panels;
               picture.id = id;
               return panels_svg(picture, width);
             },
         .numbers = numbers_of(all[i])});
    add_placement(page, runs[i], all[i]);
  }
}

}  // namespace scalai::report
