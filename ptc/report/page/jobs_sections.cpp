// Pages of many jobs: numbers, use of GPUs, completion times, jobs over time, costs (internal/jobs_data.h).

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ptc/base/units.h"
#include "ptc/report/chart/lanes.h"
#include "ptc/report/internal/summary.h"
#include "ptc/report/page/internal/jobs_data.h"
#include "ptc/report/page/internal/run_sections.h"

namespace scalai::report {
namespace {

std::string unit_behind(const Metric& metric) {
  const std::set<std::string> in_value = {"s", "share", "jobs", "count", ""};
  return in_value.count(metric.unit) != 0 || !metric.value ? "" : " " + metric.unit;
}

const Metric* metric_of(const JobsData& run, const std::string& name) {
  for (const Metric& metric : run.metrics) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

// Metrics of users may be of some runs only.
PageTable metrics_page_table(const std::vector<JobsData>& runs) {
  PageTable table{.headers = {""}};
  std::vector<const Metric*> all;
  for (const JobsData& run : runs) {
    table.headers.push_back(run.label + ">");
    for (const Metric& metric : run.metrics) {
      const auto same = [&](const Metric* one) { return one->name == metric.name; };
      if (std::none_of(all.begin(), all.end(), same)) all.push_back(&metric);
    }
  }
  for (const Metric* one : all) {
    std::vector<std::string> cells = {one->label};
    bool any = false;
    for (const JobsData& run : runs) {
      const Metric* metric = metric_of(run, one->name);
      any = any || (metric != nullptr && metric->value);
      cells.push_back(metric == nullptr ? "–" : shown(*metric) + unit_behind(*metric));
    }
    if (any) table.rows.push_back(std::move(cells));
  }
  return table;
}

void add_virtual_clusters(Document& page, const std::vector<JobsData>& runs) {
  const bool any =
      std::any_of(runs.begin(), runs.end(), [](const JobsData& run) { return !run.virtual_clusters.empty(); });
  if (!any) return;
  PageTable table{.headers = {"run", "virtual cluster", "quota>", "jobs>", "finished>", "JCT, mean>", "queueing, mean>",
                              "preemptions>", "GPU-h>", "borrowed GPU-h>"}};
  const auto time = [](const std::optional<double>& seconds) { return seconds ? format_seconds(*seconds) : "–"; };
  for (const JobsData& run : runs) {
    for (const EntityRow& row : run.virtual_clusters) {
      table.rows.push_back({run.label, row.entity, fmt::format("{}", row.quota_gpus.value_or(0)),
                            fmt::format("{}", row.jobs), fmt::format("{}", row.finished), time(row.avg_jct_s),
                            time(row.avg_queueing_s), fmt::format("{}", row.preemptions), four_digits(row.gpu_h),
                            four_digits(row.borrowed_gpu_h)});
    }
  }
  page.heading(3, "Virtual clusters");
  page.table(table, "Virtual clusters");
}

std::string metric_words(const JobsData& run, const char* name) {
  for (const Metric& metric : run.metrics)
    if (metric.name == name && metric.value) return shown(metric) + unit_behind(metric);
  return "unknown";
}

std::string jobs_verdict(const JobsData& run) {
  std::string text = fmt::format(
      "{}: mean completion time {} (median {}), mean wait for the first GPUs {}; GPUs train {} of the time; {} of {} "
      "jobs finished.",
      run.label, metric_words(run, "avg_jct_s"), metric_words(run, "median_jct_s"), metric_words(run, "avg_queueing_s"),
      metric_words(run, "utilization"), metric_words(run, "finished"), metric_words(run, "jobs"));
  if (metric_value(run, "cost_usd")) text += fmt::format(" All GPUs up cost {}.", metric_words(run, "cost_usd"));
  if (metric_value(run, "deadlines_share"))
    text += fmt::format(" Deadlines met: {}.", metric_words(run, "deadlines_share"));
  return text;
}

// "1 host", "2 hosts"
std::string counted(const JobsData& run, const char* metric, const char* noun) {
  return fmt::format("{} {}{}", metric_words(run, metric), noun, metric_value(run, metric) == 1 ? "" : "s");
}

std::string recovery_verdict(const JobsData& run) {
  std::string text =
      fmt::format("{}: {} of the time trains and is kept, {} on average; {} lost, {}, {} lost.", run.label,
                  metric_words(run, "ettr"), metric_words(run, "samples_per_s"), counted(run, "host_losses", "host"),
                  counted(run, "restarts", "restart"), metric_words(run, "lost_samples"));
  if (metric_value(run, "cost_usd")) text += fmt::format(" Cost {}.", metric_words(run, "cost_usd"));
  return text;
}

void add_jobs_verdicts(Document& page, const std::vector<JobsData>& runs, const char* metric, bool least,
                       const char* what) {
  const JobsData* best = nullptr;
  for (const JobsData& run : runs) {
    const std::optional<double> value = metric_value(run, metric);
    if (!value) continue;
    const std::optional<double> other = best == nullptr ? std::nullopt : metric_value(*best, metric);
    if (!other || (least ? *value < *other : *value > *other)) best = &run;
  }
  if (runs.size() > 1 && best != nullptr)
    page.paragraph(fmt::format("{}: {}, {}.", what, best->label, metric_words(*best, metric)), "lead");
  std::vector<std::string> lines;
  for (const JobsData& run : runs) lines.push_back(run.recovery ? recovery_verdict(run) : jobs_verdict(run));
  if (lines.size() == 1) {
    page.paragraph(lines[0], "lead");
  } else {
    page.list(lines, "verdict");
  }
}

void add_jct_figure(Document& page, const std::vector<JobsData>& runs) {
  chart::Panels chart{.title = "Completion times",
                      .description = "Share of finished jobs with at most this completion time.",
                      .x = {"completion time", chart::Unit::kSeconds, "", 0, 0}};
  Figure figure{.title = "Completion times",
                .caption = "Share of finished jobs that took at most so long, from submission."};
  chart::Panel panel{.y = {"share of jobs", chart::Unit::kPercent, "", 0, 1}, .height = 170};
  figure.numbers.headers = {"run", "mean>", "median>", "90th percentile>", "99th percentile>"};
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].jct || runs[i].jct->size() == 0) continue;
    const std::string css = fmt::format("k{}", i % 8 + 1);
    chart::Series series{.name = runs[i].label, .css = css, .steps = true};
    series.points.push_back({0, 0});
    for (size_t row = 0; row < runs[i].jct->size(); ++row) {
      series.points.push_back({runs[i].jct->number_or_zero(row, "jct_s"), runs[i].jct->number_or_zero(row, "share")});
      chart.x.high = std::max(chart.x.high, series.points.back().x);
    }
    panel.series.push_back(std::move(series));
    figure.legend.push_back({css, runs[i].label, true});
    figure.numbers.rows.push_back({runs[i].label, metric_words(runs[i], "avg_jct_s"),
                                   metric_words(runs[i], "median_jct_s"), metric_words(runs[i], "p90_jct_s"),
                                   metric_words(runs[i], "p99_jct_s")});
  }
  if (panel.series.empty()) return;
  chart.panels.push_back(std::move(panel));
  figure.draw = drawing(chart, chart::panels_svg);
  page.figure(figure);
}

void add_use_figure(Document& page, const JobsData& run) {
  if (!run.utilization || run.utilization->size() == 0) return;
  const CsvRows& rows = *run.utilization;
  chart::Panels chart{.title = "GPUs and jobs of " + run.label,
                      .description = "GPUs up, training and changing; jobs that run and wait.",
                      .x = {"time", chart::Unit::kSeconds, "", 0, run.end_s}};
  const auto series = [&](const char* name, const char* column, const char* css, bool area) {
    return chart::Series{.name = name,
                         .css = css,
                         .points = column_over_time(rows, "at_s", column, run.end_s),
                         .steps = true,
                         .area = area};
  };
  const auto highest = [](const chart::Panel& panel) {
    double most = 0;
    for (const chart::Series& s : panel.series)
      for (const chart::Point& point : s.points) most = std::max(most, point.y);
    return most;
  };
  chart::Panel gpus{.y = {"GPUs", chart::Unit::kCount, "", 0, 0}};
  gpus.series = {series("GPUs up", "up_gpus", "k8", false), series("training", "training_gpus", "k1", true),
                 series("changing", "changing_gpus", "k2", true)};
  gpus.y.high = highest(gpus);
  chart::Panel jobs{.y = {"jobs", chart::Unit::kCount, "", 0, 0}};
  jobs.series = {series("running jobs", "running_jobs", "k3", false),
                 series("waiting jobs", "waiting_jobs", "k5", true)};
  jobs.y.high = highest(jobs);
  chart.panels = {std::move(gpus), std::move(jobs)};
  page.figure({.title = run.label,
               .legend = {{"k8", "GPUs up", true},
                          {"k1", "training", true},
                          {"k2", "changing", true},
                          {"k3", "running jobs", true},
                          {"k5", "waiting jobs", true}},
               .draw = drawing(chart, chart::panels_svg),
               .numbers = {{"", "share>"},
                           {{"GPUs training", metric_words(run, "utilization")},
                            {"GPUs reconfiguring", metric_words(run, "reconfiguring")}}}});
}

void add_costs(Document& page, const std::vector<JobsData>& runs) {
  PageTable table{.headers = {"run", "GPU type", "GPU hours>", "USD>"}};
  for (const JobsData& run : runs) {
    if (!run.costs) continue;
    for (size_t row = 0; row < run.costs->size(); ++row) {
      const auto usd = run.costs->number(row, "cost_usd");
      if (run.costs->text(row, "kind") == "type" && usd && *usd > 0)
        table.rows.push_back({run.label, run.costs->text(row, "name"),
                              four_digits(run.costs->number_or_zero(row, "gpu_h")), fmt::format("{:.2f}", *usd)});
    }
  }
  if (table.rows.empty()) return;
  page.heading(2, "Money");
  page.table(table, "Costs by GPU type");
}

void add_hours(Document& page, const std::vector<JobsData>& runs) {
  struct Use {
    const char *metric, *name, *css;
  };
  constexpr Use kUses[] = {{"training_gpu_h", "training that is kept", "k-train"},
                           {"reconfiguration_gpu_h", "reconfiguration", "k-pause"},
                           {"rerun_gpu_h", "work done again", "k-again"},
                           {"checkpoint_gpu_h", "checkpoints", "k-snap"},
                           {"idle_gpu_h", "idle", "k-wait"}};
  Figure figure{.title = "GPU hours by use"};
  chart::Lanes chart{.title = figure.title,
                     .description = "A bar a run.",
                     .x = {"GPU time", chart::Unit::kPlain, "GPU-h", 0, 0},
                     .lane_height = 24};
  figure.numbers.headers = {"run", "use", "GPU-h>"};
  for (const Use& use : kUses) figure.legend.push_back({use.css, use.name});
  for (const JobsData& run : runs) {
    chart::Lane lane{.label = run.label};
    for (const Use& use : kUses) {
      const double hours = metric_value(run, use.metric).value_or(0);
      if (!(hours > 0)) continue;
      append(lane, hours, use.css,
             {.title = fmt::format("{}: {}", use.name, metric_words(run, use.metric)),
              .series = use.metric,
              .value = hours});
      figure.numbers.rows.push_back({run.label, use.name, four_digits(hours)});
    }
    if (!lane.segments.empty()) chart.x.high = std::max(chart.x.high, lane.segments.back().high);
    chart.lanes.push_back(std::move(lane));
  }
  chart.x = rounded(chart.x, 9);
  figure.draw = drawing(chart, chart::lanes_svg);
  page.figure(figure);
}

void add_rates(Document& page, const JobsData& run, double most) {
  if (!run.throughput || run.throughput->size() == 0) return;
  const CsvRows& rows = *run.throughput;
  chart::Panels chart{.title = "Hosts and throughput of " + run.label,
                      .description = "Hosts up and used, samples a second.",
                      .x = {"time", chart::Unit::kSeconds, "", 0, run.end_s}};
  chart::Panel hosts{.y = {"hosts", chart::Unit::kCount, "", 0, static_cast<double>(run.hosts)}};
  hosts.series = {{.name = "hosts up",
                   .css = "k8",
                   .points = column_over_time(rows, "from_s", "live_hosts", run.end_s),
                   .steps = true},
                  {.name = "hosts used",
                   .css = "k1",
                   .points = column_over_time(rows, "from_s", "used_hosts", run.end_s),
                   .steps = true,
                   .area = true}};
  chart::Panel rate{.y = {"throughput", chart::Unit::kPlain, "samples/s", 0, most}};
  rate.series = {{.name = "throughput",
                  .css = "k3",
                  .points = column_over_time(rows, "from_s", "samples_per_s", run.end_s),
                  .steps = true,
                  .area = true}};
  chart.panels = {std::move(hosts), std::move(rate)};
  page.figure({.title = run.label,
               .legend = {{"k8", "hosts up", true}, {"k1", "hosts used", true}, {"k3", "throughput", true}},
               .draw = drawing(chart, chart::panels_svg),
               .numbers = {{"", "mean>"},
                           {{"hosts up", metric_words(run, "mean_hosts")},
                            {"throughput", metric_words(run, "samples_per_s")}}}});
}

}  // namespace

void add_many_jobs(Document& page, const std::vector<JobsData>& runs) {
  add_jobs_verdicts(page, runs, "avg_jct_s", true, "Shortest mean completion time");
  add_jct_figure(page, runs);
  page.heading(3, "Numbers");
  page.table(metrics_page_table(runs), "Metrics");
  add_virtual_clusters(page, runs);
  page.heading(2, "Use of GPUs, and the queue");
  for (const JobsData& run : runs) add_use_figure(page, run);
  add_jobs_over_time(page, runs);
  add_costs(page, runs);
}

void add_recovery(Document& page, const std::vector<JobsData>& runs) {
  add_jobs_verdicts(page, runs, "ettr", false, "Most of the time trains and is kept");
  add_hours(page, runs);
  page.heading(3, "Numbers");
  page.table(metrics_page_table(runs), "Metrics");
  page.heading(2, "Hosts and throughput over time");
  double most = 0;
  for (const JobsData& run : runs)
    for (size_t row = 0; run.throughput && row < run.throughput->size(); ++row)
      most = std::max(most, run.throughput->number_or_zero(row, "samples_per_s"));
  for (const JobsData& run : runs) add_rates(page, run, most);
}

}  // namespace scalai::report
