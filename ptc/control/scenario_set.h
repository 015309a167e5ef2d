#pragma once
// Single values of a scenario file replaced before it is read: `scalai sim FILE --set=PATH=VALUE`, `scalai sweep`,
// `scalai breakeven`. Text in, text out, so whatever reads scenarios needs to know nothing of it.
//
//   policy.name=srtf              a field by its path; enclosing messages come into being
//   cluster.hosts[0].count=16     an element that is there, or (index = how many there are) one more
//   policy.set[0]=round=60s       a whole element of a list of texts
//   policy.set.round=60s          the same by the name of a "name=value" text: replaced, or added
//   changes.preset=               nothing after "=": the field is as if it had not been given

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/control/scenario.h"

namespace scalai::control {

// `text` (textproto or JSON) with each of `settings` ("PATH=VALUE") in turn, as textproto; without settings as it is.
// Errors (InvalidArgument): the text's own problems with their places; an unknown field (with the closest names), an index
// beyond the list, a value that is not of the field's type: those of all settings at once, one a line.
absl::StatusOr<std::string> with_settings(const std::string& text, const std::string& file_name,
                                          const std::vector<std::string>& settings);

// What problems in a text with settings are said to be in: lines count in what was made of it.
std::string settings_file_name(const std::string& file_name, const std::vector<std::string>& settings);

// load_scenario() of a file with settings. What the file expects holds without them: expectations are dropped.
absl::StatusOr<Scenario> load_scenario_with(const std::string& path, const std::vector<std::string>& settings,
                                            const std::string& cluster_file = "",
                                            const std::optional<model::Fraction>& scale_model = std::nullopt);

// Whether a scenario's text asks for the engine of many jobs (`workload` or `recovery`; cluster_scenario.h).
bool is_cluster_scenario(const std::string& text, const std::string& file_name);

}  // namespace scalai::control
