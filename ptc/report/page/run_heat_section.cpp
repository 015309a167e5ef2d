// Heat of links and memory, real training, and where a run comes from (internal/run_sections.h).

#include <fmt/format.h>

#include "ptc/base/units.h"
#include "ptc/report/chart/grid.h"
#include "ptc/report/page/internal/run_sections.h"

namespace scalai::report {
namespace {

constexpr size_t kIntervals = 120, kMostRows = 24;

std::string share_words(double share) { return fmt::format("{:.3g} %", 100 * share); }
std::string byte_words(double bytes) { return format_bytes(static_cast<int64_t>(bytes)); }

void add_heat_figure(Document& page, const std::string& title, const std::string& what, const Heat& heat, double end_s,
                     std::string (*words)(double)) {
  chart::HeatMap map{.title = title,
                     .description = what,
                     .x = {"time", chart::Unit::kSeconds, "", 0, end_s},
                     .rows = heat.rows,
                     .values = heat.values,
                     .highest = heat.highest,
                     .words = words};
  PageTable numbers{.headers = {"", "highest>"}};
  for (size_t row = 0; row < heat.rows.size(); ++row) {
    double most = 0;
    for (const double value : heat.values[row]) most = std::max(most, value);
    numbers.rows.push_back({heat.rows[row], words(most)});
  }
  std::string caption = fmt::format("{} The darkest shade is {}; each cell is the highest of {}.", what,
                                    words(heat.highest), format_seconds(end_s / kIntervals));
  if (heat.all_rows > heat.rows.size())
    caption += fmt::format(" The {} of {} rows with the most.", heat.rows.size(), heat.all_rows);
  page.figure({.title = title,
               .caption = std::move(caption),
               .draw =
                   [map](const std::string& id, double width) {
                     chart::HeatMap picture = map;
                     picture.id = id;
                     return heat_svg(picture, width);
                   },
               .numbers = std::move(numbers)});
}

PageTable trained_table(const std::vector<RunData>& runs) {
  PageTable table{.headers = {"run", "job", "trained as", "GPUs>", "steps>", "step, measured>", "in the scenario>"}};
  for (const RunData& run : runs) {
    for (const JobSummary& job : run.summary.jobs) {
      for (const TrainedSummary& t : job.trained.value_or(std::vector<TrainedSummary>{}))
        table.rows.push_back({run.label, job.name, t.layout, std::to_string(t.gpus), std::to_string(t.steps),
                              format_seconds(t.step_s), format_seconds(t.scenario_step_s)});
    }
  }
  return table;
}

PageTable take_ups_table(const std::vector<RunData>& runs) {
  PageTable table{
      .headers = {"run", "job", "step>", "layout", "processes>", "attempts>", "all>", "communicators>", "build>"}};
  for (const RunData& run : runs) {
    for (const auto& [job, rows] : run.take_ups) {
      for (size_t row = 0; row < rows.size(); ++row) {
        const auto seconds = [&rows = rows, row](const char* column) {
          const auto value = rows.number(row, column);
          return value ? format_seconds(*value) : std::string("–");
        };
        table.rows.push_back({run.label, job, rows.text(row, "step"), rows.text(row, "layout"),
                              rows.text(row, "processes"), rows.text(row, "attempts"), seconds("seconds"),
                              seconds("communicators_s"), seconds("build_s")});
      }
    }
  }
  return table;
}

PageTable prediction_rows(const Prediction& prediction) {
  PageTable table{.headers = {"job", "change>", "from → to", "phase", "predicted>", "measured>", "error>"}};
  for (const PredictedChange& change : prediction.changes) {
    for (const PhasePrediction& phase : change.phases)
      table.rows.push_back({change.job, std::to_string(change.index), change.from + " → " + change.to, phase.phase,
                            format_seconds(phase.predicted_s),
                            phase.measured_s ? format_seconds(*phase.measured_s) : "–",
                            phase.error ? fmt::format("{:+.1f} %", 100 * *phase.error) : "–"});
  }
  for (const PredictedStep& step : prediction.steps)
    table.rows.push_back({step.job, "", step.layout, "step", format_seconds(step.predicted_s),
                          format_seconds(step.measured_s), fmt::format("{:+.1f} %", 100 * step.error)});
  return table;
}

}  // namespace

void add_heat(Document& page, const std::vector<RunData>& runs) {
  page.heading(2, "Links and memory over time");
  for (const RunData& run : runs) {
    if (!run.trace) {
      page.paragraph(run.label + ": no trace.");
      continue;
    }
    const Heat links = link_heat(*run.trace, run.summary.end_s, kIntervals, kMostRows);
    if (links.rows.empty()) {
      page.paragraph(run.summary.runtime == "exec" ? run.label + ": an executed run does not record links."
                                                   : run.label + ": no link was used.");
    } else {
      add_heat_figure(page, run.label + ": use of links",
                      "Share of a link's bandwidth; links of one host and kind together, the busiest of them.", links,
                      run.summary.end_s, share_words);
    }
    const Heat memory = memory_heat(*run.trace, run.devices, run.summary.end_s, kIntervals, kMostRows);
    if (!memory.rows.empty())
      add_heat_figure(page, run.label + ": state in memory",
                      "Bytes of state on a device, or on the fullest device of a host.", memory, run.summary.end_s,
                      byte_words);
  }
}

void add_training(Document& page, const std::vector<RunData>& runs) {
  const PageTable trained = trained_table(runs);
  std::vector<Summary> summaries;
  for (const RunData& run : runs) summaries.push_back(run.summary);
  const std::optional<Prediction> prediction = prediction_of(summaries);
  if (trained.rows.empty() && !prediction) return;
  page.heading(2, "Measured");
  if (!trained.rows.empty()) page.table(trained, "Steps as measured");
  const PageTable take_ups = take_ups_table(runs);
  if (!take_ups.rows.empty()) {
    page.heading(3, "Processes take up layouts");
    page.table(take_ups, "Processes take up layouts");
  }
  if (!prediction) return;
  page.heading(3, "Predicted against measured");
  if (prediction->transfer_error_median)
    page.paragraph(fmt::format("Median error of {} transfers: {:.1f} %.", prediction->transfers,
                               100 * *prediction->transfer_error_median));
  page.table(prediction_rows(*prediction), "Predicted against measured");
}

void add_origin(Document& page, const std::vector<OriginLine>& lines) {
  page.heading(2, "Where this comes from");
  PageTable table{
      .headers = {"run", "Scalai", "revision", "seed>", "scenario digest", "started", "took>", "command line"}};
  const std::string* shown_text = nullptr;
  for (const OriginLine& line : lines) {
    const RunOrigin& origin = *line.origin;
    table.rows.push_back({line.label, line.version, origin.revision, line.seed, line.digest, origin.started_at,
                          origin.wall_clock_s ? format_seconds(*origin.wall_clock_s) : "", origin.command_line});
  }
  page.table(table, "Versions, seeds and commands");
  for (const OriginLine& line : lines) {
    const std::string& text = line.origin->scenario_text;
    if (text.empty() || (shown_text != nullptr && *shown_text == text)) continue;
    page.folded_text(lines.size() > 1 ? "Scenario of " + line.label : "The scenario", text);
    shown_text = &text;
  }
}

}  // namespace scalai::report
