#include "apps/checkpoint/stats_json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace scalai::apps {

using nlohmann::ordered_json;
using tensor::ElementStats;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

ordered_json number_json(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); }

ordered_json of_finite(const ElementStats& stats, double value) {
  return stats.finite() > 0 ? number_json(value) : ordered_json(nullptr);
}

// False: it is no count of so many.
bool take_count(const nlohmann::json& value, int64_t most, int64_t& count) {
  count = value.is_number_integer() ? value.get<int64_t>() : -1;  // one beyond int64_t becomes negative
  return count >= 0 && count <= most;
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
  if (!take_count(one.at("elements"), std::numeric_limits<int64_t>::max(), elements.elements)) return std::nullopt;
  for (const auto& [name, count] :
       {std::pair("nan", &elements.nans), std::pair("inf", &elements.infinities), std::pair("zeros", &elements.zeros)})
    if (!take_count(one.at(name), elements.elements, *count)) return std::nullopt;
  elements.min = number_of(one.at("min"), kInfinite);
  elements.max = number_of(one.at("max"), -kInfinite);
  elements.sum = number_of(one.at("sum"), kInfinite);
  elements.squares = number_of(one.at("squares"), kInfinite);
  for (const nlohmann::json& pair : one.at("magnitudes")) {
    const int64_t power = pair.at(0).is_number_integer() ? pair.at(0).get<int64_t>() : ElementStats::kMagnitudes;
    if (power < -ElementStats::kBias || power >= ElementStats::kMagnitudes - ElementStats::kBias) return std::nullopt;
    if (!take_count(pair.at(1), elements.elements,
                    elements.magnitudes[static_cast<size_t>(power + ElementStats::kBias)]))
      return std::nullopt;
  }
  return elements;
}

std::optional<tensor::ElementChange> change_of_json(const nlohmann::json& change) {
  tensor::ElementChange read;
  if (!take_count(change.at("elements"), std::numeric_limits<int64_t>::max(), read.elements) ||
      !take_count(change.at("changed"), read.elements, read.changed) ||
      !take_count(change.at("no_number"), read.elements, read.no_number))
    return std::nullopt;
  read.squares = number_of(change.at("squares"), kInfinite);
  read.largest = number_of(change.at("largest"), kInfinite);
  return read;
}

}  // namespace scalai::apps
