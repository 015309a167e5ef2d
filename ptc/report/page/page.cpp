#include "ptc/report/page/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/report/page/internal/jobs_data.h"
#include "ptc/report/page/internal/run_sections.h"

namespace scalai::report {
namespace {

namespace fs = std::filesystem;

struct Loaded {
  std::vector<RunData> runs;
  std::vector<JobsData> jobs;
  std::vector<PageSource> sweeps, accuracies;
};

// "cluster", "recovery", or "" for a run of the control loop.
absl::StatusOr<std::string> kind_in(const std::string& json, const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(const nlohmann::json root, read_json(json, path));
  if (!root.is_object()) return invalid(fmt::format("{}: no report: not a JSON object", path));
  const auto kind = root.find("kind");
  return kind != root.end() && kind->is_string() ? kind->get<std::string>() : "";
}

absl::Status load(const PageSource& source, Loaded& loaded) {
  std::error_code error;
  if (!fs::is_directory(source.path, error)) {
    if (!fs::exists(source.path, error)) return missing(fmt::format("{}: no such file or folder", source.path));
    if (source.path.ends_with(".csv")) return loaded.sweeps.push_back(source), absl::OkStatus();
    if (source.path.ends_with(".json")) return loaded.accuracies.push_back(source), absl::OkStatus();
    return invalid(
        fmt::format("{}: neither the folder of a run, nor a table of `scalai sweep` (.csv), nor the output of "
                    "`scalai accuracy --format=json` (.json)",
                    source.path));
  }
  const std::string path = (fs::path(source.path) / "summary.json").string();
  if (!fs::exists(path, error)) {
    return missing(
        fs::exists(fs::path(source.path) / "partial.json", error)
            ? fmt::format("{}: the run ended in an error: there is partial.json and no summary.json", source.path)
            : fmt::format("{}: no report: summary.json is missing\nhint: `scalai sim FILE --out={}` writes one",
                          source.path, source.path));
  }
  SCALAI_ASSIGN_OR_RETURN(std::string json, read_file(path));
  SCALAI_ASSIGN_OR_RETURN(const std::string kind, kind_in(json, path));
  if (kind.empty()) {
    SCALAI_ASSIGN_OR_RETURN(RunData run, load_run(source.label, source.path, std::move(json)));
    loaded.runs.push_back(std::move(run));
    return absl::OkStatus();
  }
  if (kind != "cluster" && kind != "recovery")
    return invalid(fmt::format("{}: /kind is \"{}\"; known are cluster and recovery", path, kind));
  SCALAI_ASSIGN_OR_RETURN(JobsData run, load_jobs(source.label, source.path, json));
  loaded.jobs.push_back(std::move(run));
  return absl::OkStatus();
}

// Runs of one question together, in order of first appearance.
template <class Run, class Key>
std::vector<std::vector<Run>> grouped(std::vector<Run> runs, Key key_of) {
  std::vector<std::vector<Run>> groups;
  for (Run& run : runs) {
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return key_of(g.front()) == key_of(run); });
    if (group == groups.end()) group = groups.insert(groups.end(), std::vector<Run>{});
    group->push_back(std::move(run));
  }
  return groups;
}

std::string question_of(const RunOrigin& origin, const std::string& name) {
  return origin.description.empty() ? name : origin.description;
}

void add_left_out(Document& page, const std::vector<std::pair<std::string, std::vector<std::string>>>& left_out) {
  std::vector<std::string> lines;
  for (const auto& [label, sentences] : left_out)
    for (const std::string& sentence : sentences) lines.push_back(fmt::format("{}: {}.", label, sentence));
  if (lines.empty()) return;
  page.heading(3, "Left out");
  page.list(lines, "notes");
}

void add_run_group(Document& page, const std::vector<RunData>& runs, int level) {
  const RunData& first = runs.front();
  page.heading(level, question_of(first.origin, first.summary.scenario));
  page.paragraph(fmt::format("Scenario {}, {} {}, seed {}, until {}.", first.summary.scenario,
                             first.summary.runtime == "exec" ? "executed;" : "simulated;",
                             runs.size() == 1 ? "1 run" : fmt::format("{} runs", runs.size()), first.summary.seed,
                             format_seconds(first.summary.end_s)),
                 "sub");
  add_overview(page, runs);
  add_timelines(page, runs);
  add_numbers(page, runs);
  add_pauses(page, runs);
  add_training(page, runs);
  add_bytes(page, runs);
  add_heat(page, runs);
  std::vector<OriginLine> lines;
  std::vector<std::pair<std::string, std::vector<std::string>>> left_out;
  for (const RunData& run : runs) {
    lines.push_back(
        {run.label, run.summary.version, std::to_string(run.summary.seed), run.summary.scenario_digest, &run.origin});
    left_out.emplace_back(run.label, run.left_out);
  }
  add_origin(page, lines);
  add_left_out(page, left_out);
}

void add_jobs_group(Document& page, const std::vector<JobsData>& runs, int level) {
  const JobsData& first = runs.front();
  page.heading(level, question_of(first.origin, first.scenario));
  page.paragraph(fmt::format("Scenario {}: {}; {} hosts, {} GPUs; seed {}, until {}.", first.scenario, first.workload,
                             first.hosts, first.gpus, first.seed, format_seconds(first.end_s)),
                 "sub");
  if (first.recovery) {
    add_recovery(page, runs);
  } else {
    add_many_jobs(page, runs);
  }
  page.heading(2, "Rests on");
  PageTable table{.headers = {"run", "policy", "throughputs", "changes"}};
  std::vector<OriginLine> lines;
  std::vector<std::pair<std::string, std::vector<std::string>>> left_out;
  std::vector<std::string> notes;
  for (const JobsData& run : runs) {
    table.rows.push_back({run.label, run.policy, run.throughputs, run.changes});
    lines.push_back({run.label, run.version, run.seed, run.digest, &run.origin});
    left_out.emplace_back(run.label, run.left_out);
    for (const std::string& note : run.notes) notes.push_back(fmt::format("{}: {}", run.label, note));
  }
  page.table(table, "Sources");
  if (!notes.empty()) page.list(notes, "notes");
  add_origin(page, lines);
  add_left_out(page, left_out);
}

// Alternatives have digests of their own: what is compared has a name, a kind and a seed.
std::string jobs_key(const JobsData& run) {
  return fmt::format("{}\n{}\n{}\n{}", run.scenario, run.recovery, run.seed, run.workload);
}

absl::Status all_of(const std::vector<absl::Status>& problems) {
  std::string text;
  for (const absl::Status& problem : problems) text += (text.empty() ? "" : "\n") + message_of(problem);
  return {problems.front().code(), text};
}

}  // namespace

absl::StatusOr<std::string> html_page(const std::vector<PageSource>& sources) {
  Loaded loaded;
  std::vector<absl::Status> problems;
  for (const PageSource& source : sources)
    if (absl::Status status = load(source, loaded); !status.ok()) problems.push_back(std::move(status));
  Document page;
  std::string title;
  const auto name = [&](const std::string& text) {
    if (title.empty()) title = text;
    return title == text ? 1 : 2;
  };
  if (problems.empty()) {
    for (const auto& runs : grouped(std::move(loaded.runs), [](const RunData& run) {
           return fmt::format("{}\n{}", run.summary.scenario, run.summary.seed);
         }))
      add_run_group(page, runs, name(question_of(runs.front().origin, runs.front().summary.scenario)));
    for (const auto& runs : grouped(std::move(loaded.jobs), jobs_key))
      add_jobs_group(page, runs, name(question_of(runs.front().origin, runs.front().scenario)));
  }
  if (title.empty()) {
    title = loaded.sweeps.empty() ? "Accuracy" : "Sweep";
    page.heading(1, title);
  }
  for (const PageSource& sweep : loaded.sweeps)
    if (absl::Status status = add_sweep(page, sweep.label, sweep.path); !status.ok())
      problems.push_back(std::move(status));
  for (const PageSource& accuracy : loaded.accuracies)
    if (absl::Status status = add_accuracy(page, accuracy.label, accuracy.path); !status.ok())
      problems.push_back(std::move(status));
  if (!problems.empty()) return all_of(problems);
  return page.finish(title);
}

}  // namespace scalai::report
