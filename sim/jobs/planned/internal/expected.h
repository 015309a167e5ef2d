#pragma once
// What a change of a job is thought to take, before it is asked for.
//
//   as planned      the first such change (model, GPUs before, after), its flows alone on the network
//   planned         jobs of up to so many GPUs: a change on the first hosts of the type, planned once
//   alpha-beta      else: waits and communicators, and a rank's share of the state through its share of the NICs

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "sim/jobs/planned/change_plan.h"

namespace scalai::jobs::internal {

// Seconds of all stages, each group of flows alone.
double alone_s(const ChangeShape& shape, const std::vector<HostId>& hosts, const Fabric& fabric);

// Of a checkpoint of the whole state, at the rate of the storage.
double write_seconds(const JobModel& model, const cluster::Cluster& cluster);

class ExpectedSeconds {
 public:
  ExpectedSeconds(const Configurations& configurations, const Fabric& fabric, const ChangeStrategy& strategy,
                  int most_planned_gpus);

  double seconds(const policy::Job& job, int from_gpus, int to_gpus) const;
  // A change that was planned for real.
  void note(const policy::Job& job, int from_gpus, int to_gpus, const std::shared_ptr<const ChangeShape>& shape,
            const std::vector<HostId>& hosts);

 private:
  using Key = std::tuple<const JobModel*, int, int>;
  double planned(const policy::Job& job, const Configuration& from, const Configuration& to) const;
  double estimated(const Configuration& to) const;

  const Configurations& configurations_;
  const Fabric& fabric_;
  const ChangeStrategy strategy_;
  const int most_planned_gpus_;
  mutable std::map<Key, double> known_;
  std::map<Key, double> planned_;  // of changes that were made; goes before known_
};

}  // namespace scalai::jobs::internal
