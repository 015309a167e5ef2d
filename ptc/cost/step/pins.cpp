// Names of the search's options as people write them.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/cost/step/search.h"

namespace scalai::step {
namespace {

const std::vector<std::string> kObjectives = {"throughput", "cost", "energy", "pay-off"};

}  // namespace

std::string_view name_of(Objective objective) { return kObjectives.at(static_cast<size_t>(objective)); }

std::string worse_by(Objective objective) {
  return objective == Objective::kThroughput ? "slower" : fmt::format("no better by {}", name_of(objective));
}

absl::StatusOr<Objective> find_objective(std::string_view name) {
  const auto found = std::find(kObjectives.begin(), kObjectives.end(), name);
  if (found != kObjectives.end()) return static_cast<Objective>(found - kObjectives.begin());
  const std::string near = closest(name, kObjectives);
  return invalid(fmt::format("there is no objective \"{}\"{}; choose among {}", name,
                             near.empty() ? "" : fmt::format(", did you mean \"{}\"", near),
                             fmt::join(kObjectives, ", ")));
}

absl::StatusOr<Pins> parse_pins(std::string_view layout) {
  SCALAI_ASSIGN_OR_RETURN(const collection::LayoutFields fields, collection::parse_layout_fields(layout));
  const collection::ParallelConfig& config = fields.config;
  Pins pins;
  const auto pin = [&](std::string_view field, int size, std::optional<int>& axis) {
    if (fields.named.contains(field)) axis = size;
  };
  pin("tp", config.tp, pins.tp);
  pin("pp", config.pp, pins.pp);
  pin("dp", config.dp, pins.dp);
  pin("cp", config.cp, pins.cp);
  pin("ep", config.ep, pins.ep);
  pin("etp", config.etp, pins.etp);
  pin("vpp", config.vpp, pins.vpp);
  pin("zero", config.zero, pins.zero);
  if (fields.named.contains("order")) pins.order = config.order;
  if (!config.stages.empty()) {
    // Explicit stages are as many as the name's pp · vpp.
    pins.stages = config.stages;
    pins.pp = config.pp;
    pins.vpp = config.vpp;
  }
  return pins;
}

Pins pins_of(const collection::ParallelConfig& config) {
  Pins pins;
  pins.tp = config.tp;
  pins.pp = config.pp;
  pins.dp = config.dp;
  pins.cp = config.cp;
  pins.ep = config.ep;
  pins.etp = config.etp;
  pins.vpp = config.vpp;
  pins.zero = config.zero;
  pins.order = config.order;
  pins.stages = config.stages;
  return pins;
}

}  // namespace scalai::step
