#include "sim/jobs/internal/training_shares.h"

#include <gtest/gtest.h>

#include "ptc/base/random.h"

namespace scalai::sim {
namespace {

using policy::JobId;

// A link of 10 B/s. A step of 1 s sends 2 bytes in the 0.2 s that nothing hides.
TrainingShares::Job trainer(std::vector<int> links) {
  return {.flows = {{.links = std::move(links), .bytes = 2, .bytes_per_s = 10}}, .step_s = 1, .exposed_s = 0.2};
}

TEST(TrainingShares, HasItsFullPaceAlone) {
  TrainingShares shares({10});
  const TrainingShares::Job job = trainer({0});
  shares.add(policy::JobId(0), job);
  const std::vector<change::LinkRate> left = shares.update();
  EXPECT_EQ(shares.step_rate(policy::JobId(0)), 1);
  EXPECT_EQ(left, (std::vector<change::LinkRate>{{0, 8}}));  // 2 bytes a second on average
  EXPECT_EQ(shares.step_rate(policy::JobId(7)), 1);          // nobody knows it
}

// While it communicates a change takes half of the link: 0.4 s instead of 0.2. Steps take 1.2 s; 2 bytes in these leave
// the change 10 - 2 / 1.2.
TEST(TrainingShares, CommunicatesAtItsShareBesideAChange) {
  TrainingShares shares({10});
  const TrainingShares::Job job = trainer({0});
  shares.add_change({0});
  shares.add(policy::JobId(0), job);
  const std::vector<change::LinkRate> left = shares.update();
  EXPECT_NEAR(shares.step_rate(policy::JobId(0)), 1 / 1.2, 1e-12);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_NEAR(left[0].bytes_per_s, 10 - 2 / 1.2, 1e-12);
  const uint64_t version = shares.version();
  shares.remove_change({0});
  shares.update();
  EXPECT_EQ(shares.step_rate(policy::JobId(0)), 1);
  EXPECT_GT(shares.version(), version);
  shares.remove(policy::JobId(0));
  EXPECT_EQ(shares.update(), (std::vector<change::LinkRate>{{0, 10}}));
}

// It never draws more than it does alone: a link of 100 B/s has enough for both.
TEST(TrainingShares, IsNotDisturbedWhereThereIsEnough) {
  TrainingShares shares({100});
  const TrainingShares::Job job = trainer({0});
  shares.add(policy::JobId(0), job);
  shares.add_change({0});
  shares.update();
  EXPECT_EQ(shares.step_rate(policy::JobId(0)), 1);
}

// Of 10 B/s four changes leave it 2 B/s: 5 times as long.
TEST(TrainingShares, EachChangeIsOneMore) {
  TrainingShares shares({10});
  const TrainingShares::Job job = trainer({0});
  shares.add(policy::JobId(0), job);
  for (int k = 0; k < 4; ++k) shares.add_change({0});
  shares.update();
  EXPECT_NEAR(shares.step_rate(policy::JobId(0)), 1 / (1 + 0.2 * 4), 1e-12);
}

// 9 bytes in 1 s, all hidden: beside a change they take 1.8 s, and so does the step.
TEST(TrainingShares, HiddenCommunicationIsNotOverBeforeItsBytesAre) {
  TrainingShares shares({10});
  const TrainingShares::Job job{.flows = {{.links = {0}, .bytes = 9, .bytes_per_s = 10}}, .step_s = 1, .exposed_s = 0};
  shares.add(policy::JobId(0), job);
  shares.add_change({0});
  const std::vector<change::LinkRate> left = shares.update();
  EXPECT_NEAR(shares.step_rate(policy::JobId(0)), 1 / 1.8, 1e-12);
  EXPECT_NEAR(left[0].bytes_per_s, 5, 1e-12);
}

// What two jobs that train do to each other does not count; what the change does to both does.
TEST(TrainingShares, JobsThatTrainDoNotSlowEachOtherDown) {
  TrainingShares shares({10});
  const TrainingShares::Job job = trainer({0});
  shares.add(policy::JobId(0), job);
  shares.add(policy::JobId(1), job);
  shares.update();
  EXPECT_EQ(shares.step_rate(policy::JobId(0)), 1);
  shares.add_change({0});
  shares.update();
  EXPECT_NEAR(shares.step_rate(policy::JobId(0)), 1 / (1 + 0.2 * 0.5), 1e-12);  // 5 B/s without, 10/3 with
  EXPECT_EQ(shares.step_rate(policy::JobId(0)), shares.step_rate(policy::JobId(1)));
}

TEST(TrainingShares, TheSlowestFlowCounts) {
  TrainingShares shares({10, 10});
  const TrainingShares::Job job{
      .flows = {{.links = {0}, .bytes = 2, .bytes_per_s = 10}, {.links = {1}, .bytes = 2, .bytes_per_s = 10}},
      .step_s = 1,
      .exposed_s = 0.2};
  shares.add(policy::JobId(0), job);
  shares.add_change({1});
  shares.update();
  EXPECT_NEAR(shares.step_rate(policy::JobId(0)), 1 / 1.2, 1e-12);
}

// Whatever comes and goes: rates and bandwidths follow from what is there now.
TEST(TrainingShares, HistoryDoesNotMatter) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const std::vector<double> capacities = {10, 20, 5, 40};
    TrainingShares shares(capacities);
    const auto random_links = [&] {
      const int a = static_cast<int>(random.below(4)), b = static_cast<int>(random.below(4));
      return a == b ? std::vector<int>{a} : std::vector<int>{std::min(a, b), std::max(a, b)};
    };
    std::vector<TrainingShares::Job> jobs;
    for (int j = 0; j < 4; ++j) {
      jobs.push_back({.flows = {}, .step_s = 1 + random.uniform(), .exposed_s = random.uniform()});
      for (int f = 0; f < 3; ++f) {
        jobs.back().flows.push_back(
            {.links = random_links(), .bytes = 5 * random.uniform(), .bytes_per_s = 1 + 20 * random.uniform()});
      }
    }
    std::vector<bool> trains(jobs.size(), false);
    std::vector<std::vector<int>> changes;
    std::vector<double> bandwidth = capacities;
    for (int move = 0; move < 60; ++move) {
      const auto job = static_cast<size_t>(random.below(4));
      if (random.below(2) == 0) {
        const policy::JobId id(static_cast<int64_t>(job));
        if (trains[job]) {
          shares.remove(id);
        } else {
          shares.add(id, jobs[job]);
        }
        trains[job] = !trains[job];
      } else if (!changes.empty() && random.below(2) == 0) {
        shares.remove_change(changes.back());
        changes.pop_back();
      } else {
        changes.push_back(random_links());
        shares.add_change(changes.back());
      }
      for (const change::LinkRate& rate : shares.update()) bandwidth[static_cast<size_t>(rate.link)] = rate.bytes_per_s;
    }
    TrainingShares fresh(capacities);
    for (size_t j = 0; j < jobs.size(); ++j) {
      if (trains[j]) fresh.add(policy::JobId(static_cast<int64_t>(j)), jobs[j]);
    }
    for (const std::vector<int>& links : changes) fresh.add_change(links);
    std::vector<double> expected = capacities;
    for (const change::LinkRate& rate : fresh.update()) expected[static_cast<size_t>(rate.link)] = rate.bytes_per_s;
    for (int j = 0; j < 4; ++j)
      EXPECT_NEAR(shares.step_rate(policy::JobId(j)), fresh.step_rate(policy::JobId(j)), 1e-9);
    for (size_t l = 0; l < capacities.size(); ++l) EXPECT_NEAR(bandwidth[l], expected[l], 1e-9 * capacities[l]);
  }
}

}  // namespace
}  // namespace scalai::sim
