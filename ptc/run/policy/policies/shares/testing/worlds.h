#pragma once
// Small worlds at random, and those of Gavel's public traces, for tests that play policies of the family shares.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/testing/support.h"
#include "ptc/run/scenario/trace/import.h"
#include "ptc/run/scenario/trace/tables.h"
#include "sim/jobs/change.h"
#include "sim/jobs/engine.h"

namespace scalai::policy::testing {

// As make_policy() of the catalogue; settings that the policy does not have do not count.
inline std::unique_ptr<Policy> made(const std::string& name,
                                    const std::vector<std::pair<std::string, std::string>>& set, uint64_t seed = 1) {
  for (const PolicyInfo& info : policies()) {
    if (info.name == name) {
      std::vector<std::pair<std::string, std::string>> values;
      for (const ParameterInfo& parameter : info.parameters) {
        values.emplace_back(parameter.name, parameter.default_value);
        for (const auto& [key, value] : set) {
          values.back().second = key == parameter.name ? value : values.back().second;
        }
      }
      return info.make(Parameters(values), seed);
    }
  }
  return nullptr;
}

struct World {
  Workload workload;
  Fleet fleet;
  std::unique_ptr<Throughput> throughput;

  absl::StatusOr<Outcome> run(Policy& policy) const {
    const std::unique_ptr<jobs::ChangeModel> changes = jobs::make_constant_changes({});
    jobs::Setup setup;
    setup.workload = &workload;
    setup.fleet = &fleet;
    setup.throughput = throughput.get();
    setup.policy = &policy;
    setup.changes = changes.get();
    return jobs::run(setup);
  }
};

inline World random_world(uint64_t seed, bool one_gpu_jobs) {
  Random random(seed);
  World world;
  world.fleet.types = {{"x", 2.0}, {"y", 1.0}};
  for (int k = 0; k < 3; ++k) {
    world.fleet.hosts.push_back({GpuType(0), 2});
    world.fleet.hosts.push_back({GpuType(1), 4});
  }
  double at = 0;
  for (int k = 0; k < 30; ++k) {
    at += random.uniform() * 400;
    Job job = rigid_job(fmt::format("j{}", k), at, one_gpu_jobs ? 1 : 1 << random.below(3), 0);
    job.work = job.duration_s = 50 + random.uniform() * 5000;
    job.weight = 1 + static_cast<double>(random.below(2));
    job.entity = random.below(2) == 0 ? "a" : "b";
    job.deadline_s = random.below(2) == 0 ? at + job.work * 3 : kNever;
    world.workload.jobs.push_back(job);
  }
  world.throughput = std::make_unique<PlainThroughput>(std::vector<double>{1, 0.4}, 0.7);
  return world;
}

// The trace on Gavel's 8 V100, 16 P100 and 24 K80.
inline absl::StatusOr<World> gavel_world(const std::string& trace) {
  World world;
  SCALAI_ASSIGN_OR_RETURN(trace::Imported imported, trace::import_trace("gavel", data_path("gavel/traces/" + trace)));
  world.workload = std::move(imported.workload);
  const int gpus[] = {8, 16, 24};
  for (const char* name : {"v100", "p100", "k80"}) {
    const GpuType type(static_cast<int64_t>(world.fleet.types.size()));
    world.fleet.hosts.insert(world.fleet.hosts.end(), static_cast<size_t>(gpus[type.value]), HostSpec{type, 1});
    world.fleet.types.push_back({name, 0});
  }
  SCALAI_ASSIGN_OR_RETURN(world.throughput, table_throughput("gavel", data_path("gavel/simulation_throughputs.json"),
                                                             world.fleet, world.workload, trace::Beyond::kRefuse));
  return world;
}

// `times` of the world's trace, one `apart_s` after the other.
inline void repeat(World& world, int times, double apart_s) {
  std::vector<Job>& jobs = world.workload.jobs;
  const std::vector<Job> once = jobs;
  for (int k = 1; k < times; ++k) {
    for (Job job : once) {
      job.name += fmt::format("-{}", k);
      job.submit_s += apart_s * k;
      jobs.push_back(std::move(job));
    }
  }
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.submit_s < b.submit_s; });
}

// Three of the trace, 10,000 s apart, on one GPU each.
inline absl::StatusOr<World> one_gpu_world(const std::string& trace) {
  SCALAI_ASSIGN_OR_RETURN(World world, gavel_world(trace));
  for (Job& job : world.workload.jobs) job.gpus = job.min_gpus = job.max_gpus = 1;
  repeat(world, 3, 10'000);
  return world;
}

struct Published {
  const char* trace;
  const char* policy;
  double jct_h;
  double makespan_h;
};

// Plays the policy of the row; its numbers are to be those of the row, within the tolerances.
inline void expect_published(const World& world, const Published& row, double jct_tolerance,
                             double makespan_tolerance) {
  SCOPED_TRACE(fmt::format("{} on {}", row.policy, row.trace));
  const std::unique_ptr<Policy> policy = made(row.policy, {});
  const auto outcome = world.run(*policy);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  double jct = 0;
  double last = 0;
  for (const JobRecord& job : outcome->jobs) {
    ASSERT_EQ(job.end, JobEnd::kFinished);
    jct += job.finish_s - world.workload.jobs[static_cast<size_t>(job.job.value)].submit_s;
    last = std::max(last, job.finish_s);
  }
  jct /= 3600 * static_cast<double>(outcome->jobs.size());
  fmt::print("{:32} {:24} average JCT {:7.3f} h ({:.3f}), makespan {:7.3f} h ({:.3f})\n", row.trace, row.policy, jct,
             row.jct_h, last / 3600, row.makespan_h);
  EXPECT_NEAR(jct, row.jct_h, jct_tolerance * row.jct_h);
  EXPECT_NEAR(last / 3600, row.makespan_h, makespan_tolerance * row.makespan_h);
}

// All jobs end, and twice alike.
inline void expect_ends_twice_the_same(const std::string& name, uint64_t seed, bool one_gpu_jobs) {
  SCOPED_TRACE(fmt::format("{}, seed {}", name, seed));
  const World world = random_world(seed, one_gpu_jobs);
  const std::unique_ptr<Policy> policy = made(name, {{"packing", seed == 2 ? "true" : "false"}}, seed);
  const auto outcome = world.run(*policy);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const std::unique_ptr<Policy> twin = made(name, {{"packing", seed == 2 ? "true" : "false"}}, seed);
  const auto again = world.run(*twin);
  ASSERT_TRUE(again.ok()) << again.status();
  for (size_t k = 0; k < outcome->jobs.size(); ++k) {
    EXPECT_EQ(outcome->jobs[k].end, JobEnd::kFinished) << k;
    EXPECT_EQ(outcome->jobs[k].finish_s, again->jobs[k].finish_s) << k;
  }
  EXPECT_EQ(outcome->policy_remarks, again->policy_remarks);
  EXPECT_FALSE(outcome->policy_remarks.empty());
}

}  // namespace scalai::policy::testing
