#pragma once
// Benchmark cases: changes of a job's state between two collections, each device on its own host. Pure functions; any
// thread.
//
//   row-column  one F32 matrix, cut by rows, then by columns, on the same N devices
//   boxes       tensors of 4 KiB, each a box, move from the first N/2 devices to the others: what a box costs
//   tp, pp, dp  gpt2 with optimizer state: that degree doubles, from N/2 devices to N (tp stops at 4, because of its 12
//               heads, pp at 8; the rest are replicas)
//   redeploy    gpt2 moves from the first N/2 devices to the others, with the same layout
//
// and, for GPUs, a whole reconfiguration of a model with full optimizer state on one host:
//   8→4, 4→8    tp 4 pp 2 to tp 2 pp 2 on the first four devices, and back

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/cluster/cluster.h"
#include "ptc/state/collection/collection.h"
#include "ptc/state/model/scaling.h"

namespace scalai::executor::bench {

inline constexpr int kMostDevices = 64;

struct Case {
  std::string name;
  int devices = 0;                  // N: hosts of the cluster
  collection::Collection from, to;  // epochs 1 and 2
  int64_t state_bytes = 0;          // of the logical tensors, each counted once
  int64_t rows = 0, columns = 0;    // row-column only
};

std::vector<std::string> case_names();

struct CaseOptions {
  std::vector<std::string> names;  // from case_names()
  std::vector<int> devices = {2, 4, 8};
  int64_t bytes = int64_t{1} << 30;  // of the matrix of row-column; of boxes together
  model::Fraction scale_model;       // of gpt2
};
// Cases by name in the given order, then by devices. InvalidArgument: an unknown name, a number of devices that is not
// a power of two from 2 to kMostDevices, a matrix with fewer rows or columns than devices.
absl::StatusOr<std::vector<Case>> make_cases(const CaseOptions& options);

// 8→4 and 4→8 of each model, scaled by `scale`. InvalidArgument: no such model.
absl::StatusOr<std::vector<Case>> make_reconfigurations(const std::vector<std::string>& models,
                                                        const model::Fraction& scale);

// A cluster of hosts with one device each, or of one host with all devices, without rates.
cluster::Cluster cluster_of(int devices, bool one_host = false);

// Sum over all devices of their bytes of a collection; each replica counts.
int64_t bytes_on_devices(const collection::Collection& side);

}  // namespace scalai::executor::bench
