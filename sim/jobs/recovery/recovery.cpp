#include "sim/jobs/recovery/recovery.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "ptc/base/status.h"
#include "sim/jobs/recovery/proactive.h"
#include "sim/jobs/recovery/steady.h"

namespace scalai::jobs {
namespace {

bool is_amount(double value) { return value >= 0 && !std::isinf(value); }

std::vector<std::string> problems_of(const RecoverySetup& setup) {
  std::vector<std::string> problems;
  const auto need = [&problems](bool good, std::string text) {
    if (!good) problems.push_back(std::move(text));
  };
  const bool proactive = setup.design == RecoveryDesign::kProactive;
  need(setup.hosts > 0, "there must be hosts");
  need(proactive || setup.samples_per_s != nullptr, "a throughput by live hosts is needed");
  need(proactive || setup.costs.change_s != nullptr, "the cost of a change of hosts is needed");
  need(setup.samples_per_step > 0, fmt::format("a step must have samples, not {}", setup.samples_per_step));
  need(is_amount(setup.until_s), "the end must be a time >= 0");
  need(is_amount(std::max(0.0, setup.costs.fatal_s)) && is_amount(setup.costs.host_ready_s) &&
           is_amount(setup.costs.detect_s),
       "costs must be times >= 0");
  need(setup.checkpoints.every_s >= 0 && is_amount(setup.checkpoints.write_s),
       "checkpoint period and write time must be >= 0");
  need(setup.checkpoints.every_s == 0 || setup.checkpoints.every_s >= 1,
       fmt::format("a checkpoint period of {} s is below 1 s", setup.checkpoints.every_s));
  need(setup.stages > 0, "a pipeline has at least one stage");
  need(setup.fallback_slowdown >= 1, fmt::format("fallback slowdown {} is below 1", setup.fallback_slowdown));
  need(setup.spares >= 0 && setup.spares < setup.hosts,
       fmt::format("{} spares of {} hosts leave none for the job", setup.spares, setup.hosts));
  need(setup.gpus_per_host > 0 && is_amount(setup.usd_per_host_hour), "GPUs and price of a host must be >= 0");
  return problems;
}

void check_trace(const RecoverySetup& setup, std::vector<std::string>& problems) {
  const policy::Availability& trace = *setup.availability;
  if (!trace.up.empty() && trace.up.size() != static_cast<size_t>(setup.hosts)) {
    problems.push_back(fmt::format("the trace starts with {} hosts, the setup has {}", trace.up.size(), setup.hosts));
  }
  double before = 0;
  for (const policy::FleetEvent& event : trace.events) {
    if (!(event.at_s >= before)) {
      problems.push_back(fmt::format("the trace goes back in time, from {} s to {} s", before, event.at_s));
      return;
    }
    before = event.at_s;
    for (const HostId host : event.hosts) {
      if (host.value >= 0 && host.value < setup.hosts) continue;
      problems.push_back(fmt::format("at {} s the trace names host {} of {}", event.at_s, host.value, setup.hosts));
      return;
    }
  }
}

}  // namespace

OnNotice on_notice_of(RecoveryDesign design) {
  switch (design) {
    // Varuna's manager signals its workers before a preemption, and when resources change: they write a checkpoint and
    // are started again (docs/morphing.rst, morph_server.py). MegaScale names no notice; its restarts are the same.
    case RecoveryDesign::kCheckpointRestart:
    case RecoveryDesign::kSpareSwap: return OnNotice::kSave;
    // Bamboo's worker that is told counts as failed from its next step on (get_notices.py, engine.py): no sooner than
    // that does its neighbour stand in.
    case RecoveryDesign::kRedundancy:
    // Parcae counts by intervals, in which the hosts of the next one are known (proactive.h).
    case RecoveryDesign::kProactive: return OnNotice::kWait;
    // Oobleck drains a host by a change of pipelines (examples/drain_agent.py; the artifact of SOSP'23 had no notices).
    case RecoveryDesign::kTemplates:
    case RecoveryDesign::kReshard: break;
  }
  return OnNotice::kLeave;
}

std::string name_of_rules(const RecoverySetup& setup) {
  return setup.design == RecoveryDesign::kProactive ? "intervals (Parcae's accounting)"
                                                    : "steady (one set for all designs)";
}

absl::StatusOr<policy::RecoveryResult> simulate_recovery(const RecoverySetup& setup) {
  std::vector<std::string> problems = problems_of(setup);
  if (setup.availability == nullptr) {
    problems.push_back("a host trace is needed");
  } else if (setup.hosts > 0) {
    check_trace(setup, problems);
  }
  if (!problems.empty()) return invalid(fmt::format("recovery: {}", fmt::join(problems, "; ")));
  if (setup.design == RecoveryDesign::kProactive) return simulate_proactive(setup);
  return simulate_steady(setup);
}

}  // namespace scalai::jobs
