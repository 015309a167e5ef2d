#include "labs/bounds/testing/pebbling.h"

#include <algorithm>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::bounds::testing {
namespace {

// Bits by value. What is blue is in slow memory.
struct State {
  uint32_t made = 0, red = 0, blue = 0;
  uint32_t key() const { return made | red << 10 | blue << 20; }
};

class Game {
 public:
  Game(const ComputationGraph& graph, int64_t capacity, bool repeated)
      : graph_(graph), capacity_(capacity), repeated_(repeated) {
    for (int32_t value = 0; value < graph.values(); ++value) {
      if (graph.role(value) == Role::kInput) inputs_ |= bit(value);
      if (graph.role(value) == Role::kResult) results_ |= bit(value);
      uint32_t operands = 0;
      for (const int32_t operand : graph.operands(value)) operands |= bit(operand);
      operands_.push_back(operands);
      uint32_t after = 0;
      for (const int32_t earlier : graph.after(value)) after |= bit(earlier);
      after_.push_back(after);
    }
  }

  std::optional<int64_t> solve() {
    reach({inputs_, 0, inputs_}, 0);
    if (repeated_) {
      for (uint32_t red = inputs_; red != 0; red = (red - 1) & inputs_) {
        if (fits(red)) reach({inputs_, red, inputs_}, 0);
      }
    }
    while (!queue_.empty()) {
      const auto [cost, state] = queue_.top();
      queue_.pop();
      if (cost > best_[state.key()]) continue;
      if (done(state)) return cost;
      expand(state, cost);
    }
    return std::nullopt;
  }

 private:
  static uint32_t bit(int32_t value) { return uint32_t{1} << value; }
  bool fits(uint32_t red) const {
    int64_t size = 0;
    for (int32_t value = 0; value < graph_.values(); ++value) size += red & bit(value) ? graph_.size(value) : 0;
    return size <= capacity_;
  }
  bool done(const State& state) const {
    const uint32_t there = state.blue | (repeated_ ? state.red : 0);
    return state.made == bit(graph_.values()) - 1 && (results_ & ~there) == 0;
  }
  void reach(const State& state, int64_t cost) {
    const auto [at, fresh] = best_.try_emplace(state.key(), cost);
    if (!fresh && at->second <= cost) return;
    at->second = cost;
    queue_.push({cost, state});
  }
  void expand(const State& state, int64_t cost) {
    for (int32_t value = 0; value < graph_.values(); ++value) {
      const uint32_t one = bit(value);
      const int64_t size = graph_.size(value);
      if (state.red & one) {
        reach({state.made, state.red & ~one, state.blue}, cost);
        if (!(state.blue & one)) reach({state.made, state.red, state.blue | one}, cost + size);
      } else if ((state.blue & one) && fits(state.red | one)) {
        reach({state.made, state.red | one, state.blue}, cost + size);
      }
      if ((state.made & one) || (operands_[static_cast<size_t>(value)] & ~state.red)) continue;
      if (after_[static_cast<size_t>(value)] & ~state.made) continue;
      // The value may take the room of anything that is forgotten now.
      for (uint32_t kept = state.red;; kept = (kept - 1) & state.red) {
        if (fits(kept | one)) reach({state.made | one, kept | one, state.blue}, cost);
        if (kept == 0) break;
      }
    }
  }

  struct Entry {
    int64_t cost = 0;
    State state;
    bool operator<(const Entry& other) const { return cost > other.cost; }  // the least first
  };
  const ComputationGraph& graph_;
  const int64_t capacity_;
  const bool repeated_;
  uint32_t inputs_ = 0, results_ = 0;
  std::vector<uint32_t> operands_, after_;
  std::map<uint32_t, int64_t> best_;
  std::priority_queue<Entry> queue_;
};

}  // namespace

std::optional<int64_t> least_transfers(const ComputationGraph& graph, int64_t capacity, bool repeated) {
  SCALAI_CHECK(graph.values() <= 10, std::to_string(graph.values()));
  return Game(graph, capacity, repeated).solve();
}

ComputationGraph small_graph(int values, int64_t most_size, bool roles, uint64_t seed) {
  Random random(seed);
  ComputationGraph graph;
  for (int32_t value = 0; value < values; ++value) {
    const int64_t size = random.between(1, most_size);
    std::vector<int32_t> operands;
    const auto wanted = value == 0 ? 0 : random.between(value == 1 ? 1 : 0, 2);
    for (int64_t i = 0; i < wanted; ++i) operands.push_back(static_cast<int32_t>(random.below(value)));
    if (roles && operands.empty()) {
      graph.input(size);
    } else if (roles && random.below(3) == 0) {
      graph.result(size, operands);
    } else {
      std::vector<int32_t> after;
      const auto earlier = static_cast<int32_t>(random.below(std::max(1, value)));
      if (earlier < value && graph.role(earlier) != Role::kInput && random.below(4) == 0) after.push_back(earlier);
      graph.computed(size, operands, after);
    }
  }
  return graph;
}

}  // namespace scalai::bounds::testing
