#include "apps/checkpoint/stats_json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace scalai::apps {

using nlohmann::ordered_json;
using tensor::ElementStats;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

ordered_json number_json(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); }

ordered_json of_finite(const ElementStats& stats, double value) {
  return stats.finite() > 0 ? number_json(value) : ordered_json(nullptr);
}

double number_of(const nlohmann::json& value, double absent) { return value.is_null() ? absent : value.get<double>(); }

}  // namespace

ordered_json json_of(const ElementStats& stats) {
  return {{"elements", stats.elements},
          {"nan", stats.nans},
          {"inf", stats.infinities},
          {"zeros", stats.zeros},
          {"norm", of_finite(stats, stats.norm())},
          {"mean", of_finite(stats, stats.mean())},
          {"sum", number_json(stats.sum)},
          {"squares", number_json(stats.squares)},
          {"min", number_json(stats.min)},
          {"max", number_json(stats.max)}};
}

ordered_json json_of_magnitudes(const ElementStats& stats) {
  ordered_json magnitudes = ordered_json::array();
  for (int i = 0; i < ElementStats::kMagnitudes; ++i) {
    const int64_t some = stats.magnitudes[static_cast<size_t>(i)];
    if (some > 0) magnitudes.push_back({i - ElementStats::kBias, some});
  }
  return magnitudes;
}

ordered_json json_of(const tensor::ElementChange& change) {
  return {{"elements", change.elements},
          {"changed", change.changed},
          {"no_number", change.no_number},
          {"norm", number_json(change.norm())},
          {"squares", number_json(change.squares)},
          {"largest", number_json(change.largest)}};
}

std::optional<ElementStats> elements_of_json(const nlohmann::json& one) {
  ElementStats elements;
  elements.elements = one.at("elements").get<int64_t>();
  elements.nans = one.at("nan").get<int64_t>();
  elements.infinities = one.at("inf").get<int64_t>();
  elements.zeros = one.at("zeros").get<int64_t>();
  elements.min = number_of(one.at("min"), kInfinite);
  elements.max = number_of(one.at("max"), -kInfinite);
  elements.sum = number_of(one.at("sum"), kInfinite);
  elements.squares = number_of(one.at("squares"), kInfinite);
  for (const nlohmann::json& pair : one.at("magnitudes")) {
    const int64_t at = pair.at(0).get<int64_t>() + ElementStats::kBias;
    if (at < 0 || at >= ElementStats::kMagnitudes) return std::nullopt;
    elements.magnitudes[static_cast<size_t>(at)] = pair.at(1).get<int64_t>();
  }
  return elements;
}

tensor::ElementChange change_of_json(const nlohmann::json& change) {
  return {.elements = change.at("elements").get<int64_t>(),
          .changed = change.at("changed").get<int64_t>(),
          .no_number = change.at("no_number").get<int64_t>(),
          .squares = number_of(change.at("squares"), kInfinite),
          .largest = number_of(change.at("largest"), kInfinite)};
}

}  // namespace scalai::apps
