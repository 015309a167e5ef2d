#pragma once
// Virtual clusters: each has its own jobs, a quota of GPUs, and a policy of its own that sees nothing else. Wraps
// policies that grant numbers of GPUs (the families order and shares), not hosts. One thread.
//
// Fixed: a virtual cluster has its quota and no more. Each runs as on a cluster of its own.
// Borrowing: what the jobs of an owner do not ask for, within its quota, others may use. When its jobs ask for more,
// those who borrowed give back at once, the one that borrowed most for its quota first. A preemptive policy chooses the
// jobs that give way; of another one those go that got their GPUs last.
// With GPUs lost to failures a virtual cluster keeps what it holds, up to its quota; the rest goes first to those that
// hold least for their quota.
//
// A quota is a number of GPUs, anywhere in the cluster. A job that asks for more than the quota of its virtual cluster
// is refused; borrowing adds jobs, it does not make them larger.

#include <memory>
#include <string>
#include <vector>

#include "ptc/run/policy/policy.h"

namespace scalai::policy {

struct VirtualCluster {
  std::string name;
  std::vector<int> quota;  // GPUs by type of the fleet
  int gpus() const;        // of all types
};

struct Quotas {
  std::vector<VirtualCluster> clusters;
  std::vector<int> cluster_of;  // by job: index in clusters
  bool borrow = false;
};

// `policies`: one for each virtual cluster. CHECK: as many as there are clusters.
std::unique_ptr<Policy> with_quotas(Quotas quotas, std::vector<std::unique_ptr<Policy>> policies);

}  // namespace scalai::policy
