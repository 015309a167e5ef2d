#include "ptc/plan/placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/plan/bounds.h"
#include "ptc/plan/internal/fan_out.h"
#include "ptc/plan/internal/spread.h"

namespace scalai::plan {
namespace {

using internal::HeldBox;
using Matrix = std::vector<std::vector<int64_t>>;

// Largest benefits first, each row and column once.
std::vector<int> greedy_assignment(const Matrix& benefit) {
  std::vector<std::tuple<int64_t, int, int>> pairs;  // −benefit, row, column
  for (size_t row = 0; row < benefit.size(); ++row) {
    for (size_t column = 0; column < benefit[row].size(); ++column) {
      pairs.emplace_back(-benefit[row][column], static_cast<int>(row), static_cast<int>(column));
    }
  }
  std::sort(pairs.begin(), pairs.end());
  std::vector<int> column_of(benefit.size(), -1);
  std::vector<bool> used(benefit.empty() ? 0 : benefit.front().size(), false);
  for (const auto& [cost, row, column] : pairs) {
    if (column_of[static_cast<size_t>(row)] >= 0 || used[static_cast<size_t>(column)]) continue;
    column_of[static_cast<size_t>(row)] = column;
    used[static_cast<size_t>(column)] = true;
  }
  return column_of;
}

// Shortest augmenting paths with potentials, one row at a time; costs are −benefit. Index 0 is a virtual row or column.
std::vector<int> exact_assignment(const Matrix& benefit) {
  const size_t rows = benefit.size(), columns = benefit.front().size();
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 4;
  std::vector<int64_t> row_price(rows + 1, 0), column_price(columns + 1, 0);
  std::vector<size_t> row_of(columns + 1, 0), previous(columns + 1, 0);
  for (size_t row = 1; row <= rows; ++row) {
    row_of[0] = row;
    std::vector<int64_t> distance(columns + 1, kFar);
    std::vector<bool> done(columns + 1, false);
    size_t column = 0;
    do {
      done[column] = true;
      const size_t at = row_of[column];
      int64_t step = kFar;
      size_t next = 0;
      for (size_t j = 1; j <= columns; ++j) {
        if (done[j]) continue;
        const int64_t reduced = -benefit[at - 1][j - 1] - row_price[at] - column_price[j];
        if (reduced < distance[j]) {
          distance[j] = reduced;
          previous[j] = column;
        }
        if (distance[j] < step) {
          step = distance[j];
          next = j;
        }
      }
      for (size_t j = 0; j <= columns; ++j) {
        if (done[j]) {
          row_price[row_of[j]] += step;
          column_price[j] -= step;
        } else {
          distance[j] -= step;
        }
      }
      column = next;
    } while (row_of[column] != 0);
    for (; column != 0; column = previous[column]) row_of[column] = row_of[previous[column]];
  }
  std::vector<int> column_of(rows, -1);
  for (size_t j = 1; j <= columns; ++j) {
    if (row_of[j] != 0) column_of[row_of[j] - 1] = static_cast<int>(j) - 1;
  }
  return column_of;
}

// A part of a new box that lies in one old box: which ranks want it, which devices hold it.
struct Overlap {
  std::vector<DeviceId> ranks;  // as DeviceId, for DevicesByHost's sake of one list type
  const std::vector<DeviceId>* devices = nullptr;
  int64_t bytes = 0;
  bool whole = false;  // the same box on both sides
};

class Placer {
  static constexpr int64_t kStays = 1024;

 public:
  Placer(const PlannerInput& input, const std::vector<DeviceId>& candidates)
      : input_(input), ranks_(static_cast<size_t>(input.to.ranks())), by_rank_(input.to) {
    hosts_ = internal::by_host(candidates, input.cluster).groups;
    for (size_t rank = 0; rank < ranks_; ++rank) by_rank_.device_of_rank[rank] = DeviceId(static_cast<int64_t>(rank));
  }

  // Ranks per host: the most candidates that any host offers, if that fills blocks evenly.
  bool fits() {
    size_t most = 0;
    for (const auto& host : hosts_) most = std::max(most, host.devices.size());
    block_ = std::min(most, ranks_);
    if (block_ == 0 || ranks_ % block_ != 0) return false;
    std::erase_if(hosts_, [&](const auto& host) { return host.devices.size() < block_; });
    return hosts_.size() >= ranks_ / block_;
  }

  std::vector<DeviceId> run() {
    Matrix by_host(ranks_ / block_, std::vector<int64_t>(hosts_.size(), 0));
    for_each_overlap([&](const Overlap& overlap) {
      for (const size_t block : blocks_of(overlap.ranks)) {
        for (const size_t host : hosts_of(*overlap.devices)) by_host[block][host] += overlap.bytes;
      }
    });
    const std::vector<int> host_of_block = best_assignment(by_host);

    block_of_host_.assign(hosts_.size(), -1);
    for (size_t block = 0; block < host_of_block.size(); ++block) {
      block_of_host_[static_cast<size_t>(host_of_block[block])] = static_cast<int>(block);
    }
    std::vector<DeviceId> devices(ranks_);
    std::vector<Matrix> inside = benefits_inside();
    for (size_t block = 0; block < host_of_block.size(); ++block) {
      const std::vector<int> slot = best_assignment(inside[block]);
      const std::vector<DeviceId>& local = hosts_[static_cast<size_t>(host_of_block[block])].devices;
      for (size_t i = 0; i < block_; ++i) devices[block * block_ + i] = local[static_cast<size_t>(slot[i])];
    }
    return devices;
  }

 private:
  template <class Visit>
  void for_each_overlap(Visit visit) {
    internal::Side from(input_.from), to(by_rank_);
    for (const std::vector<TensorId>& group : internal::alike(input_.from, input_.to, input_.residency)) {
      const std::vector<HeldBox> old = from.spread_of(group.front(), input_.residency.lost);
      const internal::BoxIndex index(old);
      const int64_t size = tensor::size_of(input_.to.tensors[static_cast<size_t>(group.front().value)].dtype) *
                           static_cast<int64_t>(group.size());
      for (const HeldBox& piece : to.spread_of(group.front(), {})) {
        index.overlaps(piece.box, [&](size_t i, const tensor::Box& common) {
          Overlap overlap{.ranks = piece.devices,
                          .devices = &old[i].devices,
                          .bytes = common.volume() * size,
                          .whole = old[i].box == piece.box};
          std::sort(overlap.ranks.begin(), overlap.ranks.end());
          visit(overlap);
        });
      }
    }
  }

  std::vector<size_t> blocks_of(const std::vector<DeviceId>& ranks) const {
    std::vector<size_t> blocks;
    for (const DeviceId rank : ranks) blocks.push_back(static_cast<size_t>(rank.value) / block_);
    std::sort(blocks.begin(), blocks.end());
    blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
    return blocks;
  }

  std::vector<size_t> hosts_of(const std::vector<DeviceId>& devices) const {
    std::vector<size_t> hosts;
    for (const auto& group : internal::by_host(devices, input_.cluster).groups) {
      const auto at = std::lower_bound(hosts_.begin(), hosts_.end(), group.host,
                                       [](const auto& host, HostId wanted) { return host.host < wanted; });
      if (at != hosts_.end() && at->host == group.host) hosts.push_back(static_cast<size_t>(at - hosts_.begin()));
    }
    return hosts;
  }

  // By block: rank inside the block × device of the block's host. What need not move counts far more than whether it can
  // stay where it is.
  std::vector<Matrix> benefits_inside() {
    std::map<DeviceId, std::pair<size_t, size_t>> slot_of;  // candidate device → block, index on its host
    std::vector<Matrix> inside(ranks_ / block_);
    for (size_t h = 0; h < hosts_.size(); ++h) {
      if (block_of_host_[h] < 0) continue;
      const auto block = static_cast<size_t>(block_of_host_[h]);
      inside[block].assign(block_, std::vector<int64_t>(hosts_[h].devices.size(), 0));
      for (size_t i = 0; i < hosts_[h].devices.size(); ++i) slot_of[hosts_[h].devices[i]] = {block, i};
    }
    for_each_overlap([&](const Overlap& overlap) {
      for (const DeviceId device : *overlap.devices) {
        const auto slot = slot_of.find(device);
        if (slot == slot_of.end()) continue;
        const auto [block, index] = slot->second;
        const auto first = std::lower_bound(overlap.ranks.begin(), overlap.ranks.end(),
                                            DeviceId(static_cast<int64_t>(block * block_)));
        for (auto rank = first; rank != overlap.ranks.end() && static_cast<size_t>(rank->value) / block_ == block;
             ++rank) {
          inside[block][static_cast<size_t>(rank->value) % block_][index] +=
              (overlap.whole ? kStays + 1 : kStays) * overlap.bytes;
        }
      }
    });
    return inside;
  }

  const PlannerInput& input_;
  const size_t ranks_;
  collection::Collection by_rank_;                     // the new collection with ranks for devices
  std::vector<internal::DevicesByHost::Group> hosts_;  // candidates
  size_t block_ = 0;                                   // ranks a host
  std::vector<int> block_of_host_;
};

// What a placement costs: bytes across hosts, then bytes between devices, then bytes copied inside devices.
std::tuple<int64_t, int64_t, int64_t> cost_of(const PlannerInput& input) {
  const ClassBytes bound = lower_bounds(input).given_placement;
  return {bound.cross_host, bound.moved() + bound.from_storage, bound.same_device};
}

}  // namespace

std::vector<int> best_assignment(const Matrix& benefit) {
  if (benefit.empty()) return {};
  SCALAI_CHECK(benefit.size() <= benefit.front().size());
  return benefit.front().size() <= kExactHosts ? exact_assignment(benefit) : greedy_assignment(benefit);
}

std::vector<DeviceId> place(const PlannerInput& input, const std::vector<DeviceId>& candidates) {
  Placer placer(input, candidates);
  if (!placer.fits()) return input.to.device_of_rank;
  collection::Collection placed = input.to;
  placed.device_of_rank = placer.run();
  const PlannerInput other{.from = input.from,
                           .to = placed,
                           .cluster = input.cluster,
                           .residency = input.residency,
                           .options = input.options};
  return cost_of(other) < cost_of(input) ? placed.device_of_rank : input.to.device_of_rank;
}

}  // namespace scalai::plan
