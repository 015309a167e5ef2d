#pragma once
// Sharing: which place sends which part of what flows between places, so that the hottest place is as cool as possible.
//
// A place is a host, or a device or a host's memory where nothing crosses hosts. In an exchange of b bytes from holders
// H to those that want them, W, every place of W receives each byte once. So |W| copies are sent, at least one of them
// by a holder, the others by whoever holds or wants the bytes. In shares, that are two demands (leveling.h):
//
//   b              over H                 the first copy
//   b (|W| − 1)    over H ∪ W             the others
//
// Shares are then rounded to whole units, a flow into 1, 2, 4 … 64 of them, of at most 1/64 of what the hottest link
// carries, so that a flow is cut into few parts: what a place was given too little (or too much) it gets more (less) of
// from the next flow. Real trees have these shares: lay the first shares side by side along the line from 0 to b, and
// cut the others into |W| − 1 such lines. At each point a holder and |W| − 1 further senders meet. Places of W that
// send come first in the tree, so that somebody who has the bytes always has a copy left to send.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ptc/plan/internal/leveling.h"
#include "ptc/state/tensor/box.h"

namespace scalai::plan::internal {

// Plans whose hottest link carries no more than 1/20 above the least are left as they are: sharing cuts boxes.
inline constexpr int64_t kShareAbove = 20;
inline constexpr int64_t kShareTolerance = 64;  // Sharing::solve
inline constexpr int64_t kMostUnits = 64;       // of a flow
// Boxes of at most 1/1024 of the hottest link are not cut.
inline constexpr int64_t kShareGrain = 1024;

// Places that serve one another. Disjoint, both ascending, neither empty.
struct Exchange {
  std::vector<int32_t> holders, wanting;
  bool forced() const { return holders.size() == 1 && wanting.size() == 1; }
};

// One copy on its way; edges come in an order in which every place has the bytes before it sends.
struct Edge {
  int32_t from = 0, to = 0, hop = 0;
  friend bool operator==(const Edge&, const Edge&) = default;
};

// Who sends to whom when these places send: one entry for each copy, the first a holder. CHECK: as many as want it.
std::vector<Edge> edges_of(const Exchange& exchange, const std::vector<int32_t>& senders);

class Sharing {
 public:
  // What places send already, and what the hottest link carries in any case.
  Sharing(std::vector<int64_t> loads, int64_t floor) : loads_(std::move(loads)), floor_(floor) {}
  // The same bytes over each of these exchanges. Returns the number of the flow, counted from 0.
  size_t add(const std::vector<Exchange>& exchanges, int64_t bytes);
  // Decides all shares; the tolerance and the result as in leveling.h. Fine: 64 units whatever a flow carries, so that
  // any part of the work is shared alike.
  int64_t solve(int64_t tolerance = 0, bool fine = false);

  using Way = std::vector<std::vector<Edge>>;  // of a part of a flow, by exchange
  // What is to take the next `bytes`, a multiple of `row`, in which a box can be cut: the part of which most is left,
  // and how many bytes, at least one row. A part gets what it should have to within a row. After solve().
  std::pair<const Way*, int64_t> next(size_t flow, int64_t bytes, int64_t row);

 private:
  using Senders = std::vector<std::vector<int32_t>>;  // by exchange, for edges_of
  struct Flow {
    std::vector<Exchange> exchanges;
    int64_t bytes = 0;
    std::vector<Way> parts;
    std::vector<int64_t> left;  // by part
  };
  static int64_t units_of(const Flow& flow, int64_t hottest, bool fine);
  void cut(Flow& flow, int64_t units, std::span<const Demand> demands, std::span<const std::vector<int64_t>> shares);
  std::vector<int64_t> give(const Demand& demand, const std::vector<int64_t>& shares, int64_t units, int64_t unit);

  std::vector<int64_t> loads_;
  int64_t floor_;
  std::vector<Flow> flows_;
  std::vector<int64_t> owed_;  // by place: its shares less what it was given of them so far, times kMostUnits
};

// How a box may be cut among senders: into rows along one dimension, the first whose rows are small enough, else the
// longest. A box that is not cut is one row.
struct Rows {
  int dim = -1;  // −1: not cut
  int64_t count = 1, bytes = 0;
};
Rows rows_of(const tensor::Box& box, int64_t bytes, int64_t hottest);
tensor::Box part_of(const tensor::Box& box, const Rows& rows, int64_t begin, int64_t end);

}  // namespace scalai::plan::internal
