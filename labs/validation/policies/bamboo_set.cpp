// G16: what the spot trace of Bamboo holds, as the importer reads it.
#include <set>

#include "labs/validation/policies/internal/sets.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/import.h"

namespace scalai::policy::validation {

Rows bamboo_trace(const std::string& data) {
  SCALAI_ASSIGN_OR_RETURN(const std::string path, need(data, "bamboo/p3-trace.csv"));
  SCALAI_ASSIGN_OR_RETURN(const trace::Imported imported, trace::import_trace("bamboo", path));
  const Availability& hosts = imported.hosts.availability;
  int live = 0, most = 0;
  for (const uint8_t up : hosts.up) live += up;
  most = live;
  double host_s = 0, last_s = 0;
  int64_t removals = 0;
  std::set<double> instants;
  for (const FleetEvent& event : hosts.events) {
    host_s += live * (event.at_s - last_s);
    last_s = event.at_s;
    const int count = static_cast<int>(event.hosts.size());
    const bool comes = event.kind == FleetEvent::Kind::kUp;
    if (!comes && event.kind != FleetEvent::Kind::kTaken && event.kind != FleetEvent::Kind::kFailed) continue;
    live += comes ? count : -count;
    most = std::max(most, live);
    if (comes) continue;
    removals += count;
    instants.insert(event.at_s);
  }
  const auto row = [](const char* name, const char* unit, double reference, double ours, double tolerance) {
    return ReferenceRow{.set = "G16",
                        .policy = "",
                        .name = name,
                        .unit = unit,
                        .reference = reference,
                        .ours = ours,
                        .tolerance = tolerance,
                        .note = ""};
  };
  return std::vector<ReferenceRow>{
      row("span", "h", 11.37, last_s / 3600, 0.005),
      row("hosts, mean over time", "hosts", 24.0, host_s / last_s, 0.005),
      row("hosts, most at once", "hosts", 32, most, 0), row("removals", "hosts", 167, static_cast<double>(removals), 0),
      row("moments with removals", "moments", 79, static_cast<double>(instants.size()), 0)};
}

}  // namespace scalai::policy::validation
