#include "labs/bounds/wavefront.h"

#include <algorithm>
#include <string>

#include "labs/bounds/internal/max_flow.h"
#include "ptc/base/status.h"

namespace scalai::bounds {
namespace {

using internal::MaxFlow;

enum class Inputs : uint8_t { kUsedInBoth, kUsedAfter };

// Nodes on the source's side are S. Node i is value i; inputs have none of their own.
int64_t least_cut(const ComputationGraph& graph, int32_t moment, Inputs inputs, int64_t result_weight) {
  MaxFlow flow(graph.values() + 2);
  const int32_t source = graph.values(), sink = source + 1;
  flow.add_edge(source, moment, MaxFlow::kUnlimited);
  for (const int32_t user : graph.users(moment)) flow.add_edge(user, sink, MaxFlow::kUnlimited);
  for (int32_t value = 0; value < graph.values(); ++value) {
    const bool input = graph.role(value) == Role::kInput;
    for (const int32_t operand : graph.operands(value)) {
      if (graph.role(operand) != Role::kInput) flow.add_edge(value, operand, MaxFlow::kUnlimited);
    }
    for (const int32_t earlier : graph.after(value)) {
      flow.add_edge(value, earlier, MaxFlow::kUnlimited);
      if (earlier == moment) flow.add_edge(value, sink, MaxFlow::kUnlimited);
    }
    if (graph.users(value).empty()) continue;
    int64_t weight = graph.size(value);
    if (!input) weight *= graph.role(value) == Role::kResult ? result_weight : 2;
    // `before` is in S if the value can be live, `after` in T if a user is: then the edge between them is cut.
    const int32_t after = flow.add_node();
    for (const int32_t user : graph.users(value)) flow.add_edge(after, user, MaxFlow::kUnlimited);
    int32_t before = value;
    if (input && inputs == Inputs::kUsedAfter) before = source;
    if (input && inputs == Inputs::kUsedInBoth) {
      before = flow.add_node();
      for (const int32_t user : graph.users(value)) flow.add_edge(user, before, MaxFlow::kUnlimited);
    }
    flow.add_edge(before, after, weight);
  }
  return flow.run(source, sink);
}

int64_t bound_at(const ComputationGraph& graph, const Machine& machine, int32_t moment) {
  const int64_t m = std::min(machine.capacity, graph.total()), results = graph.results();
  const int64_t both = graph.used_inputs() + results + least_cut(graph, moment, Inputs::kUsedInBoth, 1);
  if (!machine.repeated) return both - 2 * m;
  const int64_t loads = least_cut(graph, moment, Inputs::kUsedAfter, 2) - 2 * m;
  const int64_t stores = results + least_cut(graph, moment, Inputs::kUsedAfter, 1) - 3 * m;
  return std::max({loads, stores, both - 4 * m});
}

}  // namespace

WavefrontBound wavefront_bound(const ComputationGraph& graph, const Machine& machine,
                               std::span<const int32_t> moments) {
  SCALAI_CHECK(machine.processors == 1, std::to_string(machine.processors));
  WavefrontBound best;
  for (const int32_t moment : moments) {
    SCALAI_CHECK(graph.role(moment) != Role::kInput, std::to_string(moment));
    const int64_t transfers = bound_at(graph, machine, moment);
    if (transfers > best.transfers) best = {transfers, moment};
  }
  return best;
}

std::vector<int32_t> moments_of(const ComputationGraph& graph, int32_t most) {
  std::vector<int32_t> operations;
  for (int32_t value = 0; value < graph.values(); ++value) {
    if (graph.role(value) != Role::kInput) operations.push_back(value);
  }
  if (graph.operations() <= most) return operations;
  std::vector<int32_t> chosen;
  for (int64_t i = 0; i < most; ++i) chosen.push_back(operations[static_cast<size_t>(i * graph.operations() / most)]);
  return chosen;
}

}  // namespace scalai::bounds
