#include "ptc/run/control/internal/run_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

namespace scalai::control {

std::string device_list(const std::vector<DeviceId>& devices) {
  std::vector<DeviceId> sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  for (size_t first = 0, last = 0; first < sorted.size(); first = last + 1) {
    last = first;
    while (last + 1 < sorted.size() && sorted[last + 1].value == sorted[last].value + 1) ++last;
    text += fmt::format("{}g{}", text.empty() ? "" : " ", sorted[first].value);
    if (last > first) text += fmt::format("-g{}", sorted[last].value);
  }
  return text;
}

size_t RunRecords::log(Event event) {
  events_.push_back(std::move(event));
  return events_.size();
}

void RunRecords::end_span(Job& job, const std::string& what, double end_s) {
  if (end_s > job.accounts.span_since_s)
    spans_.push_back({job.index, what, job.accounts.span_since_s, end_s, job.devices});
  job.accounts.span_since_s = end_s;
}

void RunRecords::add_phases(const Job& job, const PhaseSeconds& phases, const std::vector<DeviceId>& devices,
                            double end_s) {
  const std::array<std::pair<const char*, double>, 7> parts = {{{"stage", phases.stop},
                                                                {"plan", phases.plan},
                                                                {"restart", phases.restart},
                                                                {"prepare", phases.prepare},
                                                                {"transfer", phases.transfer},
                                                                {"verify", phases.verify},
                                                                {"resume", phases.resume}}};
  double at_s = end_s - phases.total();
  for (const auto& [what, seconds] : parts) {
    if (seconds > 0) spans_.push_back({job.index, what, at_s, at_s + seconds, devices});
    at_s += seconds;
  }
}

void RunRecords::sample_memory(const Job& job, double now_s) {
  std::map<DeviceId, int64_t> bytes;
  const auto add = [&](const collection::Collection& collection) {
    const std::vector<int64_t> of_ranks = state_bytes_of_ranks(collection);
    for (size_t rank = 0; rank < of_ranks.size(); ++rank) bytes[collection.device_of_rank[rank]] += of_ranks[rank];
  };
  // A device that the job has just left holds nothing of it.
  for (const MemorySample& sample : memory_) {
    if (sample.bytes > 0 && std::find(job.devices.begin(), job.devices.end(), sample.device) == job.devices.end()) {
      const bool others = std::any_of(jobs_.begin(), jobs_.end(), [&](const Job& other) {
        return other.index != job.index &&
               std::find(other.devices.begin(), other.devices.end(), sample.device) != other.devices.end();
      });
      if (!others) bytes[sample.device] = 0;
    }
  }
  add(*job.state.collection);
  if (job.underway) add(*job.underway->collection);  // old and new state side by side until the commit
  for (const auto& entry : bytes) {
    const DeviceId device = entry.first;
    const int64_t held = entry.second;
    const auto last =
        std::find_if(memory_.rbegin(), memory_.rend(), [&](const MemorySample& s) { return s.device == device; });
    if (last == memory_.rend() ? held > 0 : last->bytes != held) memory_.push_back({now_s, device, held});
  }
}

void RunRecords::add(const DevicesLost& lost, const std::vector<DeviceId>& absent, double now_s) {
  LossRecord record{.at_s = lost.failed_at_s, .noticed_s = now_s, .devices = {}, .effects = {}, .cause = lost.cause};
  std::copy_if(lost.devices.begin(), lost.devices.end(), std::back_inserter(record.devices), [&](DeviceId device) {
    return lost.failed_at_s > 0 || std::find(absent.begin(), absent.end(), device) == absent.end();
  });
  losses_.push_back(std::move(record));
}

namespace {

LossEffect effect_on(const Job& job) {
  LossEffect effect{.job = job.index, .outcome = "stops", .reconfiguration = 0};
  if (job.underway) {
    effect.outcome = "reconfigures";
    effect.reconfiguration = job.underway->record.index;
  } else if (job.mode == Mode::kWaiting) {
    effect.outcome = "waits";
  } else if (job.mode == Mode::kFailed) {
    effect.outcome = "fails";
  }
  return effect;
}

}  // namespace

void RunRecords::add_effects(const std::vector<int>& jobs) {
  LossRecord& loss = losses_.back();
  for (const int job : jobs) loss.effects.push_back(effect_on(jobs_[job]));
  if (loss.devices.empty()) losses_.pop_back();
}

namespace {

std::string state_of(const Job& job) {
  switch (job.mode) {
    case Mode::kWaiting: return job.submitted ? "waiting" : "pending";
    case Mode::kComplete: return "complete";
    case Mode::kFailed: return "failed";
    case Mode::kStopped: return "stopped";
    case Mode::kRefused: return "refused";
    case Mode::kReconfiguring: return "reconfiguring";
    default: return job.moves() && std::isinf(job.training.step_s) ? "stalled" : "running";
  }
}

// A run may be over, because nothing can happen any more, before all samples have been read: that is no proof.
void add_dataset(const Job& job, JobRecord& record) {
  record.dataset = job.ledger->record(record.steps);
  if (!job.ledger->awaits() || !job.over() || !record.failure.empty()) return;
  record.failure = fmt::format("the samples of {} were never read", job.ledger->first_awaited());
  record.state = "failed";
}

// What a job would look like if the run ended at `at_s`.
JobRecord closed_record(const Job& job, double at_s, bool has_schedule) {
  JobRecord record = job.accounts.record;
  int64_t steps = job.state.step;
  if (job.moves()) {
    steps = job.training.steps_done_at(at_s);
    const int64_t more = steps - job.training.from_step;
    if (more > 0) record.training_s += static_cast<double>(more) * job.training.step_s;
  }
  if (job.underway) record.reconfigurations.push_back(job.underway->record);
  record.state = state_of(job);
  if (record.state == "stalled") record.failure = "a link that it needs is down";
  record.steps = steps;
  if (!job.over()) record.wall_s = std::max(0.0, at_s - job.spec->submit_s);
  TimeAccount time = job.accounts.time;
  account(job, std::max<int64_t>(0, steps - job.training.from_step), at_s, time);
  if (job.mode == Mode::kWaiting) time.wait_to_the_end();
  record.samples =
      job.ledger ? job.ledger->samples_before(steps) : steps * job.spec->training.global_batch + time.more_samples();
  if (job.ledger) add_dataset(job, record);
  record.downtime = time.down();
  record.downtime_s = record.wall_s - record.training_s + record.downtime.run_again_s;
  record.goodput_samples_per_s = record.wall_s > 0 ? static_cast<double>(record.samples) / record.wall_s : 0;
  const double since_s = job.submitted ? at_s - job.accounts.allocated_since_s : 0;
  record.gpu_hours += static_cast<double>(job.devices.size()) * since_s / 3600;
  if (record.cost_usd) *record.cost_usd += job.accounts.usd_per_h * since_s / 3600;
  if (has_schedule) {
    record.schedule = job.accounts.schedule;
    if (job.devices.empty() && (!job.over() || job.mode == Mode::kStopped)) record.schedule->waited_s += since_s;
  }
  return record;
}

}  // namespace

std::vector<JobStatus> RunRecords::status(double at_s) const {
  std::vector<JobStatus> list;
  for (const Job& job : jobs_) {
    const bool training = job.moves();
    list.push_back({.name = job.spec->name,
                    .state = state_of(job),
                    .step = training ? job.training.steps_done_at(at_s) : job.state.step,
                    .layout = job.choice == nullptr ? "" : collection::canonical(job.choice->config),
                    .gpus = static_cast<int>(job.devices.size()),
                    .reconfigurations = static_cast<int>(job.accounts.record.reconfigurations.size())});
    const std::vector<NoticeRecord>& notices = job.accounts.record.notices;
    if (!notices.empty()) list.back().notice = notices.back();
  }
  return list;
}

RunReport RunRecords::report(const std::string& strategy, std::vector<std::string> unreached, double at_s) const {
  RunReport report;
  report.scenario = &scenario_;
  report.strategy = strategy;
  report.end_s = at_s;
  report.plans = plans_;
  report.events = events_;
  report.spans = spans_;
  report.losses = losses_;
  report.script = script_;
  report.unreached = std::move(unreached);
  report.memory = memory_;
  const bool scheduled = scenario_.policy || std::any_of(jobs_.begin(), jobs_.end(), [](const Job& job) {
                           return job.spec->submit_s > 0 || job.spec->deadline_s;
                         });
  for (const Job& job : jobs_) {
    report.jobs.push_back(closed_record(job, at_s, scheduled));
    const bool training = job.moves();
    if ((training || (job.mode == Mode::kWaiting && job.submitted)) && at_s > job.accounts.span_since_s) {
      report.spans.push_back({job.index, training ? "train" : "waiting", job.accounts.span_since_s, at_s, job.devices});
    }
  }
  return report;
}

}  // namespace scalai::control
