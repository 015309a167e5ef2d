#include "ptc/plan/internal/assignment.h"

#include <algorithm>
#include <queue>

#include "ptc/base/status.h"

namespace scalai::plan::internal {
namespace {

constexpr int64_t kFarAway = std::numeric_limits<int64_t>::max() / 4;
constexpr Gain kFar{kFarAway, kFarAway};

Gain negative(const Gain& gain) { return Gain{} - gain; }

// The cheapest flow of one unit from every row to the columns. A node's price is what a unit still costs from there at
// least; along every edge with room, cost + price of its end − price of its start is >= 0.
class ClassedFlow {
  enum class Route : uint8_t { kNone, kDirect, kByClass };

 public:
  explicit ClassedFlow(const ClassedGains& problem)
      : problem_(problem),
        rows_(problem.class_of_row.size()),
        columns_(problem.class_of_column.size()),
        row_classes_(problem.gains.size()),
        column_classes_(problem.gains.empty() ? 0 : problem.gains.front().size()),
        price_(columns_ + column_classes_ + row_classes_ + rows_),
        distance_(price_.size()),
        parent_(price_.size()),
        seen_(price_.size(), 0),
        done_(price_.size(), 0),
        route_(rows_, Route::kNone),
        column_of_(rows_, -1),
        more_begin_(rows_ + 1, 0),
        members_(column_classes_),
        by_class_(row_classes_),
        flow_(row_classes_, std::vector<int32_t>(column_classes_, 0)),
        direct_(columns_),
        through_(columns_, 0) {
    for (size_t c = 0; c < columns_; ++c) members_[class_of_column(c)].push_back(c);
    for (const ClassedGains::More& more : problem.more) ++more_begin_[static_cast<size_t>(more.row) + 1];
    for (size_t r = 0; r < rows_; ++r) more_begin_[r + 1] += more_begin_[r];
  }

  std::optional<std::vector<int32_t>> run() {
    set_first_prices();
    take_what_is_best();
    for (size_t row = 0; row < rows_; ++row) {
      if (route_[row] == Route::kNone && !augment(row)) return std::nullopt;
    }
    name_columns();
    return column_of_;
  }

 private:
  using Node = size_t;  // columns, then their classes, then the rows' classes, then rows: ties end at columns
  Node of_column_class(size_t k) const { return columns_ + k; }
  Node of_row_class(size_t i) const { return columns_ + column_classes_ + i; }
  Node of_row(size_t row) const { return columns_ + column_classes_ + row_classes_ + row; }
  size_t class_of_row(size_t row) const { return static_cast<size_t>(problem_.class_of_row[row]); }
  size_t class_of_column(size_t column) const { return static_cast<size_t>(problem_.class_of_column[column]); }
  bool allowed(size_t i, size_t k) const { return problem_.gains[i][k] != ClassedGains::kForbidden; }
  bool has_room(size_t column) const {
    return static_cast<int32_t>(direct_[column].size()) + through_[column] < problem_.capacity[column];
  }
  Gain direct_cost(const ClassedGains::More& more) const {
    const auto row = static_cast<size_t>(more.row), column = static_cast<size_t>(more.column);
    return negative(problem_.gain(row, column) + more.gain);
  }
  template <class Visit>
  void for_each_direct(size_t row, Visit visit) const {
    for (size_t i = more_begin_[row]; i < more_begin_[row + 1]; ++i) {
      const ClassedGains::More& more = problem_.more[i];
      const auto column = static_cast<size_t>(more.column);
      if (allowed(class_of_row(row), class_of_column(column))) visit(column, direct_cost(more));
    }
  }

  void set_first_prices() {
    for (size_t i = 0; i < row_classes_; ++i) {
      Gain& price = price_[of_row_class(i)] = kFar;
      for (size_t k = 0; k < column_classes_; ++k) {
        if (allowed(i, k)) price = std::min(price, negative(problem_.gains[i][k]));
      }
    }
    for (size_t row = 0; row < rows_; ++row) {
      Gain& price = price_[of_row(row)] = price_[of_row_class(class_of_row(row))];
      for_each_direct(row, [&](size_t, const Gain& cost) { price = std::min(price, cost); });
    }
  }

  // Rows whose best column still has room take it: first those that want a certain column.
  void take_what_is_best() {
    for (size_t row = 0; row < rows_; ++row) {
      for_each_direct(row, [&](size_t column, const Gain& cost) {
        if (route_[row] != Route::kNone || cost != price_[of_row(row)] || !has_room(column)) return;
        step(of_row(row), column);
      });
    }
    std::vector<size_t> next(column_classes_, 0);
    for (size_t row = 0; row < rows_; ++row) {
      const size_t i = class_of_row(row);
      if (route_[row] != Route::kNone || price_[of_row(row)] != price_[of_row_class(i)]) continue;
      for (size_t k = 0; k < column_classes_ && route_[row] == Route::kNone; ++k) {
        if (!allowed(i, k) || negative(problem_.gains[i][k]) != price_[of_row_class(i)]) continue;
        while (next[k] < members_[k].size() && !has_room(members_[k][next[k]])) ++next[k];
        if (next[k] == members_[k].size()) continue;
        step(of_row(row), of_row_class(i));
        step(of_row_class(i), of_column_class(k));
        step(of_column_class(k), members_[k][next[k]]);
      }
    }
  }

  bool augment(size_t row) {
    ++round_;
    queue_ = {};
    reach(of_row(row), of_row(row), {});
    std::vector<Node> settled;
    while (!queue_.empty()) {
      const auto [distance, node] = queue_.top();
      queue_.pop();
      if (done_[node] == round_) continue;
      done_[node] = round_;
      if (node < columns_ && has_room(node)) {
        for (const Node other : settled) price_[other] += distance - distance_[other];
        walk(node);
        return true;
      }
      settled.push_back(node);
      look_on(node);
    }
    return false;
  }

  void reach(Node node, Node from, const Gain& distance) {
    if (done_[node] == round_ || (seen_[node] == round_ && distance >= distance_[node])) return;
    seen_[node] = round_;
    distance_[node] = distance;
    parent_[node] = from;
    queue_.emplace(distance, node);
  }
  void edge(Node from, Node to, const Gain& cost) {
    reach(to, from, distance_[from] + cost + price_[to] - price_[from]);
  }

  void look_on(Node node) {
    if (node < columns_) {
      for (const size_t row : direct_[node]) edge(node, of_row(row), negative(cost_of_direct(row, node)));
      if (through_[node] > 0) edge(node, of_column_class(class_of_column(node)), {});
    } else if (node < of_row_class(0)) {
      const size_t k = node - columns_;
      for (const size_t column : members_[k]) {
        if (problem_.capacity[column] > 0) edge(node, column, {});
      }
      for (size_t i = 0; i < row_classes_; ++i) {
        if (flow_[i][k] > 0) edge(node, of_row_class(i), problem_.gains[i][k]);
      }
    } else if (node < of_row(0)) {
      const size_t i = node - of_row_class(0);
      for (size_t k = 0; k < column_classes_; ++k) {
        if (allowed(i, k)) edge(node, of_column_class(k), negative(problem_.gains[i][k]));
      }
      for (const size_t row : by_class_[i]) edge(node, of_row(row), {});
    } else {
      const size_t row = node - of_row(0);
      for_each_direct(row, [&](size_t column, const Gain& cost) {
        if (problem_.capacity[column] > 0) edge(node, column, cost);
      });
      edge(node, of_row_class(class_of_row(row)), {});
    }
  }

  Gain cost_of_direct(size_t row, size_t wanted) const {
    Gain found;
    for_each_direct(row, [&](size_t column, const Gain& cost) {
      if (column == wanted) found = cost;
    });
    return found;
  }

  void walk(Node end) {
    std::vector<Node> path = {end};
    while (parent_[path.back()] != path.back()) path.push_back(parent_[path.back()]);
    for (size_t i = path.size() - 1; i > 0; --i) step(path[i], path[i - 1]);
  }

  // One unit more from node to node, or one less the other way.
  void step(Node from, Node to) {
    const Node first_row = of_row(0), first_row_class = of_row_class(0);
    if (from >= first_row) {
      const size_t row = from - first_row;
      route_[row] = to < columns_ ? Route::kDirect : Route::kByClass;
      (to < columns_ ? direct_[to] : by_class_[to - first_row_class]).push_back(row);
    } else if (to >= first_row) {
      std::erase(from < columns_ ? direct_[from] : by_class_[from - first_row_class], to - first_row);
    } else if (from >= first_row_class) {
      ++flow_[from - first_row_class][to - columns_];
    } else if (to >= first_row_class) {
      --flow_[to - first_row_class][from - columns_];
    } else {
      to < columns_ ? ++through_[to] : --through_[from];
    }
  }

  // Inside a class it does not matter who goes where.
  void name_columns() {
    for (size_t column = 0; column < columns_; ++column) {
      for (const size_t row : direct_[column]) column_of_[row] = static_cast<int32_t>(column);
    }
    std::vector<size_t> at(column_classes_, 0);
    for (size_t i = 0; i < row_classes_; ++i) {
      std::sort(by_class_[i].begin(), by_class_[i].end());
      size_t next = 0;
      for (size_t k = 0; k < column_classes_; ++k) {
        for (int32_t n = 0; n < flow_[i][k]; ++n) {
          while (through_[members_[k][at[k]]] == 0) ++at[k];
          --through_[members_[k][at[k]]];
          column_of_[by_class_[i][next++]] = static_cast<int32_t>(members_[k][at[k]]);
        }
      }
    }
  }

  const ClassedGains& problem_;
  const size_t rows_, columns_, row_classes_, column_classes_;
  std::vector<Gain> price_, distance_;
  std::vector<Node> parent_;
  std::vector<int> seen_, done_;  // by node: the round in which it was reached, settled
  int round_ = 0;
  std::vector<Route> route_;
  std::vector<int32_t> column_of_;
  std::vector<size_t> more_begin_;
  std::vector<std::vector<size_t>> members_;   // columns by class
  std::vector<std::vector<size_t>> by_class_;  // rows that go through their class
  std::vector<std::vector<int32_t>> flow_;     // between classes
  std::vector<std::vector<size_t>> direct_;    // by column: rows that go there past the classes
  std::vector<int32_t> through_;               // by column: rows that come through its class
  std::priority_queue<std::pair<Gain, Node>, std::vector<std::pair<Gain, Node>>, std::greater<>> queue_;
};

std::optional<std::vector<int32_t>> greedy_assignment(const ClassedGains& problem) {
  std::vector<int32_t> room = problem.capacity;
  std::vector<int32_t> column_of;
  auto more = problem.more.begin();
  std::vector<Gain> extra(room.size());
  for (size_t row = 0; row < problem.class_of_row.size(); ++row) {
    const auto begin = more;
    for (; more != problem.more.end() && static_cast<size_t>(more->row) == row; ++more)
      extra[static_cast<size_t>(more->column)] = more->gain;
    int32_t best = -1;
    Gain most;
    for (size_t column = 0; column < room.size(); ++column) {
      if (room[column] == 0 || problem.gain(row, column) == ClassedGains::kForbidden) continue;
      const Gain gain = problem.gain(row, column) + extra[column];
      if (best >= 0 && gain <= most) continue;
      best = static_cast<int32_t>(column);
      most = gain;
    }
    if (best < 0) return std::nullopt;
    --room[static_cast<size_t>(best)];
    column_of.push_back(best);
    for (auto entry = begin; entry != more; ++entry) extra[static_cast<size_t>(entry->column)] = {};
  }
  return column_of;
}

}  // namespace

// Costs are −gain. Index 0 is a virtual row or column.
std::vector<int> best_assignment(const std::vector<std::vector<Gain>>& gains) {
  if (gains.empty()) return {};
  const size_t rows = gains.size(), columns = gains.front().size();
  SCALAI_CHECK(rows <= columns);
  std::vector<Gain> row_price(rows + 1), column_price(columns + 1), distance(columns + 1);
  std::vector<size_t> row_of(columns + 1, 0), previous(columns + 1, 0);
  for (size_t row = 1; row <= rows; ++row) {
    row_of[0] = row;
    std::fill(distance.begin(), distance.end(), kFar);
    std::vector<bool> done(columns + 1, false);
    size_t column = 0;
    do {
      done[column] = true;
      const size_t at = row_of[column];
      Gain step = kFar;
      size_t next = 0;
      for (size_t j = 1; j <= columns; ++j) {
        if (done[j]) continue;
        const Gain reduced = negative(gains[at - 1][j - 1]) - row_price[at] - column_price[j];
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

std::optional<std::vector<int32_t>> best_assignment(const ClassedGains& problem) {
  if (problem.class_of_row.empty()) return std::vector<int32_t>();
  if (problem.gains.empty() || problem.gains.size() * problem.gains.front().size() > kExactClassPairs)
    return greedy_assignment(problem);
  return ClassedFlow(problem).run();
}

}  // namespace scalai::plan::internal
