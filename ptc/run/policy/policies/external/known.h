#pragma once
// What a policy program knows of each job from earlier questions. A program that keeps state is told only of jobs that
// do not go on as it can work out itself: a job that waits stays as it is; one that trains evenly gets even_per_s
// iterations a second on the GPUs it has (Progress, ptc/run/policy/policy.h). O(log jobs) for each job that changes; a
// change of capacity looks at all jobs. One thread.

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ptc/run/policy/policy.h"

namespace scalai::policy {

// A job to tell of.
struct JobNews {
  JobId job;
  bool whole = true;  // its fixed facts, too: it is new, or its bounds changed
  bool rates = true;  // its rates by type and size, too: they are new, or not those told before
};

struct News {
  std::vector<JobNews> jobs;      // by id
  std::vector<std::string> gone;  // names of jobs that left
  bool capacity = false;          // of hosts: the first question, or it may have changed
};

class Known {
 public:
  // What is new at this question, which is then known. Call it once for each question, with all its events.
  News update(const View& view, std::span<const Event> events);
  // Call it with each decision that is handed on: these jobs are looked at again, refused ones leave.
  void decided(const Decision& decision);
  // Rates told of a job hold until this much of its work is done, or its rate changes by itself.
  void rates_hold(JobId job, double until_work) { told_[index(job)].rates_until_work = until_work; }

  std::optional<JobId> find(const std::string& name) const;
  const std::map<std::string, JobId>& jobs() const { return names_; }  // here now, by name
  bool here(JobId job) const { return job.valid() && index(job) < told_.size() && told_[index(job)].here; }
  // As of the last question. CHECK: it is here.
  const Placement& placement(JobId job) const;
  JobId beside(JobId job) const;
  // GPUs of each host that jobs have; those that two share count once.
  const std::vector<int>& held() const { return held_; }

 private:
  struct Told {
    bool here = false;
    Progress progress;
    double at_s = 0;
    int gpus = 0, min_gpus = 0, max_gpus = 0;
    double work = 0;  // believed: an estimate grows when it is outlived
    double rates_until_work = kNever;
  };
  static size_t index(JobId job) { return static_cast<size_t>(job.value); }
  void learn(const View& view, JobId job, News& news);
  void look(const View& view, JobId job, bool rate_changed, News& news);
  void forget(const View& view, JobId job, News& news);
  void count_all(const View& view, std::map<JobId, bool>& due, News& news);
  void hold(JobId job, int sign);

  std::vector<Told> told_;  // by job
  std::map<std::string, JobId> names_;
  std::vector<int> held_;
  std::set<JobId> watched_;                  // may not go on as told: they just changed, or do not train evenly
  std::set<std::pair<double, JobId>> ends_;  // when jobs that go on outlive what is believed of them
  std::vector<JobId> refused_;
  bool began_ = false;
};

}  // namespace scalai::policy
