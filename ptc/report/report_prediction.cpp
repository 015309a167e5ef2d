// What the simulator predicted against what the executor measured.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nlohmann/json.hpp"
#include "ptc/base/json.h"
#include "ptc/base/statistics.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/report/internal/summary.h"

namespace scalai::report {
namespace {

// Stages without work on workers report what it takes to skip them: tens of nanoseconds.
constexpr double kLeastMeasured_s = 1e-6;

struct Phase {
  const char* name;
  double control::PhaseSeconds::*seconds;
};
constexpr Phase kPhases[] = {
    {"stop", &control::PhaseSeconds::stop},         {"plan", &control::PhaseSeconds::plan},
    {"restart", &control::PhaseSeconds::restart},   {"prepare", &control::PhaseSeconds::prepare},
    {"transfer", &control::PhaseSeconds::transfer}, {"verify", &control::PhaseSeconds::verify},
    {"resume", &control::PhaseSeconds::resume}};

PhasePrediction compare_phase(const Phase& phase, const control::PhaseSeconds& simulated,
                              const control::PhaseSeconds& executed) {
  PhasePrediction result{.phase = phase.name, .predicted_s = simulated.*phase.seconds, .measured_s = {}, .error = {}};
  const double measured_s = executed.*phase.seconds;
  if (measured_s < kLeastMeasured_s) return result;
  result.measured_s = measured_s;
  result.error = (result.predicted_s - measured_s) / measured_s;
  return result;
}

int64_t moved_bytes(const plan::ClassBytes& bytes) {
  return bytes.same_device + bytes.same_host + bytes.cross_host + bytes.from_storage;
}

const ReconfigurationSummary* find_change(const Summary& run, const std::string& job, int64_t index) {
  for (const JobSummary& candidate : run.jobs) {
    if (candidate.name != job) continue;
    for (const ReconfigurationSummary& change : candidate.reconfigurations) {
      if (change.index == index && change.completed) return &change;
    }
  }
  return nullptr;
}

std::vector<std::string> cells_of(const PhasePrediction& phase) {
  return {phase.phase, format_seconds(phase.predicted_s),
          phase.measured_s ? format_seconds(*phase.measured_s) : "not measured",
          phase.error ? fmt::format("{:+.1f} %", 100 * *phase.error) : "–"};
}

}  // namespace

std::optional<Prediction> prediction_of(const std::vector<Summary>& runs) {
  if (runs.size() != 2 || runs[0].scenario_digest != runs[1].scenario_digest || runs[0].seed != runs[1].seed ||
      runs[0].strategy != runs[1].strategy)
    return std::nullopt;
  const size_t simulated = runs[0].runtime == "sim" ? 0 : 1;
  if (runs[simulated].runtime != "sim" || runs[1 - simulated].runtime != "exec") return std::nullopt;
  Prediction prediction;
  std::vector<double> errors;
  for (const JobSummary& job : runs[1 - simulated].jobs) {
    for (const TrainedSummary& one : job.trained.value_or(std::vector<TrainedSummary>{})) {
      if (one.step_s <= 0) continue;
      const double error = (one.scenario_step_s - one.step_s) / one.step_s;
      prediction.steps.push_back({job.name, one.layout, one.steps, one.scenario_step_s, one.step_s, error});
    }
  }
  for (const JobSummary& job : runs[simulated].jobs) {
    for (const ReconfigurationSummary& change : job.reconfigurations) {
      const ReconfigurationSummary* executed = find_change(runs[1 - simulated], job.name, change.index);
      if (!change.completed || executed == nullptr) continue;
      PredictedChange& made = prediction.changes.emplace_back(
          PredictedChange{job.name,
                          change.from,
                          change.to,
                          change.index,
                          !change.plan_digest.empty() && change.plan_digest == executed->plan_digest,
                          {}});
      for (const Phase& phase : kPhases)
        made.phases.push_back(compare_phase(phase, change.phases_s, executed->phases_s));
      const auto transfer = std::find_if(made.phases.begin(), made.phases.end(), [](const PhasePrediction& phase) {
        return std::string_view(phase.phase) == "transfer";
      });
      if (made.same_plan && moved_bytes(change.bytes) > 0 && transfer->error)
        errors.push_back(std::abs(*transfer->error));
    }
  }
  prediction.transfers = static_cast<int64_t>(errors.size());
  prediction.transfer_error_median = median(std::move(errors));
  return prediction;
}

std::string prediction_table(const Prediction& prediction, const Screen& screen) {
  Table table({"job", "#>", "from → to", "phase", "predicted>", "measured>", "error>"});
  for (const PredictedStep& step : prediction.steps) {
    table.row({clipped(step.job, kNameColumns), "", clipped(step.layout, kNameColumns), "step",
               format_seconds(step.predicted_s), format_seconds(step.measured_s),
               fmt::format("{:+.1f} %", 100 * step.error)});
  }
  for (const PredictedChange& change : prediction.changes) {
    std::vector<std::string> cells = {clipped(change.job, kNameColumns), std::to_string(change.index),
                                      clipped(change.from, kNameColumns) + " → " + clipped(change.to, kNameColumns) +
                                          (change.same_plan ? "" : " (another plan)")};
    for (const PhasePrediction& phase : change.phases) {
      if (phase.predicted_s == 0 && !phase.measured_s) continue;
      std::vector<std::string> row = cells;
      for (std::string& cell : cells_of(phase)) row.push_back(std::move(cell));
      table.row(std::move(row));
      cells.assign(3, "");  // said once a reconfiguration
    }
  }
  const std::string what = prediction.transfers == 1 ? "transfer" : "transfers";
  const std::string error =
      prediction.transfer_error_median
          ? fmt::format("{:.1f} % over {} {}", 100 * *prediction.transfer_error_median, prediction.transfers, what)
          : "– (no plan that both runs carried out moved anything)";
  return table.text(screen) + "median error of transfer: " + error + "\n";
}

// ---- JSON -----------------------------------------------------------------------------------------------------------

namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json prediction_json(const Prediction& prediction) {
  Json changes = Json::array();
  for (const PredictedChange& change : prediction.changes) {
    Json phases = Json::array();
    for (const PhasePrediction& phase : change.phases) {
      phases.push_back({{"phase", phase.phase},
                        {"predicted_s", phase.predicted_s},
                        {"measured_s", or_null(phase.measured_s)},
                        {"error", or_null(phase.error)}});
    }
    changes.push_back({{"job", change.job},
                       {"index", change.index},
                       {"from", change.from},
                       {"to", change.to},
                       {"same_plan", change.same_plan},
                       {"phases", std::move(phases)}});
  }
  Json steps = Json::array();
  for (const PredictedStep& step : prediction.steps) {
    steps.push_back({{"job", step.job},
                     {"layout", step.layout},
                     {"steps", step.steps},
                     {"predicted_s", step.predicted_s},
                     {"measured_s", step.measured_s},
                     {"error", step.error}});
  }
  return {{"transfer_error_median", or_null(prediction.transfer_error_median)},
          {"transfers", prediction.transfers},
          {"steps", std::move(steps)},
          {"reconfigurations", std::move(changes)}};
}

}  // namespace

std::string comparison_json(const Comparison& comparison) {
  Json json;
  json["same_scenario"] = comparison.same_scenario;
  if (!comparison.depends_on_moment.empty()) json["depends_on_moment"] = comparison.depends_on_moment;
  json["runs"] = Json::array();
  for (size_t i = 0; i < comparison.runs.size(); ++i) {
    const Summary& run = comparison.runs[i];
    json["runs"].push_back({{"label", comparison.labels[i]},
                            {"scenario", run.scenario},
                            {"scenario_digest", run.scenario_digest},
                            {"seed", run.seed},
                            {"strategy", run.strategy},
                            {"runtime", run.runtime}});
    if (!run.rules.empty()) json["runs"].back()["rules"] = run.rules;
    if (comparison.of_many_jobs) {
      json["runs"].back()["policy_remarks"] = run.policy_remarks;
      json["runs"].back()["notes"] = run.notes;
    }
  }
  json["rows"] = Json::array();
  for (const ComparisonRow& row : comparison.rows) {
    Json values = Json::array();
    for (const std::optional<double>& value : row.values) values.push_back(or_null(value));
    Json line = {{"job", row.job}, {"metric", row.metric}, {"unit", row.unit}, {"values", values}};
    for (const std::optional<Spread>& spread : row.spreads) {
      line[row.by_seed.empty() ? "model_low" : "low"].push_back(spread ? Json(spread->low) : Json());
      line[row.by_seed.empty() ? "model_high" : "high"].push_back(spread ? Json(spread->high) : Json());
    }
    for (size_t i = 1; i < row.by_seed.size(); ++i) {
      const std::optional<PairedDifference> pairs = paired_difference(row, i, 0, /*relative=*/false);
      line["paired"].push_back(pairs ? Json({{"pairs", pairs->pairs},
                                             {"median", pairs->spread.median},
                                             {"low", pairs->spread.low},
                                             {"high", pairs->spread.high}})
                                     : Json());
    }
    if (comparison.runs.size() == 2) line["ratio"] = or_null(row.ratio);
    json["rows"].push_back(std::move(line));
  }
  if (comparison.prediction) json["prediction"] = prediction_json(*comparison.prediction);
  return json_text(json, {.indent = 2}) + "\n";
}

}  // namespace scalai::report
