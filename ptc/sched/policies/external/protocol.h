#pragma once
// The lines that a policy program reads and writes, version 1 (docs/policy-protocol.md): made from a View, and parsed
// into a Decision with all rules of a line checked. Pure functions; arguments are used during the call only.

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/sched/policy.h"

namespace scalai::sched {

inline constexpr int kExternalProtocol = 1;

std::string hello_line(const View& view, uint64_t seed);
// Aborted: no JSON (with the column), or another version.
absl::Status check_hello(const std::string& answer);

std::string decide_line(const View& view, std::span<const Event> events);
// `jobs`: the active jobs by name. Aborted: malformed JSON with its column, unknown or repeated fields and jobs, wrong
// types, GPUs beyond a job's bounds or the capacity. The message begins with the problem and ends with the line.
absl::StatusOr<Decision> read_decision(const std::string& answer, const View& view,
                                       const std::map<std::string, JobId>& jobs);

}  // namespace scalai::sched
