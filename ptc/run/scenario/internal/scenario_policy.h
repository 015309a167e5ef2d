#pragma once
// Who gets which GPUs and since when: a scenario's `policy`, and the fields of a job that only matter with one or with
// jobs that come later.

#include <optional>
#include <string>

#include "ptc/run/policy/policy.h"
#include "ptc/run/scenario/scenario_parts.h"

namespace scalai::proto {
class Job;
class Policy;
}  // namespace scalai::proto

namespace scalai::scenario::internal {

// `path` is the field's ("policy"). A program runs in `folder`. `otherwise`: the policy where none is named; "" = one
// must be. Empty when there is a problem.
std::optional<PolicySpec> build_policy(const proto::Policy& message, const std::string& path, const std::string& folder,
                                       Source& source, const std::string& otherwise = "");
// What the policy of this name promises; nothing of a program.
std::optional<policy::PolicyTraits> traits_of(const PolicySpec& policy);

// The job's GPUs and configurations are built. `path` is the job's ("jobs[0]").
void build_schedule(const proto::Job& message, const std::string& path, Context& context, JobSpec& job);
// What is known only of all jobs: those the policy cannot serve, fields that need another one.
void check_policy(Context& context, const Scenario& scenario);

void write_schedule(const JobSpec& job, proto::Job& out);
void write_policy(const PolicySpec& policy, proto::Policy& out);

}  // namespace scalai::scenario::internal
