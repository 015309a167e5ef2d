#pragma once
// The GPUs that jobs compete for: hosts with one GPU type each, and the times when they are up. A flat pool is hosts of
// one GPU. Plain values.

#include <cstdint>
#include <string>
#include <vector>

#include "ptc/base/ids.h"
#include "ptc/run/policy/job.h"

namespace scalai::cluster {
struct Cluster;
}

namespace scalai::policy {

struct TypeSpec {
  std::string name;               // GPU kind: "v100", "h100-80g"
  double price_per_gpu_hour = 0;  // US dollars; 0 = not priced
};

struct HostSpec {
  GpuType type;
  int gpus = 1;
};

struct Fleet {
  // 7 where GPUs are cut in slices (slices.h): then every number of GPUs, of hosts, jobs and grants, counts slices.
  // Times and prices of GPUs are of whole ones.
  int per_gpu = 1;
  std::vector<TypeSpec> types;  // GpuType = index; in order of appearance
  std::vector<HostSpec> hosts;  // HostId = index; their GPUs are numbered host by host (as in cluster::Cluster)

  int gpus(GpuType type) const;  // on all hosts of a type, up or down
  int gpus() const;              // on all hosts, up or down
};

// Hosts as they are numbered in the cluster. GPU kinds are types, in order of appearance; the price of a type is that
// of its first host, shared by the GPUs.
Fleet fleet_of(const cluster::Cluster& cluster);

// Hosts that come, go or fail, and prices that change. Times count from the workload's start.
struct FleetEvent {
  enum class Kind : uint8_t {
    kUp,      // hosts come (or come back, repaired)
    kNotice,  // hosts will be taken at `until_s`: jobs may leave before
    kTaken,   // hosts are taken away after the notice (spot preemption, drain)
    kFailed,  // hosts fail: the state on their GPUs is lost
    kPrice,   // a type's price per GPU and hour
  };
  double at_s = 0;
  Kind kind = Kind::kUp;
  std::vector<HostId> hosts;  // all but kPrice
  double until_s = 0;         // kNotice
  GpuType type;               // kPrice
  double price = 0;           // kPrice
  std::string cause;          // for the report: "preemption", "Faulty GPU"; "" = none
};

// The hosts up at the start of the run, and the later events (by at_s, ties in order).
struct Availability {
  std::vector<uint8_t> up;  // by host; empty = all
  std::vector<FleetEvent> events;
};

struct HostShare {
  HostId host;
  int gpus = 0;
  friend auto operator<=>(const HostShare&, const HostShare&) = default;
};

// A part of a GPU that is cut in slices.
struct Slice {
  HostId host;
  int gpu = 0;     // of the host
  int start = 0;   // first memory slice
  int slices = 0;  // compute slices: 1, 2, 3, 4, 7
  friend auto operator<=>(const Slice&, const Slice&) = default;
};

// The GPUs of a job, all of one type. Empty = none.
struct Placement {
  GpuType type;
  std::vector<HostShare> hosts;    // by host, each once, gpus > 0
  std::vector<Slice> slices = {};  // by host and GPU, where GPUs are cut in slices
  int gpus() const;
  bool empty() const { return hosts.empty(); }
  friend bool operator==(const Placement&, const Placement&) = default;
};

}  // namespace scalai::policy
