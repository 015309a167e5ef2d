#pragma once
// One training step in virtual time: every rank works through its stage's slots, collectives and messages are flows that
// share links with each other and with those of other jobs. What a slot costs and what runs beside what is in
// ptc/parallel/step_time.h (StepParts); where nothing contends the result is that of its closed form.
//
// A collective is one flow a rank, to the next member of the group over the link that bounds it (in its host, or to the
// next host's member), after all members have arrived and the latency has passed; it ends for all when the last flow
// does. A message is a flow to the rank of the neighbouring stage. Links of 0 latency, exact max-min shares.
//
// Ranks that do the same at the same time are simulated once (symmetry.h): the flows of a class of ranks are one flow
// that weighs on a link as many times as there are such flows on each link of its class.

#include <cstdint>
#include <span>
#include <vector>

#include "ptc/change/network.h"
#include "ptc/change/platform.h"
#include "ptc/collection/layout_name.h"
#include "ptc/parallel/step_time.h"

namespace scalai::sim {

// One job that trains. Refers to its parts: for arguments only.
struct IterationJob {
  const collection::ParallelConfig& config;
  parallel::Schedule schedule = parallel::Schedule::kOneFOneB;
  std::span<const DeviceId> devices;           // in rank order
  std::span<const parallel::StepParts> parts;  // at least one; alike in micro_batches, overlapped and sends_hidden
  std::span<const int> parts_of_rank = {};     // index into parts of each rank (GPUs of different speed); empty = all 0
};

struct IterationOptions {
  bool fold = true;   // false: every rank and link by itself
  int min_steps = 2;  // after the first, which fills pipelines
  int max_steps = 12;
  // Of jobs that share links. Those whose third step is not over by then are measured over the slots they have done.
  int64_t max_events = 4'000'000;
  // More are simulated as fewer, and what they take follows: see simulate_iterations. 0: as many as there are.
  int most_micro_batches = 64;
};

struct IterationResult {
  // Of each job, while all train: the length of a step in steady state; infinity when one of its flows needs a link that
  // is down.
  std::vector<double> step_s;
  int64_t units = 0;   // classes of ranks that were simulated
  int64_t flows = 0;   // started
  int64_t events = 0;  // ends of flows, timers
};

// Many micro-batches: a job by itself takes so much more for each further pp of them once pipelines and what runs beside
// them are steady. Three numbers of micro-batches, pp or more apart, whose steps lie on a line tell how much; they double
// until that is so, up to 4,096. Of jobs that share links each takes longer by the factor by which its shortened step does.
//
// On our max-min solver. `capacities`: of the platform's links, in its order, 0 = down; empty = as the platform says.
// CHECK: as many devices as ranks, parts as many stages as pp.
IterationResult simulate_iterations(const change::Platform& platform, std::span<const double> capacities,
                                    std::span<const IterationJob> jobs, const IterationOptions& options = {});

// The same without folding on any back end that was made of the platform's spec.
IterationResult simulate_iterations_on(change::NetworkBackend& network, const change::Platform& platform,
                                       std::span<const IterationJob> jobs, const IterationOptions& options = {});

}  // namespace scalai::sim
