#pragma once
// Maximum flow by Dinic's algorithm (1970): level graphs and blocking flows. One thread per object.

#include <cstdint>
#include <vector>

namespace scalai::bounds::internal {

class MaxFlow {
 public:
  static constexpr int64_t kUnlimited = int64_t{1} << 60;

  explicit MaxFlow(int32_t nodes) : edges_of_(static_cast<size_t>(nodes)) {}
  int32_t add_node();
  void add_edge(int32_t from, int32_t to, int64_t capacity);
  // CHECK: the flow is below kUnlimited. Call it once.
  int64_t run(int32_t source, int32_t sink);

 private:
  struct Arc {
    int32_t to = 0;
    int64_t left = 0;  // capacity that no flow uses; the reverse arc is number ^ 1
  };
  bool find_levels(int32_t source, int32_t sink);
  int64_t push_path(int32_t source, int32_t sink);

  std::vector<Arc> arcs_;
  std::vector<std::vector<int32_t>> edges_of_;
  std::vector<int32_t> level_;
  std::vector<size_t> next_;
};

}  // namespace scalai::bounds::internal
