#include "sim/iteration.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ptc/base/random.h"
#include "ptc/cost/step/testing/bubble.h"
#include "sim/testing/iteration_fixture.h"

namespace scalai::sim {
namespace {

using collection::ParallelConfig;
using step::Communication;
using step::PipelineShape;
using step::Schedule;
using step::StageWork;
using step::StepParts;
using testing::between;
using testing::cluster_of;
using testing::devices_from;
using testing::ideal_cluster;
using testing::inside;
using testing::layout;
using testing::plain_parts;
using testing::small_cluster;
using testing::step_of;

ParallelConfig pipeline(int pp, int vpp = 1) { return {.pp = pp, .vpp = vpp}; }

TEST(Iteration, BubbleIsTheClosedFormOnAnIdealNetwork) {
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB}) {
    for (const int pp : {1, 2, 3, 4, 8}) {
      const cluster::Cluster cluster = ideal_cluster(pp, 1);
      for (const int vpp : {1, 2, 4}) {
        if (pp == 1 && vpp > 1) continue;
        for (const int m : {pp, 2 * pp, 5 * pp}) {
          SCOPED_TRACE(fmt::format("{} pp{} vpp{} m{}", name_of(schedule), pp, vpp, m));
          const ParallelConfig config = pipeline(pp, vpp);
          const double step_s = step_of(cluster, config, plain_parts(config, m, 0.01, 0.023), schedule);
          const PipelineShape shape{.schedule = schedule, .pp = pp, .vpp = vpp, .micro_batches = m};
          const double work_s = m * vpp * 0.033;
          EXPECT_NEAR(step_s / (work_s * (1 + bubble_fraction(shape))), 1, 1e-6);
        }
      }
    }
  }
}

TEST(Iteration, TwoBWHasNoBubbleInSteadyState) {
  for (const int pp : {2, 4, 8}) {
    const ParallelConfig config = pipeline(pp);
    for (const int m : {pp, 3 * pp}) {
      const double step_s = step_of(ideal_cluster(pp, 1), config, plain_parts(config, m, 1, 2), Schedule::kTwoBW);
      EXPECT_NEAR(step_s / (3 * m), 1, 1e-6) << "pp" << pp << " m" << m;
    }
  }
}

// --- by hand: what flows, and what runs beside what ------------------------------------------------------------------

TEST(Iteration, CollectivesTakeLatencyAndBytesOverTheirLink) {
  const ParallelConfig config = layout("tp2,dp2");
  StepParts parts = plain_parts(config, 3, 1, 2);
  parts.stages[0].forward[0].tp = inside(50, 0.25);
  parts.stages[0].backward[0].dp = between(20, 0.5);
  parts.stages[0].gradients = between(30);
  parts.stages[0].parameters = between(10);
  parts.stages[0].optimizer_s = 4;
  EXPECT_NEAR(step_of(small_cluster(), config, parts), 3 * (1 + 0.25 + 0.5 + 2 + 0.5 + 2) + 3 + 1 + 4, 1e-9);
}

TEST(Iteration, WhatTheWorkHidesTakesNoTime) {
  const ParallelConfig config = layout("tp2,dp2");
  StepParts parts = plain_parts(config, 3, 1, 2);
  parts.gradients_hidden = parts.parameters_hidden = 0.5;
  parts.stages[0].gradients = between(10);   // 0.5 s beside 2 s of backward, 0.5 s after
  parts.stages[0].parameters = between(40);  // 2 s before, then 2 s beside 1 s of forward
  EXPECT_NEAR(step_of(small_cluster(), config, parts), 9 + 0.5 + 2 + 1, 1e-9);
}

// Each chunk's half: gradients from its own last backward slot on, parameters until its own first forward slot is done.
TEST(Iteration, ChunksHideTheirOwnShares) {
  const ParallelConfig config = layout("tp1,pp2,dp2,vpp2,order=pp-tp-cp-dp");
  StepParts parts = plain_parts(config, 2, 1, 2);
  const double plain = 2 * 2 * 3 * (1 + 1 / 4.0);
  parts.gradients_hidden = parts.parameters_hidden = 1;
  // 3 s each on stage 0: chunk 1's from 6 s before the end on, chunk 0's from 2 s.
  parts.stages[0].gradients = between(60);
  EXPECT_NEAR(step_of(small_cluster(), config, parts), plain + 1, 1e-9);
  parts.stages[0].gradients = {};
  parts.stages[0].parameters = between(30);  // 1.5 s each: chunk 0's slot takes 1 s
  EXPECT_NEAR(step_of(small_cluster(), config, parts), plain + 0.5, 1e-9);
}

TEST(Iteration, MessagesKeepTheReceiverWaiting) {
  const ParallelConfig config = layout("tp2,pp2");
  StepParts parts = plain_parts(config, 1, 1, 2);
  for (StageWork& stage : parts.stages) stage.send = between(5, 0.25);
  EXPECT_NEAR(step_of(small_cluster(), config, parts), 6 + 2 * 0.75, 1e-9);
  // Two micro-batches are under way at once: two messages each two micro-batches that nothing hides.
  parts.micro_batches = 4;
  EXPECT_NEAR(step_of(small_cluster(), config, parts), (4 + 1) * 3 + 2 * (2 * 0.75), 1e-9);
  EXPECT_NEAR(step_of(small_cluster(), config, parts, Schedule::kGPipe), (4 + 1) * 3 + 2 * 0.75, 1e-9);
}

// Interleaved: hidden messages cost what the first and the last micro-batch wait, others also what their senders do.
TEST(Iteration, InterleavedMessagesBlockUnlessHidden) {
  const ParallelConfig config = layout("tp2,pp2,vpp2");
  StepParts parts = plain_parts(config, 4, 1, 2);
  for (StageWork& stage : parts.stages) stage.send = between(2.5);
  const double plain = 4 * 2 * 3 * (1 + 1 / 8.0);
  parts.sends_hidden = true;
  const double hidden = step_of(small_cluster(), config, parts);
  parts.sends_hidden = false;
  const double blocking = step_of(small_cluster(), config, parts);
  EXPECT_GE(hidden, plain + 2 * 0.25 - 1e-9);
  EXPECT_LE(hidden, plain + 1.5 + 1e-9);
  // Stage 0 waits for 4 · 2 messages forward and for 4 back.
  EXPECT_NEAR(blocking, plain + (8 + 4) * 0.25 + 2 * 0.25, 0.5);
  EXPECT_GT(blocking, hidden + 1);
}

// The sender of an exchange waits until it is done, as in the closed form.
TEST(Iteration, ExchangesBlockTheSender) {
  const ParallelConfig config = layout("tp2,pp2");
  StepParts parts = plain_parts(config, 4, 1, 2);
  for (StageWork& stage : parts.stages) stage.send = between(5, 0.25);
  parts.sends_block = true;
  EXPECT_NEAR(step_of(small_cluster(), config, parts), (4 + 1) * (3 + 0.75), 1e-9);
}

TEST(Iteration, TheTiedEmbeddingIsSummedAfterAllStages) {
  const ParallelConfig config = layout("tp2,pp2");
  StepParts parts = plain_parts(config, 2, 1, 2);
  parts.stages[0].embedding = parts.stages[1].embedding = between(20);
  EXPECT_NEAR(step_of(small_cluster(), config, parts), 9 + 2, 1e-9);
}

// Optimizers begin when the last stage's gradients are there: the last stage's is not hidden by the drain, but by the
// next step's first slot on stage 0.
TEST(Iteration, OptimizersWaitForAllStages) {
  const ParallelConfig config = pipeline(2);
  StepParts parts = plain_parts(config, 4, 1, 2);
  parts.stages[1].optimizer_s = 2;
  EXPECT_NEAR(step_of(ideal_cluster(2, 1), config, parts), (4 + 1) * 3 + 2 - 1, 1e-9);
}

TEST(Iteration, AJobThatNeedsALinkThatIsDownDoesNotTrain) {
  const cluster::Cluster cluster = small_cluster();
  const change::Platform platform(cluster);
  const ParallelConfig config = layout("tp2");
  StepParts parts = plain_parts(config, 2, 1, 2);
  parts.stages[0].forward[0].tp = inside(50);
  const std::vector<DeviceId> first = devices_from(0, 2), second = devices_from(2, 2);
  const std::vector<IterationJob> jobs = {{.config = config, .devices = first, .parts = {&parts, 1}},
                                          {.config = config, .devices = second, .parts = {&parts, 1}}};
  std::vector<double> capacities;
  for (const change::LinkSpec& link : platform.spec().links) capacities.push_back(link.bandwidth_bytes_per_s);
  capacities[static_cast<size_t>(platform.link("h0.g1.up"))] = 0;
  capacities[static_cast<size_t>(platform.link("h1.g1.up"))] /= 2;
  const IterationResult result = simulate_iterations(platform, capacities, jobs);
  EXPECT_TRUE(std::isinf(result.step_s[0]));
  EXPECT_NEAR(result.step_s[1], 2 * (1 + 1 + 2), 1e-9);
}

// Two jobs share each host's NIC; one of them cannot reach it.
TEST(Iteration, OthersHaveTheLinksOfAJobThatStoppedToThemselves) {
  cluster::Cluster cluster = cluster_of("h100-80g", 2, {.gpus = 2, .nics = 1, .nic_bytes_per_s = 10});
  const change::Platform platform(cluster);
  const ParallelConfig config = layout("dp2");
  StepParts parts = plain_parts(config, 1, 1, 2);
  parts.stages[0].gradients = between(30);
  const std::vector<DeviceId> first = {DeviceId(0), DeviceId(2)}, second = {DeviceId(1), DeviceId(3)};
  const std::vector<IterationJob> jobs = {{.config = config, .devices = first, .parts = {&parts, 1}},
                                          {.config = config, .devices = second, .parts = {&parts, 1}}};
  std::vector<double> capacities;
  for (const change::LinkSpec& link : platform.spec().links) capacities.push_back(link.bandwidth_bytes_per_s);
  EXPECT_NEAR(simulate_iterations(platform, capacities, jobs).step_s[1], 3 + 6, 1e-9);
  capacities[static_cast<size_t>(platform.link("h0.g0.pcie.up"))] = 0;
  const IterationResult result = simulate_iterations(platform, capacities, jobs);
  EXPECT_TRUE(std::isinf(result.step_s[0]));
  EXPECT_NEAR(result.step_s[1], 3 + 3, 1e-9);
}

// A ring over 2 + 1 GPUs crosses hosts once, with all its bytes; the NIC of the second GPU is idle.
TEST(Iteration, RingsOverUnevenHostsCrossWithTheFewerOnes) {
  const ParallelConfig config = layout("dp3");
  StepParts parts = plain_parts(config, 1, 1, 2);
  parts.stages[0].gradients = between(60);
  EXPECT_NEAR(step_of(small_cluster(), config, parts), 3 + 6, 1e-9);
}

// --- slow GPUs ------------------------------------------------------------------------------------------------------

// A step with one rank `times` slower than the others.
double step_with_straggler(const cluster::Cluster& cluster, const ParallelConfig& config, const StepParts& parts,
                           double times, int rank) {
  StepParts slow = parts;
  for (StageWork& stage : slow.stages) {
    for (auto* chunks : {&stage.forward, &stage.backward}) {
      for (step::ChunkWork& chunk : *chunks) chunk.matrix_s *= times;
    }
  }
  const std::vector<StepParts> both = {parts, slow};
  std::vector<int> parts_of_rank(static_cast<size_t>(config.world()), 0);
  parts_of_rank[static_cast<size_t>(rank)] = 1;
  const change::Platform platform(cluster);
  const std::vector<DeviceId> devices = devices_from(0, config.world());
  const IterationJob job{.config = config, .devices = devices, .parts = both, .parts_of_rank = parts_of_rank};
  return simulate_iterations(platform, {}, {&job, 1}).step_s.front();
}

TEST(Iteration, AStragglerSlowsAllReplicas) {
  const ParallelConfig config = layout("tp2,dp2");
  StepParts parts = plain_parts(config, 4, 1, 2);
  parts.stages[0].forward[0].tp = parts.stages[0].backward[0].tp = inside(100);
  parts.stages[0].gradients = between(10);
  const double alone = step_of(small_cluster(), config, parts);
  EXPECT_NEAR(alone, 4 * (3 + 2) + 1, 1e-9);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_NEAR(step_with_straggler(small_cluster(), config, parts, 1.5, rank), alone + 4 * 1.5, 1e-9) << rank;
  }
}

// The slow stage sets the pace. Behind it the other's work shows in full; before it stage 0's second forward hides one.
TEST(Iteration, ASlowStageSetsThePace) {
  const ParallelConfig config = pipeline(2);
  const StepParts parts = plain_parts(config, 8, 1, 2);
  EXPECT_NEAR(step_with_straggler(ideal_cluster(2, 1), config, parts, 2, 1), 8 * 6 + 3, 1e-9);
  EXPECT_NEAR(step_with_straggler(ideal_cluster(2, 1), config, parts, 2, 0), 8 * 6 + 1, 1e-9);
}

// --- several jobs ----------------------------------------------------------------------------------------------------

// Two jobs whose replicas sum gradients across two leaves, or inside one host each.
std::vector<double> two_jobs(bool same_fabric) {
  cluster::Cluster cluster = cluster_of("h100-80g", 4, {.gpus = 2, .nics = 2, .nic_bytes_per_s = 10});
  cluster.fabric = cluster::FabricKind::kLeafSpine;
  cluster.leaf_hosts = 2;
  cluster.oversubscription = 4;  // 40 B/s of NICs a leaf, 10 B/s up
  const change::Platform platform(cluster);
  const ParallelConfig config = layout("dp2");
  StepParts parts = plain_parts(config, 1, 1, 2);
  parts.stages[0].gradients = between(30);
  const auto devices = [](int a, int b) { return std::vector<DeviceId>{DeviceId(a), DeviceId(b)}; };
  // Hosts 0 and 1 are on leaf 0, hosts 2 and 3 on leaf 1.
  const std::vector<DeviceId> first = same_fabric ? devices(0, 4) : devices(0, 2);
  const std::vector<DeviceId> second = same_fabric ? devices(2, 6) : devices(4, 6);
  const std::vector<IterationJob> jobs = {{.config = config, .devices = first, .parts = {&parts, 1}},
                                          {.config = config, .devices = second, .parts = {&parts, 1}}};
  return simulate_iterations(platform, {}, jobs).step_s;
}

TEST(Iteration, JobsThatShareAFabricSlowEachOther) {
  for (const double step_s : two_jobs(true)) EXPECT_NEAR(step_s, 3 + 30 / 5.0, 1e-9);
  for (const double step_s : two_jobs(false)) EXPECT_NEAR(step_s, 3 + 30 / 10.0, 1e-9);
}

// A chain: the first and the third job share no link, but both share one with the second. A fourth one meets nobody.
TEST(Iteration, JobsThatMeetNobodyAreTheSameToTheLastBit) {
  const cluster::Cluster cluster = cluster_of("h100-80g", 6, {.gpus = 2, .nics = 1, .nic_bytes_per_s = 10});
  const change::Platform platform(cluster);
  const ParallelConfig config = layout("dp2");
  StepParts parts = plain_parts(config, 3, 0.1, 0.23);
  parts.stages[0].gradients = between(7);
  const std::vector<std::vector<DeviceId>> devices = {
      {DeviceId(0), DeviceId(2)}, {DeviceId(3), DeviceId(4)}, {DeviceId(5), DeviceId(6)}, {DeviceId(8), DeviceId(10)}};
  std::vector<IterationJob> jobs;
  for (const std::vector<DeviceId>& pair : devices) {
    jobs.push_back({.config = config, .devices = pair, .parts = {&parts, 1}});
  }
  const std::vector<double> all = simulate_iterations(platform, {}, jobs).step_s;
  const double alone = simulate_iterations(platform, {}, std::span(jobs).subspan(3)).step_s.front();
  EXPECT_EQ(all[3], alone);
  for (size_t j = 0; j < 3; ++j) EXPECT_GT(all[j], alone + 0.5) << j;
  EXPECT_EQ(simulate_iterations(platform, {}, std::span(jobs).first(3)).step_s,
            std::vector<double>(all.begin(), all.begin() + 3));
}

// Of different lengths: the fabric is shared for a part of the longer job's time only.
TEST(Iteration, JobsOfDifferentLengthMeetNowAndThen) {
  cluster::Cluster cluster = cluster_of("h100-80g", 2, {.gpus = 2, .nics = 1, .nic_bytes_per_s = 10});
  for (cluster::Host& host : cluster.hosts) host.pcie_bytes_per_s = 0;
  const change::Platform platform(cluster);
  const ParallelConfig config = layout("dp2");
  std::vector<StepParts> parts = {plain_parts(config, 1, 1, 2), plain_parts(config, 1, 7, 14)};
  for (StepParts& one : parts) one.stages[0].gradients = between(30);
  const std::vector<DeviceId> first = {DeviceId(0), DeviceId(2)}, second = {DeviceId(1), DeviceId(3)};
  const std::vector<IterationJob> jobs = {{.config = config, .devices = first, .parts = {&parts[0], 1}},
                                          {.config = config, .devices = second, .parts = {&parts[1], 1}}};
  const std::vector<double> step_s = simulate_iterations(platform, {}, jobs).step_s;
  EXPECT_GT(step_s[0], 6);
  EXPECT_LT(step_s[0], 9 - 1);
  EXPECT_GT(step_s[1], 24);
  EXPECT_LE(step_s[1], 27);
}

// --- symmetry --------------------------------------------------------------------------------------------------------

// A random small cluster with jobs of random layouts, parts, stragglers and degraded links on it.
struct RandomCase {
  cluster::Cluster cluster;
  std::vector<double> capacities;
  struct Job {
    ParallelConfig config;
    Schedule schedule;
    std::vector<StepParts> parts;
    std::vector<int> parts_of_rank;
    std::vector<DeviceId> devices;
  };
  std::vector<Job> jobs;

  std::vector<IterationJob> views() const {
    std::vector<IterationJob> views;
    for (const Job& job : jobs) {
      views.push_back({.config = job.config,
                       .schedule = job.schedule,
                       .devices = job.devices,
                       .parts = job.parts,
                       .parts_of_rank = job.parts_of_rank});
    }
    return views;
  }
};

Communication random_traffic(Random& random, int ranks, double most_bytes) {
  if (ranks == 1 || random.below(4) == 0) return {};
  return {.link = random.below(2) == 0 ? Communication::Link::kGpuLink : Communication::Link::kNetwork,
          .latency_s = 0.125 * static_cast<double>(random.below(3)),
          .bytes = most_bytes * (0.25 + random.uniform()),
          .seconds = 1};
}

StepParts random_parts(Random& random, const ParallelConfig& config, int micro_batches) {
  StepParts parts = plain_parts(config, micro_batches, 0.5 + random.uniform(), 1 + random.uniform());
  parts.gradients_hidden = parts.parameters_hidden = 0.25 * static_cast<double>(random.below(5));
  parts.sends_hidden = random.below(2) == 0;
  parts.sends_block = random.below(4) == 0;
  const int dp = config.dp * config.cp;
  StageWork& first = parts.stages.front();
  for (auto* chunks : {&first.forward, &first.backward}) {
    for (step::ChunkWork& chunk : *chunks) {
      chunk.tp = random_traffic(random, config.tp, 30);
      chunk.cp = random_traffic(random, config.cp, 20);
      chunk.dp = random_traffic(random, dp, 5);
    }
  }
  if (config.pp > 1) first.send = random_traffic(random, 2, 4);
  first.gradients = random_traffic(random, dp, 30);
  first.parameters = random_traffic(random, dp, 30);
  first.optimizer_s = random.uniform();
  parts.stages.assign(static_cast<size_t>(config.pp), first);
  if (config.pp > 1) parts.stages.front().embedding = parts.stages.back().embedding = random_traffic(random, 2, 10);
  return parts;
}

void add_random_job(Random& random, int first_device, RandomCase& made) {
  static const std::vector<std::string> layouts = {"tp4,dp2",
                                                   "tp2,dp4",
                                                   "tp2,pp2,dp2",
                                                   "pp4,dp2",
                                                   "dp8",
                                                   "cp2,tp2,dp2",
                                                   "tp2,pp2,vpp2,dp2",
                                                   "pp2,cp2,dp2",
                                                   "tp8",
                                                   "tp1,pp8,vpp1",
                                                   "pp2,dp4,order=pp-tp-cp-dp"};
  RandomCase::Job job;
  job.config = layout(layouts[static_cast<size_t>(random.below(static_cast<int64_t>(layouts.size())))]);
  const std::vector<Schedule> schedules = {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kTwoBW};
  job.schedule = schedules[static_cast<size_t>(random.below(3))];
  const int m = job.config.pp * static_cast<int>(random.between(1, 3));
  job.parts.push_back(random_parts(random, job.config, m));
  job.devices = devices_from(first_device, job.config.world());
  if (random.below(2) == 0) {
    job.parts.push_back(job.parts.front());
    for (StageWork& stage : job.parts.back().stages) stage.forward.front().matrix_s *= 1.5;
    job.parts_of_rank.assign(job.devices.size(), 0);
    job.parts_of_rank[static_cast<size_t>(random.below(job.config.world()))] = 1;
  }
  made.jobs.push_back(std::move(job));
}

RandomCase random_case(uint64_t seed, int jobs) {
  Random random(seed);
  RandomCase made;
  const int gpus = random.below(2) == 0 ? 4 : 2, hosts = 8 * jobs / gpus;
  made.cluster = cluster_of("h100-80g", hosts, {.gpus = gpus, .nics = gpus / 2, .nic_bytes_per_s = 20});
  for (cluster::Host& host : made.cluster.hosts) {
    host.gpu_link_bytes_per_s = 100;
    host.pcie_bytes_per_s = 30;
  }
  if (random.below(2) == 0) {
    made.cluster.fabric = cluster::FabricKind::kLeafSpine;
    made.cluster.leaf_hosts = 2;
    made.cluster.oversubscription = 2;
  }
  for (int j = 0; j < jobs; ++j) add_random_job(random, 8 * j, made);
  const change::Platform platform(made.cluster);
  for (const change::LinkSpec& link : platform.spec().links) {
    made.capacities.push_back(link.bandwidth_bytes_per_s * (random.below(16) == 0 ? 0.5 : 1));
  }
  return made;
}

TEST(IterationSymmetry, FoldedIsTheSameAsEveryRankByItself) {
  int64_t folded_units = 0, units = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomCase made = random_case(seed, 1);
    const change::Platform platform(made.cluster);
    const std::vector<double> capacities = seed % 3 == 0 ? made.capacities : std::vector<double>{};
    const IterationResult folded = simulate_iterations(platform, capacities, made.views());
    const IterationResult whole = simulate_iterations(platform, capacities, made.views(), {.fold = false});
    ASSERT_NEAR(folded.step_s[0] / whole.step_s[0], 1, 1e-9);
    folded_units += folded.units;
    units += whole.units;
  }
  EXPECT_LT(folded_units, units * 3 / 4);
}

TEST(IterationSymmetry, FoldedJobsTogetherAreTheSame) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomCase made = random_case(seed, 2);
    const change::Platform platform(made.cluster);
    const IterationResult folded = simulate_iterations(platform, {}, made.views());
    const IterationResult whole = simulate_iterations(platform, {}, made.views(), {.fold = false});
    for (size_t j = 0; j < 2; ++j) ASSERT_NEAR(folded.step_s[j] / whole.step_s[j], 1, 1e-6) << "job " << j;
  }
}

// 405B on 16,384 GPUs: as many classes as stages.
TEST(IterationSymmetry, ALargeJobFoldsToItsStages) {
  const ParallelConfig config = layout("tp8,pp16,dp128");
  StepParts parts = plain_parts(config, 16, 1, 2);
  for (StageWork& stage : parts.stages) {
    stage.forward[0].tp = inside(1e9);
    stage.send = between(1e8);
    stage.gradients = between(1e9);
  }
  const cluster::Cluster cluster = cluster_of("h100-80g", 2048);
  const change::Platform platform(cluster);
  const std::vector<DeviceId> devices = devices_from(0, config.world());
  const IterationJob job{.config = config, .devices = devices, .parts = {&parts, 1}};
  EXPECT_EQ(simulate_iterations(platform, {}, {&job, 1}).units, 16);
}

}  // namespace
}  // namespace scalai::sim
