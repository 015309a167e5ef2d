#include "labs/validation/model/goals.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "ptc/base/status.h"

namespace scalai::step::validation {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// The number after `prefix`; false when the word is another one.
bool limit_of(const std::string& word, std::string_view prefix, double& limit) {
  if (!word.starts_with(prefix)) return false;
  const std::string number = word.substr(prefix.size());
  char* end = nullptr;
  limit = std::strtod(number.c_str(), &end);
  return !number.empty() && end == number.c_str() + number.size() && std::isfinite(limit);
}

bool is_goal(const std::string& word) {
  double limit = 0;
  return word == "order" || word == "exact" || limit_of(word, "mape<=", limit) || limit_of(word, "max<=", limit) ||
         limit_of(word, "tau>=", limit);
}

Goal order_goal(const TableResult& result) {
  std::vector<double> published, predicted;
  for (const RowResult& row : result.rows) {
    if (row.fitted || !row.problem.empty()) continue;
    published.push_back(row.rank_published);
    predicted.push_back(row.rank_predicted);
  }
  const OrderedPairs order = ordered_pairs(published, predicted, kOrderShare);
  return {"order", fmt::format("{} of {} pairs reversed", order.reversed, order.pairs), order.reversed == 0};
}

Goal goal_of(const std::string& word, const TableResult& result) {
  const double percent = result.percentages ? 1 : 100;
  const char* unit = result.percentages ? "points" : "%";
  double limit = 0;
  if (limit_of(word, "mape<=", limit)) {
    const double value = percent * result.predicted.mape;
    return {word, fmt::format("{:.1f} {}", value, unit), value <= limit};
  }
  if (limit_of(word, "max<=", limit)) {
    const double value = percent * std::abs(result.predicted.largest);
    return {word, fmt::format("{:.1f} {}", value, unit), value <= limit};
  }
  if (limit_of(word, "tau>=", limit)) {
    return {word, result.tau ? fmt::format("{:.2f}", *result.tau) : "none", result.tau && *result.tau >= limit};
  }
  if (word == "order") return order_goal(result);
  SCALAI_CHECK(word == "exact", word);
  int rows = 0;
  for (const RowResult& row : result.rows) rows += row.published_text.empty() ? 0 : 1;
  return {word, fmt::format("{} of {} rows", result.exact, rows), result.exact == rows};
}

}  // namespace

void check_goals(const PublishedTable& table, Diagnostics& problems) {
  for (const std::string& word : words_of(table.said("goal"))) {
    if (!is_goal(word)) {
      problems.error(table.header_at.at("goal"), fmt::format("\"{}\" is no goal", word),
                     "goals are mape<=N, max<=N, tau>=N, order and exact");
    }
  }
}

std::vector<Goal> goals_of(const TableResult& result) {
  std::vector<Goal> goals;
  for (const std::string& word : words_of(result.table.said("goal"))) {
    Goal goal = goal_of(word, result);
    if (result.missing > 0) {
      goal.said += fmt::format(", {} rows without prediction", result.missing);
      goal.met = false;
    }
    goals.push_back(std::move(goal));
  }
  return goals;
}

}  // namespace scalai::step::validation
