// Pages of `scalai accuracy` (internal/jobs_data.h): how far kinds of answers were from published numbers.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/report/chart/lanes.h"
#include "ptc/report/page/internal/jobs_data.h"

namespace scalai::report {
namespace {

using Json = nlohmann::json;

std::optional<double> number_in(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() && found->is_number() ? std::optional<double>(found->get<double>())
                                                                       : std::nullopt;
}

std::string text_in(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string share_in(const Json& json, const char* key) {
  const auto value = number_in(json, key);
  return value ? fmt::format("{:.1f} %", 100 * *value) : "–";
}

// The two factors between which nine in ten held-out values are.
std::optional<std::pair<double, double>> range_of(const Json& group) {
  const auto found = group.find("published_over_predicted");
  if (found == group.end() || !found->is_array() || found->size() != 2 || !(*found)[0].is_number() ||
      !(*found)[1].is_number())
    return std::nullopt;
  return std::pair((*found)[0].get<double>(), (*found)[1].get<double>());
}

Figure groups_figure(const Json& groups) {
  Figure figure{.title = "Published over predicted",
                .caption = "Nine in ten held-out values lie in the bar; the stroke is 1: as predicted."};
  chart::Lanes chart{.title = figure.title,
                     .description = "A bar a kind of answer.",
                     .x = {"published over predicted, times", chart::Unit::kPlain, "", 0, 1}};
  figure.numbers.headers = {"kind of answer", "from>", "to>", "error, mean>", "rows>", "error of the fit>"};
  for (const Json& group : groups) {
    const std::string name = text_in(group, "group");
    const Json held_out = group.value("held_out", Json::object()), fit = group.value("fit", Json::object());
    const auto range = range_of(group);
    if (range) {
      chart::Lane lane{.label = name, .end = fmt::format("{:.2f} to {:.2f}", range->first, range->second)};
      lane.segments.push_back({.low = range->first,
                               .high = range->second,
                               .css = "k1",
                               .note = {.title = lane.end, .series = name, .value = range->second}});
      lane.markers.push_back({1, "bound", "as predicted"});
      chart.x.high = std::max(chart.x.high, range->second);
      chart.lanes.push_back(std::move(lane));
    }
    const auto rows = number_in(held_out, "rows");
    figure.numbers.rows.push_back({name, range ? fmt::format("{:.2f}", range->first) : "–",
                                   range ? fmt::format("{:.2f}", range->second) : "–", share_in(held_out, "mape"),
                                   rows ? fmt::format("{:.0f}", *rows) : "–", share_in(fit, "mape")});
  }
  chart.x = rounded(chart.x, 9);
  figure.draw = drawing(chart, chart::lanes_svg);
  return figure;
}

}  // namespace

absl::Status add_accuracy(Document& page, const std::string& label, const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  SCALAI_ASSIGN_OR_RETURN(const Json json, read_json(text, path));
  if (!json.is_object() || !json.contains("groups") || !json.at("groups").is_array())
    return invalid(fmt::format("{}: no output of `scalai accuracy --format=json`: /groups is missing", path));
  page.heading(2, "Accuracy " + label);
  page.figure(groups_figure(json.at("groups")));
  PageTable tables{.headers = {"table", "what", "rows>", "error, mean>", "largest>"}};
  for (const Json& table : json.value("tables", Json::array())) {
    const Json predicted = table.is_object() ? table.value("predicted", Json::object()) : Json::object();
    const bool points = text_in(table, "error_unit") == "points";
    const auto words = [&](const char* key) {
      const auto value = number_in(predicted, key);
      return !value   ? std::string("–")
             : points ? fmt::format("{:.1f} points", *value)
                      : fmt::format("{:.1f} %", 100 * *value);
    };
    const auto rows = number_in(predicted, "rows");
    tables.rows.push_back({text_in(table, "table"), text_in(table, "title"), rows ? fmt::format("{:.0f}", *rows) : "–",
                           words("mape"), words("largest")});
  }
  page.folded(fmt::format("Published tables: {}", tables.rows.size()), tables);
  std::vector<std::string> lines;
  for (const Json& line : json.value("not_modelled", Json::array()))
    if (line.is_string()) lines.push_back(line.get<std::string>());
  if (!lines.empty()) {
    page.heading(3, "Not modelled");
    page.list(lines, "notes");
  }
  return absl::OkStatus();
}

}  // namespace scalai::report
