#pragma once
// For the tests of this folder: runs of rigid jobs on a plain fleet by the name of a policy.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::policy::order {

// One of this folder's policies. The catalogue of all of them lies above this folder.
inline std::unique_ptr<Policy> make_order_policy(const std::string& name,
                                                 std::vector<std::pair<std::string, std::string>> set = {},
                                                 uint64_t seed = 1) {
  for (const PolicyInfo& info : order_policies()) {
    if (info.name != name) continue;
    for (const ParameterInfo& parameter : info.parameters) set.emplace_back(parameter.name, parameter.default_value);
    return info.make(Parameters(std::move(set)), seed);  // the first of two values counts
  }
  ADD_FAILURE() << "no policy " << name;
  return nullptr;
}

inline Outcome play(Policy* policy, const Workload& workload, const Fleet& fleet,
                    const Availability* availability = nullptr, const Throughput* throughput = nullptr,
                    double change_s = 0) {
  const testing::PlainThroughput plain;
  const std::unique_ptr<jobs::ChangeModel> changes = jobs::make_constant_changes({.change_s = change_s});
  absl::StatusOr<Outcome> outcome = run(jobs::Setup{.workload = &workload,
                                                    .fleet = &fleet,
                                                    .availability = availability,
                                                    .throughput = throughput != nullptr ? throughput : &plain,
                                                    .policy = policy,
                                                    .changes = changes.get(),
                                                    .options = {},
                                                    .watcher = {}});
  EXPECT_TRUE(outcome.ok()) << message_of(outcome.status());
  return outcome.ok() ? *std::move(outcome) : Outcome{};
}

inline std::vector<double> finish_times(const Outcome& outcome) {
  std::vector<double> times;
  for (const JobRecord& record : outcome.jobs) times.push_back(record.finish_s);
  return times;
}

}  // namespace scalai::policy::order
