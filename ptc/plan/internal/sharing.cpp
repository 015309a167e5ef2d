#include "ptc/plan/internal/sharing.h"

#include <algorithm>
#include <iterator>
#include <queue>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "ptc/base/status.h"

namespace scalai::plan::internal {

std::vector<Edge> edges_of(const Exchange& exchange, const std::vector<int32_t>& senders) {
  SCALAI_CHECK(senders.size() == exchange.wanting.size());
  absl::flat_hash_map<int32_t, int> left;  // never iterated
  for (const int32_t sender : senders) ++left[sender];
  const auto sends = [&](int32_t place) {
    const auto found = left.find(place);
    return found != left.end() && found->second > 0;
  };
  std::vector<std::pair<int32_t, int32_t>> ready;  // who has the bytes and a copy left to send; the hop it does so on
  for (const int32_t holder : exchange.holders) {
    if (sends(holder)) ready.emplace_back(holder, 0);
  }
  std::vector<int32_t> order, ends;
  for (const int32_t place : exchange.wanting) (sends(place) ? order : ends).push_back(place);
  const size_t passing = order.size();
  order.insert(order.end(), ends.begin(), ends.end());
  std::vector<Edge> edges;
  for (size_t i = 0; i < order.size(); ++i) {
    SCALAI_CHECK(i < ready.size());
    const auto [from, hop] = ready[i];
    edges.push_back({from, order[i], hop});
    if (--left[from] > 0) ready.emplace_back(from, hop);
    if (i < passing) ready.emplace_back(order[i], hop + 1);
  }
  return edges;
}

size_t Sharing::add(const std::vector<Exchange>& exchanges, int64_t bytes) {
  flows_.push_back({.exchanges = exchanges, .bytes = bytes, .parts = {}, .left = {}});
  return flows_.size() - 1;
}

int64_t Sharing::solve(int64_t tolerance, bool fine) {
  std::vector<Demand> demands;
  for (const Flow& flow : flows_) {
    for (const Exchange& exchange : flow.exchanges) {
      demands.push_back({exchange.holders, flow.bytes});
      std::vector<int32_t> all;
      std::merge(exchange.holders.begin(), exchange.holders.end(), exchange.wanting.begin(), exchange.wanting.end(),
                 std::back_inserter(all));
      demands.push_back({std::move(all), flow.bytes * static_cast<int64_t>(exchange.wanting.size() - 1)});
    }
  }
  const Leveled leveled = level(loads_, demands, floor_, tolerance);
  owed_.assign(loads_.size(), 0);
  size_t first = 0;
  for (Flow& flow : flows_) {
    const size_t count = flow.exchanges.size() * 2;
    cut(flow, units_of(flow, leveled.least, fine), std::span(demands).subspan(first, count),
        std::span(leveled.shares).subspan(first, count));
    first += count;
  }
  return leveled.least;
}

int64_t Sharing::units_of(const Flow& flow, int64_t hottest, bool fine) {
  int64_t units = fine ? kMostUnits : 1;
  while (units < kMostUnits && flow.bytes / units > hottest / kMostUnits) units *= 2;
  return units;
}

void Sharing::cut(Flow& flow, int64_t units, std::span<const Demand> demands,
                  std::span<const std::vector<int64_t>> shares) {
  std::vector<Senders> senders(static_cast<size_t>(units), Senders(flow.exchanges.size()));
  for (size_t i = 0; i < demands.size(); ++i) {
    const auto copies = static_cast<int64_t>(i % 2 == 0 ? 1 : flow.exchanges[i / 2].wanting.size() - 1);
    const std::vector<int64_t> given = give(demands[i], shares[i], units * copies, flow.bytes * (kMostUnits / units));
    size_t at = 0;
    for (size_t k = 0; k < given.size(); ++k) {
      for (int64_t unit = 0; unit < given[k]; ++unit, ++at)
        senders[at % senders.size()][i / 2].push_back(demands[i].places[k]);
    }
  }
  for (int64_t begin = 0, end = 0; begin < units; begin = end) {
    const Senders& now = senders[static_cast<size_t>(begin)];
    while (end < units && senders[static_cast<size_t>(end)] == now) ++end;
    flow.left.push_back(flow.bytes * end / units - flow.bytes * begin / units);
    flow.parts.emplace_back();
    for (size_t i = 0; i < now.size(); ++i) flow.parts.back().push_back(edges_of(flow.exchanges[i], now[i]));
  }
}

// One unit after the other to the place that is owed most.
std::vector<int64_t> Sharing::give(const Demand& demand, const std::vector<int64_t>& shares, int64_t units,
                                   int64_t unit) {
  std::vector<int64_t> given(shares.size(), 0);
  std::priority_queue<std::tuple<int64_t, int32_t, size_t>> owed;
  for (size_t k = 0; k < shares.size(); ++k) {
    // What its share alone holds can be given at once, less one unit to make up for what it was given too much.
    given[k] = std::max<int64_t>(0, shares[k] * kMostUnits / unit - 1);
    units -= given[k];
    const int32_t place = demand.places[k];
    owed.emplace(owed_[static_cast<size_t>(place)] + shares[k] * kMostUnits - given[k] * unit, -place, k);
  }
  for (; units > 0; --units) {
    const auto [most, place, k] = owed.top();
    owed.pop();
    ++given[k];
    owed.emplace(most - unit, place, k);
  }
  for (size_t k = 0; k < shares.size(); ++k)
    owed_[static_cast<size_t>(demand.places[k])] += shares[k] * kMostUnits - given[k] * unit;
  return given;
}

std::pair<const Sharing::Way*, int64_t> Sharing::next(size_t number, int64_t bytes, int64_t row) {
  Flow& flow = flows_[number];
  const auto most = std::max_element(flow.left.begin(), flow.left.end());
  const int64_t rows = std::max<int64_t>(1, (*most + row / 2) / row);
  bytes = std::min(bytes, rows * row);
  *most -= bytes;
  return {&flow.parts[static_cast<size_t>(most - flow.left.begin())], bytes};
}

Rows rows_of(const tensor::Box& box, int64_t bytes, int64_t hottest) {
  const int64_t grain = hottest / kShareGrain;
  Rows rows{.dim = -1, .count = 1, .bytes = bytes};
  if (bytes <= grain) return rows;
  for (int dim = 0; dim < box.rank && rows.bytes > grain; ++dim) {
    if (box.extent(dim) <= rows.count) continue;
    rows = {.dim = dim, .count = box.extent(dim), .bytes = bytes / box.extent(dim)};
  }
  return rows;
}

tensor::Box part_of(const tensor::Box& box, const Rows& rows, int64_t begin, int64_t end) {
  tensor::Box part = box;
  if (rows.dim < 0) return part;
  const auto dim = static_cast<size_t>(rows.dim);
  part.lo[dim] = box.lo[dim] + begin;
  part.hi[dim] = box.lo[dim] + end;
  return part;
}

}  // namespace scalai::plan::internal
