// Pauses by phase, and what their times rest on (internal/run_sections.h).

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/units.h"
#include "ptc/report/chart/lanes.h"
#include "ptc/report/page/internal/run_sections.h"

namespace scalai::report {
namespace {

constexpr size_t kMostPauses = 40;

struct Phase {
  const char* name;
  double control::PhaseSeconds::*seconds;
};
constexpr Phase kPhases[] = {
    {"detect", &control::PhaseSeconds::detect},   {"stop", &control::PhaseSeconds::stop},
    {"plan", &control::PhaseSeconds::plan},       {"restart", &control::PhaseSeconds::restart},
    {"prepare", &control::PhaseSeconds::prepare}, {"transfer", &control::PhaseSeconds::transfer},
    {"verify", &control::PhaseSeconds::verify},   {"resume", &control::PhaseSeconds::resume},
    {"aborted", &control::PhaseSeconds::aborted}};

// "" where the report does not say.
std::string basis_of_phase(const Summary& summary, const std::string& phase) {
  for (const Basis& basis : summary.basis.value_or(std::vector<Basis>{}))
    if (basis.of == phase) return basis.basis;
  return "";
}

struct Pause {
  const JobSummary* job = nullptr;
  const ReconfigurationSummary* change = nullptr;
};

// The longest ones, in order of time.
std::vector<Pause> pauses_of(const RunData& run, size_t& all) {
  std::vector<Pause> pauses;
  for (const JobSummary& job : run.summary.jobs)
    for (const ReconfigurationSummary& change : job.reconfigurations) pauses.push_back({&job, &change});
  all = pauses.size();
  std::stable_sort(pauses.begin(), pauses.end(),
                   [](const Pause& a, const Pause& b) { return a.change->pause_s > b.change->pause_s; });
  if (pauses.size() > kMostPauses) pauses.resize(kMostPauses);
  std::stable_sort(pauses.begin(), pauses.end(),
                   [](const Pause& a, const Pause& b) { return a.change->at_s < b.change->at_s; });
  return pauses;
}

chart::Lane lane_of(const RunData& run, const Pause& pause) {
  const ReconfigurationSummary& change = *pause.change;
  chart::Lane lane{.label = fmt::format("{}{}. {}", run.summary.jobs.size() > 1 ? pause.job->name + " " : "",
                                        change.index, change.cause)};
  for (const Phase& phase : kPhases) {
    const double seconds = change.phases_s.*phase.seconds;
    if (!(seconds > 0)) continue;
    const std::string basis = basis_of_phase(run.summary, phase.name);
    append(lane, seconds, std::string("k-") + phase.name,
           {.title = fmt::format("{}: {}{}", phase.name, format_seconds(seconds), basis.empty() ? "" : ", " + basis),
            .series = phase.name,
            .value = seconds});
    lane.segments.back().hatched = basis == "assumed";
  }
  lane.end = change.resumed_s ? format_seconds(change.pause_s) : format_seconds(change.pause_s) + ", never ends";
  return lane;
}

std::vector<LegendEntry> legend_of(const RunData& run) {
  std::vector<LegendEntry> legend;
  for (const Phase& phase : kPhases) {
    const bool took = std::any_of(run.summary.jobs.begin(), run.summary.jobs.end(),
                                  [&](const JobSummary& job) { return job.totals.phases_s.*phase.seconds > 0; });
    if (!took) continue;
    const std::string basis = basis_of_phase(run.summary, phase.name);
    legend.push_back({fmt::format("k-{}{}", phase.name, basis == "assumed" ? " hatched" : ""),
                      basis.empty() ? phase.name : fmt::format("{} ({})", phase.name, basis)});
  }
  return legend;
}

PageTable numbers_of(const RunData& run) {
  PageTable table{.headers = {"job", "change>", "at>", "cause", "from → to", "pause>"}};
  for (const Phase& phase : kPhases) table.headers.push_back(std::string(phase.name) + ">");
  for (const JobSummary& job : run.summary.jobs) {
    for (const ReconfigurationSummary& change : job.reconfigurations) {
      std::vector<std::string> cells = {job.name,     std::to_string(change.index),    moment(change.at_s),
                                        change.cause, change.from + " → " + change.to, format_seconds(change.pause_s)};
      for (const Phase& phase : kPhases) cells.push_back(format_seconds(change.phases_s.*phase.seconds));
      table.rows.push_back(std::move(cells));
    }
  }
  return table;
}

PageTable basis_table(const std::vector<RunData>& runs) {
  PageTable table{.headers = {"time of", "rests on", "from", "others were", "in"}};
  for (const RunData& run : runs) {
    for (const Basis& basis : run.summary.basis.value_or(std::vector<Basis>{})) {
      std::string others;
      if (basis.low && basis.high) {
        others = basis.unit == "s" ? fmt::format("{} to {}", format_seconds(*basis.low), format_seconds(*basis.high))
                                   : fmt::format("{:g} to {:g} times as long", *basis.low, *basis.high);
      }
      const std::vector<std::string> line = {basis.of, basis.basis, basis.from, others};
      const auto same = std::find_if(table.rows.begin(), table.rows.end(), [&](const auto& row) {
        return std::equal(line.begin(), line.end(), row.begin());
      });
      if (same != table.rows.end()) {
        same->back() += ", " + run.label;
      } else {
        table.rows.push_back(line);
        table.rows.back().push_back(run.label);
      }
    }
  }
  return table;
}

void add_pause_figure(Document& page, const RunData& run, double longest_s) {
  size_t all = 0;
  const std::vector<Pause> pauses = pauses_of(run, all);
  if (pauses.empty()) {
    page.paragraph(run.label + ": no reconfigurations.");
    return;
  }
  chart::Lanes lanes{.title = "Pauses of " + run.label, .description = "A bar a reconfiguration, a part a phase."};
  lanes.x = chart::rounded({"pause", chart::Unit::kSeconds, "", 0, longest_s}, 9);
  lanes.lane_height = 18;
  for (const Pause& pause : pauses) lanes.lanes.push_back(lane_of(run, pause));
  page.figure({.title = run.label,
               .caption = all > pauses.size() ? fmt::format("The {} longest of {} pauses.", pauses.size(), all) : "",
               .legend = legend_of(run),
               .draw =
                   [lanes](const std::string& id, double width) {
                     chart::Lanes picture = lanes;
                     picture.id = id;
                     return lanes_svg(picture, width);
                   },
               .numbers = numbers_of(run)});
}

}  // namespace

void add_pauses(Document& page, const std::vector<RunData>& runs) {
  page.heading(2, "Pauses");
  page.paragraph(
      "Each pause runs from the request, or the failure, to the first step in the new configuration. Hatched parts are "
      "assumed; "
      "others are modelled, given or measured, as the legend says. In an executed run some phases are measured: their "
      "sum is "
      "not the downtime, which is scenario time.",
      "sub");
  double longest_s = 0;
  for (const RunData& run : runs)
    for (const JobSummary& job : run.summary.jobs)
      for (const ReconfigurationSummary& change : job.reconfigurations) longest_s = std::max(longest_s, change.pause_s);
  for (const RunData& run : runs) add_pause_figure(page, run, longest_s);
  const PageTable basis = basis_table(runs);
  page.heading(3, "What these times rest on");
  if (basis.rows.empty()) {
    page.paragraph("The reports do not say (they are of an earlier version).");
  } else {
    page.table(basis, "What these times rest on");
  }
}

}  // namespace scalai::report
