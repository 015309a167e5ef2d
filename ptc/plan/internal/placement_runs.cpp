#include "ptc/plan/internal/placement_runs.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>

#include "absl/container/flat_hash_map.h"

namespace scalai::plan {
namespace {

using internal::ClassedGains;
using internal::Gain;
using List = std::vector<int32_t>;

constexpr size_t kQuick = size_t{1} << 22;  // steps that the assignments inside all sites may take
constexpr size_t kLoosePairs = 16;          // a part with at most so many pairs makes no class of its own

int32_t size_of(const List& list) { return static_cast<int32_t>(list.size()); }
int32_t size_of(const Site& site) { return static_cast<int32_t>(site.devices.size()); }

void sort_unique(List& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// Lists by number: the same list has the same number.
class Lists {
 public:
  int32_t number(List list) {
    const auto [entry, fresh] = known_.try_emplace(std::move(list), static_cast<int32_t>(known_.size()));
    if (fresh) lists_.push_back(&entry->first);
    return entry->second;
  }
  const List& operator[](size_t number) const { return *lists_[number]; }
  size_t size() const { return lists_.size(); }

 private:
  std::map<List, int32_t> known_;
  std::vector<const List*> lists_;
};

// Runs as rows and places as columns of an assignment. Big parts make classes: rows (columns) with the same big parts
// are alike. Small ones are gains of single pairs.
class GainBuilder {
 public:
  GainBuilder(const RankedChange& change, const Runs& runs, const std::vector<Site>& sites)
      : change_(change), runs_(runs), sites_(sites), places_of_site_(sites.size()) {
    for (size_t p = 0; p < runs.places.size(); ++p)
      places_of_site_[static_cast<size_t>(runs.places[p].site)].push_back(static_cast<int32_t>(p));
  }

  ClassedGains run() {
    std::vector<List> row_marks(runs_.runs.size()), column_marks(runs_.places.size());
    for (const RunPart& part : parts_of(change_, runs_, sites_)) {
      List fetching;
      std::set_difference(part.wanting.begin(), part.wanting.end(), part.deriving.begin(), part.deriving.end(),
                          std::back_inserter(fetching));
      if (fetching.size() * part.holding.size() <= kLoosePairs) {
        add_pairs(fetching, part);
        continue;
      }
      const auto mark = static_cast<int32_t>(bytes_.size());
      bytes_.push_back(part.bytes);
      for (const int32_t row : fetching) row_marks[static_cast<size_t>(row)].push_back(mark);
      for (const int32_t site : part.holding) {
        for (const int32_t place : places_of_site_[static_cast<size_t>(site)])
          column_marks[static_cast<size_t>(place)].push_back(mark);
      }
    }
    make_classes(row_marks, column_marks);
    if (steps_inside() <= kQuick) add_gains_inside();
    finish_pairs();
    return std::move(result_);
  }

 private:
  void add_pairs(const List& fetching, const RunPart& part) {
    for (const int32_t row : fetching) {
      for (const int32_t site : part.holding) {
        for (const int32_t place : places_of_site_[static_cast<size_t>(site)])
          result_.more.push_back({row, place, {part.bytes, 0}});
      }
    }
  }

  // A class is a length, a domain and big parts, in this order.
  void make_classes(std::vector<List>& row_marks, std::vector<List>& column_marks) {
    Lists rows, columns;
    for (size_t r = 0; r < row_marks.size(); ++r) {
      const int domain = runs_.domain_of_run.empty() ? -1 : runs_.domain_of_run[r];
      row_marks[r].insert(row_marks[r].begin(), {size_of(runs_.runs[r]), domain});
      result_.class_of_row.push_back(rows.number(std::move(row_marks[r])));
    }
    for (size_t p = 0; p < column_marks.size(); ++p) {
      const Runs::Place& place = runs_.places[p];
      const int domain =
          runs_.domain_of_run.empty() ? -1 : change_.domain_of(sites_[static_cast<size_t>(place.site)].hosts.front());
      column_marks[p].insert(column_marks[p].begin(), {place.length, domain});
      result_.class_of_column.push_back(columns.number(std::move(column_marks[p])));
      result_.capacity.push_back(place.capacity);
    }
    result_.gains.assign(rows.size(), std::vector<Gain>(columns.size()));
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t k = 0; k < columns.size(); ++k) result_.gains[i][k] = gain_between(rows[i], columns[k]);
    }
  }

  Gain gain_between(const List& row, const List& column) const {
    if (row[0] > column[0] || row[1] != column[1]) return ClassedGains::kForbidden;
    List common;
    std::set_intersection(row.begin() + 2, row.end(), column.begin() + 2, column.end(), std::back_inserter(common));
    Gain gain;
    for (const int32_t mark : common) gain.first += bytes_[static_cast<size_t>(mark)];
    return gain;
  }

  size_t steps_inside() const {
    size_t of_rows = 0, of_columns = 0;
    for (const List& run : runs_.runs) of_rows += run.size() * run.size();
    for (const Runs::Place& place : runs_.places) of_columns += sites_[static_cast<size_t>(place.site)].devices.size();
    return of_rows * of_columns;
  }

  void add_gains_inside() {
    for (size_t r = 0; r < runs_.runs.size(); ++r) {
      for (size_t p = 0; p < runs_.places.size(); ++p) {
        if (result_.gain(r, p) == ClassedGains::kForbidden) continue;
        const auto gains = change_.gains_of(runs_.runs[r], sites_[static_cast<size_t>(runs_.places[p].site)].devices);
        const std::vector<int> slot = internal::best_assignment(gains);
        Gain inside;
        for (size_t i = 0; i < slot.size(); ++i) inside.second += gains[i][static_cast<size_t>(slot[i])].first;
        result_.more.push_back({static_cast<int32_t>(r), static_cast<int32_t>(p), inside});
      }
    }
  }

  // Each pair once.
  void finish_pairs() {
    auto& pairs = result_.more;
    std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
      return std::pair(a.row, a.column) < std::pair(b.row, b.column);
    });
    size_t count = 0;
    for (const ClassedGains::More& pair : pairs) {
      if (count > 0 && pairs[count - 1].row == pair.row && pairs[count - 1].column == pair.column) {
        pairs[count - 1].gain += pair.gain;
      } else {
        pairs[count++] = pair;
      }
    }
    pairs.resize(count);
  }

  const RankedChange& change_;
  const Runs& runs_;
  const std::vector<Site>& sites_;
  std::vector<List> places_of_site_;
  std::vector<int64_t> bytes_;  // of big parts
  ClassedGains result_;
};

}  // namespace

std::optional<Runs> equal_runs(const List& order, const std::vector<Site>& sites, int32_t length) {
  Runs result;
  for (size_t begin = 0; begin < order.size(); begin += static_cast<size_t>(length)) {
    const size_t end = std::min(order.size(), begin + static_cast<size_t>(length));
    result.runs.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                             order.begin() + static_cast<std::ptrdiff_t>(end));
  }
  if (result.runs.empty()) return std::nullopt;
  const int32_t last = size_of(result.runs.back());
  int64_t places = 0, odd_places = 0;
  for (size_t h = 0; h < sites.size(); ++h) {
    const int32_t whole = size_of(sites[h]) / length, rest = size_of(sites[h]) % length;
    if (whole > 0) result.places.push_back({static_cast<int32_t>(h), length, whole});
    if (last < length && rest >= last) result.places.push_back({static_cast<int32_t>(h), rest, 1});
    places += whole;
    odd_places += last < length && rest >= last ? 1 : 0;
  }
  const auto needed = static_cast<int64_t>(result.runs.size());
  if (places + std::min<int64_t>(odd_places, 1) < needed) return std::nullopt;
  return result;
}

std::optional<Runs> filling_runs(const List& order, const std::vector<Site>& sites, int32_t most, int32_t group) {
  const auto room = [&](const Site& site) {
    const int32_t size = std::min(size_of(site), most);
    return size - size % group;
  };
  int64_t sum = 0;
  for (const Site& site : sites) sum += room(site);
  if (sum < static_cast<int64_t>(order.size())) return group > 1 ? filling_runs(order, sites, most, 1) : std::nullopt;
  Runs result;
  auto next = order.begin();
  for (size_t h = 0; h < sites.size(); ++h) {
    result.places.push_back({static_cast<int32_t>(h), size_of(sites[h]), 1});
    const auto count = std::min<std::ptrdiff_t>(room(sites[h]), order.end() - next);
    if (count == 0) continue;
    result.runs.emplace_back(next, next + count);
    next += count;
  }
  return result;
}

List run_lengths(const std::vector<Site>& sites, int32_t ranks, int32_t group) {
  int32_t most = 0;
  for (const Site& site : sites) most = std::max(most, size_of(site));
  most = std::min(most, ranks);
  if (most == 0) return {};
  List lengths;
  const int32_t together = std::min(group, most), whole = most - most % together;
  for (int32_t length = whole; length >= together; length -= together) {
    if (whole % length == 0) lengths.push_back(length);
  }
  return lengths;
}

List by_replica(const RankedChange& change) {
  List order(static_cast<size_t>(change.ranks()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return change.replica_of(a) < change.replica_of(b); });
  return order;
}

std::vector<RunPart> parts_of(const RankedChange& change, const Runs& runs, const std::vector<Site>& sites) {
  List run_of_rank(static_cast<size_t>(change.ranks()));
  for (size_t r = 0; r < runs.runs.size(); ++r) {
    for (const int32_t rank : runs.runs[r]) run_of_rank[static_cast<size_t>(rank)] = static_cast<int32_t>(r);
  }
  absl::flat_hash_map<int32_t, int32_t> site_of_host;
  for (size_t s = 0; s < sites.size(); ++s) {
    for (const HostId host : sites[s].hosts) site_of_host[host.value] = static_cast<int32_t>(s);
  }
  Lists run_lists;
  const auto runs_of = [&](const List& ranks) {
    List list;
    for (const int32_t rank : ranks) list.push_back(run_of_rank[static_cast<size_t>(rank)]);
    sort_unique(list);
    return run_lists.number(std::move(list));
  };
  absl::flat_hash_map<int32_t, int32_t> runs_of_set;          // set of ranks → list of runs
  absl::flat_hash_map<std::array<int32_t, 3>, size_t> known;  // wanting, deriving, holding → part
  std::vector<RunPart> parts;
  for (const RankedChange::Part& part : change.parts()) {
    if (part.wire == 0 || part.holding < 0) continue;
    auto [wanting, fresh] = runs_of_set.try_emplace(part.wanting, -1);
    if (fresh) wanting->second = runs_of(change.ranks_of(part.wanting));
    int32_t deriving = -1;
    if (part.masters >= 0) {
      List both;
      const List &wanted = change.ranks_of(part.wanting), &masters = change.ranks_of(part.masters);
      std::set_intersection(wanted.begin(), wanted.end(), masters.begin(), masters.end(), std::back_inserter(both));
      if (!both.empty()) deriving = runs_of(both);
    }
    const auto [entry, unknown] = known.try_emplace({wanting->second, deriving, part.holding}, parts.size());
    if (unknown) {
      RunPart& added = parts.emplace_back();
      added.wanting = run_lists[static_cast<size_t>(wanting->second)];
      if (deriving >= 0) added.deriving = run_lists[static_cast<size_t>(deriving)];
      for (const HostId host : change.hosts_of(part.holding)) {
        if (const auto at = site_of_host.find(host.value); at != site_of_host.end())
          added.holding.push_back(at->second);
      }
      sort_unique(added.holding);
    }
    parts[entry->second].bytes += part.wire;
  }
  return parts;
}

std::optional<List> assign_runs(const RankedChange& change, const Runs& runs, const std::vector<Site>& sites) {
  auto place_of = internal::best_assignment(GainBuilder(change, runs, sites).run());
  if (!place_of) return std::nullopt;
  for (int32_t& place : *place_of) place = runs.places[static_cast<size_t>(place)].site;
  return place_of;
}

}  // namespace scalai::plan
