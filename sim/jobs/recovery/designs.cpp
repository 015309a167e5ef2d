#include "sim/jobs/recovery/designs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "sim/jobs/recovery/host_tables.h"
#include "sim/jobs/recovery/internal/host_events.h"
#include "sim/jobs/recovery/parcae_costs.h"
#include "sim/jobs/recovery/period.h"

namespace scalai::jobs {
namespace {

const trace::TraceOption kModel{"model", "", "what tables and Parcae's costs know the job by: GPT-3-6.7b, gpt-1.5b"};
const trace::TraceOption kBatch{"batch", "0", "samples a step; 0 = what the costs say"};
const trace::TraceOption kUntil{
    "until", "0s", "end of the run; 0s = the last event of the host trace, so that a quiet end does not count"};
const trace::TraceOption kMinHosts{"min-hosts", "1", "fewer cannot run the job"};
const trace::TraceOption kHostReady{"host-ready", "0s", "from a host's coming until it can be used"};
const trace::TraceOption kDetect{"detect", "0s",
                                 "until a loss without notice is noticed, in place of what the costs say"};
const trace::TraceOption kHorizon{"join-horizon", "1h", "hosts join when that pays within so long"};
const trace::TraceOption kBeyond{
    "beyond", "stop",
    "fewer hosts than a table's smallest row: stop (cannot run) or nearest (that row). Between rows: the lower one"};
const trace::TraceOption kStepLost{"step-lost", "true", "the step under way at a loss is run again"};
const trace::TraceOption kMtbf{"mtbf", "0s", "for young-daly; 0s = the host trace's mean time between losses"};

// In the order of OnNotice.
constexpr std::array<const char*, 3> kOnNotice = {"wait", "leave", "save"};

trace::TraceOption notice_option(RecoveryDesign design) {
  return {
      "on-notice", kOnNotice.at(static_cast<size_t>(on_notice_of(design))),
      "of hosts that will be taken: leave (at once, state and all), save (write a checkpoint and restart without them; "
      "so when hosts come) or wait (until they are lost)"};
}

std::vector<trace::TraceOption> options_of(RecoveryDesign design, std::vector<trace::TraceOption> own) {
  std::vector<trace::TraceOption> options = {kModel,  kBatch,   kUntil,  kMinHosts, kHostReady,
                                             kDetect, kHorizon, kBeyond, kStepLost, kMtbf};
  if (design != RecoveryDesign::kProactive) options.push_back(notice_option(design));
  options.insert(options.end(), own.begin(), own.end());
  return options;
}

class Values {
 public:
  Values(const RecoveryInfo& info, const std::vector<std::string>& set) {
    std::vector<std::string> names;
    for (const trace::TraceOption& option : info.options) {
      values_[option.name] = option.default_value;
      names.push_back(option.name);
    }
    for (const std::string& assignment : set) {
      const size_t equal = assignment.find('=');
      const std::string name = assignment.substr(0, equal);
      if (equal == std::string::npos || values_.count(name) == 0) {
        const std::string near = closest(name, names);
        add(fmt::format("design {} has no option \"{}\"; {}", info.name, name,
                        near.empty() ? fmt::format("it has {}", fmt::join(names, ", "))
                                     : fmt::format("did you mean \"{}\"?", near)));
        continue;
      }
      values_[name] = assignment.substr(equal + 1);
      given_[name] = true;
    }
  }

  void add(const std::string& problem) { problems_.push_back(problem); }
  void add(const absl::Status& status) {
    if (!status.ok()) add(message_of(status));
  }
  const std::vector<std::string>& problems() const { return problems_; }

  bool given(const std::string& name) const { return given_.count(name) != 0; }
  bool has(const std::string& name) const { return values_.count(name) != 0; }
  const std::string& text(const std::string& name) const { return values_.at(name); }
  double seconds(const std::string& name) { return read(name, parse_seconds(text(name)), 0.0); }
  int count(const std::string& name) {
    const int64_t value = read(name, parse_count(text(name)), int64_t{0});
    if (value > 1'000'000) add(fmt::format("option {}: {} is too large", name, value));
    return static_cast<int>(std::min<int64_t>(value, 1'000'000));
  }
  bool one_of(const std::string& name, const std::string& yes, const std::string& no) {
    if (text(name) != yes && text(name) != no) {
      add(fmt::format("option {}: \"{}\" is neither {} nor {}", name, text(name), yes, no));
    }
    return text(name) == yes;
  }
  OnNotice on_notice() {
    const auto* const found = std::find(kOnNotice.begin(), kOnNotice.end(), text("on-notice"));
    if (found != kOnNotice.end()) return static_cast<OnNotice>(found - kOnNotice.begin());
    add(fmt::format("option on-notice: \"{}\" is none of {}", text("on-notice"), fmt::join(kOnNotice, ", ")));
    return OnNotice::kWait;
  }
  double factor(const std::string& name) {
    char* end = nullptr;
    const double value = std::strtod(text(name).c_str(), &end);
    const bool number = !text(name).empty() && *end == '\0' && value >= 1 && value <= 1e6;
    if (!number) add(fmt::format("option {}: \"{}\" is not a number from 1", name, text(name)));
    return number ? value : 1;
  }

 private:
  template <typename T>
  T read(const std::string& name, const absl::StatusOr<T>& value, T fallback) {
    if (value.ok()) return *value;
    add(fmt::format("option {}: {}", name, message_of(value.status())));
    return fallback;
  }

  std::map<std::string, std::string> values_;
  std::map<std::string, bool> given_;
  std::vector<std::string> problems_;
};

// Whose rows of a table with systems are of a design; "": none.
std::string system_of(RecoveryDesign design) {
  switch (design) {
    case RecoveryDesign::kCheckpointRestart: return "varuna";
    case RecoveryDesign::kRedundancy: return "bamboo";
    case RecoveryDesign::kTemplates: return "oobleck";
    default: return "";
  }
}

// Returns the steps between two checkpoints.
int64_t take_costs(const RecoveryRequest& request, Values& values, RecoverySetup& setup) {
  HostCosts costs;
  if (request.costs.empty()) {
    costs.detect_s = request.detect_s;
  } else {
    const auto found = read_host_costs(request.costs, {system_of(setup.design), values.text("model")});
    values.add(found.status());
    if (!found.ok()) return 0;
    costs = *found;
  }
  setup.costs.change_s = request.change_s;
  if (costs.change_s < 0) setup.costs.leave_s = request.leave_s;
  if (costs.change_s >= 0) setup.costs.change_s = [seconds = costs.change_s](const HostChange&) { return seconds; };
  setup.costs.state_survives = request.state_survives;
  setup.costs.fatal_s = request.costs.empty() ? -1 : std::max(0.0, costs.fatal_s);
  setup.costs.host_ready_s = values.given("host-ready") ? values.seconds("host-ready") : std::max(0.0, costs.ready_s);
  setup.costs.detect_s = values.given("detect") ? values.seconds("detect") : std::max(0.0, costs.detect_s);
  setup.costs.step_lost = values.one_of("step-lost", "true", "false");
  setup.checkpoints.write_s = std::max(0.0, costs.checkpoint_s);
  setup.samples_per_step = values.count("batch");
  if (setup.samples_per_step == 0) setup.samples_per_step = std::max(0.0, costs.samples_per_step);
  if (setup.samples_per_step == 0) setup.samples_per_step = request.samples_per_step;
  if (setup.design == RecoveryDesign::kProactive) {
    if (setup.samples_per_step == 0) setup.samples_per_step = 1;
    return 0;
  }
  if (setup.samples_per_step == 0) values.add("how many samples a step has is not known: set batch=…");
  if (!setup.costs.change_s) values.add("what a change of hosts costs is not known: name costs");
  return costs.checkpoint_every_steps > 0 ? std::llround(costs.checkpoint_every_steps) : 10;
}

void take_throughput(const RecoveryRequest& request, Values& values, RecoverySetup& setup) {
  setup.samples_per_s = request.samples_per_s;
  if (request.throughputs.empty()) {
    if (!setup.samples_per_s) values.add("a throughput by live hosts is needed: name throughputs");
    return;
  }
  const bool nearest = values.one_of("beyond", "nearest", "stop");
  const HostsBeyond beyond = nearest ? HostsBeyond::kNearest : HostsBeyond::kStop;
  setup.throughput_rule = fmt::format("on fewer hosts than its smallest row {}, between rows the lower one",
                                      nearest ? "as on that row" : "it cannot run");
  const std::string system =
      values.has("table-of") && !values.text("table-of").empty() ? values.text("table-of") : system_of(setup.design);
  const auto table = read_host_throughput(request.throughputs, {system, values.text("model")}, beyond);
  values.add(table.status());
  if (table.ok()) setup.samples_per_s = *table;
}

void take_layouts(const RecoveryRequest& request, Values& values, RecoverySetup& setup) {
  setup.look_ahead = values.count("look-ahead");
  setup.foresight = values.one_of("foresight", "true", "false");
  absl::StatusOr<LiveputModel> model = parcae_costs(values.text("model"));
  values.add(model.status());
  if (request.throughputs.empty()) {
    return values.add("the proactive design needs a table of layouts: name throughputs (model, dp, pp, samples_per_s)");
  }
  const auto layouts = read_layouts(request.throughputs, values.text("model"));
  values.add(layouts.status());
  const double interval_s = values.seconds("interval");
  if (!(interval_s > 0)) return values.add("option interval: must be above 0");
  if (!model.ok() || !layouts.ok()) return;
  model->samples_per_s = *layouts;
  setup.liveput = std::make_shared<const Liveput>(*std::move(model), interval_s);
}

// The rules count time: `steps` steps of the job on all hosts; the same for every design.
void every_few_steps(int64_t steps, RecoverySetup& setup) {
  if (steps == 0 || !setup.samples_per_s) return;
  for (int hosts = setup.hosts; hosts > 0; --hosts) {
    const double rate = setup.samples_per_s(hosts);
    if (!(rate > 0)) continue;
    const double step_s = setup.samples_per_step / rate;
    setup.checkpoints.every_s = std::max(1.0, static_cast<double>(steps) * step_s);
    return;
  }
}

void take_checkpoints(const RecoveryRequest& request, int64_t steps, Values& values, RecoverySetup& setup) {
  const auto seconds = [&values](const std::string& what, const std::string& text) {
    const absl::StatusOr<double> value = parse_seconds(text);
    if (!value.ok()) values.add(fmt::format("{}: {}", what, message_of(value.status())));
    return value.ok() ? *value : 0;
  };
  if (!request.checkpoint_write.empty()) {
    setup.checkpoints.write_s = seconds("checkpoint_write", request.checkpoint_write);
  }
  if (request.checkpoint_period.empty()) return every_few_steps(steps, setup);
  if (request.checkpoint_period != "young-daly") {
    setup.checkpoints.every_s = seconds("checkpoint_period", request.checkpoint_period);
    return;
  }
  double mtbf_s = values.seconds("mtbf");
  if (mtbf_s == 0 && request.availability != nullptr) {
    mtbf_s = mean_time_between_losses_s(*request.availability, setup.until_s);
  }
  if (mtbf_s == 0 || mtbf_s == policy::kNever) {
    return values.add(
        "checkpoint_period: young-daly needs a mean time between losses and the trace has none: set mtbf=…");
  }
  if (setup.checkpoints.write_s == 0) {
    return values.add("checkpoint_period: young-daly needs the time that a write takes: set checkpoint_write");
  }
  setup.checkpoints.every_s = young_daly_period_s(setup.checkpoints.write_s, mtbf_s);
}

const RecoveryInfo* design_named(const std::string& name) {
  for (const RecoveryInfo& info : recovery_designs()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

}  // namespace

const std::vector<RecoveryInfo>& recovery_designs() {
  static const trace::TraceOption table_of{"table-of", "",
                                           "whose rows of a throughput table with systems: varuna, bamboo, oobleck"};
  static const std::vector<RecoveryInfo> designs = {
      {"checkpoint-restart", RecoveryDesign::kCheckpointRestart,
       "any loss restarts the job from its last checkpoint, on the hosts that are left", "Varuna, EuroSys'22",
       options_of(RecoveryDesign::kCheckpointRestart, {})},
      {"redundancy", RecoveryDesign::kRedundancy,
       "the neighbour in the pipeline computes for a lost host; two in a row are fatal", "Bamboo, NSDI'23",
       options_of(RecoveryDesign::kRedundancy,
                  {{"stages", "12", "hosts of a pipeline"},
                   {"fallback-slowdown", "1.5", "of a step while a fallback is pending"}})},
      {"templates", RecoveryDesign::kTemplates,
       "pipelines are rebuilt from templates planned before; the state lives in other replicas", "Oobleck, SOSP'23",
       options_of(RecoveryDesign::kTemplates, {table_of})},
      {"proactive", RecoveryDesign::kProactive,
       "migrates ahead of losses to the layout that a forecast of hosts favours", "Parcae, NSDI'24",
       options_of(RecoveryDesign::kProactive,
                  {{"interval", "60s", "between decisions"},
                   {"look-ahead", "12", "intervals planned ahead"},
                   {"foresight", "false", "plan on what will happen instead of a forecast"}})},
      {"spare-swap", RecoveryDesign::kSpareSwap,
       "a spare host takes the place of the lost one; restart from the last checkpoint", "MegaScale, NSDI'24",
       options_of(RecoveryDesign::kSpareSwap, {{"spares", "1", "live hosts kept out of the job"}, table_of})},
      {"reshard", RecoveryDesign::kReshard,
       "all live hosts work; the state moves by a plan that keeps what it can in place", "this project",
       options_of(RecoveryDesign::kReshard, {table_of})}};
  return designs;
}

double mean_time_between_losses_s(const policy::Availability& availability, double until_s) {
  const double end_s = until_s > 0 ? until_s : recovery::internal::last_event_s(availability);
  int64_t moments = 0;
  double last_s = -1;
  for (const policy::FleetEvent& event : availability.events) {
    const bool lost = event.kind == policy::FleetEvent::Kind::kFailed || event.kind == policy::FleetEvent::Kind::kTaken;
    if (!lost || event.at_s == last_s || event.at_s > end_s) continue;
    ++moments;
    last_s = event.at_s;
  }
  return moments == 0 ? policy::kNever : end_s / static_cast<double>(moments);
}

absl::StatusOr<RecoverySetup> make_recovery(const RecoveryRequest& request) {
  const RecoveryInfo* info = design_named(request.design);
  if (info == nullptr) {
    std::vector<std::string> names;
    for (const RecoveryInfo& one : recovery_designs()) names.push_back(one.name);
    const std::string near = closest(request.design, names);
    return invalid(fmt::format("recovery: no design \"{}\"; {}", request.design,
                               near.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                                            : fmt::format("did you mean \"{}\"?", near)));
  }
  Values values(*info, request.set);
  RecoverySetup setup;
  setup.design = info->design;
  setup.availability = request.availability;
  setup.hosts = request.hosts;
  setup.gpus_per_host = request.gpus_per_host;
  setup.usd_per_host_hour = request.usd_per_host_hour;
  setup.until_s = values.given("until") ? values.seconds("until") : request.until_s;
  setup.min_hosts = values.count("min-hosts");
  setup.join_horizon_s = values.seconds("join-horizon");
  if (values.has("stages")) setup.stages = values.count("stages");
  if (values.has("fallback-slowdown")) setup.fallback_slowdown = values.factor("fallback-slowdown");
  if (values.has("spares")) setup.spares = values.count("spares");
  if (values.has("on-notice")) setup.on_notice = values.on_notice();
  const int64_t steps = take_costs(request, values, setup);
  if (setup.design == RecoveryDesign::kProactive) {
    take_layouts(request, values, setup);
  } else {
    take_throughput(request, values, setup);
  }
  take_checkpoints(request, steps, values, setup);
  if (!values.problems().empty()) return invalid(fmt::format("recovery: {}", fmt::join(values.problems(), "; ")));
  return setup;
}

}  // namespace scalai::jobs
