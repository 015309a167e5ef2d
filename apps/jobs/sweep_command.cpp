#include <fmt/format.h>

#include <algorithm>

#include "apps/common/metric_option.h"
#include "apps/common/output.h"
#include "apps/common/sim_workers.h"
#include "apps/jobs/commands.h"
#include "apps/jobs/sweep.h"
#include "ptc/base/diagnostics.h"
#include "ptc/base/file.h"
#include "ptc/base/hash.h"
#include "ptc/base/parallel.h"
#include "ptc/base/process.h"
#include "ptc/base/progress.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/report/jobs_report.h"
#include "ptc/report/run_notes.h"
#include "ptc/run/scenario/scenario_set.h"
#include "sim/jobs/scenario/engine_parts.h"

namespace scalai::apps {
namespace {

constexpr int kPointsFailed = 5;
constexpr size_t kMostRuns = 1'000'000;

struct Base {
  std::string digest, name;
  uint64_t seed = 0;
  std::vector<std::string> metrics;  // by default
  std::vector<std::string> own;      // of the user
};

// Of `settings` only metrics count here: others may suit only some points.
absl::StatusOr<Base> load_base(const std::string& path, const std::string& text,
                               const std::vector<std::string>& settings) {
  scenario::EngineParts parts;
  scenario::LoadOptions options{.engine = &parts, .text = &text};
  if (scenario::head_of(text, path).many_jobs)
    std::copy_if(settings.begin(), settings.end(), std::back_inserter(options.settings),
                 [](const std::string& setting) { return setting.starts_with("metrics."); });
  SCALAI_ASSIGN_OR_RETURN(const scenario::Scenario scenario, scenario::load(path, options));
  Base base{.digest = scenario.digest, .name = scenario.name, .seed = scenario.seed};
  if (scenario.many_jobs) {
    base.metrics =
        parts.recovery
            ? std::vector<std::string>{"samples_per_s",         "ettr",        "restarts",         "lost_samples",
                                       "reconfiguration_gpu_h", "rerun_gpu_h", "checkpoint_gpu_h", "cost_usd"}
            : std::vector<std::string>{
                  "finished",        "avg_jct_s", "median_jct_s", "p99_jct_s", "avg_queueing_s",        "makespan_s",
                  "avg_ftf",         "worst_ftf", "utilization",  "restarts",  "reconfiguration_gpu_h", "rerun_gpu_h",
                  "deadlines_share", "cost_usd"};
    for (const scenario::UserMetric& metric : parts.metrics) base.own.push_back(metric.name);
    base.metrics.insert(base.metrics.end(), base.own.begin(), base.own.end());
    return base;
  }
  base.metrics = {
      "/end_s",           "/jobs/0/steps", "/jobs/0/training_s", "/jobs/0/downtime_s", "/jobs/0/goodput_samples_per_s",
      "/jobs/0/gpu_hours"};
  const std::vector<cluster::Host>& hosts = scenario.cluster.hosts;
  if (std::any_of(hosts.begin(), hosts.end(), [](const cluster::Host& host) { return host.price_per_hour > 0; }))
    base.metrics.emplace_back("/jobs/0/cost_usd");
  return base;
}

absl::Status check_metrics(const std::vector<std::string>& metrics, const std::vector<std::string>& own) {
  std::vector<std::string> known = report::metric_names();
  known.insert(known.end(), own.begin(), own.end());
  for (const std::string& metric : metrics) {
    if (metric.starts_with('/') || std::find(known.begin(), known.end(), metric) != known.end()) continue;
    const std::string near = closest(metric, known);
    return invalid(fmt::format("--metrics: there is no \"{}\"; {}", metric,
                               near.empty() ? fmt::format("there are {}", fmt::join(known, ", "))
                                            : fmt::format("did you mean \"{}\"?", near)));
  }
  return absl::OkStatus();
}

// Axes of --vary. Of --set with several values, too: its old spelling; the others are settings of all points.
absl::StatusOr<std::vector<scenario::Axis>> axes_of(const Arguments& arguments, std::vector<std::string>& settings) {
  std::vector<std::string> texts = arguments.texts("vary");
  for (const std::string& text : arguments.texts("set")) {
    const auto axis = scenario::parse_axis(text);
    if (!axis.ok() || axis->values.size() == 1) {
      settings.push_back(text);
      continue;
    }
    say("scalai sweep: note: --set with several values is now --vary={}\n", text);
    texts.push_back(text);
  }
  return scenario::parse_axes(texts, kMostRuns);
}

class Sweep {
 public:
  static absl::StatusOr<std::unique_ptr<Sweep>> of(const Arguments& arguments) {
    auto sweep = std::make_unique<Sweep>();
    sweep->scenario_ = arguments.positional().front();
    sweep->out_ = arguments.text("out");
    sweep->table_.seeds = static_cast<size_t>(arguments.count("seeds"));
    sweep->jobs_ = arguments.has("jobs") ? static_cast<size_t>(arguments.count("jobs")) : hardware_threads();
    if (sweep->out_.empty()) return invalid("--out=FILE.csv is missing");
    if (sweep->table_.seeds == 0 || sweep->jobs_ == 0) return invalid("--seeds and --jobs are at least 1");
    SCALAI_ASSIGN_OR_RETURN(sweep->table_.axes, axes_of(arguments, sweep->settings_));
    sweep->table_.metrics = arguments.list("metrics");
    SCALAI_ASSIGN_OR_RETURN(const std::vector<std::string> own, metric_settings(arguments.texts("metric")));
    sweep->settings_.insert(sweep->settings_.end(), own.begin(), own.end());
    SCALAI_RETURN_IF_ERROR(check_sweep(sweep->table_.axes, sweep->table_.seeds, kMostRuns));
    return sweep;
  }

  int run() {
    const auto text = read_file(scenario_);
    if (!text.ok()) return report_error(text.status());
    text_ = *text;
    const auto base = load_base(scenario_, text_, settings_);
    if (!base.ok()) return report_error(base.status());
    if (const absl::Status known = check_metrics(table_.metrics, base->own); !known.ok())
      return usage_error("sweep", message_of(known));
    base_ = *base;
    if (table_.seeds > 1) {  // they are counted from the one that is set
      base_.seed = scenario::head_of(text_, scenario_, settings_).seed;
      std::erase_if(settings_, [](const std::string& setting) { return setting.starts_with("seed="); });
    }
    if (table_.metrics.empty()) table_.metrics = base_.metrics;
    if (const absl::Status checked = check_points(); !checked.ok()) return report_error(checked);
    const auto simulator = find_program("scalai");
    if (!simulator.ok()) return report_error(simulator.status());
    const auto swept = digest();
    if (!swept.ok()) return report_error(swept.status());
    // Its rows lie beside it until it is complete: not beside a device, say.
    if (const auto file = TemporaryFile::create(out_); !file.ok()) return report_error(file.status());
    if (const absl::Status opened = journal_.open(out_ + ".part", *swept, journaled().size()); !opened.ok()) {
      return report_error(opened);
    }
    if (const absl::Status done = run_rest(*simulator); !done.ok()) return report_error(done);
    return finish();
  }

 private:
  std::vector<std::string> journaled() const {
    return table_.seeds == 1 ? with_intervals(table_.metrics) : table_.metrics;
  }

  absl::StatusOr<std::string> digest() const {
    Hasher hasher;
    hasher.add(base_.digest).add(static_cast<int64_t>(table_.seeds)).add(static_cast<int64_t>(base_.seed));
    for (const std::string& setting : settings_) hasher.add(setting);
    for (const scenario::Axis& axis : table_.axes) {
      hasher.add(axis.path);
      for (const std::string& value : axis.values) {
        SCALAI_ASSIGN_OR_RETURN(
            const std::string changed,
            scenario::with_settings(text_, scenario_, scenario::settings_at({{axis.path, {value}}}, 0, settings_)));
        SCALAI_ASSIGN_OR_RETURN(const std::string files, scenario::digest_of_files(changed, scenario_));
        hasher.add(value).add(files);
      }
    }
    for (const std::string& metric : journaled()) hasher.add(metric);
    return hasher.hex();
  }

  // A path or a value that no scenario takes is found before anything runs.
  absl::Status check_points() const {
    SCALAI_RETURN_IF_ERROR(scenario::with_settings(text_, scenario_, settings_).status());
    for (const scenario::Axis& axis : table_.axes) {
      for (const std::string& value : axis.values) {
        const auto changed =
            scenario::with_settings(text_, scenario_, scenario::settings_at({{axis.path, {value}}}, 0, settings_));
        if (!changed.ok()) return changed.status();
      }
    }
    return absl::OkStatus();
  }

  std::string label_of(size_t point) const {
    if (table_.axes.empty()) return "the scenario";
    return fmt::format("{}", fmt::join(scenario::settings_at(table_.axes, point), " "));
  }

  absl::Status run_rest(const std::string& simulator) {
    std::vector<std::pair<size_t, size_t>> keys;
    std::vector<std::vector<std::string>> runs;
    for (size_t point = 0; point < scenario::point_count(table_.axes); ++point) {
      for (size_t seed = 0; seed < table_.seeds; ++seed) {
        if (journal_.find(point, seed) != nullptr) continue;
        std::vector<std::string> words = {"sim", scenario_, "--format=json"};
        for (const std::string& setting : scenario::settings_at(table_.axes, point, settings_))
          words.push_back("--set=" + setting);
        if (table_.seeds > 1) words.push_back(fmt::format("--seed={}", base_.seed + seed));
        keys.emplace_back(point, seed);
        runs.push_back(std::move(words));
      }
    }
    if (journal_.size() > 0) say("{} runs are done already; their notes are not repeated\n", journal_.size());
    Progress progress("sweeping " + base_.name);
    size_t ended = 0;
    return run_processes(simulator, runs, jobs_, [&](size_t run, const SimResult& result) {
      const auto [point, seed] = keys[run];
      ++ended;
      progress.update(static_cast<double>(ended) / static_cast<double>(runs.size()),
                      fmt::format("{} of {} runs, {} failed", ended, runs.size(), failures_.size()));
      return take(point, seed, result);
    });
  }

  // A failed run is not kept: it is tried again next time.
  absl::Status take(size_t point, size_t seed, const SimResult& result) {
    if (result.exit_code != 0 && result.exit_code != kExpectationFailed) {
      fail(point, fmt::format("exit code {}: {}", result.exit_code, result.error));
      return absl::OkStatus();
    }
    notes_.add(point, seed, label_of(point), report::words_of_run(result.out));
    const auto numbers = read_numbers(result.out, journaled());
    if (numbers.ok()) return journal_.add(point, seed, *numbers);
    fail(point, message_of(numbers.status()));
    return absl::OkStatus();
  }

  // Of several seeds that fail any one will do; the smallest text, so that the order of ending does not show.
  void fail(size_t point, const std::string& why) {
    const std::string text = "failed: " + why;
    const auto [at, fresh] = failures_.emplace(point, text);
    if (!fresh && text < at->second) at->second = text;
  }

  int finish() {
    const absl::Status written = write_file(out_, sweep_csv(table_, journal_, failures_));
    if (!written.ok()) return report_error(written);
    if (const std::string warning = notes_.warning(); !warning.empty()) say("scalai sweep: warning: {}\n", warning);
    for (const std::string& sentence : notes_.sentences()) say("scalai sweep: note: {}\n", sentence);
    print("{}: {}, {} each\n", out_, counted(static_cast<int64_t>(scenario::point_count(table_.axes)), "point"),
          counted(table_.seeds, "run"));
    if (failures_.empty()) {
      journal_.remove();
      return 0;
    }
    for (const auto& [point, why] : failures_) say("scalai sweep: {}: {}\n", label_of(point), why);
    say("scalai sweep: error: {} of {} points failed; the same command runs those again\n", failures_.size(),
        scenario::point_count(table_.axes));
    return kPointsFailed;
  }

  std::string scenario_, out_;
  std::string text_;                   // of the scenario's file
  std::vector<std::string> settings_;  // of all points
  size_t jobs_ = 1;
  SweepTable table_;
  Base base_;
  SweepJournal journal_;
  std::map<size_t, std::string> failures_;
  report::RunNotes notes_;
};

int sweep_command_run(const Arguments& arguments) {
  const auto sweep = Sweep::of(arguments);
  if (!sweep.ok()) return usage_error("sweep", message_of(sweep.status()));
  return (*sweep)->run();
}

}  // namespace

Command sweep_command() {
  return {
      {.name = "sweep",
       .summary = "run a scenario with all combinations of some values, one row each",
       .usage = "scalai sweep SCENARIO --vary=PATH=A,B,… [--vary=…] [--seeds=N] --out=FILE.csv",
       .description =
           R"(Each combination of values is a run of `scalai sim` in a process of its own. FILE.csv has one row each, the
last --vary fastest, the same bytes however many run at a time. While it runs, what is done lies in
FILE.csv.part: after a kill the same command goes on there. A point that fails is named and has a row that
says why; the others go on, and the exit code is 5.

With --seeds=N each point runs with the seeds s, s + 1, … from the scenario's. Its numbers are the median and,
in columns _low and _high, its 95 % interval by order statistics (from the k-th smallest to the k-th largest,
whatever the distribution; of fewer than six seeds, the smallest and the largest).)",
       .options = {texts_option("vary", "PATH=A,B,…",
                                "A field of the scenario and its values, as in changes.seconds=0s,30s,60s (`scalai sim "
                                "--help`). A comma inside a value is written \"\\,\"."),
                   texts_option("set", "PATH=VALUE", "Another value of a field in all runs."),
                   count_option("seeds", "", "Runs a point.", "1"),
                   count_option("jobs", "", "Runs at a time (if not given: as many as cores)."),
                   list_option("metrics", "NAME,…",
                               "Numbers of summary.json: names as in `scalai sim --format=csv`, or JSON pointers."),
                   texts_option("metric", "NAME=EXPR", "A metric of your own (`scalai sim --help`)."),
                   text_option("out", "FILE", "Where the table goes.")},
       .examples =
           {"scalai sweep scenarios/gavel-hetero-jct.textproto --vary=policy.name=fifo,srtf,gavel-max-min "
            "--out=jct.csv",
            "scalai sweep scenarios/busy-vc.textproto --vary=changes.seconds=0s,30s,60s,120s "
            "--vary=policy.name=srtf,tiresias "
            "--jobs=8 --out=cost.csv",
            "scalai sweep scenarios/failure-rate-sweep.textproto --vary=availability.set.mtbf=1h,3h,10h --seeds=20 "
            "--metrics=ettr,restarts --out=ettr.csv"},
       .min_arguments = 1,
       .max_arguments = 1,
       .endings = kScenarioEndings},
      sweep_command_run};
}

}  // namespace scalai::apps
