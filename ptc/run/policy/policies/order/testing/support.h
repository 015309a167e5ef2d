#pragma once
// Runs of jobs on a plain fleet by the name of a policy, and claims on GPUs.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/order/shares_of_gpus.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::policy::order {

// A policy of the catalogue, by pairs of names and values.
inline std::unique_ptr<Policy> make_order_policy(const std::string& name,
                                                 std::vector<std::pair<std::string, std::string>> set = {},
                                                 uint64_t seed = 1) {
  for (const PolicyInfo& info : policies()) {
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

// A job that runs at rates[k] a second on k + 1 GPUs.
inline Claim claim(int32_t id, double work, std::vector<double> rates) {
  Claim it{.id = JobId(id), .sizes = {}, .rates = std::move(rates), .work_left = work, .share = -1};
  for (size_t k = 1; k <= it.rates.size(); ++k) it.sizes.push_back(static_cast<int>(k));
  return it;
}

inline std::vector<int> gpus_of(const std::vector<Claim>& claims) {
  std::vector<int> gpus;
  for (const Claim& it : claims) gpus.push_back(it.gpus());
  return gpus;
}

// One of 100 s and one of 400 s, on up to 4 GPUs.
inline Workload elastic_jobs() {
  Workload workload{.name = "", .jobs = {testing::rigid_job("a", 0, 1, 100), testing::rigid_job("b", 0, 1, 400)}};
  for (Job& job : workload.jobs) job.max_gpus = 4;
  return workload;
}

}  // namespace scalai::policy::order
