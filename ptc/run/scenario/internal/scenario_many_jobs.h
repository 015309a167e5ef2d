#pragma once
// Scenarios of many jobs: the parts that are read without sim/jobs, in the order of build_many_jobs().

#include <optional>
#include <string>
#include <vector>

#include "ptc/run/scenario/scenario_parts.h"
#include "ptc/run/scenario/trace/import.h"

namespace scalai::scenario::internal {

// Where a setting has chosen the policy or the recovery design: takes out of its `set` the parameters that only others
// know, which the file gives to its own choice. One note for each.
std::vector<std::string> leave_out_foreign_parameters(proto::Scenario& message, const Engine& engine, Source& source);

// Head and cluster are built. Scenario::many_jobs is set.
void build_many_jobs(Context& context, Engine& engine, Scenario& scenario);
// Without problems: resolved text and digest, notes and files.
void resolve_many_jobs(Context& context, Scenario& scenario);

void build_workload(Context& context, Scenario& scenario);
void build_window(Context& context, Scenario& scenario);
void build_availability(Context& context, Scenario& scenario);
void build_prices(Context& context, Scenario& scenario);
void build_estimates(Context& context, Scenario& scenario);
void build_virtual_clusters(Context& context, Scenario& scenario);

// `availability` of a scenario with a cluster, read or made up; nothing when there is a problem, which is reported.
std::optional<trace::Imported> read_hosts(Context& context);

}  // namespace scalai::scenario::internal
