#include "ptc/report/internal/intervals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ptc/base/status.h"
#include "ptc/cost/step/calibration.h"

namespace scalai::report {
namespace {

using control::PhaseSeconds;

// Half-widths by kind, on both sides of a sum.
class Errors {
 public:
  void add(const std::string& kind, double seconds, double low, double high) {
    Side& sides = kinds_[kind];
    sides.below_s += seconds * std::max(0.0, 1 - low);
    sides.above_s += seconds * std::max(0.0, high - 1);
  }

  SecondsInterval around(double sum_s) const {
    double below = 0, above = 0;
    for (const auto& [kind, sides] : kinds_) {
      below += sides.below_s * sides.below_s;
      above += sides.above_s * sides.above_s;
    }
    return {sum_s - std::sqrt(below), sum_s + std::sqrt(above)};
  }

 private:
  struct Side {
    double below_s = 0, above_s = 0;
  };
  std::map<std::string, Side> kinds_;
};

struct Steps {
  double share = 0;  // of the job's training
  double low = 1, high = 1;
};

// The slowest GPU sets the pace of a step. It is not known which one it is: the kind with the widest interval.
std::pair<std::string, Steps> gpu_kind_of(const control::RunReport& report, const control::JobSpan& span) {
  const scenario::Scenario& scenario = *report.scenario;
  const scenario::JobSpec& job = scenario.jobs.at(static_cast<size_t>(span.job));
  std::pair<std::string, Steps> widest;
  for (const DeviceId device : span.devices) {
    const cluster::GpuKind& gpu =
        scenario.cluster.hosts[static_cast<size_t>(scenario.cluster.host_of(device).value)].gpu;
    const auto accuracy = accuracy_of(gpu, job);
    if (widest.first.empty() || accuracy.high - accuracy.low > widest.second.high - widest.second.low)
      widest = {"step " + gpu.name, {.low = accuracy.low, .high = accuracy.high}};
  }
  return widest;
}

// Of this stretch, the part with step times of a model.
double computed_s(const control::JobRecord& job, const control::JobSpan& span) {
  double sum_s = 0;
  for (size_t i = 0; i < job.configurations.size(); ++i) {
    if (!job.configurations[i].computed) continue;
    const double until_s =
        i + 1 < job.configurations.size() ? job.configurations[i + 1].since_s : std::numeric_limits<double>::infinity();
    sum_s += std::max(0.0, std::min(until_s, span.end_s) - std::max(job.configurations[i].since_s, span.start_s));
  }
  return sum_s;
}

std::map<std::string, Steps> steps_by_kind(const control::RunReport& report, int job) {
  const control::JobRecord& record = report.jobs.at(static_cast<size_t>(job));
  std::map<std::string, Steps> kinds;
  double all_s = 0;
  for (const control::JobSpan& span : report.spans) {
    if (span.job != job || span.what != "train") continue;
    all_s += span.end_s - span.start_s;
    const double seconds = computed_s(record, span);
    if (seconds <= 0) continue;
    const auto [kind, steps] = gpu_kind_of(report, span);
    kinds.emplace(kind, steps).first->second.share += seconds;
  }
  for (auto& [kind, steps] : kinds) steps.share /= all_s;
  return kinds;
}

struct TimedPhase {
  const char* name;
  double PhaseSeconds::*seconds;
};
constexpr TimedPhase kTimedPhases[] = {
    {"detect", &PhaseSeconds::detect},   {"stop", &PhaseSeconds::stop},       {"plan", &PhaseSeconds::plan},
    {"restart", &PhaseSeconds::restart}, {"prepare", &PhaseSeconds::prepare}, {"transfer", &PhaseSeconds::transfer},
    {"verify", &PhaseSeconds::verify},   {"resume", &PhaseSeconds::resume},   {"aborted", &PhaseSeconds::aborted}};

// `given_s`: of the phase of each change, what has no error.
double seconds_in(const control::JobRecord& job, double PhaseSeconds::*phase, double given_s) {
  double sum_s = 0;
  for (const control::ReconfigurationRecord& change : job.reconfigurations)
    sum_s += std::max(0.0, change.phases.*phase - given_s);
  return sum_s;
}

const Basis* basis_line(const std::vector<Basis>& basis, const std::string& of) {
  const auto found = std::find_if(basis.begin(), basis.end(), [&](const Basis& line) { return line.of == of; });
  return found == basis.end() ? nullptr : &*found;
}

void add_without(JobIntervals& result, const char* name) {
  result.without += (result.without.empty() ? "" : ", ") + std::string(name);
}

}  // namespace

std::optional<JobIntervals> intervals_of(const control::RunReport& report, const std::vector<Basis>& basis, int job) {
  const control::JobRecord& record = report.jobs.at(static_cast<size_t>(job));
  Errors wall, downtime;
  JobIntervals result;
  if (const Basis* line = basis_line(basis, "step"); line != nullptr && line->basis == "modelled") {
    for (const auto& [kind, steps] : steps_by_kind(report, job)) {
      wall.add(kind, steps.share * record.training_s, steps.low, steps.high);
      downtime.add(kind, steps.share * record.downtime.run_again_s, steps.low, steps.high);
    }
  }
  for (const auto& [name, phase] : kTimedPhases) {
    const Basis* line = basis_line(basis, name);
    const double seconds = seconds_in(record, phase, line == nullptr ? 0 : line->given_s);
    if (seconds <= 0 || (line != nullptr && (line->basis == "given" || line->basis == "measured"))) continue;
    if (line == nullptr || !line->low || line->unit != "times") {
      add_without(result, name);
      continue;
    }
    wall.add(name, seconds, *line->low, *line->high);
    downtime.add(name, seconds, *line->low, *line->high);
  }
  if (record.downtime.snapshots_s > 0) add_without(result, "snapshots");
  result.downtime_s = downtime.around(record.downtime_s);
  if (record.state == "complete") result.wall_s = wall.around(record.wall_s);
  const auto wide = [](const SecondsInterval& interval) { return interval.low < interval.high; };
  if (!wide(result.downtime_s) && !(result.wall_s && wide(*result.wall_s))) return std::nullopt;
  return result;
}

}  // namespace scalai::report
