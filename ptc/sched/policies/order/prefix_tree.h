#pragma once
// Jobs in order of (key, id) with the sum of their GPUs up to any place: a treap whose priorities are a hash of the id,
// so that its shape depends on what is in it only. Every call takes O(log n) steps.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace scalai::sched::order {

// Where a job stands in an order: the smaller goes first.
struct Rank {
  double key = 0;
  int32_t id = -1;
  friend auto operator<=>(const Rank&, const Rank&) = default;
};

class PrefixTree {
 public:
  // `rank.id` is not in the tree.
  void insert(Rank rank, int gpus);
  // The job is in the tree.
  void erase(int32_t id);

  bool contains(int32_t id) const;
  Rank rank(int32_t id) const { return nodes_[static_cast<size_t>(id)].rank; }
  int64_t sum() const { return root_ < 0 ? 0 : nodes_[static_cast<size_t>(root_)].sum; }
  // GPUs of the jobs before a rank.
  int64_t sum_before(Rank rank) const;
  // The first job with which the sum exceeds `room`; -1 if there is none.
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
  // Into those before `rank` and the rest.
  void split(int32_t tree, Rank rank, int32_t* before, int32_t* rest);
  int32_t merge(int32_t before, int32_t rest);

  std::vector<Node> nodes_;  // by id
  int32_t root_ = -1;
};

}  // namespace scalai::sched::order
