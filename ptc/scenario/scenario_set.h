#pragma once
// Replaces single values of a scenario file before it is parsed: `scalai sim FILE --set=PATH=VALUE`, `scalai sweep`,
// `scalai breakeven`. Text in, text out, so readers of scenarios need no change. Functions without state; any thread
// may call them.
//
//   policy.name=srtf              a field by its path; missing enclosing messages are created
//   cluster.hosts[0].count=16     an existing element, or (index = number of elements) a new one
//   policy.set[0]=round=60s       a whole element of a list of texts
//   policy.set.round=60s          the same by the name of a "name=value" text: replaced, or added
//   changes.preset=               nothing after "=": as if the field was not given

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/scenario/scenario.h"

namespace scalai::scenario {

// `text` (textproto or JSON) with each of `settings` ("PATH=VALUE") applied in order, as textproto; unchanged without
// settings. InvalidArgument: problems of the text with their places; else the problems of all settings, one a line: an
// unknown field (with the closest names), an index beyond the list, a value of another type than the field's.
absl::StatusOr<std::string> with_settings(const std::string& text, const std::string& file_name,
                                          const std::vector<std::string>& settings);

// Name of a text with settings in messages. Their line numbers refer to the changed text.
std::string settings_file_name(const std::string& file_name, const std::vector<std::string>& settings);

// load_scenario() of a file with settings. Expectations are dropped if there are settings, because they hold for the
// file without them.
absl::StatusOr<Scenario> load_scenario_with(const std::string& path, const std::vector<std::string>& settings,
                                            const std::string& cluster_file = "",
                                            const std::optional<model::Fraction>& scale_model = std::nullopt);

// True if the text has a `workload` or a `recovery`, so it is for the engine of many jobs
// (sim/jobs/scenario/scenario_sched.h).
bool is_cluster_scenario(const std::string& text, const std::string& file_name);

}  // namespace scalai::scenario
