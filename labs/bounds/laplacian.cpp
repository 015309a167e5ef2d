#include "labs/bounds/laplacian.h"

#include <numeric>

namespace scalai::bounds {
namespace {

void add_clique(const std::vector<int32_t>& members, double size, std::vector<Edge>& edges) {
  const auto count = static_cast<int64_t>(members.size());
  const double weight = size / static_cast<double>(count * count / 4);
  for (size_t i = 0; i < members.size(); ++i) {
    for (size_t j = i + 1; j < members.size(); ++j) edges.push_back({members[i], members[j], weight});
  }
}

}  // namespace

WeightedGraph expand(const ComputationGraph& graph, Expansion expansion, double share) {
  std::vector<int32_t> vertex(static_cast<size_t>(graph.values()), -1);
  WeightedGraph out;
  for (int32_t value = 0; value < graph.values(); ++value) {
    if (graph.role(value) != Role::kInput) vertex[static_cast<size_t>(value)] = out.vertices++;
  }
  for (int32_t value = 0; value < graph.values(); ++value) {
    const bool input = graph.role(value) == Role::kInput;
    std::vector<int32_t> members;
    if (!input) members.push_back(vertex[static_cast<size_t>(value)]);
    for (const int32_t user : graph.users(value)) members.push_back(vertex[static_cast<size_t>(user)]);
    if (members.size() < 2) continue;
    const double size = static_cast<double>(graph.size(value)) * (graph.role(value) == Role::kComputed ? 1 : share);
    const bool large = members.size() > static_cast<size_t>(kMostOfClique);
    if ((input || expansion == Expansion::kClique) && !large) {
      add_clique(members, size, out.edges);
    } else {
      for (size_t i = 1; i < members.size(); ++i)
        out.edges.push_back({members[0], members[i], size / static_cast<double>(members.size() - 1)});
    }
  }
  return out;
}

}  // namespace scalai::bounds
