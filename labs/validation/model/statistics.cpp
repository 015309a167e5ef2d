#include "labs/validation/model/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::step::validation {
namespace {

int sign(double difference) { return difference > 0 ? 1 : difference < 0 ? -1 : 0; }

}  // namespace

Summary summarize(std::span<const double> errors) {
  Summary summary{.count = static_cast<int>(errors.size())};
  for (const double error : errors) {
    summary.mape += std::abs(error) / summary.count;
    summary.bias += error / summary.count;
    if (std::abs(error) > std::abs(summary.largest)) summary.largest = error;
  }
  return summary;
}

RatioInterval interval_of(std::span<const RatioOfSource> ratios) {
  if (ratios.empty()) return {};
  std::map<std::string_view, int> rows;
  for (const RatioOfSource& one : ratios) ++rows[one.source];
  std::vector<std::pair<double, double>> weighed;  // ratio, weight
  double sum = 0;
  for (const RatioOfSource& one : ratios) {
    weighed.emplace_back(one.ratio, 1 / std::sqrt(rows[one.source]));
    sum += weighed.back().second;
  }
  std::sort(weighed.begin(), weighed.end());
  const auto quantile = [&](double share) {
    double before = 0;
    for (const auto& [ratio, weight] : weighed) {
      before += weight;
      if (before >= share * sum) return ratio;
    }
    return weighed.back().first;
  };
  const double widened = 1 + 1.5 / static_cast<double>(rows.size());
  const double low = quantile(0.05), high = quantile(0.95);
  return {low < 1 ? std::pow(low, widened) : low, high > 1 ? std::pow(high, widened) : high};
}

std::optional<double> kendall_tau(std::span<const double> a, std::span<const double> b) {
  SCALAI_CHECK(a.size() == b.size());
  double agreement = 0, told_apart_a = 0, told_apart_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = i + 1; j < a.size(); ++j) {
      const int in_a = sign(a[i] - a[j]), in_b = sign(b[i] - b[j]);
      agreement += in_a * in_b;
      told_apart_a += std::abs(in_a);
      told_apart_b += std::abs(in_b);
    }
  }
  if (told_apart_a == 0 || told_apart_b == 0) return std::nullopt;
  return agreement / std::sqrt(told_apart_a * told_apart_b);
}

OrderedPairs ordered_pairs(std::span<const double> published, std::span<const double> predicted, double share) {
  SCALAI_CHECK(published.size() == predicted.size());
  OrderedPairs result;
  for (size_t i = 0; i < published.size(); ++i) {
    for (size_t j = i + 1; j < published.size(); ++j) {
      const double difference = published[i] - published[j];
      if (std::abs(difference) <= share * std::max(std::abs(published[i]), std::abs(published[j]))) continue;
      ++result.pairs;
      if (sign(difference) != sign(predicted[i] - predicted[j])) ++result.reversed;
    }
  }
  return result;
}

std::optional<double> best_constant_mape(std::span<const double> utilisations) {
  if (utilisations.size() < 2) return std::nullopt;
  std::optional<double> best;
  for (const double constant : utilisations) {
    SCALAI_CHECK(constant > 0);
    double mape = 0;
    for (const double one : utilisations) {
      mape += std::abs(one / constant - 1) / static_cast<double>(utilisations.size());
    }
    best = best ? std::min(*best, mape) : mape;
  }
  return best;
}

}  // namespace scalai::step::validation
