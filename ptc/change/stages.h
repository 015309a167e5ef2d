#pragma once
// One reconfiguration as the stages it goes through: waits, sets of flows, and marks. The one model of what a change costs:
// the simulator and the executor's scenario clock play these stages (ptc/control/agenda.h), many-job runs play them on the
// fabric of all jobs, and estimate() adds them up for whoever compares candidates.
//
//   stage → plan → restart → prepare → [restore] → round 1 … n → [upload] → verify → communicators, load
//
//   stop      flows into host memory                                  strategies that stage state there
//   plan      plan_s                        restart   restart_s
//   prepare   most bytes a device has to take beyond its old state / allocate_bytes_per_s
//   transfer  flows of kept state out of host memory (a rollback); a round: transfer_start_s, then its flows; flows of
//             uploads
//   verify    most bytes a device has received / verify_bytes_per_s   (received: all but what was kept in place)
//   resume    communicator_s, then flows of loads

#include <span>
#include <string>
#include <vector>

#include "ptc/change/costs.h"
#include "ptc/change/platform.h"
#include "ptc/plan/plan.h"

namespace scalai::change {

// A bulk transfer between two places, outside a plan: staging, loading, checkpoints, redundant copies.
struct BulkFlow {
  plan::Location src, dst;
  int64_t bytes = 0;
};

// A change whose plan is known. Everything it refers to outlives it.
struct Change {
  const plan::Plan& plan;
  const plan::Cluster& cluster;
  Costs costs;
  int ranks = 0;                         // of the new collection, for communicators
  std::span<const BulkFlow> stage = {};  // strategies that go through host memory
  std::span<const BulkFlow> load = {};
  bool upload = false;   // pulled state is written into the target host's memory first
  HostId hub = {};       // valid: pulls and uploads all happen on this host
  bool restore = false;  // kept state comes back from the host-memory copy (rollback)
};

struct FlowRequest {
  plan::Location src, dst;
  int64_t bytes = 0;
  plan::TransferClass transfer_class = plan::TransferClass::kSameHost;
  bool src_process = false, dst_process = false;  // see Platform::route
};

struct Stage {
  enum class What : uint8_t { kStage, kPlan, kRestart, kPrepare, kRestore, kRound, kUpload, kVerify, kResume };
  What what = What::kPlan;
  double PhaseSeconds::*phase = nullptr;  // whose time this is
  double wait_s = 0;                      // before the flows
  std::string flows_are = {};             // TransferRecord::phase
  int round = -1;                         // kRound: of the plan, from 0
  std::vector<FlowRequest> flows = {};
  int mark = -1;  // RoundDone to report when the stage ends: 0 after prepare, r + 1 after round r
};

std::vector<Stage> stages_of(const Change& change);

// kFromStorage where the source is storage, else by where the two ends are.
plan::TransferClass class_of(const plan::Cluster& cluster, plan::Location src, plan::Location dst);

// The most bytes that a device receives in the plan: copied on it or to it, derived included, kept excluded.
int64_t most_received_bytes(const plan::Plan& plan);

// The phases when nothing else uses the links, without simulating flows: waits as above, rounds by the α-β model of
// ptc/plan/estimate.h, bulk flows by their busiest end at its rate. A lower bound of what the stages take, up to α. Each
// byte counts `bytes_ratio` times: plans of a narrower model stand for those of the real one.
PhaseSeconds estimate(const Change& change, double bytes_ratio = 1);

// Bulk flows, all at once: the busiest end at its rate. A device's end is PCIe; a host's memory is its NICs for other
// hosts; storage reads and writes. Ends without a rate take no time.
double bulk_seconds(std::span<const BulkFlow> flows, const plan::Cluster& cluster);
inline double bulk_seconds(const std::vector<BulkFlow>& flows, const plan::Cluster& cluster) {
  return bulk_seconds(std::span(flows), cluster);
}

}  // namespace scalai::change
