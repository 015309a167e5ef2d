#pragma once
// The lines that a policy program reads, version 1 (docs/policy-protocol.md), made from a View. answer.h reads those
// that it writes. Pure functions; arguments are used during the call only.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/run/policy/policies/external/known.h"
#include "ptc/run/policy/policy.h"

namespace scalai::policy {

inline constexpr int kExternalProtocol = 1;

// What the program asks for when it is greeted.
struct Greeting {
  bool delta = false;   // it keeps state: questions hold changes only
  bool past = false;    // reads what it answered before its run went on from a snapshot
  bool curves = false;  // jobs come with their rates at all sizes
};

std::string hello_line(const View& view, uint64_t seed);
// Aborted: no JSON (with the column), another version, or a field that the answer does not have.
absl::StatusOr<Greeting> check_hello(const std::string& answer);

struct Question {
  const View& view;
  std::span<const Event> events;
  Greeting greeting;
};
// `known` must have been updated for this question with `news` as the result. It is told until when rates hold.
std::string decide_line(const Question& question, const News& news, Known& known);

}  // namespace scalai::policy
