#include "executor/bench/measurement.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ptc/base/json.h"
#include "ptc/base/statistics.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"

namespace scalai::executor::bench {
namespace {

double per_second(int64_t bytes, double seconds) { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }

std::string milliseconds(double seconds) { return fmt::format("{:.1f}", seconds * 1e3); }
std::string gigabytes_per_s(double rate) { return fmt::format("{:.2f}", rate / 1e9); }

}  // namespace

double Measurement::seconds() const { return median(transfer_s).value_or(0); }
double Measurement::algorithm_bytes_per_s() const { return per_second(state_bytes, seconds()); }
double Measurement::bus_bytes_per_s() const { return per_second(busiest_bytes, seconds()); }
double Measurement::ratio(const Yardstick& yardstick) const {
  return yardstick.seconds > 0 ? seconds() / yardstick.seconds : 0;
}

std::string table_text(const std::vector<Measurement>& list, const Screen& screen) {
  Table table({"case", "devices>", "state>", "moved>", "time ms>", "alg GB/s>", "bus GB/s>", "yardstick", "its ms>",
               "ratio>", "errors>"});
  table.leave_out_first({"moved", "alg GB/s", "its ms", "state"});
  for (const Measurement& one : list) {
    std::vector<Yardstick> yardsticks = one.yardsticks;
    if (yardsticks.empty()) yardsticks.push_back({"none", 0});
    for (const Yardstick& yardstick : yardsticks) {
      const bool known = yardstick.seconds > 0;
      table.row({one.name, fmt::format("{}", one.devices), format_bytes(one.state_bytes), format_bytes(one.moved_bytes),
                 milliseconds(one.seconds()), gigabytes_per_s(one.algorithm_bytes_per_s()),
                 gigabytes_per_s(one.bus_bytes_per_s()), yardstick.name, known ? milliseconds(yardstick.seconds) : "-",
                 known ? fmt::format("{:.2f}", one.ratio(yardstick)) : "-", fmt::format("{}", one.errors)});
    }
  }
  return table.text(screen);
}

std::string json_text(const std::vector<Measurement>& list) {
  nlohmann::ordered_json measurements = nlohmann::ordered_json::array();
  for (const Measurement& one : list) {
    nlohmann::ordered_json yardsticks = nlohmann::ordered_json::array();
    for (const Yardstick& yardstick : one.yardsticks)
      yardsticks.push_back({{"name", yardstick.name}, {"seconds", yardstick.seconds}, {"ratio", one.ratio(yardstick)}});
    measurements.push_back({{"case", one.name},
                            {"devices", one.devices},
                            {"transport", one.transport},
                            {"state_bytes", one.state_bytes},
                            {"moved_bytes", one.moved_bytes},
                            {"busiest_bytes", one.busiest_bytes},
                            {"seconds", one.seconds()},
                            {"seconds_each", one.transfer_s},
                            {"first_s", one.first_s},
                            {"prepare_s", one.prepare_s},
                            {"algorithm_bytes_per_s", one.algorithm_bytes_per_s()},
                            {"bus_bytes_per_s", one.bus_bytes_per_s()},
                            {"yardsticks", yardsticks},
                            {"errors", one.errors}});
  }
  const nlohmann::ordered_json report = {{"schema_version", 1}, {"measurements", measurements}};
  return scalai::json_text(report, {.indent = 2}) + "\n";
}

}  // namespace scalai::executor::bench
