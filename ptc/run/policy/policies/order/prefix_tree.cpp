#include "ptc/run/policy/policies/order/prefix_tree.h"

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::policy::order {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

void PrefixTree::update(int32_t id) {
  Node& it = node(id);
  it.sum = it.gpus + sum_of(it.left) + sum_of(it.right);
}

void PrefixTree::split(int32_t tree, Rank rank, int32_t* before, int32_t* rest) {
  if (tree < 0) {
    *before = *rest = -1;
    return;
  }
  int32_t part = -1;
  if (node(tree).rank < rank) {
    split(node(tree).right, rank, &part, rest);
    node(tree).right = part;
    *before = tree;
  } else {
    split(node(tree).left, rank, before, &part);
    node(tree).left = part;
    *rest = tree;
  }
  update(tree);
}

int32_t PrefixTree::merge(int32_t before, int32_t rest) {
  if (before < 0 || rest < 0) return std::max(before, rest);
  if (node(before).priority > node(rest).priority) {
    node(before).right = merge(node(before).right, rest);
    update(before);
    return before;
  }
  node(rest).left = merge(before, node(rest).left);
  update(rest);
  return rest;
}

bool PrefixTree::contains(int32_t id) const {
  return static_cast<size_t>(id) < nodes_.size() && nodes_[static_cast<size_t>(id)].here;
}

void PrefixTree::insert(Rank rank, int gpus) {
  SCALAI_CHECK(rank.id >= 0 && !contains(rank.id));
  if (static_cast<size_t>(rank.id) >= nodes_.size()) nodes_.resize(static_cast<size_t>(rank.id) + 1);
  node(rank.id) = Node{.rank = rank,
                       .priority = mix(static_cast<uint64_t>(rank.id)),
                       .gpus = gpus,
                       .sum = gpus,
                       .left = -1,
                       .right = -1,
                       .here = true};
  int32_t before = -1, rest = -1;
  split(root_, rank, &before, &rest);
  root_ = merge(merge(before, rank.id), rest);
}

void PrefixTree::erase(int32_t id) {
  SCALAI_CHECK(contains(id));
  int32_t before = -1, rest = -1, one = -1, after = -1;
  const Rank rank = node(id).rank;
  split(root_, rank, &before, &rest);
  split(rest, Rank{rank.key, rank.id + 1}, &one, &after);
  node(id).here = false;
  root_ = merge(before, after);
}

int64_t PrefixTree::sum_before(Rank rank) const {
  int64_t sum = 0;
  for (int32_t at = root_; at >= 0;) {
    const Node& it = node(at);
    if (it.rank < rank) {
      sum += it.gpus + sum_of(it.left);
      at = it.right;
    } else {
      at = it.left;
    }
  }
  return sum;
}

int32_t PrefixTree::first_over(int64_t room) const {
  int32_t found = -1;
  for (int32_t at = root_; at >= 0;) {
    const Node& it = node(at);
    const int64_t with = sum_of(it.left) + it.gpus;
    if (with > room) {
      found = at;
      at = it.left;
    } else {
      room -= with;
      at = it.right;
    }
  }
  return found;
}

std::vector<int32_t> PrefixTree::ids() const {
  std::vector<int32_t> list, path;
  for (int32_t at = root_; at >= 0 || !path.empty();) {
    for (; at >= 0; at = node(at).left) path.push_back(at);
    at = path.back();
    path.pop_back();
    list.push_back(at);
    at = node(at).right;
  }
  return list;
}

}  // namespace scalai::policy::order
