#pragma once
// Searches of Pollux and programs of Sia in a snapshot of a run (ptc/run/policy/answer_log.h). Pure functions. Errors
// of *_of(bytes): InvalidArgument: the bytes are no such answer.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/policy/policies/goodput/genetic.h"
#include "ptc/run/policy/policies/goodput/sia.h"

namespace scalai::policy {

// A digest of all that a search sees but the speed-ups, which follow from what went before, and the allocations that it
// begins with: those are of the search before.
std::string digest_of(const AllocationProblem& problem, const Random& random);
// What was found, and where the random numbers stand then. `genes`: jobs × hosts.
std::string bytes_of(const FoundAllocation& found, const Random& random);
absl::StatusOr<FoundAllocation> allocation_of(std::string_view bytes, size_t genes, Random* random);

std::string digest_of(std::span<const SiaJob> jobs, std::span<const int> gpus);
std::string bytes_of(const SiaSolution& solution);
absl::StatusOr<SiaSolution> solution_of(std::string_view bytes, std::span<const SiaJob> jobs);

}  // namespace scalai::policy
