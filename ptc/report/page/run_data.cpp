// Reading a run's folder, and its timelines (internal/run_data.h).

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/proto/textproto.h"
#include "ptc/report/page/internal/run_data.h"

namespace scalai::report {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestTrace = int64_t{256} << 20;  // bytes; parsed it takes several times as much

// Whatever of it this version knows: fields of older ones do not matter here.
std::string description_of(const std::string& scenario_text) {
  proto::Scenario scenario;
  Diagnostics ignored("scenario.resolved.textproto", scenario_text);
  proto::Places places;
  proto::parse_textproto(scenario_text, scenario, ignored, places);
  return scenario.description();
}

absl::Status load_trace(const std::string& path, RunData& run) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    run.left_out.push_back(
        "trace.pftrace is missing: no heat of links and memory; stretches of time are those of summary.json");
    return absl::OkStatus();
  }
  const auto bytes = read_file(path, kLargestTrace);
  if (!bytes.ok()) {
    run.left_out.push_back(
        "trace.pftrace is too large to be shown: no heat of links and memory; stretches of time are those of "
        "summary.json");
    return absl::OkStatus();
  }
  auto trace = read_trace(*bytes);
  if (!trace.ok()) return invalid(fmt::format("{}: {}", path, message_of(trace.status())));
  run.trace = *std::move(trace);
  return absl::OkStatus();
}

absl::Status load_rows(const std::string& path, const std::string& lacks, std::optional<CsvRows>& rows, RunData& run) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    run.left_out.push_back(fmt::format("{} is missing: {}", fs::path(path).filename().string(), lacks));
    return absl::OkStatus();
  }
  SCALAI_ASSIGN_OR_RETURN(rows, CsvRows::read(path));
  return absl::OkStatus();
}

void add(std::vector<Stretch>& stretches, Stretch next) {
  if (!(next.high_s > next.low_s)) return;
  if (!stretches.empty() && stretches.back().what == next.what && stretches.back().layout == next.layout) {
    stretches.back().high_s = next.high_s;
    return;
  }
  stretches.push_back(std::move(next));
}

std::string kind_of(const std::string& what) { return what == "train" || what == "waiting" ? what : "pause"; }

// The layout in which the job trained at a moment.
std::string layout_at(const JobSummary& job, double at_s) {
  const auto& changes = job.reconfigurations;
  std::string layout = changes.empty() ? "" : changes.front().from;
  if (changes.empty() && job.configurations && !job.configurations->empty())
    layout = job.configurations->front().layout;
  for (const ReconfigurationSummary& change : changes)
    if (change.completed && change.resumed_s && *change.resumed_s <= at_s + 1e-6) layout = change.to;
  return layout;
}

double begin_of(const JobSummary& job) { return job.schedule ? job.schedule->submit_s : 0; }

std::vector<Stretch> from_trace(const JobSummary& job, const std::vector<TraceStretch>& spans) {
  std::vector<Stretch> result;
  double at_s = begin_of(job);
  for (const TraceStretch& span : spans) {
    add(result, {at_s, span.low_s, "down", ""});
    const std::string kind = kind_of(span.what);
    add(result, {span.low_s, span.high_s, kind, kind == "train" ? layout_at(job, (span.low_s + span.high_s) / 2) : ""});
    at_s = std::max(at_s, span.high_s);
  }
  add(result, {at_s, begin_of(job) + job.wall_s, "down", ""});
  return result;
}

std::vector<Stretch> from_summary(const JobSummary& job) {
  std::vector<Stretch> result;
  const double end_s = begin_of(job) + job.wall_s;
  double at_s = begin_of(job);
  for (const ReconfigurationSummary& change : job.reconfigurations) {
    const double resumed_s = change.resumed_s.value_or(end_s);
    add(result, {at_s, change.at_s, "train", layout_at(job, (at_s + change.at_s) / 2)});
    add(result, {std::max(at_s, change.at_s), resumed_s, "pause", ""});
    at_s = std::max(at_s, resumed_s);
  }
  add(result, {at_s, end_s, "train", layout_at(job, (at_s + end_s) / 2)});
  return result;
}

// Steps and the time they took between two changes; `step` is where the job goes on.
struct StretchRate {
  double low_s = 0, high_s = 0, samples_per_s = 0;
};

double trained_s(const std::vector<Stretch>& stretches, double low_s, double high_s) {
  double sum = 0;
  for (const Stretch& s : stretches)
    if (s.what == "train") sum += std::max(0.0, std::min(s.high_s, high_s) - std::max(s.low_s, low_s));
  return sum;
}

std::vector<StretchRate> rates_of(const JobSummary& job, const std::vector<Stretch>& stretches) {
  std::vector<StretchRate> rates;
  const double batch = job.steps > 0 ? static_cast<double>(job.samples) / static_cast<double>(job.steps) : 0;
  const double end_s = begin_of(job) + job.wall_s;
  if (job.configurations && !job.configurations->empty()) {
    for (const ConfigurationSummary& c : *job.configurations) {
      if (!rates.empty()) rates.back().high_s = c.since_s;
      const double samples = c.global_batch ? static_cast<double>(*c.global_batch) : batch;
      rates.push_back({c.since_s, end_s, c.step_s && *c.step_s > 0 ? samples / *c.step_s : 0});
    }
    return rates;
  }
  double low_s = begin_of(job), step = 0;
  const auto close = [&](double high_s, double until_step) {
    const double seconds = trained_s(stretches, low_s, high_s);
    rates.push_back({low_s, high_s, seconds > 0 ? std::max(0.0, until_step - step) * batch / seconds : 0});
  };
  for (const ReconfigurationSummary& change : job.reconfigurations) {
    if (!change.resumed_s) break;
    close(*change.resumed_s, static_cast<double>(change.step + change.rolled_back_steps));
    low_s = *change.resumed_s;
    step = static_cast<double>(change.step);
  }
  close(end_s, static_cast<double>(job.steps));
  return rates;
}

std::vector<chart::Point> throughput_of(const JobSummary& job, const std::vector<Stretch>& stretches) {
  std::vector<chart::Point> points;
  for (const Stretch& s : stretches) {
    if (s.what != "train") {
      points.push_back({s.low_s, 0});
      continue;
    }
    for (const StretchRate& rate : rates_of(job, stretches)) {
      const double low_s = std::max(s.low_s, rate.low_s), high_s = std::min(s.high_s, rate.high_s);
      if (high_s > low_s) points.push_back({low_s, rate.samples_per_s});
    }
  }
  if (!stretches.empty()) points.push_back({stretches.back().high_s, points.empty() ? 0 : points.back().y});
  return points;
}

std::vector<chart::Point> held_in_trace(const std::string& job, const RunTrace& trace, double end_s) {
  std::map<double, int> changes;
  for (const auto& [device, stretches] : trace.devices) {
    for (const TraceStretch& s : stretches) {
      if (!s.what.starts_with(job + ": ")) continue;
      ++changes[s.low_s];
      --changes[s.high_s];
    }
  }
  std::vector<chart::Point> points = {{0, 0}};
  double held = 0;
  for (const auto& [at_s, change] : changes) {
    if (change == 0) continue;
    held += change;
    points.push_back({at_s, held});
  }
  points.push_back({end_s, held});
  return points;
}

std::vector<chart::Point> held_in_summary(const JobSummary& job, double end_s) {
  std::vector<chart::Point> points;
  for (const ReconfigurationSummary& change : job.reconfigurations) {
    if (points.empty()) points.push_back({begin_of(job), static_cast<double>(change.from_gpus)});
    points.push_back({change.at_s, static_cast<double>(change.to_gpus)});
  }
  if (!points.empty()) points.push_back({end_s, points.back().y});
  return points;
}

}  // namespace

RunOrigin read_origin(const std::string& folder) {
  RunOrigin origin;
  if (const auto text = read_file((fs::path(folder) / "scenario.resolved.textproto").string()); text.ok()) {
    origin.scenario_text = *text;
    origin.description = description_of(*text);
  }
  const auto text = read_file((fs::path(folder) / "manifest.json").string());
  const auto json = text.ok() ? read_json(*text) : absl::StatusOr<nlohmann::json>(text.status());
  if (!json.ok() || !json->is_object()) return origin;
  const auto word = [&](const char* key) {
    const auto found = json->find(key);
    return found != json->end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  origin.command_line = word("command_line");
  origin.revision = word("revision");
  origin.started_at = word("started_at");
  const auto wall = json->find("wall_clock_s");
  if (wall != json->end() && wall->is_number()) origin.wall_clock_s = wall->get<double>();
  return origin;
}

absl::StatusOr<RunData> load_run(const std::string& label, const std::string& folder, std::string json) {
  RunData run{.label = label, .json = std::move(json), .origin = read_origin(folder)};
  const auto path_of = [&](const char* name) { return (fs::path(folder) / name).string(); };
  auto summary = read_summary(run.json);
  if (!summary.ok()) return invalid(fmt::format("{}: {}", path_of("summary.json"), message_of(summary.status())));
  run.summary = *std::move(summary);
  if (run.origin.scenario_text.empty())
    run.left_out.emplace_back("scenario.resolved.textproto is missing: the page has no scenario");
  SCALAI_RETURN_IF_ERROR(load_trace(path_of("trace.pftrace"), run));
  SCALAI_RETURN_IF_ERROR(
      load_rows(path_of("transfers.csv"), "the page does not say who sends to whom", run.transfers, run));
  SCALAI_RETURN_IF_ERROR(load_rows(path_of("devices.csv"), "hosts of devices are unknown", run.devices, run));
  for (const JobSummary& job : run.summary.jobs) {
    const fs::path path = fs::path(folder) / "workers" / job.name / "take_ups.csv";
    std::error_code error;
    if (!job.trained || !fs::exists(path, error)) continue;
    SCALAI_ASSIGN_OR_RETURN(CsvRows rows, CsvRows::read(path.string()));
    run.take_ups.emplace_back(job.name, std::move(rows));
  }
  return run;
}

std::vector<JobTimeline> timelines_of(const RunData& run) {
  std::vector<JobTimeline> result;
  for (const JobSummary& job : run.summary.jobs) {
    JobTimeline timeline{.job = job.name};
    const std::vector<TraceStretch>* spans = nullptr;
    if (run.trace) {
      for (const auto& [name, found] : run.trace->jobs)
        if (name == job.name) spans = &found;
    }
    timeline.stretches = spans != nullptr ? from_trace(job, *spans) : from_summary(job);
    timeline.throughput = throughput_of(job, timeline.stretches);
    timeline.gpus = spans != nullptr ? held_in_trace(job.name, *run.trace, run.summary.end_s)
                                     : held_in_summary(job, run.summary.end_s);
    result.push_back(std::move(timeline));
  }
  return result;
}

}  // namespace scalai::report
