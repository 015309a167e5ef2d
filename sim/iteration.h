#pragma once
// One training step in virtual time. Every rank works through the slots of its pipeline stage; collectives and messages
// are flows, and flows of all jobs share links. ptc/cost/step/step_time.h (StepParts) defines the cost and the overlap
// of the parts. Without contention the result equals the closed form there. Free functions; any thread.
//
// A collective is one flow per rank to the next member of its group, over the link that bounds it (inside the host, or
// to the member on the next host). It starts after all members have arrived and the latency has passed; it ends for all
// members with its last flow. A message is a flow to the rank of the neighbouring stage. Links have latency 0 and exact
// max-min shares.
//
// Symmetric ranks are simulated once (internal/iteration_graph.h): one flow stands for all flows of its class and loads
// each link with the number of these flows on a link of its class.

#include <cstdint>
#include <span>
#include <vector>

#include "ptc/cost/change/network.h"
#include "ptc/cost/change/platform.h"
#include "ptc/cost/step/step_time.h"
#include "ptc/state/collection/layout_name.h"

namespace scalai::sim {

// One training job. Holds references: valid only while its parts live; use it for arguments.
struct IterationJob {
  const collection::ParallelConfig& config;
  step::Schedule schedule = step::Schedule::kOneFOneB;
  std::span<const DeviceId> devices;        // in rank order
  std::span<const step::StepParts> parts;   // at least one; equal micro_batches, shares hidden
  std::span<const int> parts_of_rank = {};  // index into parts, by rank (GPUs of different speed); empty = all 0
};

struct IterationOptions {
  bool fold = true;   // false: simulate every rank and link
  int min_steps = 2;  // steps after the first one, which fills the pipelines
  int max_steps = 12;
  // Limit for jobs that share links. A job with less than three steps by then is measured by its completed slots.
  int64_t max_events = 4'000'000;
  // Larger numbers of micro-batches are extrapolated from simulations with fewer, see simulate_iterations. 0: never.
  int most_micro_batches = 64;
};

struct IterationResult {
  // By job, while all of them train: seconds of a step in steady state; infinity if one of its flows needs a link that
  // is down.
  std::vector<double> step_s;
  int64_t units = 0;   // simulated classes of ranks
  int64_t flows = 0;   // started flows
  int64_t events = 0;  // ends of flows and timers
};

// Steady-state step times, on the max-min solver of ptc/cost/change. `capacities`: bytes/s of the platform's links, in
// its order, 0 = down; empty = the platform's values. All arguments are used only during the call. CHECK: one device
// per rank; pp stages in `parts`.
//
// Extrapolation of many micro-batches. A job alone is simulated with three numbers of micro-batches that differ by
// multiples of pp. If the three step times lie on a line, its slope gives the longer step; otherwise the numbers
// double, up to 4,096. For jobs that share links, the step time of the shortened jobs is scaled by (whole step /
// shortened step) of each job alone.
IterationResult simulate_iterations(const change::Platform& platform, std::span<const double> capacities,
                                    std::span<const IterationJob> jobs, const IterationOptions& options = {});

}  // namespace scalai::sim
