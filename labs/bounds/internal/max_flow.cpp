#include "labs/bounds/internal/max_flow.h"

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::bounds::internal {

int32_t MaxFlow::add_node() {
  edges_of_.emplace_back();
  return static_cast<int32_t>(edges_of_.size()) - 1;
}

void MaxFlow::add_edge(int32_t from, int32_t to, int64_t capacity) {
  edges_of_[static_cast<size_t>(from)].push_back(static_cast<int32_t>(arcs_.size()));
  arcs_.push_back({to, capacity});
  edges_of_[static_cast<size_t>(to)].push_back(static_cast<int32_t>(arcs_.size()));
  arcs_.push_back({from, 0});
}

int64_t MaxFlow::run(int32_t source, int32_t sink) {
  int64_t flow = 0;
  while (find_levels(source, sink)) {
    next_.assign(edges_of_.size(), 0);
    while (const int64_t more = push_path(source, sink)) flow += more;
    SCALAI_CHECK(flow < kUnlimited, "a path without a limit");
  }
  return flow;
}

bool MaxFlow::find_levels(int32_t source, int32_t sink) {
  level_.assign(edges_of_.size(), -1);
  level_[static_cast<size_t>(source)] = 0;
  std::vector<int32_t> queue = {source};
  for (size_t i = 0; i < queue.size(); ++i) {
    for (const int32_t at : edges_of_[static_cast<size_t>(queue[i])]) {
      const Arc& arc = arcs_[static_cast<size_t>(at)];
      int32_t& level = level_[static_cast<size_t>(arc.to)];
      if (arc.left == 0 || level >= 0) continue;
      level = level_[static_cast<size_t>(queue[i])] + 1;
      queue.push_back(arc.to);
    }
  }
  return level_[static_cast<size_t>(sink)] >= 0;
}

// Depth first without recursion: paths may have as many nodes as the graph. 0 if no path is left.
int64_t MaxFlow::push_path(int32_t source, int32_t sink) {
  std::vector<int32_t> path;  // arcs
  int32_t node = source;
  while (node != sink) {
    size_t& next = next_[static_cast<size_t>(node)];
    const std::vector<int32_t>& edges = edges_of_[static_cast<size_t>(node)];
    while (next < edges.size()) {
      const Arc& arc = arcs_[static_cast<size_t>(edges[next])];
      if (arc.left > 0 && level_[static_cast<size_t>(arc.to)] == level_[static_cast<size_t>(node)] + 1) break;
      ++next;
    }
    if (next < edges.size()) {
      path.push_back(edges[next]);
      node = arcs_[static_cast<size_t>(edges[next])].to;
      continue;
    }
    if (path.empty()) return 0;
    node = arcs_[static_cast<size_t>(path.back() ^ 1)].to;  // a dead end: back, and on with the next arc
    path.pop_back();
    ++next_[static_cast<size_t>(node)];
  }
  int64_t flow = kUnlimited;
  for (const int32_t at : path) flow = std::min(flow, arcs_[static_cast<size_t>(at)].left);
  for (const int32_t at : path) {
    arcs_[static_cast<size_t>(at)].left -= flow;
    arcs_[static_cast<size_t>(at ^ 1)].left += flow;
  }
  return flow;
}

}  // namespace scalai::bounds::internal
