#pragma once
// What all policies in rounds have in common: their parameters, and what these mean. Functions without state.

#include <cstdint>
#include <vector>

#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/shares/round_policy.h"

namespace scalai::policy {

// "round", "reset", and "fill". Without `fill`, the policy's own rule decides about GPUs that no share fills.
std::vector<ParameterInfo> round_parameters(bool fill = true);
RoundOptions round_options(const Parameters& parameters, uint64_t seed, bool fill = true);

}  // namespace scalai::policy
