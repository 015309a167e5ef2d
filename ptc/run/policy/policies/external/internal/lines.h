#pragma once
// What both directions of the protocol share; protocol.cpp defines it.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/run/policy/job.h"

namespace scalai::policy::external {

using Json = nlohmann::ordered_json;

inline GpuType type_at(size_t index) { return GpuType(static_cast<int64_t>(index)); }

// The beginning of a line, for messages.
std::string shown(const std::string& line);
// An object. Aborted: no JSON (with the column), or no object.
absl::StatusOr<Json> parse(const std::string& line);
// Text that is not UTF-8 is replaced: names of jobs come from traces and must not end the run.
std::string line_of(const Json& json);

}  // namespace scalai::policy::external
