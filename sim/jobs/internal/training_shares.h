#pragma once
// How fast jobs train while changes use their links (the equations are in change_fabric.h), and what they leave of
// these.

#include <cstdint>
#include <map>
#include <vector>

#include "ptc/cost/change/maxmin.h"
#include "ptc/run/policy/job.h"

namespace scalai::sim {

class TrainingShares {
 public:
  explicit TrainingShares(const std::vector<double>& capacities);

  struct Flow {
    std::vector<int> links;  // distinct, not empty
    double bytes = 0;        // a step
    double bytes_per_s = 0;  // at most; 0 = as much as there is
  };
  struct Job {
    std::vector<Flow> flows;
    double step_s = 0, exposed_s = 0;
  };

  // A flow of a change begins or ends.
  void add_change(const std::vector<int>& links);
  void remove_change(const std::vector<int>& links);
  // A job's flows compete from now on, or no longer. `job` outlives that.
  void add(policy::JobId id, const Job& job);
  void remove(policy::JobId id);
  bool has(policy::JobId id) const { return active_.count(id) != 0; }

  // Paces by what was added and removed. Returns the links of which changes may now have another bandwidth, with it.
  std::vector<change::LinkRate> update();
  double step_rate(policy::JobId id) const;
  uint64_t version() const { return version_; }  // grows when a step rate changes

 private:
  // A class of one flow, and the link of its own that bounds it, in both networks.
  struct Own {
    int base_class = 0, got_class = 0, link = 0;
  };
  struct Active {
    const Job* job = nullptr;
    std::vector<Own> own;      // of each flow
    std::vector<double> used;  // of each flow: its part of use_
    double step_rate = 1;
  };
  Own take(const Flow& flow);
  double step_rate_of(const Active& active) const;
  void use(Active& active, size_t flow, double bytes_per_s);

  const std::vector<double> capacities_;
  change::FairShares base_, got_;  // training alone; with changes
  std::map<std::vector<int>, int> change_classes_;
  std::map<std::vector<int>, std::vector<Own>> spare_;  // of flows that were removed, by links
  std::map<policy::JobId, Active> active_;
  std::vector<double> use_;  // of each link, on average, by training
  std::vector<int> touched_;
  uint64_t version_ = 0;
};

}  // namespace scalai::sim
