#pragma once
// One reconfiguration as its stages: waits, sets of flows, and marks. The only model of the cost of a change. The
// simulator and the executor's scenario clock play these stages (ptc/run/control/agenda.h), many-job runs play them on
// the fabric of all jobs, and estimate() adds them up for comparisons of candidates. Pure functions; any thread may
// call.
//
//   stage → plan → restart → prepare → [restore] → round 1 … n → [upload] → verify → communicators, load → [compile]
//
//   stop      flows into host memory                                  strategies that stage state there
//   plan      plan_s                        restart   restart_s
//   prepare   most bytes that a device allocates beyond its old state / allocate_bytes_per_s
//   transfer  flows of kept state out of host memory (a rollback); a round: transfer_start_s and what its boxes and
//             peers, or the work of stores, cost besides bytes, then its flows; flows of uploads
//   verify    most bytes that a device received / verify_bytes_per_s   (received: all but the state kept in place)
//   resume    communicator_s, then flows of loads; compile_s

#include <span>
#include <string>
#include <vector>

#include "ptc/cost/change/costs.h"
#include "ptc/cost/change/platform.h"
#include "ptc/plan/plan.h"

namespace scalai::change {

// A bulk transfer between two places, outside a plan: staging, loading, checkpoints, redundant copies.
struct BulkFlow {
  plan::Location src, dst;
  int64_t bytes = 0;
};

// A change with its plan. Refers to plan, cluster and flows, which outlive it.
struct Change {
  const plan::Plan& plan;
  const cluster::Cluster& cluster;
  Costs costs;
  Groups groups = {};                    // of the new collection
  std::span<const BulkFlow> stage = {};  // flows of strategies that go through host memory
  std::span<const BulkFlow> load = {};
  bool upload = false;  // pulled state is written into the target host's memory first
  // With `upload`: the collections, for what stores do besides serving (store_work); null: nothing.
  const collection::Collection* from = nullptr;
  const collection::Collection* to = nullptr;
  HostId hub = {};       // valid: all state is pulled to this host and uploaded there (target_hub)
  bool restore = false;  // kept state returns from the host-memory copy (rollback)
};

struct FlowRequest {
  plan::Location src, dst;
  int64_t bytes = 0;
  plan::TransferClass transfer_class = plan::TransferClass::kSameHost;
  bool src_process = false, dst_process = false;  // see Platform::route, as the next one
  int lane = 0;
};

struct Stage {
  enum class What : uint8_t {
    kStage,
    kPlan,
    kRestart,
    kPrepare,
    kRestore,
    kRound,
    kUpload,
    kVerify,
    kResume,
    kCompile
  };
  What what = What::kPlan;
  double PhaseSeconds::*phase = nullptr;  // phase of the time; set for every stage
  double wait_s = 0;                      // seconds before the flows start
  std::string flows_are = {};             // TransferRecord::phase of the flows
  int round = -1;                         // kRound: round of the plan, from 0
  std::vector<FlowRequest> flows = {};
  int mark = -1;  // RoundDone at the end of the stage: 0 after prepare, r + 1 after round r; -1 = none
};

// What stores on hosts do besides the bytes that they serve and take in: seconds of the busiest host, for each round.
//   copies    As released, Tenplex's store reads a whole tensor for each request and cuts the slice out of it, and the
//             process that pulls puts a tensor together from its slices. So a box that is less than the source's part
//             of its tensor costs that part once more, one that is less than the target's part costs itself once more
//             there.
//   requests  Each box is asked for by itself, and each tensor of a rank is written by itself: Costs::messages.box_s
//             for each, whatever its bytes, at the store that answers. All ranks of one host keep its store busy
//             together.
struct StoreWork {
  std::vector<double> copies_s, requests_s;
};
// Nothing for changes that do not go by way of stores.
StoreWork store_work(const Change& change);

// The stages in their order. They refer to nothing in `change`.
std::vector<Stage> stages_of(const Change& change);

// kFromStorage if the source is storage, kCrossHost if the destination is; else by the hosts of the two ends.
plan::TransferClass class_of(const cluster::Cluster& cluster, plan::Location src, plan::Location dst);

// The most bytes that a device receives in the plan: from other places, copied on it, or derived; kept bytes do not
// count.
int64_t most_received_bytes(const plan::Plan& plan);

// Phases on links that carry nothing else, without a simulation of flows: waits as above, rounds by the α-β model of
// ptc/plan/estimate.h, bulk flows by their busiest end at its rate. A lower bound of the time of the stages, up to α.
// `bytes_ratio` multiplies all bytes: the plan of a narrower model can stand for that of the real one. `detect` and
// `aborted` stay 0.
PhaseSeconds estimate(const Change& change, double bytes_ratio = 1);

// Seconds of bulk flows that start together: the busiest end at its rate. The end of a device is PCIe. The end of a
// host's memory is all its NICs together, for transfers with other hosts only. Storage has its read and write rates. An
// end without a rate takes no time.
double bulk_seconds(std::span<const BulkFlow> flows, const cluster::Cluster& cluster);
inline double bulk_seconds(const std::vector<BulkFlow>& flows, const cluster::Cluster& cluster) {
  return bulk_seconds(std::span(flows), cluster);
}

}  // namespace scalai::change
