// What was found, downtime by cause, and the key numbers (internal/run_sections.h).

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/report/chart/lanes.h"
#include "ptc/report/page/internal/run_sections.h"

namespace scalai::report {
namespace {

struct Cause {
  const char* name;  // of downtime_parts
  const char* css;
};
constexpr Cause kCauses[] = {{"pauses", "k-pause"},
                             {"waiting", "k-wait"},
                             {"steps run again", "k-again"},
                             {"steps cut off", "k-cut"},
                             {"snapshot stalls", "k-snap"}};

std::string css_of_cause(const std::string& name) {
  for (const Cause& cause : kCauses)
    if (name == cause.name) return cause.css;
  return "k8";
}

// Of the only run its jobs, of the only job of each run the runs.
std::string name_of(const std::vector<RunData>& runs, const RunData& run, const JobSummary& job) {
  if (run.summary.jobs.size() < 2) return run.label;
  return runs.size() > 1 ? fmt::format("{}, job {}", run.label, job.name) : "job " + job.name;
}

// Causes by size, waits with their reason.
std::string causes_text(const JobSummary& job) {
  std::vector<DowntimePart> parts = downtime_parts(job);
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  std::string text;
  for (const DowntimePart& part : parts) {
    text += fmt::format("{}{} {}", text.empty() ? ": " : ", ", part.name, format_seconds(part.seconds));
    if (part.name == "waiting") text += fmt::format(" ({})", clipped(part.why, 90));
  }
  return text;
}

std::string verdict_of(const std::vector<RunData>& runs, const RunData& run, const JobSummary& job) {
  const double share = job.wall_s > 0 ? job.downtime_s / job.wall_s : 0;
  std::string text =
      fmt::format("{} loses {}{} of {}{} ({}){}.", name_of(runs, run, job), format_seconds(job.downtime_s),
                  deviation(downtime_spread(job), "s"), format_seconds(job.wall_s), deviation(wall_spread(job), "s"),
                  percent(share), causes_text(job));
  if (job.any_moment && wide_range(*job.any_moment))
    text += fmt::format(" At any moment of the failure it loses {}.", moment_text(*job.any_moment));
  text += fmt::format(" {} steps, {:.4g} samples/s.", job.steps, job.goodput_samples_per_s);
  if (job.state != "running" && job.state != "complete")
    text += fmt::format(" At the end: {}{}.", job.state, job.failure.empty() ? "" : ", " + clipped(job.failure, 160));
  return text;
}

std::string lead_of_jobs(const Summary& summary) {
  double downtime_s = 0;
  int64_t complete = 0;
  for (const JobSummary& job : summary.jobs) {
    downtime_s += job.downtime_s;
    complete += job.state == "complete" ? 1 : 0;
  }
  return fmt::format("{} of {} jobs complete; together they lose {}.", complete, summary.jobs.size(),
                     format_seconds(downtime_s));
}

// Of runs with one job each: "Least downtime: reshard, 188 s of 8 h 58 min; tenplex 21.5 min, dp-only 2 h 36 min."
std::string lead_of(const std::vector<RunData>& runs) {
  if (runs.size() == 1) return runs[0].summary.jobs.size() > 1 ? lead_of_jobs(runs[0].summary) : "";
  std::vector<std::pair<double, const RunData*>> order;
  for (const RunData& run : runs) {
    if (run.summary.jobs.size() != 1) return "";
    order.emplace_back(run.summary.jobs[0].downtime_s, &run);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::string least = format_seconds(order[0].first),
                    of = format_seconds(order[0].second->summary.jobs[0].wall_s);
  if (least == format_seconds(order.back().first))
    return fmt::format("All {} runs lose {} of {}.", runs.size(), least, of);
  std::string text = fmt::format("Least downtime: {}, {} of {}", order[0].second->label, least, of);
  for (size_t i = 1; i < order.size(); ++i)
    text += fmt::format("{} {} {}", i == 1 ? ";" : ",", order[i].second->label, format_seconds(order[i].first));
  return text + ".";
}

Figure downtime_figure(const std::vector<RunData>& runs) {
  Figure figure{.title = "Downtime by cause"};
  chart::Lanes lanes{.title = figure.title,
                     .description = "A bar a run and job, a part a cause; the table below has the numbers."};
  lanes.x = {"downtime", chart::Unit::kSeconds, "", 0, 0};
  lanes.lane_height = 26;
  figure.numbers.headers = {"run", "cause", "time>", "why"};
  std::vector<std::string> seen;
  for (const RunData& run : runs) {
    for (const JobSummary& job : run.summary.jobs) {
      chart::Lane lane{.label = name_of(runs, run, job), .end = format_seconds(job.downtime_s)};
      for (const DowntimePart& part : downtime_parts(job)) {
        append(lane, part.seconds, css_of_cause(part.name),
               {.title = fmt::format("{}: {}, {}", part.name, format_seconds(part.seconds), part.why),
                .series = part.name,
                .value = part.seconds});
        figure.numbers.rows.push_back({name_of(runs, run, job), part.name, format_seconds(part.seconds), part.why});
        seen.push_back(part.name);
      }
      lanes.x.high = std::max(lanes.x.high, job.downtime_s);
      if (!job.downtime) lane.end += " (causes not recorded)";
      lanes.lanes.push_back(std::move(lane));
    }
  }
  for (const Cause& cause : kCauses)
    if (std::find(seen.begin(), seen.end(), cause.name) != seen.end()) figure.legend.push_back({cause.css, cause.name});
  lanes.x = rounded(lanes.x, 9);
  figure.draw = drawing(lanes, chart::lanes_svg);
  return figure;
}

PageTable key_numbers(const Comparison& comparison, const std::string& job) {
  PageTable table{.headers = {job.empty() ? std::string("run") : "job " + job}};
  for (const std::string& label : comparison.labels) table.headers.push_back(label + ">");
  const bool ratio = comparison.runs.size() == 2 && comparison.same_question;
  if (ratio) table.headers.emplace_back("ratio>");
  for (const ComparisonRow& row : comparison.rows) {
    const bool zero =
        std::all_of(row.values.begin(), row.values.end(), [](const auto& v) { return v.value_or(0) == 0; });
    if (row.job != job || (zero && row.hidden_when_zero)) continue;
    std::vector<std::string> cells = {row.title};
    for (size_t i = 0; i < row.values.size(); ++i) {
      cells.push_back(row.values[i] ? shown(*row.values[i], row.unit) : "–");
      if (!row.spreads.empty()) cells.back() += deviation(row.spreads[i], row.unit);
    }
    if (ratio) cells.push_back(row.ratio ? fmt::format("×{:.3g}", *row.ratio) : "");
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace

std::string percent(double share) { return fmt::format("{:.{}f} %", 100 * share, share < 0.1 ? 2 : 1); }

std::vector<std::string> verdicts(const std::vector<RunData>& runs) {
  std::vector<std::string> lines, labels;
  std::vector<Summary> summaries;
  for (const RunData& run : runs) {
    labels.push_back(run.label);
    summaries.push_back(run.summary);
  }
  if (std::string warning = moment_warning(labels, summaries); !warning.empty()) {
    warning[0] = 'W';
    lines.push_back(warning + ".");
  }
  if (std::string lead = lead_of(runs); !lead.empty()) lines.push_back(std::move(lead));
  for (const RunData& run : runs)
    for (const JobSummary& job : run.summary.jobs) lines.push_back(verdict_of(runs, run, job));
  return lines;
}

void add_overview(Document& page, const std::vector<RunData>& runs) {
  std::vector<std::string> lines = verdicts(runs);
  if (!lines.empty()) page.paragraph(lines.front(), "lead");
  if (lines.size() > 1) page.list({lines.begin() + 1, lines.end()}, "verdict");
  page.figure(downtime_figure(runs));
}

void add_numbers(Document& page, const std::vector<RunData>& runs) {
  std::vector<Alternative> alternatives;
  for (const RunData& run : runs) alternatives.push_back({run.label, {run.json}});
  const auto comparison = compare_runs(alternatives);
  if (!comparison.ok()) return;  // each was read before
  std::vector<std::string> jobs;
  for (const ComparisonRow& row : comparison->rows)
    if (std::find(jobs.begin(), jobs.end(), row.job) == jobs.end()) jobs.push_back(row.job);
  page.heading(2, "Numbers");
  for (const std::string& job : jobs) {
    const PageTable table = key_numbers(*comparison, job);
    if (jobs.size() == 1) {
      page.table(table, "Numbers of job " + job);
    } else {
      page.folded("Numbers of job " + job, table);
    }
  }
}

}  // namespace scalai::report
