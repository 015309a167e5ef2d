#pragma once
// Jobs in order of (key, id) with prefix sums of their GPUs: a treap with a hash of the id as priority, so its shape
// depends on its content only. Every call takes O(log n) steps, except ids(). One thread.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace scalai::policy::order {

// The place of a job in an order; the smaller goes first.
struct Rank {
  double key = 0;
  int32_t id = -1;
  friend auto operator<=>(const Rank&, const Rank&) = default;
};

class PrefixTree {
 public:
  // Adds a job. CHECK: `rank.id` is not in the tree.
  void insert(Rank rank, int gpus);
  // Removes a job. CHECK: it is in the tree.
  void erase(int32_t id);

  bool contains(int32_t id) const;
  Rank rank(int32_t id) const { return nodes_[static_cast<size_t>(id)].rank; }
  int64_t sum() const { return root_ < 0 ? 0 : nodes_[static_cast<size_t>(root_)].sum; }
  // Sum of the GPUs of all jobs before a rank.
  int64_t sum_before(Rank rank) const;
  // The first job at which the prefix sum exceeds `room`; −1 if none.
  int32_t first_over(int64_t room) const;
  // Ids in order.
  std::vector<int32_t> ids() const;

 private:
  struct Node {
    Rank rank;
    uint64_t priority = 0;
    int gpus = 0;
    int64_t sum = 0;  // of the subtree
    int32_t left = -1, right = -1;
    bool here = false;
  };

  Node& node(int32_t id) { return nodes_[static_cast<size_t>(id)]; }
  const Node& node(int32_t id) const { return nodes_[static_cast<size_t>(id)]; }
  int64_t sum_of(int32_t id) const { return id < 0 ? 0 : node(id).sum; }
  void update(int32_t id);
  // Splits into the jobs before `rank` and the rest.
  void split(int32_t tree, Rank rank, int32_t* before, int32_t* rest);
  int32_t merge(int32_t before, int32_t rest);

  std::vector<Node> nodes_;  // by id
  int32_t root_ = -1;
};

}  // namespace scalai::policy::order
