#include "apps/sim/sim_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>

#include "apps/common/output.h"
#include "ptc/base/file.h"
#include "ptc/base/progress.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/base/version.h"
#include "ptc/report/entities.h"
#include "ptc/report/jobs_report.h"
#include "ptc/report/jobs_trace.h"
#include "ptc/run/policy/answer_log.h"
#include "ptc/run/policy/fluid.h"
#include "sim/jobs/change_fabric.h"
#include "sim/jobs/scenario/engine_parts.h"
#include "sim/simulated_step_time.h"

namespace scalai::apps {
namespace {

// A file that is written line by line; silent without a folder.
class LineFile {
 public:
  absl::Status open(const std::string& path) {
    file_.reset(std::fopen(path.c_str(), "w"));
    if (!file_) return missing(fmt::format("{}: cannot write: {}", path, std::strerror(errno)));
    path_ = path;
    return absl::OkStatus();
  }
  // Each goes out at once, so that a run that is killed leaves all that had ended.
  void line(const std::string& text) {
    if (!file_) return;
    whole_ = whole_ && std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
    whole_ = whole_ && std::fflush(file_.get()) == 0;
  }
  absl::Status close() {
    if (!file_) return absl::OkStatus();
    const bool closed = std::fclose(file_.release()) == 0;
    return closed && whole_ ? absl::OkStatus() : failed(fmt::format("{}: cannot write it whole", path_));
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
  bool whole_ = true;
};

class ClusterRun {
 public:
  ClusterRun(const scenario::Scenario& scenario, const scenario::EngineParts& parts, const ClusterRunOptions& options)
      : scenario_(scenario),
        many_(*scenario.many_jobs),
        parts_(parts),
        options_(options),
        factors_(scenario::estimate_factors_of(scenario)) {}

  int run() {
    if (const absl::Status kept = keep(); !kept.ok()) return report_error(kept);
    if (const absl::Status ready = prepare(); !ready.ok()) return report_error(ready);
    return parts_.recovery ? run_recovery() : run_jobs();
  }

 private:
  std::string path_of(const std::string& name) const { return (std::filesystem::path(options_.out) / name).string(); }

  // The policy, whose answers are kept in a snapshot or come from one.
  absl::Status keep() {
    if (!parts_.recovery) {
      SCALAI_ASSIGN_OR_RETURN(policy_, scenario::make_policy(scenario_));
    }
    const bool goes_on = !options_.resume.empty();
    if (!goes_on && options_.snapshot.empty()) return absl::OkStatus();
    const std::string about = fmt::format("{} {}", kVersion, scenario_.digest);
    const std::string what = goes_on ? "--resume" : "--snapshot";
    const std::string kept =
        "a snapshot has the decisions of policy programs, the shares of gavel-* policies that are linear programs, and "
        "what pollux "
        "and sia found";
    if (parts_.recovery) return invalid(fmt::format("{}: a recovery design is one short run; {}", what, kept));
    policy::Policy* policy = policy_.get();
    if (!policy->keep_answers(nullptr)) {
      return invalid(fmt::format("{}: {} has no answers that a snapshot could keep, and would start again\n  hint: {}",
                                 what, scenario_.policy->name, kept));
    }
    auto log = goes_on ? policy::AnswerLog::resume(options_.resume, about)
                       : policy::AnswerLog::create(options_.snapshot, about);
    SCALAI_RETURN_IF_ERROR(log.status());
    log_ = *std::move(log);
    SCALAI_ASSIGN_OR_RETURN(policy_, scenario::make_policy(scenario_));
    SCALAI_CHECK(policy_->keep_answers(log_.get()));
    return absl::OkStatus();
  }

  // Whoever finds a summary.json finds the whole report: an earlier one goes first.
  absl::Status prepare() {
    if (options_.out.empty()) return absl::OkStatus();
    SCALAI_RETURN_IF_ERROR(prepare_folder(options_.out));
    std::error_code ignored;
    for (const char* name : {"summary.json", "partial.json", "entities.csv"})
      std::filesystem::remove(path_of(name), ignored);
    if (parts_.recovery) return absl::OkStatus();
    SCALAI_RETURN_IF_ERROR(jobs_.open(path_of("jobs.csv")));
    jobs_.line(report::jobs_csv_header(scenario::more_columns(many_)));
    return absl::OkStatus();
  }

  report::ReportHead head(const std::string& throughputs, const std::string& changes) const {
    const bool program = scenario_.policy->name.empty();
    return {.scenario = scenario_.name,
            .digest = scenario_.digest,
            .seed = scenario_.seed,
            .workload = many_.workload_text,
            .policy = program ? fmt::format("program \"{}\"", scenario_.policy->exec) : scenario_.policy->name,
            .policy_set = scenario_.policy->set,
            .throughputs = throughputs,
            .changes = changes,
            .notes = many_.notes,
            .estimates = many_.estimates.none() ? "" : many_.estimates.description(),
            .virtual_clusters = sharing()};
  }

  // Cells of the columns of jobs.csv that only some runs have.
  std::vector<std::string> more_cells(policy::JobId job) const {
    std::vector<std::string> cells;
    if (many_.window) cells.emplace_back(many_.window->holds(job) ? "1" : "0");
    if (!many_.estimates.none()) cells.push_back(shortest(factors_[static_cast<size_t>(job.value)]));
    return cells;
  }

  std::string sharing() const {
    if (!many_.quotas) return "";
    return fmt::format("{}{}", counted(std::ssize(many_.quotas->clusters), "quota"),
                       many_.quotas->borrow ? ", idle GPUs are lent until their owners want them back" : ", fixed");
  }
  report::Entities make_entities() const {
    if (!many_.quotas) return {many_.workload, {}, {}};
    std::vector<report::Entities::Quota> quotas;
    for (const policy::VirtualCluster& one : many_.quotas->clusters) quotas.push_back({one.name, one.gpus()});
    return {many_.workload, std::move(quotas), many_.quotas->cluster_of};
  }

  int run_jobs() {
    const auto changes = scenario::make_changes(scenario_, parts_);
    if (!changes.ok()) return report_error(changes.status());
    report::ReportHead about = head(parts_.throughput->description(), (*changes)->description());
    if (dynamic_cast<const policy::FluidPolicy*>(policy_.get()) != nullptr) {
      about.notes.emplace_back(
          "shares are applied continuously: jobs have no GPUs of their own, so placements.csv and the trace show none; "
          "changes of GPUs and lost hosts cost nothing");
    }
    Progress progress("simulating " + about.policy);
    policy::Outcome partial;
    partial.window = many_.window;
    partial.jobs.resize(many_.workload.jobs.size());
    jobs::Setup setup{.workload = &many_.workload,
                      .fleet = &many_.fleet,
                      .availability = &many_.availability,
                      .throughput = parts_.throughput.get(),
                      .policy = policy_.get(),
                      .changes = changes->get(),
                      .options = parts_.options};
    report::JobsTrace trace(many_.workload, many_.fleet, many_.availability);
    report::Entities entities = make_entities();
    const bool traces = !options_.out.empty() || measures("placements");
    follow(setup.watcher, traces ? &trace : nullptr, entities);
    setup.watcher.ended = [&](double now_s, const policy::Job& job, const policy::JobRecord& record) {
      entities.placed(now_s, record.job, {}, policy::JobId());
      if (traces) trace.ended(now_s, record.job);
      jobs_.line(report::jobs_csv_line(job, record, more_cells(record.job)));
      partial.jobs[static_cast<size_t>(record.job.value)] = record;
      partial.end_s = std::max(partial.end_s, record.finish_s < policy::kNever ? record.finish_s : 0);
    };
    setup.watcher.progress = [&](double now_s, int64_t finished, int64_t total) {
      progress.update(total > 0 ? static_cast<double>(finished) / static_cast<double>(total) : 0,
                      fmt::format("{} of {} jobs, at {:.1f} h", finished, total, now_s / 3600));
    };
    const auto outcome = jobs::run(setup);
    if (!outcome.ok()) return fail(about, partial, outcome.status());
    for (std::string& note : report::window_notes(many_.workload, *outcome)) about.notes.push_back(std::move(note));
    if (outcome->use_every > 1 && (!options_.out.empty() || measures("utilization")))
      about.notes.push_back(fmt::format("utilization.csv has one of {} changes of use", outcome->use_every));
    extras_.virtual_clusters = entities.rows(*outcome);
    const std::string drawn = traces ? trace.finish(*outcome) : "";
    compute_metrics(about, *outcome, trace);
    if (const absl::Status written = write_jobs(about, *outcome, trace, drawn); !written.ok())
      return report_error(written);
    std::vector<report::Metric> metrics = report::metrics_of(many_.workload, *outcome);
    metrics.insert(metrics.end(), extras_.metrics.begin(), extras_.metrics.end());
    return finish(about, metrics, summary_of(about, *outcome), outcome->policy_remarks);
  }

  // What was done until then stays, and says that it is not the whole.
  int fail(const report::ReportHead& about, const policy::Outcome& partial, const absl::Status& status) {
    // Nothing but the greeting of a program: there is nothing to go on with.
    std::error_code ignored;
    if (log_ && options_.resume.empty() && log_->added() <= 1) std::filesystem::remove(options_.snapshot, ignored);
    if (!options_.out.empty()) {
      absl::Status written = jobs_.close();
      if (written.ok()) {
        written = write_file(path_of("partial.json"),
                             report::summary_json(about, many_.workload, many_.fleet, partial, message_of(status)));
      }
      if (!written.ok()) report_error(written);
      say("scalai sim: partial results: {}\n", path_of("jobs.csv"));
    }
    return report_error(status);
  }

  // `trace`: null where no report is written.
  static void follow(jobs::Watcher& watcher, report::JobsTrace* trace, report::Entities& entities) {
    watcher.placed = [trace, &entities](double now_s, policy::JobId job, const policy::Placement& placement,
                                        policy::JobId beside) {
      entities.placed(now_s, job, placement, beside);
      if (trace != nullptr) trace->placed(now_s, job, placement, beside);
    };
    if (trace == nullptr) return;
    watcher.training = [trace](double now_s, policy::JobId job) { trace->training(now_s, job); };
  }

  absl::Status write_jobs(const report::ReportHead& about, const policy::Outcome& outcome,
                          const report::JobsTrace& trace, const std::string& drawn) {
    if (options_.out.empty()) return absl::OkStatus();
    SCALAI_RETURN_IF_ERROR(jobs_.close());
    const policy::Workload& workload = many_.workload;
    SCALAI_RETURN_IF_ERROR(write_file(path_of("utilization.csv"), report::utilization_csv(outcome)));
    SCALAI_RETURN_IF_ERROR(write_file(path_of("jct_cdf.csv"), report::jct_cdf_csv(workload, outcome)));
    SCALAI_RETURN_IF_ERROR(write_file(path_of("ftf_cdf.csv"), report::ftf_cdf_csv(workload, outcome)));
    SCALAI_RETURN_IF_ERROR(
        write_file(path_of("costs.csv"), report::costs_csv(workload, many_.fleet, many_.availability, outcome)));
    SCALAI_RETURN_IF_ERROR(write_file(path_of("trace.pftrace"), drawn));
    SCALAI_RETURN_IF_ERROR(write_file(path_of("placements.csv"), trace.placements_csv()));
    SCALAI_RETURN_IF_ERROR(
        write_file(path_of("hosts.csv"), report::hosts_csv(many_.fleet, many_.availability, outcome.end_s)));
    if (!extras_.virtual_clusters.empty()) {
      SCALAI_RETURN_IF_ERROR(write_file(path_of("entities.csv"), report::entities_csv(extras_.virtual_clusters)));
    }
    return write_common(summary_of(about, outcome));
  }

  std::string summary_of(const report::ReportHead& about, const policy::Outcome& outcome) const {
    report::SummaryExtras extras = extras_;
    if (!many_.quotas) extras.virtual_clusters.clear();
    return report::summary_json(about, many_.workload, many_.fleet, outcome, "", extras);
  }

  bool measures(std::string_view table) const {
    return std::any_of(parts_.metrics.begin(), parts_.metrics.end(),
                       [&](const scenario::UserMetric& metric) { return metric.table == table; });
  }

  // With the rows of the file of this name; of jobs, those that count.
  report::QueryTable table_of(const std::string& name, const policy::Outcome& outcome,
                              const report::JobsTrace& trace) const {
    report::QueryTable table = scenario::metric_table_of(many_, name);
    if (name == "utilization") scenario::add_rows(report::utilization_csv(outcome), &table);
    if (name == "placements") scenario::add_rows(trace.placements_csv(), &table);
    if (name == "hosts") scenario::add_rows(report::hosts_csv(many_.fleet, many_.availability, outcome.end_s), &table);
    if (name == "entities") scenario::add_rows(report::entities_csv(extras_.virtual_clusters), &table);
    if (name == "costs")
      scenario::add_rows(report::costs_csv(many_.workload, many_.fleet, many_.availability, outcome), &table);
    if (name != "jobs") return table;
    for (const policy::JobRecord& record : outcome.jobs) {
      if (outcome.window && !outcome.window->holds(record.job)) continue;
      const policy::Job& job = many_.workload.jobs[static_cast<size_t>(record.job.value)];
      table.rows.push_back(report::job_cells(job, record, more_cells(record.job)));
    }
    return table;
  }

  // Metrics of the user. One that cannot be computed of this run has no value, and a note says why.
  void compute_metrics(report::ReportHead& about, const policy::Outcome& outcome, const report::JobsTrace& trace) {
    std::map<std::string, report::QueryTable> tables;
    for (const scenario::UserMetric& metric : parts_.metrics) {
      if (tables.count(metric.table) == 0) tables.emplace(metric.table, table_of(metric.table, outcome, trace));
      const auto value = report::evaluate(tables.at(metric.table), {metric.expression});
      if (!value.ok()) about.notes.push_back(fmt::format("metric {}: {}", metric.name, message_of(value.status())));
      extras_.metrics.push_back({metric.name, metric.name, "", value.ok() ? value->front() : std::nullopt, true});
    }
  }

  int run_recovery() {
    const auto result = jobs::simulate_recovery(parts_.recovery_setup);
    if (!result.ok()) return report_error(result.status());
    report::ReportHead about = head(parts_.recovery->throughputs, parts_.recovery->changes);
    about.rules = jobs::name_of_rules(parts_.recovery_setup);
    if (parts_.recovery_setup.until_s <= 0 && result->to_s < many_.availability_span_s - 1e-6) {
      about.notes.push_back(fmt::format(
          "the run ends at {}, with the last change of hosts, although the host trace goes on until {}: until: "
          "\"{}s\" plays all of it",
          format_seconds(result->to_s), format_seconds(many_.availability_span_s),
          shortest(many_.availability_span_s)));
    }
    const std::string summary =
        report::summary_json(about, parts_.recovery_setup.hosts, parts_.recovery_setup.gpus_per_host, *result);
    if (!options_.out.empty()) {
      if (const absl::Status written = write_recovery(*result, summary); !written.ok()) return report_error(written);
    }
    return finish(about, report::metrics_of(*result), summary);
  }

  absl::Status write_recovery(const policy::RecoveryResult& result, const std::string& summary) {
    SCALAI_RETURN_IF_ERROR(write_file(path_of("throughput.csv"), report::phases_csv(result)));
    SCALAI_RETURN_IF_ERROR(
        write_file(path_of("trace.pftrace"), report::recovery_trace(scenario_.name, parts_.recovery_setup.hosts,
                                                                    *parts_.recovery_setup.availability, result)));
    return write_common(summary);
  }

  absl::Status write_common(const std::string& summary) {
    SCALAI_RETURN_IF_ERROR(
        write_file(path_of("scenario.resolved.textproto"),
                   scenario::text_in_folder(scenario_.resolved_text, scenario_.folder, options_.out)));
    report::Manifest manifest = options_.manifest;
    manifest.wall_clock_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    SCALAI_RETURN_IF_ERROR(write_file(path_of("manifest.json"), report::manifest_json(manifest)));
    return write_file(path_of("summary.json"), summary);
  }

  int finish(const report::ReportHead& about, const std::vector<report::Metric>& metrics, const std::string& summary,
             const std::string& remarks = "") {
    print(options_.format == "json" ? summary
                                    : report::metrics_table(about, metrics, options_.format, stdout_screen()));
    if (options_.format == "table") {
      if (many_.quotas) print("\n{}", report::entities_table(extras_.virtual_clusters, stdout_screen()));
      for (const std::string& note : about.notes) print("note: {}\n", note);
      if (!remarks.empty()) print("note: policy: {}\n", remarks);
      note_terms("JCT = job completion time, from submission to end", next_step(options_.out),
                 trace_hint(options_.out));
    }
    const std::string failures = report::failed_expectations(scenario_, scenario_.strategy, summary);
    say("{}", failures);
    return failures.empty() ? 0 : kExpectationFailed;
  }

  const scenario::Scenario& scenario_;
  const scenario::ManyJobs& many_;
  const scenario::EngineParts& parts_;
  const ClusterRunOptions& options_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::unique_ptr<policy::AnswerLog> log_;  // outlives the policy
  std::unique_ptr<policy::Policy> policy_;
  LineFile jobs_;
  report::SummaryExtras extras_;
  std::vector<double> factors_;  // of estimates, by job
};

}  // namespace

int simulate_cluster(const ClusterRunOptions& options) {
  const sim::SimulatedStepTime steps;
  scenario::EngineParts parts(
      {.steps = &steps, .fabric = [](const cluster::Cluster& cluster) { return sim::make_change_fabric(cluster); }});
  const auto scenario = scenario::load(options.scenario, {.settings = options.settings,
                                                          .cluster_file = options.cluster,
                                                          .engine = &parts,
                                                          .text = options.text ? &*options.text : nullptr});
  if (!scenario.ok()) return report_error(scenario.status());
  for (const std::string& note : scenario->many_jobs->left_out) say("{}: note: {}\n", options.scenario, note);
  return ClusterRun(*scenario, parts, options).run();
}

}  // namespace scalai::apps
