// summarize(): the numbers of summary.json from a report.

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/base/version.h"
#include "ptc/report/internal/summary.h"

namespace scalai::report {
namespace {

void add(plan::ClassBytes& sum, const plan::ClassBytes& bytes) {
  sum.kept += bytes.kept;
  sum.same_device += bytes.same_device;
  sum.same_host += bytes.same_host;
  sum.cross_host += bytes.cross_host;
  sum.from_storage += bytes.from_storage;
}

void add(control::PhaseSeconds& sum, const control::PhaseSeconds& phases) {
  sum.detect += phases.detect;
  sum.stop += phases.stop;
  sum.plan += phases.plan;
  sum.restart += phases.restart;
  sum.prepare += phases.prepare;
  sum.transfer += phases.transfer;
  sum.verify += phases.verify;
  sum.resume += phases.resume;
  sum.aborted += phases.aborted;
}

void add_plan(const plan::Plan& plan, ReconfigurationSummary& result) {
  result.plan_digest = plan.digest();
  result.rounds = plan.rounds();
  result.bytes = plan.bytes();
  result.lower_bound_bytes = plan.lower_bound();
  result.lower_bound_any_placement.cross_host = plan.lower_bound_any_placement_cross_host();
  result.survives_host_losses = plan.survives_host_losses();
}

// The record's phases with the measured stages taken out and those of scenario time put in.
control::PhaseSeconds in_scenario_time(control::PhaseSeconds phases, const control::ExecutionTimes& times) {
  for (double control::PhaseSeconds::*const phase :
       {&control::PhaseSeconds::stop, &control::PhaseSeconds::plan, &control::PhaseSeconds::restart,
        &control::PhaseSeconds::prepare, &control::PhaseSeconds::transfer, &control::PhaseSeconds::verify,
        &control::PhaseSeconds::resume})
    phases.*phase += times.scenario.*phase - times.measured.*phase;
  return phases;
}

ReconfigurationSummary summarize(const control::RunReport& report, int job,
                                 const control::ReconfigurationRecord& record) {
  ReconfigurationSummary result;
  result.index = record.index;
  result.at_s = record.at_s;
  if (record.resumed_s >= 0) result.resumed_s = record.resumed_s;
  result.cause = record.cause;
  result.from = record.from;
  result.to = record.to;
  result.from_gpus = record.from_gpus;
  result.to_gpus = record.to_gpus;
  result.step = record.step;
  result.rolled_back_steps = record.rolled_back_steps;
  result.completed = record.completed;
  result.aborted_attempts = record.aborted_attempts;
  result.phases_s = record.phases;
  for (const control::ExecutionTimes& times : report.recorder.executions) {
    if (times.job == job && times.reconfiguration == record.index && record.completed)
      result.scenario_phases_s = in_scenario_time(record.phases, times);
  }
  result.pause_s = record.phases.total();
  if (!record.plan) return result;
  result.plan_file = plan_file_name(record.plan_index);
  add_plan(*record.plan, result);
  return result;
}

JobTotals totals_of(const std::vector<ReconfigurationSummary>& reconfigurations) {
  JobTotals totals;
  totals.reconfigurations = static_cast<int64_t>(reconfigurations.size());
  for (const ReconfigurationSummary& r : reconfigurations) {
    totals.completed += r.completed ? 1 : 0;
    totals.aborted_attempts += r.aborted_attempts;
    totals.pause_s += r.pause_s;
    add(totals.phases_s, r.phases_s);
    if (r.completed) add(totals.bytes, r.bytes);
  }
  return totals;
}

DatasetSummary summarize(const datasets::State& state, const control::DatasetRecord& record) {
  return {.index = state.index,
          .samples = record.samples,
          .sequence = state.sequence,
          .seed = state.seed,
          .shuffle = state.shuffle,
          .drop_last = state.drop_last,
          .pass = record.pass,
          .consumed = record.consumed,
          .samples_read = record.samples_read,
          .bytes_read = record.bytes_read,
          .steps_read_again = record.steps_again,
          .samples_read_again = record.samples_again,
          .samples_not_proved = record.samples_assumed > 0 ? std::optional(record.samples_assumed) : std::nullopt,
          .exactly_once = record.exactly_once};
}

// Where a scenario gives all step times there is nothing to tell.
std::optional<std::vector<ConfigurationSummary>> summarize(const std::vector<control::ConfigurationRecord>& records,
                                                           int global_batch) {
  const bool computed = std::any_of(records.begin(), records.end(),
                                    [](const control::ConfigurationRecord& record) { return record.computed; });
  if (!computed) return std::nullopt;
  std::vector<ConfigurationSummary> list;
  for (const control::ConfigurationRecord& record : records) {
    list.push_back({.since_s = record.since_s,
                    .layout = record.layout,
                    .gpus = record.gpus,
                    .global_batch = record.global_batch == global_batch ? std::nullopt
                                                                        : std::optional<int64_t>(record.global_batch),
                    .micro_batch = record.micro_batch,
                    .recompute = record.recompute,
                    .step_s = record.step_s,
                    .mfu = record.mfu,
                    .idle = record.idle.empty() ? std::nullopt : std::optional(record.idle)});
  }
  return list;
}

DowntimeSummary summarize(const control::DowntimeRecord& record) {
  DowntimeSummary result{.reconfigurations_s = record.reconfigurations_s,
                         .waiting_s = record.waiting_s,
                         .waits = {},
                         .run_again_s = record.run_again_s,
                         .cut_off_s = record.cut_off_s,
                         .snapshots_s = record.snapshots_s};
  for (const control::WaitRecord& wait : record.waits)
    result.waits.push_back({.reason = wait.reason, .seconds = wait.seconds, .until_end = wait.until_end});
  return result;
}

std::optional<std::vector<NoticeSummary>> summarize(const std::vector<control::NoticeRecord>& records) {
  if (records.empty()) return std::nullopt;
  std::vector<NoticeSummary> list;
  for (const control::NoticeRecord& record : records) list.push_back(report::summarize(record));
  return list;
}

LossSummary summarize(const control::RunReport& report, const control::LossRecord& record) {
  LossSummary result{.at_s = record.at_s,
                     .noticed_s = record.noticed_s,
                     .devices = control::device_list(record.devices),
                     .gpus = static_cast<int64_t>(record.devices.size()),
                     .effects = {},
                     .cause = {}};
  if (!record.cause.empty()) result.cause = record.cause;
  for (const control::LossEffect& effect : record.effects) {
    result.effects.push_back({.job = report.jobs.at(static_cast<size_t>(effect.job)).name,
                              .outcome = effect.outcome,
                              .reconfiguration = {}});
    if (effect.reconfiguration > 0) result.effects.back().reconfiguration = effect.reconfiguration;
  }
  return result;
}

ScheduleSummary summarize(const control::ScheduleRecord& record, const control::JobRecord& job, double end_s) {
  ScheduleSummary result{.submit_s = record.submit_s,
                         .first_start_s = record.first_start_s,
                         .waited_s = record.waited_s,
                         .restarts = record.restarts,
                         .preemptions = record.preemptions,
                         .deadline_s = record.deadline_s,
                         .deadline_met = {}};
  if (!record.deadline_s) return result;
  const bool complete = job.state == "complete";
  const bool open = !complete && end_s < *record.deadline_s && job.state != "failed" && job.state != "refused";
  if (!open) result.deadline_met = complete && record.submit_s + job.wall_s <= *record.deadline_s;
  return result;
}

std::optional<int64_t> if_any(int64_t count) { return count > 0 ? std::optional(count) : std::nullopt; }

JobSummary summarize(const control::RunReport& report, const std::vector<Basis>& basis, int job,
                     const control::JobRecord& record, const scenario::JobSpec& spec) {
  JobSummary result;
  result.interval = intervals_of(report, basis, job);
  result.any_moment = moments_of(report, job);
  if (record.schedule) result.schedule = summarize(*record.schedule, record, report.end_s);
  result.configurations = summarize(record.configurations, spec.training.global_batch);
  for (const control::TrainedSteps& trained : report.recorder.trained) {
    if (trained.job != job || trained.steps == 0) continue;
    if (!result.trained) result.trained.emplace();
    result.trained->push_back({.layout = trained.layout,
                               .gpus = trained.gpus,
                               .steps = trained.steps,
                               .step_s = trained.measured_s / static_cast<double>(trained.steps),
                               .scenario_step_s = trained.scenario_step_s});
  }
  if (record.dataset && spec.dataset) result.dataset = summarize(spec.dataset->state, *record.dataset);
  if (record.redundancy) {
    result.redundancy = {.copies = record.redundancy->copies,
                         .made = record.redundancy->made,
                         .survives_host_losses = record.redundancy->survives_host_losses,
                         .left_out = if_any(record.redundancy->left_out)};
  }
  result.name = record.name;
  result.state = record.state;
  result.failure = record.failure;
  result.steps = record.steps;
  result.samples = record.samples;
  result.wall_s = record.wall_s;
  result.training_s = record.training_s;
  result.downtime_s = record.downtime_s;
  result.downtime = summarize(record.downtime);
  result.lost_steps = record.lost_steps;
  result.checkpoints_left_out = if_any(record.checkpoints_left_out);
  result.goodput_samples_per_s = record.goodput_samples_per_s;
  result.gpu_hours = record.gpu_hours;
  result.cost_usd = record.cost_usd;
  result.notices = summarize(record.notices);
  for (const control::ReconfigurationRecord& r : record.reconfigurations)
    result.reconfigurations.push_back(summarize(report, job, r));
  result.totals = totals_of(result.reconfigurations);
  return result;
}

}  // namespace

NoticeSummary summarize(const control::NoticeRecord& record) {
  return {.at_s = record.at_s,
          .deadline_s = record.deadline_s,
          .devices = control::device_list(record.devices),
          .answer = record.answer,
          .starts_s = record.starts_s,
          .takes_s = record.takes_s,
          .only_there_bytes = record.only_there_bytes,
          .in_time_bytes = record.in_time_bytes,
          .lost = fmt::format("{}", fmt::join(record.lost, "; ")),
          .step = record.step,
          .repeated_steps = record.repeated_steps,
          .repeated_s = record.repeated_s};
}

std::string plan_file_name(size_t n) { return fmt::format("plans/{:03}.binpb", n + 1); }

Summary summarize(const control::RunReport& report) {
  SCALAI_CHECK(report.scenario != nullptr);
  Summary result;
  result.version = kVersion;
  result.scenario = report.scenario->name;
  result.scenario_digest = report.scenario->digest;
  result.seed = report.scenario->seed;
  result.strategy = report.strategy;
  result.runtime = report.runtime;
  result.end_s = report.end_s;
  result.basis = basis_of(report);
  for (size_t i = 0; i < report.jobs.size(); ++i)
    result.jobs.push_back(
        summarize(report, *result.basis, static_cast<int>(i), report.jobs[i], report.scenario->jobs.at(i)));
  result.losses.emplace();
  for (const control::LossRecord& loss : report.losses) result.losses->push_back(summarize(report, loss));
  for (const control::TransferRecord& transfer : report.recorder.transfers) {
    JobTotals& totals = result.jobs.at(static_cast<size_t>(transfer.job)).totals;
    if (transfer.status == "done") totals.transferred_bytes.of(transfer.transfer_class) += transfer.bytes;
  }
  return result;
}

}  // namespace scalai::report
