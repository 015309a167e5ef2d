#pragma once
// The ranks of all jobs with what each sends to whom, as endpoints of a network; and the same folded by symmetry.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ptc/cost/change/network.h"
#include "ptc/cost/change/platform.h"
#include "sim/iteration.h"

namespace scalai::sim {

// What a rank sends: messages to the next and the previous stage, and its part of collectives. kDp sums over dp and cp.
enum class Traffic : uint8_t { kForward, kBackward, kTp, kCp, kEp, kDp, kEmbedding };
constexpr int kTraffics = 7;
inline size_t at(Traffic traffic) { return static_cast<size_t>(traffic); }

struct FlowEnds {
  int src = -1, dst = -1;  // endpoints; -1: this never flows
  double share = 1;        // of the communication's bytes
};

struct IterationRank {
  int job = 0, stage = 0;
  int parts = 0;                 // index into the job's parts
  int next = -1, previous = -1;  // ranks of the neighbouring stages, in a ring; -1 with one stage
  std::array<int, kTraffics> group = {-1, -1, -1, -1, -1, -1, -1};  // -1: alone
  std::array<std::array<FlowEnds, 2>, kTraffics> flows = {};  // inside the host, to another; messages: the first only
};

struct IterationGraph {
  std::vector<IterationRank> ranks;
  std::vector<int> group_members;  // ranks of each group
};

IterationGraph graph_of(const change::Platform& platform, std::span<const IterationJob> jobs);

// Ranks and links by colour refinement: those of one class see the same of the rest, so that they do the same.
struct Symmetry {
  std::vector<int> class_of_rank, class_of_link;  // links that nothing crosses: -1
  int rank_classes = 0, link_classes = 0;
};
Symmetry symmetry_of(const IterationGraph& graph, const change::NetworkSpec& network);

// One rank a class, one link a class; flows with the weights that this takes.
struct FoldedIteration {
  IterationGraph graph;
  change::NetworkSpec network;
};
FoldedIteration fold(const IterationGraph& graph, const change::NetworkSpec& network, const Symmetry& symmetry);

}  // namespace scalai::sim
