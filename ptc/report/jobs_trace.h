#pragma once
// trace.pftrace of a run of many jobs and of a recovery design, for https://ui.perfetto.dev: jobs over hosts, the
// queue, changes, hosts that come and go. Equal runs give equal bytes. One thread.

#include <cstdint>
#include <string>
#include <vector>

#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"
#include "ptc/run/policy/outcome.h"

namespace scalai::report {

// Follows a run of many jobs by the callbacks of its watcher (sim/jobs/engine.h). The arguments of the constructor
// outlive it.
class JobsTrace {
 public:
  static constexpr size_t kMostSlices = 500'000;
  JobsTrace(const policy::Workload& workload, const policy::Fleet& fleet, const policy::Availability& availability,
            size_t most_slices = kMostSlices);

  // `beside`: another job has the same GPUs.
  void placed(double now_s, policy::JobId job, const policy::Placement& placement,
              policy::JobId beside = policy::JobId());
  void training(double now_s, policy::JobId job);
  void ended(double now_s, policy::JobId job);

  // After the run. Of more than `most_slices` slices those with the most GPU time are shown; an instant says how many
  // are left out.
  std::string finish(const policy::Outcome& outcome);

  // placements.csv, after finish(): a row a stretch of the trace, in order of its end: from_s, to_s, job, what it did
  // (waits, changes, trains), its GPUs, how many of which host ("h0:8 h3:4"), which devices these are ("h0:0-7
  // h3:0+2-4"), and why the stretch ended (docs/reports.md).
  std::string placements_csv() const;

 private:
  // What a job did for a while.
  struct Stretch {
    enum class What : uint8_t { kWaits, kChanges, kTrains };
    double from_s = 0, to_s = 0;
    policy::JobId job;
    What what = What::kWaits;
    policy::Placement placement = {};
    bool given = false;         // it got its GPUs at from_s; else it goes on with them
    policy::JobId beside = {};  // of `given` ones
    const char* reason = "";    // why it ended
  };
  class Writer;
  static constexpr size_t kNone = static_cast<size_t>(-1);

  void begin(Stretch stretch);
  void end(double now_s, policy::JobId job);
  const char* reason_of(const Stretch& ended, const Stretch& next) const;
  bool lost_a_host(const Stretch& ended) const;
  double gpu_s(const Stretch& stretch) const;
  static size_t slices_of(const Stretch& stretch) { return 1 + stretch.placement.hosts.size(); }
  void prune();

  const policy::Workload& workload_;
  const policy::Fleet& fleet_;
  const policy::Availability& availability_;
  const size_t most_slices_;
  std::vector<Stretch> open_;       // by job; waits at first
  std::vector<bool> over_;          // by job
  std::vector<Stretch> stretches_;  // that are over
  std::vector<size_t> last_;        // by job: its last one of these; kNone = there is none, or it was left out
  size_t slices_ = 0, left_out_ = 0;
};

// hosts.csv of a run of many jobs that ended at end_s: a row a time that a host was up.
std::string hosts_csv(const policy::Fleet& fleet, const policy::Availability& availability, double end_s);

// Of a recovery design on so many hosts: what the job did, hosts that come and go.
std::string recovery_trace(const std::string& job, int hosts, const policy::Availability& availability,
                           const policy::RecoveryResult& result);

}  // namespace scalai::report
