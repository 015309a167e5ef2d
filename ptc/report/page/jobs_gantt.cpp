// Pages of many jobs: what each job did over time, and whose a host was (internal/jobs_data.h).

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <string_view>

#include "ptc/base/units.h"
#include "ptc/report/chart/lanes.h"
#include "ptc/report/internal/summary.h"
#include "ptc/report/page/internal/jobs_data.h"
#include "ptc/report/page/internal/run_sections.h"

namespace scalai::report {
namespace {

constexpr size_t kMostJobs = 60, kMostHeldHosts = 24, kMostLanes = 96, kMostHeld = 4000;

// A row of placements.csv.
struct Held {
  double from_s = 0, to_s = 0;
  std::string job, what;
  double gpus = 0;
  std::vector<std::pair<int64_t, double>> hosts;  // host, GPUs of it
  double seconds() const { return to_s - from_s; }
};

// "h0:8 h3:4"; what is not of this form is left out.
std::vector<std::pair<int64_t, double>> hosts_in(const std::string& text) {
  std::vector<std::pair<int64_t, double>> hosts;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    int64_t host = 0;
    double gpus = 0;
    const char* const end = word.data() + word.size();
    if (word.front() != 'h') continue;
    const auto first = std::from_chars(word.data() + 1, end, host);
    if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':') continue;
    const auto second = std::from_chars(first.ptr + 1, end, gpus);
    if (second.ec == std::errc() && second.ptr == end) hosts.emplace_back(host, gpus);
  }
  return hosts;
}

std::vector<Held> all_held(const JobsData& run) {
  std::vector<Held> stretches;
  if (!run.placements) return stretches;
  const CsvRows& rows = *run.placements;
  for (size_t row = 0; row < rows.size(); ++row) {
    stretches.push_back({.from_s = rows.number_or_zero(row, "from_s"),
                         .to_s = rows.number_or_zero(row, "to_s"),
                         .job = rows.text(row, "job"),
                         .what = rows.text(row, "what"),
                         .gpus = rows.number_or_zero(row, "gpus"),
                         .hosts = hosts_in(rows.text(row, "hosts"))});
  }
  std::stable_sort(stretches.begin(), stretches.end(),
                   [](const Held& a, const Held& b) { return a.from_s < b.from_s; });
  return stretches;
}

// The jobs with the most GPU time, in order of submission.
std::vector<size_t> largest_jobs(const CsvRows& jobs) {
  std::vector<size_t> rows(jobs.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  const auto by = [&](const char* column, bool down) {
    std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
      const double x = jobs.number_or_zero(a, column), y = jobs.number_or_zero(b, column);
      return down ? x > y : x < y;
    });
  };
  by("attained_gpu_s", true);
  if (rows.size() > kMostJobs) rows.resize(kMostJobs);
  by("submit_s", false);
  return rows;
}

const char* css_of(std::string_view what) {
  if (what == "waits") return "k-wait";
  return what == "changes" ? "k-pause" : "k-train";
}

chart::Segment segment_of(const Held& one, std::string css, const std::string& words) {
  return {
      .low = one.from_s,
      .high = one.to_s,
      .css = std::move(css),
      .note = {.title = fmt::format("{} from {} to {}", words, format_seconds(one.from_s), format_seconds(one.to_s)),
               .series = one.what,
               .value = one.seconds()}};
}

void add_jobs(Document& page, const JobsData& run, const std::vector<Held>& stretches) {
  if (!run.jobs || run.jobs->size() == 0) return;
  const CsvRows& jobs = *run.jobs;
  chart::Lanes chart{.title = "Jobs of " + run.label,
                     .description = "Waiting from submission to the first GPUs, then until completion.",
                     .x = {"time", chart::Unit::kSeconds, "", 0, run.end_s},
                     .lane_height = 8};
  PageTable numbers{
      .headers = {"job", "GPUs>", "submitted>", "waited>", "completion>", "end", "preemptions>", "hit by losses>"}};
  std::map<std::string, std::vector<const Held*>> of_job;
  for (const Held& one : stretches) of_job[one.job].push_back(&one);
  const std::vector<size_t> rows = largest_jobs(jobs);
  for (const size_t row : rows) {
    const double submit_s = jobs.number_or_zero(row, "submit_s");
    const double start_s = jobs.number(row, "first_start_s").value_or(run.end_s);
    const std::string name = fmt::format("{} · {}", jobs.text(row, "job"), jobs.text(row, "gpus"));
    chart::Lane lane{.label = name};
    for (const Held* one : of_job[jobs.text(row, "job")]) {
      const std::string on = one->gpus > 0 ? fmt::format(" on {} GPUs", one->gpus) : "";
      lane.segments.push_back(segment_of(*one, css_of(one->what), fmt::format("{} {}{}", one->job, one->what, on)));
    }
    chart.lanes.push_back(std::move(lane));
    const auto jct = jobs.number(row, "jct_s");
    numbers.rows.push_back({jobs.text(row, "job"), jobs.text(row, "gpus"), moment(submit_s),
                            format_seconds(start_s - submit_s), jct ? format_seconds(*jct) : "–", jobs.text(row, "end"),
                            jobs.text(row, "preemptions"), jobs.text(row, "losses")});
  }
  std::string caption = "A lane a job, with the GPUs that it asked for.";
  if (jobs.size() > rows.size())
    caption += fmt::format(" The {} of {} jobs with the most GPU time.", rows.size(), jobs.size());
  page.figure({.title = run.label,
               .caption = std::move(caption),
               .legend = {{"k-wait", "waits for GPUs"}, {"k-pause", "changes its GPUs"}, {"k-train", "trains"}},
               .draw = drawing(chart, chart::lanes_svg),
               .numbers = std::move(numbers)});
}

// What the jobs of one host did, in as many rows as jobs shared it at a time.
struct HostUse {
  std::vector<std::vector<const Held*>> rows;
  double held_s = 0;  // by any job
  std::map<std::string, double> gpu_s;
};

std::map<int64_t, HostUse> uses_of(const std::vector<Held>& stretches) {
  std::map<int64_t, HostUse> uses;
  std::map<int64_t, double> until_s;
  for (const Held& one : stretches) {
    for (const auto& [host, gpus] : one.hosts) {
      HostUse& use = uses[host];
      auto row = std::find_if(use.rows.begin(), use.rows.end(),
                              [&](const auto& taken) { return taken.back()->to_s <= one.from_s; });
      if (row == use.rows.end()) row = use.rows.insert(row, std::vector<const Held*>());
      row->push_back(&one);
      const double from_s = std::max(one.from_s, until_s[host]);
      use.held_s += std::max(0.0, one.to_s - from_s);
      until_s[host] = std::max(until_s[host], one.to_s);
      use.gpu_s[one.job] += one.seconds() * static_cast<double>(gpus);
    }
  }
  return uses;
}

// One of eight colours, the same for a job wherever it is.
std::string css_of_job(const std::string& job) {
  uint32_t sum = 0;
  for (const char letter : job) sum = sum * 31 + static_cast<unsigned char>(letter);
  return fmt::format("k{}", 1 + sum % 8);
}

void add_hosts(Document& page, const JobsData& run, const std::vector<Held>& stretches) {
  const std::map<int64_t, HostUse> uses = uses_of(stretches);
  if (uses.empty()) return;
  chart::Lanes chart{.title = "Hosts of " + run.label,
                     .description = "Which job had GPUs of a host, over time.",
                     .x = {"time", chart::Unit::kSeconds, "", 0, run.end_s},
                     .lane_height = 8};
  PageTable numbers{.headers = {"host", "jobs>", "held by any>", "most of it by", "for>"}};
  size_t shown = 0, drawn = 0;
  for (const auto& [host, use] : uses) {
    if (shown == kMostHeldHosts || chart.lanes.size() + use.rows.size() > kMostLanes || drawn > kMostHeld) break;
    ++shown;
    for (size_t i = 0; i < use.rows.size(); ++i) {
      chart::Lane lane{.label = i == 0 ? fmt::format("h{}", host) : ""};
      for (const Held* one : use.rows[i]) {
        int64_t of_host = 0;
        for (const auto& [other, gpus] : one->hosts) of_host += other == host ? gpus : 0;
        chart::Segment segment = segment_of(*one, css_of_job(one->job),
                                            fmt::format("{} {} on {} GPUs of h{}", one->job, one->what, of_host, host));
        segment.hatched = one->what == "changes";
        lane.segments.push_back(std::move(segment));
        ++drawn;
      }
      chart.lanes.push_back(std::move(lane));
    }
    const auto most = std::max_element(use.gpu_s.begin(), use.gpu_s.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    numbers.rows.push_back({fmt::format("h{}", host), fmt::format("{}", use.gpu_s.size()),
                            fmt::format("{:.1f} %", run.end_s > 0 ? 100 * use.held_s / run.end_s : 0), most->first,
                            fmt::format("{:.4g} GPU-h", most->second / 3600)});
  }
  std::string caption =
      "A lane a host, more where jobs share it. Colours tell jobs apart, hatched ones change their GPUs; a stretch "
      "names its job.";
  if (shown < uses.size()) caption += fmt::format(" The first {} of {} hosts that jobs had.", shown, uses.size());
  page.figure({.title = "Hosts of " + run.label,
               .caption = std::move(caption),
               .legend = {},
               .draw = drawing(chart, chart::lanes_svg),
               .numbers = std::move(numbers)});
}

}  // namespace

void add_jobs_over_time(Document& page, const std::vector<JobsData>& runs) {
  page.heading(2, "Jobs over time");
  std::vector<std::vector<Held>> stretches;
  for (const JobsData& run : runs) {
    stretches.push_back(all_held(run));
    add_jobs(page, run, stretches.back());
  }
  page.heading(2, "Jobs on hosts");
  for (size_t i = 0; i < runs.size(); ++i) add_hosts(page, runs[i], stretches[i]);
}

}  // namespace scalai::report
