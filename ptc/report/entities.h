#pragma once
// Results by entity: the virtual clusters, tenants or users of a run of many jobs. One thread.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ptc/base/screen.h"
#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"
#include "ptc/run/policy/outcome.h"

namespace scalai::report {

struct EntityRow {
  std::string entity;
  std::optional<int> quota_gpus;  // absent: no quotas
  // Of the jobs that count (Outcome::window).
  int jobs = 0, finished = 0, refused = 0, unfinished = 0;
  std::optional<double> avg_jct_s, p99_jct_s, avg_queueing_s, avg_ftf;  // absent: nothing to measure
  int preemptions = 0;
  // Of the whole run.
  double gpu_h = 0;           // that its jobs held
  double borrowed_gpu_h = 0;  // beyond the quota
};

// Follows a run by the callbacks of its watcher. The workload outlives it.
class Entities {
 public:
  struct Quota {
    std::string name;
    int gpus = 0;
  };
  // `quotas` and `quota_of`, the index of each job's, are empty where there are none: then entities are those of the
  // jobs.
  Entities(const policy::Workload& workload, std::vector<Quota> quotas, std::vector<int> quota_of);

  // GPUs of a job from now on; none when it has ended. Of two jobs on the same GPUs the one that had them first counts.
  void placed(double now_s, policy::JobId job, const policy::Placement& placement, policy::JobId beside);

  // After the run, in the order of the quotas, or by name. Empty: no job has an entity.
  std::vector<EntityRow> rows(const policy::Outcome& outcome);

 private:
  struct Use {
    double since_s = 0, borrowed_gpu_s = 0;
    int gpus = 0;
  };
  void advance(size_t entity, double to_s);

  const policy::Workload& workload_;
  std::vector<Quota> entities_;
  bool quotas_;
  std::vector<int> entity_of_;  // by job
  std::vector<int> gpus_of_;    // by job: those that count for it
  std::vector<Use> use_;        // by entity
};

// entities.csv, and the same for people.
std::string entities_csv(const std::vector<EntityRow>& rows);
std::string entities_table(const std::vector<EntityRow>& rows, const Screen& screen = {});

}  // namespace scalai::report
