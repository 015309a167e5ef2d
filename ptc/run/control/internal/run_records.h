#pragma once
// Records of a run while it goes on: the log of events, plans, spans of jobs for the trace, state bytes on devices. The
// report is made of these and of the records that each job keeps. One thread.

#include <string>
#include <vector>

#include "ptc/run/control/control.h"
#include "ptc/run/control/internal/jobs.h"

namespace scalai::control {

class RunRecords {
 public:
  // Both outlive this.
  RunRecords(const scenario::Scenario& scenario, const Jobs& jobs) : scenario_(scenario), jobs_(jobs) {}

  // The event is in the log; so many are now.
  size_t log(Event event);
  void add(plan::Plan plan) { plans_.push_back(std::move(plan)); }
  void add(JobSpan span) { spans_.push_back(std::move(span)); }
  void add(const ScriptRecord& happened) { script_.push_back(happened); }
  // A span of the job, on its devices, from the end of the one before it.
  void end_span(Job& job, const std::string& what, double end_s);
  // The phases of a reconfiguration one after another, the last one ending at `end_s`.
  void add_phases(const Job& job, const PhaseSeconds& phases, const std::vector<DeviceId>& devices, double end_s);
  // Devices were lost; those that the scenario begins without (`absent`) are no loss. Once the event has been answered:
  // its effects on the jobs that were on them, or on their way from or to them.
  void add(const DevicesLost& lost, const std::vector<DeviceId>& absent, double now_s);
  void add_effects(const std::vector<int>& jobs);
  // State bytes on the job's devices, and on those that it has left.
  void sample_memory(const Job& job, double now_s);

  const std::vector<plan::Plan>& plans() const { return plans_; }
  // As Control::status.
  std::vector<JobStatus> status(double at_s) const;
  const std::vector<LossRecord>& losses() const { return losses_; }
  // As Control::report, of a run with this strategy whose script has events that never happened (`unreached`).
  RunReport report(const std::string& strategy, std::vector<std::string> unreached, double at_s) const;

 private:
  const scenario::Scenario& scenario_;
  const Jobs& jobs_;
  std::vector<plan::Plan> plans_;
  std::vector<Event> events_;
  std::vector<JobSpan> spans_;
  std::vector<LossRecord> losses_;
  std::vector<ScriptRecord> script_;
  std::vector<MemorySample> memory_;
};

}  // namespace scalai::control
