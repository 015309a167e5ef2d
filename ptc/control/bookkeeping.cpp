#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ptc/control/internal/control_impl.h"

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

void Control::Impl::allocate(Job& job, std::vector<DeviceId> devices) {
  const double since_s = now_s_ - job.allocated_since_s;
  job.record.gpu_hours += static_cast<double>(job.devices.size()) * since_s / 3600;
  (job.devices.empty() ? job.schedule.waited_s : job.held_s) += since_s;
  job.allocated_since_s = now_s_;
  const bool frees = std::any_of(job.devices.begin(), job.devices.end(), [&](DeviceId device) {
    return std::find(devices.begin(), devices.end(), device) == devices.end();
  });
  if (frees) freed_by_ = job.spec->name;
  job.devices = std::move(devices);
}

void Control::Impl::credit_training(Job& job, int64_t steps_done) {
  const int64_t steps = steps_done - job.training.from_step;
  if (job.ledger && steps > 0) {
    job.ledger->done(steps_done, job.choice->config.dp);
    if (job.ledger->awaits())
      commands_.push_back(Read{job.index, job.training.from_step, steps_done, job.state.collection});
  }
  if (steps > 0) job.record.training_s += static_cast<double>(steps) * job.training.step_s;  // it may stand still
  job.state.step = steps_done;
  job.training.from_step = steps_done;
  job.training.start_s = now_s_;
}

void Control::Impl::misread(Job& job, std::string what) {
  job.record.failure = std::move(what);
  if (job.over()) {
    job.mode = Mode::kFailed;
    return;
  }
  if (job.moves()) {
    commands_.push_back(Halt{.job = job.index});
    end_span(job, "train", now_s_);
  } else if (job.mode == Mode::kWaiting) {
    end_span(job, "waiting", now_s_);
  } else {
    commands_.push_back(Abort{.job = job.index});
    job.record.reconfigurations.push_back(job.underway->record);
    job.underway.reset();
  }
  drop_in_flight(job, [](const Holding&) { return true; });
  job.mode = Mode::kFailed;
  job.record.wall_s = now_s_ - job.spec->submit_s;
  allocate(job, {});
  leave_policy(job);
  stop_if_over();
}

void Control::Impl::end_span(Job& job, const std::string& what, double end_s) {
  if (end_s > job.span_since_s) spans_.push_back({job.index, what, job.span_since_s, end_s, job.devices});
  job.span_since_s = end_s;
}

void Control::Impl::record_phase_spans(const Job& job, const PhaseSeconds& phases,
                                       const std::vector<DeviceId>& devices) {
  const std::array<std::pair<const char*, double>, 7> parts = {{{"stage", phases.stop},
                                                                {"plan", phases.plan},
                                                                {"restart", phases.restart},
                                                                {"prepare", phases.prepare},
                                                                {"transfer", phases.transfer},
                                                                {"verify", phases.verify},
                                                                {"resume", phases.resume}}};
  double at_s = now_s_ - phases.total();
  for (const auto& [what, seconds] : parts) {
    if (seconds > 0) spans_.push_back({job.index, what, at_s, at_s + seconds, devices});
    at_s += seconds;
  }
}

void Control::Impl::sample_memory(const Job& job) {
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
    if (last == memory_.rend() ? held > 0 : last->bytes != held) memory_.push_back({now_s_, device, held});
  }
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
    default: return "running";
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
  JobRecord record = job.record;
  int64_t steps = job.state.step;
  if (job.moves()) {
    steps = job.training.steps_done_at(at_s);
    const int64_t more = steps - job.training.from_step;
    if (more > 0) record.training_s += static_cast<double>(more) * job.training.step_s;
  }
  if (job.underway) record.reconfigurations.push_back(job.underway->record);
  record.state = state_of(job);
  record.steps = steps;
  record.samples = job.ledger ? job.ledger->samples_before(steps) : steps * job.spec->training.global_batch;
  if (job.ledger) add_dataset(job, record);
  if (!job.over()) record.wall_s = std::max(0.0, at_s - job.spec->submit_s);
  record.downtime_s = record.wall_s - record.training_s;
  record.goodput_samples_per_s = record.wall_s > 0 ? static_cast<double>(record.samples) / record.wall_s : 0;
  const double since_s = job.submitted ? at_s - job.allocated_since_s : 0;
  record.gpu_hours += static_cast<double>(job.devices.size()) * since_s / 3600;
  if (has_schedule) {
    record.schedule = job.schedule;
    if (job.devices.empty() && (!job.over() || job.mode == Mode::kStopped)) record.schedule->waited_s += since_s;
  }
  return record;
}

std::string describe(const When& when) {
  if (const auto* at = std::get_if<AtTime>(&when)) return fmt::format("at {} s", at->at_s);
  if (const auto* at = std::get_if<AtStep>(&when)) return fmt::format("at step {}", at->step);
  const auto& during = std::get<During>(when);
  return fmt::format("during reconfiguration {} after round {}", during.reconfiguration, during.after_round);
}

}  // namespace

std::vector<JobStatus> Control::Impl::status(double at_s) const {
  std::vector<JobStatus> list;
  for (const Job& job : jobs_) {
    const bool training = job.moves();
    list.push_back({.name = job.spec->name,
                    .state = state_of(job),
                    .step = training ? job.training.steps_done_at(at_s) : job.state.step,
                    .layout = job.choice == nullptr ? "" : collection::canonical(job.choice->config),
                    .gpus = static_cast<int>(job.devices.size()),
                    .reconfigurations = static_cast<int>(job.record.reconfigurations.size())});
  }
  return list;
}

RunReport Control::Impl::report(double at_s) const {
  RunReport report;
  report.scenario = &scenario_;
  report.strategy = strategy_.name;
  report.end_s = at_s;
  report.plans = plans_;
  report.events = events_;
  report.spans = spans_;
  for (size_t i = 0; i < fired_.size(); ++i) {
    if (!fired_[i]) report.unreached.push_back(fmt::format("events[{}] ({})", i, describe(scenario_.events[i].when)));
  }
  report.memory = memory_;
  const bool scheduled = scenario_.policy || std::any_of(jobs_.begin(), jobs_.end(), [](const Job& job) {
                           return job.spec->submit_s > 0 || job.spec->deadline_s;
                         });
  for (const Job& job : jobs_) {
    report.jobs.push_back(closed_record(job, at_s, scheduled));
    const bool training = job.moves();
    if ((training || (job.mode == Mode::kWaiting && job.submitted)) && at_s > job.span_since_s) {
      report.spans.push_back({job.index, training ? "train" : "waiting", job.span_since_s, at_s, job.devices});
    }
  }
  return report;
}

}  // namespace scalai::control
