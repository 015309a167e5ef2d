#include "labs/bounds/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "ptc/base/status.h"

namespace scalai::bounds {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int kExecutions = 4,
              kMeasured = 2;  // the first ones fill fast memory, the last one is what Belady looks ahead to

// Executions one after the other. A copy is a value of one execution; what is carried has one copy in two executions.
class Player {
 public:
  Player(const ComputationGraph& graph, std::span<const int32_t> order, int64_t capacity, int executions,
         std::span<const Carried> carried)
      : graph_(graph), order_(order), capacity_(capacity), executions_(executions) {
    const auto values = static_cast<size_t>(graph.values());
    carried_from_.assign(values, -1);
    carried_.assign(values, false);
    for (const auto& [input, result] : carried) {
      SCALAI_CHECK(graph.role(input) == Role::kInput && graph.role(result) == Role::kResult &&
                   graph.size(input) == graph.size(result) && !graph.users(input).empty());
      carried_from_[static_cast<size_t>(input)] = result;
      carried_[static_cast<size_t>(result)] = true;
    }
    copies_.resize(values * static_cast<size_t>(executions));
    find_uses();
  }

  absl::StatusOr<Transfers> run(int measured) {
    Transfers before;
    for (int execution = 0; execution < executions_; ++execution) {
      if (execution == measured) before = transfers_;
      for (const int32_t value : order_) SCALAI_RETURN_IF_ERROR(compute(execution, value));
      if (execution == measured && executions_ > 1) break;
    }
    if (executions_ == 1) store_results();
    return Transfers{transfers_.loads - before.loads, transfers_.stores - before.stores};
  }

 private:
  struct Copy {
    std::vector<int64_t> uses;  // times, ascending
    size_t next = 0;            // of uses
    bool fast = false, slow = false;
    int64_t next_use() const { return next < uses.size() ? uses[next] : kNever; }
  };

  size_t copy_of(int execution, int32_t value) const {
    const int32_t result = carried_from_[static_cast<size_t>(value)];
    if (execution > 0 && result >= 0) return copy_of(execution - 1, result);
    return static_cast<size_t>(execution) * static_cast<size_t>(graph_.values()) + static_cast<size_t>(value);
  }
  int64_t size_of(size_t copy) const {
    return graph_.size(static_cast<int32_t>(copy % static_cast<size_t>(graph_.values())));
  }
  // Of a result that the next execution replaces nobody asks for a copy in slow memory.
  bool is_kept(size_t copy) const {
    const auto value = static_cast<int32_t>(copy % static_cast<size_t>(graph_.values()));
    return graph_.role(value) == Role::kResult && !carried_[static_cast<size_t>(value)];
  }

  void find_uses() {
    int64_t time = 0;
    std::vector<bool> done(static_cast<size_t>(graph_.values()), false);
    for (int execution = 0; execution < executions_; ++execution) {
      for (int32_t value = 0; value < graph_.values(); ++value) {
        if (graph_.role(value) == Role::kInput) copies_[copy_of(execution, value)].slow |= is_fresh(execution, value);
      }
      for (const int32_t value : order_) {
        for (const int32_t operand : graph_.operands(value)) {
          SCALAI_CHECK(graph_.role(operand) == Role::kInput || done[static_cast<size_t>(operand)] || execution > 0,
                       "an operand comes after its use");
          copies_[copy_of(execution, operand)].uses.push_back(time);
        }
        for (const int32_t earlier : graph_.after(value))
          SCALAI_CHECK(done[static_cast<size_t>(earlier)], "an operation comes before its `after`");
        done[static_cast<size_t>(value)] = true;
        ++time;
      }
    }
    SCALAI_CHECK(std::ssize(order_) == graph_.operations(), "not every operation once");
  }
  bool is_fresh(int execution, int32_t input) const {
    return execution == 0 || carried_from_[static_cast<size_t>(input)] < 0;
  }

  absl::Status compute(int execution, int32_t value) {
    std::vector<size_t> operands;
    int64_t together = 0;
    for (const int32_t operand : graph_.operands(value)) {
      operands.push_back(copy_of(execution, operand));
      together += graph_.size(operand);
    }
    if (std::max(together, graph_.size(value)) > capacity_)
      return invalid(fmt::format("an operation needs {} units of fast memory, {} are there",
                                 std::max(together, graph_.size(value)), capacity_));
    pinned_ = {operands.begin(), operands.end()};
    for (const size_t operand : operands) bring(operand);
    for (const size_t operand : operands) {
      Copy& copy = copies_[operand];
      if (copy.fast) ranked_.erase({copy.next_use(), operand});
      ++copy.next;
      ranked_.insert({copy.next_use(), operand});
      if (copy.next_use() == kNever && !must_store(operand)) forget(operand);
    }
    pinned_.clear();
    const size_t made = copy_of(execution, value);
    make_room(graph_.size(value));
    place(made);
    if (copies_[made].uses.empty() && !must_store(made)) forget(made);
    return absl::OkStatus();
  }

  bool must_store(size_t copy) const { return is_kept(copy) && !copies_[copy].slow; }

  void bring(size_t copy) {
    if (copies_[copy].fast) return;
    make_room(size_of(copy));
    transfers_.loads += size_of(copy);
    place(copy);
  }
  void place(size_t copy) {
    copies_[copy].fast = true;
    used_ += size_of(copy);
    ranked_.insert({copies_[copy].next_use(), copy});
  }
  void forget(size_t copy) {
    ranked_.erase({copies_[copy].next_use(), copy});
    copies_[copy].fast = false;
    used_ -= size_of(copy);
  }
  void make_room(int64_t size) {
    auto farthest = ranked_.rbegin();
    while (used_ + size > capacity_) {
      while (pinned_.contains(farthest->second)) ++farthest;
      const size_t copy = farthest->second;
      store(copy);
      forget(copy);
      farthest = ranked_.rbegin();
    }
  }
  void store(size_t copy) {
    if (copies_[copy].slow) return;
    transfers_.stores += size_of(copy);
    copies_[copy].slow = true;
  }
  void store_results() {
    for (size_t copy = 0; copy < copies_.size(); ++copy) {
      if (is_kept(copy)) store(copy);
    }
  }

  const ComputationGraph& graph_;
  const std::span<const int32_t> order_;
  const int64_t capacity_;
  const int executions_;
  std::vector<int32_t> carried_from_;  // by input: the result of the execution before
  std::vector<bool> carried_;          // by result: the next execution replaces it
  std::vector<Copy> copies_;
  std::set<std::pair<int64_t, size_t>> ranked_;  // copies in fast memory by their next use
  std::set<size_t> pinned_;                      // operands at work
  int64_t used_ = 0;
  Transfers transfers_;
};

}  // namespace

absl::StatusOr<Transfers> replay(const ComputationGraph& graph, std::span<const int32_t> order, int64_t capacity) {
  return Player(graph, order, capacity, 1, {}).run(0);
}

absl::StatusOr<Transfers> replay_repeated(const ComputationGraph& graph, std::span<const int32_t> order,
                                          int64_t capacity, std::span<const Carried> carried) {
  return Player(graph, order, capacity, kExecutions, carried).run(kMeasured);
}

}  // namespace scalai::bounds
