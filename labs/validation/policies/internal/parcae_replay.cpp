#include "labs/validation/policies/internal/parcae_replay.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"

namespace scalai::policy::validation {
namespace {

using Json = nlohmann::json;

bool is_layout(const Json& json) {
  return json.is_array() && json.size() == 2 && json[0].is_number_integer() && json[1].is_number_integer();
}

bool is_minute(const Json& json) {
  return json.is_array() && json.size() == 3 && json[1].is_string() && json[2].is_object() &&
         json[2].contains("nodes") && json[2]["nodes"].is_array() && json[2].contains("throughput_opt_strategy") &&
         json[2].contains("liveput_truth_strategy") && is_layout(json[2]["throughput_opt_strategy"]) &&
         is_layout(json[2]["liveput_truth_strategy"]);
}

jobs::PipelineLayout layout_of(const Json& json) { return {json[0].get<int>(), json[1].get<int>()}; }

}  // namespace

absl::StatusOr<std::vector<ParcaeMinute>> read_parcae_replay(const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  std::istringstream lines(text);
  std::vector<ParcaeMinute> minutes;
  int hosts = 0;
  int row = 0;
  for (std::string line; std::getline(lines, line);) {
    ++row;
    if (line.empty()) continue;
    const Json json = read_json(line).value_or(nullptr);
    if (!is_minute(json)) {
      return invalid(
          fmt::format("{}:{}: not [time, event, {{nodes, …strategy}}] as in Parcae's replay files", path, row));
    }
    const int count = static_cast<int>(json[2]["nodes"].size());
    const std::string event = json[1].get<std::string>();
    ParcaeMinute minute;
    minute.hosts.in = event == "add" ? count : 0;
    minute.hosts.out = event == "remove" ? count : 0;
    hosts += minute.hosts.in - minute.hosts.out;
    if (hosts < 0) return invalid(fmt::format("{}:{}: more hosts go than there are", path, row));
    minute.hosts.hosts = hosts;
    minute.fastest = layout_of(json[2]["throughput_opt_strategy"]);
    minute.foresight = layout_of(json[2]["liveput_truth_strategy"]);
    minutes.push_back(minute);
  }
  return minutes;
}

}  // namespace scalai::policy::validation
