#include "ptc/run/policy/policies/quotas.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::policy {
namespace quotas_test {

using ::testing::ElementsAre;

Job job_of(const std::string& entity, const std::string& name, double submit_s, int gpus, double seconds) {
  Job job = testing::rigid_job(name, submit_s, gpus, seconds);
  job.entity = entity;
  return job;
}

// A cluster of single GPUs, and the jobs of several virtual clusters.
struct Bench {
  int gpus = 8;
  std::vector<Job> jobs;
  std::vector<VirtualCluster> clusters = {{"a", {4}}, {"b", {4}}};
  bool borrow = false;
  std::string policy = "fifo-backfill";
  std::map<std::string, int> most_held = {};  // by virtual cluster, at the end of any instant
  Availability availability = {};

  int types = 1;  // of GPUs, with as many each

  Outcome play() {
    Fleet fleet = testing::plain_fleet(gpus, 1);
    for (int t = 1; t < types; ++t) {
      fleet.types.push_back({fmt::format("type{}", t), 0});
      fleet.hosts.insert(fleet.hosts.end(), static_cast<size_t>(gpus), HostSpec{GpuType(t), 1});
    }
    const Workload workload{.name = "", .jobs = jobs};
    const testing::PlainThroughput throughput;
    const auto changes = jobs::make_constant_changes({});
    Quotas quotas{.clusters = clusters, .cluster_of = {}, .borrow = borrow};
    for (const Job& job : jobs) {
      for (size_t k = 0; k < clusters.size(); ++k) {
        if (clusters[k].name == job.entity) quotas.cluster_of.push_back(static_cast<int>(k));
      }
    }
    std::vector<std::unique_ptr<Policy>> policies;
    for (size_t k = 0; k < clusters.size(); ++k) policies.push_back(make_policy(policy, {}, 1).value());
    const auto wrapped = with_quotas(quotas, std::move(policies));
    std::vector<int> held(jobs.size(), 0);
    double last_s = 0;
    const auto count = [&] {
      std::map<std::string, int> now;
      for (size_t k = 0; k < jobs.size(); ++k) now[jobs[k].entity] += held[k];
      for (const auto& [name, gpus_now] : now) most_held[name] = std::max(most_held[name], gpus_now);
    };
    jobs::Watcher watcher;
    watcher.placed = [&](double now_s, JobId id, const Placement& placement, JobId) {
      if (now_s > last_s) count();
      last_s = now_s;
      held[static_cast<size_t>(id.value)] = placement.gpus();
    };
    watcher.ended = [&](double now_s, const Job&, const JobRecord& record) {
      if (now_s > last_s) count();
      last_s = now_s;
      held[static_cast<size_t>(record.job.value)] = 0;
    };
    const auto outcome = jobs::run({.workload = &workload,
                                    .fleet = &fleet,
                                    .availability = &availability,
                                    .throughput = &throughput,
                                    .policy = wrapped.get(),
                                    .changes = changes.get(),
                                    .options = {},
                                    .watcher = watcher});
    EXPECT_TRUE(outcome.ok()) << message_of(outcome.status());
    return outcome.ok() ? *outcome : Outcome{.jobs = std::vector<JobRecord>(jobs.size())};
  }
  std::vector<double> ends() {
    std::vector<double> times;
    for (const JobRecord& record : play().jobs) times.push_back(record.finish_s);
    return times;
  }
};

// a has two jobs of all its four GPUs, b one that comes at 50 s.
Bench two_and_one(bool borrow) {
  return {.jobs = {job_of("a", "a1", 0, 4, 100), job_of("a", "a2", 0, 4, 100), job_of("b", "b1", 50, 4, 30)},
          .borrow = borrow};
}

TEST(Quotas, FixedOnesAreClustersOfTheirOwn) {
  Bench bench = two_and_one(false);
  EXPECT_THAT(bench.ends(), ElementsAre(100, 200, 80));
  EXPECT_EQ(bench.most_held["a"], 4);
}

// a2 runs on what b leaves, makes way from 50 to 80 s, and has 50 s of its work left then.
TEST(Quotas, WhatIsBorrowedGoesBackWhenItsOwnerWantsIt) {
  Bench bench = two_and_one(true);
  const Outcome outcome = bench.play();
  EXPECT_EQ(outcome.jobs[0].finish_s, 100);
  EXPECT_EQ(outcome.jobs[1].finish_s, 130);
  EXPECT_EQ(outcome.jobs[2].first_start_s, 50);
  EXPECT_EQ(outcome.jobs[2].finish_s, 80);
  EXPECT_EQ(outcome.jobs[0].preemptions, 0) << "the one that came last goes";
  EXPECT_EQ(outcome.jobs[1].preemptions, 1);
  EXPECT_EQ(bench.most_held["a"], 8);
}

// A preemptive policy says itself who makes way: a1 has more left than a2.
TEST(Quotas, APreemptivePolicyChoosesWhoMakesWay) {
  Bench bench = two_and_one(true);
  bench.policy = "srtf";
  bench.jobs[0].work = 200;
  const Outcome outcome = bench.play();
  EXPECT_EQ(outcome.jobs[0].preemptions, 1);
  EXPECT_EQ(outcome.jobs[0].finish_s, 230);
  EXPECT_EQ(outcome.jobs[1].preemptions, 0);
  EXPECT_EQ(outcome.jobs[1].finish_s, 100);
}

// c has no jobs. a and b want its six GPUs; b borrows first and keeps what it has when a comes: only owners take back.
TEST(Quotas, BorrowersDoNotTakeFromEachOther) {
  Bench bench{.gpus = 10,
              .jobs = {job_of("b", "b1", 0, 2, 100), job_of("b", "b2", 0, 2, 100), job_of("b", "b3", 0, 2, 100),
                       job_of("a", "a1", 10, 2, 100), job_of("a", "a2", 10, 2, 100), job_of("a", "a3", 10, 2, 100)},
              .clusters = {{"a", {2}}, {"b", {2}}, {"c", {6}}},
              .borrow = true};
  EXPECT_THAT(bench.ends(), ElementsAre(100, 100, 100, 110, 110, 200)) << "a3 waits for b's jobs";
  bench.jobs.push_back(job_of("c", "c1", 20, 6, 10));
  EXPECT_THAT(bench.ends(), ElementsAre(100, 110, 180, 110, 120, 130, 30))
      << "c takes four GPUs from b and two from a; at 30 s a is asked first and borrows four, b the two that are left";
}

TEST(Quotas, JobsLargerThanTheQuotaAreRefused) {
  Bench bench{.jobs = {job_of("a", "a1", 0, 5, 10), job_of("a", "a2", 0, 4, 10)}, .borrow = true};
  const Outcome outcome = bench.play();
  EXPECT_EQ(outcome.jobs[0].end, JobEnd::kRefused);
  EXPECT_EQ(outcome.jobs[1].finish_s, 10);
  EXPECT_THAT(outcome.policy_remarks,
              ::testing::HasSubstr("refused, for more GPUs than the quota of its virtual cluster: 1 job"));
}

// Four of eight GPUs fail: b, which holds nothing, gets none of what a holds, but the rest.
TEST(Quotas, WhatIsLeftAfterFailuresIsSharedByUse) {
  Bench bench{.jobs = {job_of("a", "a1", 0, 2, 100), job_of("b", "b1", 10, 2, 100), job_of("b", "b2", 10, 2, 100)}};
  FleetEvent failed{.at_s = 5, .kind = FleetEvent::Kind::kFailed};
  for (int k = 4; k < 8; ++k) failed.hosts.push_back(HostId(k));
  bench.availability.events = {failed};
  EXPECT_THAT(bench.ends(), ElementsAre(100, 110, 200));
}

// a asks for four GPUs and has them on one type: its quota of the other is lent, and comes back at 50 s for a2.
TEST(Quotas, AJobAsksForOneTypeNotForEach) {
  Bench bench{.jobs = {job_of("a", "a1", 0, 4, 100), job_of("b", "b1", 0, 4, 100), job_of("b", "b2", 0, 4, 100),
                       job_of("b", "b3", 0, 4, 100)},
              .clusters = {{"a", {4, 4}}, {"b", {4, 4}}},
              .borrow = true,
              .types = 2};
  EXPECT_THAT(bench.ends(), ElementsAre(100, 100, 100, 100));
  EXPECT_EQ(bench.most_held["b"], 12);
  bench.jobs.push_back(job_of("a", "a2", 50, 4, 10));
  const Outcome outcome = bench.play();
  EXPECT_EQ(outcome.jobs[4].finish_s, 60);
  EXPECT_EQ(outcome.jobs[0].finish_s, 100);
  EXPECT_EQ(outcome.jobs[1].preemptions + outcome.jobs[2].preemptions + outcome.jobs[3].preemptions, 1);
}

// As above with any mixture of types: an owner's job starts when it comes, and no type is given out twice.
TEST(Quotas, OwnersNeverWaitOnSeveralTypes) {
  for (const char* policy : {"fifo-backfill", "srtf"}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", policy, seed));
      Random random(seed);
      Bench bench{.clusters = {{"a", {3, 5}}, {"b", {5, 3}}}, .borrow = true, .policy = policy, .types = 2};
      for (int k = 0; k < 30; ++k) {
        bench.jobs.push_back(job_of("b", fmt::format("b{}", k), 0, static_cast<int>(random.between(1, 5)), 200));
      }
      double at_s = 0;
      for (int k = 0; k < 10; ++k) {
        at_s += static_cast<double>(random.between(31, 60));
        bench.jobs.push_back(job_of("a", fmt::format("a{}", k), at_s, static_cast<int>(random.between(1, 5)), 30));
      }
      const Outcome outcome = bench.play();
      for (size_t k = 30; k < 40; ++k) EXPECT_EQ(outcome.jobs[k].finish_s, bench.jobs[k].submit_s + 30) << k;
      for (size_t k = 0; k < 30; ++k) EXPECT_EQ(outcome.jobs[k].end, JobEnd::kFinished) << k;
    }
  }
}

// The oracle of fixed quotas: each virtual cluster as a cluster of its own.
TEST(Quotas, FixedOnesEqualSeparateRuns) {
  for (const PolicyInfo& info : policies()) {
    if (info.family != "order") continue;
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", info.name, seed));
      Random random(seed);
      Bench bench;
      bench.policy = info.name;
      double at_s = 0;
      for (int k = 0; k < 30; ++k) {
        at_s += static_cast<double>(random.below(40));
        bench.jobs.push_back(job_of(random.below(2) == 0 ? "a" : "b", fmt::format("j{}", k), at_s,
                                    static_cast<int>(random.between(1, 4)),
                                    static_cast<double>(random.between(5, 99))));
      }
      const std::vector<double> together = bench.ends();
      for (const VirtualCluster& cluster : bench.clusters) {
        Bench alone = bench;
        alone.gpus = 4;
        alone.clusters = {cluster};
        std::erase_if(alone.jobs, [&](const Job& job) { return job.entity != cluster.name; });
        std::vector<double> own;
        for (size_t k = 0; k < bench.jobs.size(); ++k) {
          if (bench.jobs[k].entity == cluster.name) own.push_back(together[k]);
        }
        const std::vector<double> apart = alone.ends();
        ASSERT_EQ(own.size(), apart.size());
        for (size_t k = 0; k < own.size(); ++k) EXPECT_NEAR(own[k], apart[k], 1e-6) << cluster.name << " " << k;
      }
      EXPECT_LE(bench.most_held["a"], 4);
      EXPECT_LE(bench.most_held["b"], 4);
    }
  }
}

// An owner's job that fits into its quota beside its own starts the moment it comes, whoever has borrowed.
TEST(Quotas, OwnersNeverWaitWithinTheirQuota) {
  for (const char* policy : {"fifo", "fifo-backfill", "srtf", "tiresias"}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", policy, seed));
      Random random(seed);
      Bench bench{.borrow = true, .policy = policy};
      double at_s = 0;
      for (int k = 0; k < 30; ++k) {  // of b, who borrows all the time
        bench.jobs.push_back(job_of("b", fmt::format("b{}", k), 0, static_cast<int>(random.between(1, 4)), 200));
      }
      for (int k = 0; k < 10; ++k) {  // of a, one after the other
        at_s += static_cast<double>(random.between(31, 60));
        bench.jobs.push_back(job_of("a", fmt::format("a{}", k), at_s, static_cast<int>(random.between(1, 4)), 30));
      }
      const Outcome outcome = bench.play();
      for (size_t k = 30; k < 40; ++k) EXPECT_EQ(outcome.jobs[k].finish_s, bench.jobs[k].submit_s + 30) << k;
      for (size_t k = 0; k < 30; ++k) EXPECT_EQ(outcome.jobs[k].end, JobEnd::kFinished) << k;
    }
  }
}

}  // namespace quotas_test
}  // namespace scalai::policy
