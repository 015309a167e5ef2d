#pragma once
// Replaces single values of a scenario file before its meaning is read: `scalai sim FILE --set=PATH=VALUE`, `scalai
// sweep`, `scalai breakeven`. Functions without state; any thread may call them.
//
//   policy.name=srtf              a field by its path; missing enclosing messages are created
//   cluster.hosts[0].count=16     an existing element, or (index = number of elements) a new one
//   policy.set[0]=round=60s       a whole element of a list of texts
//   policy.set.round=60s          the same by the name of a "name=value" text: replaced, or added
//   changes.preset=               nothing after "=": as if the field was not given

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::proto {
class Scenario;
class Source;
}  // namespace scalai::proto

namespace scalai::scenario {

// Replaces fields of a parsed file in the order of `settings` ("PATH=VALUE"). A choice among fields that exclude each
// other (policy.name, policy.exec; changes.preset, seconds, strategy) takes out the file's other one. Problems become
// problems of `source`, all of them: an unknown field (with the closest names), an index beyond the list, a value of
// another type than the field's. Later problems of replaced fields name the setting.
void apply_settings(const std::vector<std::string>& settings, proto::Scenario& message, proto::Source& source);

// `text` (textproto or JSON) with `settings` applied, as textproto; unchanged without settings. InvalidArgument:
// problems of the text and of the settings.
absl::StatusOr<std::string> with_settings(const std::string& text, const std::string& file_name,
                                          const std::vector<std::string>& settings);

// Name and seed of a scenario, with settings; of a broken text what there is.
struct Head {
  std::string name;
  uint64_t seed = 0;
  bool many_jobs = false;  // it has a `workload` or a `recovery` (Scenario::many_jobs)
};
Head head_of(const std::string& text, const std::string& file_name, const std::vector<std::string>& settings = {});

// Hash of the contents of all files and folders that a scenario of any kind names: traces, tables, clusters, options.
// The names of missing files count, too. InvalidArgument: the text cannot be parsed.
absl::StatusOr<std::string> digest_of_files(const std::string& text, const std::string& file_name);

}  // namespace scalai::scenario
