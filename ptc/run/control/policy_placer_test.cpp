#include "ptc/run/control/internal/policy_placer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::control {
namespace {

using policy::GpuType;
using policy::Grant;
using policy::JobId;
using testing::device_ids;
using ::testing::HasSubstr;
using testing::job_text;

constexpr int kJobs = 4;

// Four hosts of two GPUs (h0: g0 g1 …), four jobs.
class Placing : public ::testing::Test {
 protected:
  Placing() {
    std::string text = std::string(testing::kSmallCluster) + "policy { name: \"fifo\" }\n";
    for (int job = 0; job < kJobs; ++job)
      text += job_text(fmt::format("j{}", job), "gpus: 2 steps: 9 configs { layout: \"tp2\" step_time: \"1s\" }");
    auto read = testing::scenario_of(text);
    SCALAI_CHECK(read.ok(), message_of(read.status()));
    scenario_ = *std::move(read);
    strategy_ = scenario::find_strategy("reshard", {}).value();
    view_ = std::make_unique<PolicyView>(scenario_, strategy_);
    std::vector<JobId> all;
    for (int job = 0; job < kJobs; ++job) all.emplace_back(job);
    view_->set_active(all);
    standing_.granted.resize(kJobs);
    standing_.home.resize(kJobs);
    standing_.usable.assign(8, 1);
    standing_.held.assign(8, 0);
  }

  // The job has these devices, and is on them.
  void on(int job, const std::vector<int>& devices) {
    standing_.granted[static_cast<size_t>(job)] = standing_.home[static_cast<size_t>(job)] = device_ids(devices);
    for (const int device : devices) standing_.held[static_cast<size_t>(device)] = 1;
  }
  static Grant grant(int job, int gpus, const std::vector<policy::HostShare>& hosts = {}) {
    return {.job = JobId(job), .type = GpuType(0), .gpus = gpus, .hosts = hosts, .beside = {}};
  }
  absl::StatusOr<std::vector<Wish>> place(const std::vector<Grant>& list) const {
    policy::Grants grants;
    for (const Grant& one : list) grants.push_back(&one);
    view_->set_usable(standing_.usable);
    return wishes_of(grants, *view_, scenario_.cluster, standing_);
  }
  // What becomes of the job; what it has when nothing.
  std::vector<DeviceId> devices(const std::vector<Grant>& list, int job) const {
    const auto wishes = place(list);
    SCALAI_CHECK(wishes.ok(), message_of(wishes.status()));
    for (const Wish& wish : *wishes) {
      if (wish.job == job) return wish.devices;
    }
    return standing_.granted[static_cast<size_t>(job)];
  }

  scenario::Scenario scenario_;
  scenario::Strategy strategy_;
  std::unique_ptr<PolicyView> view_;
  Standing standing_;
};

// The hosts are HostLedger's (ptc/run/policy/host_ledger_test.cpp); here it is about devices.
TEST_F(Placing, TakesTheSmallestGapThatIsEnough) {
  on(0, {0});
  on(1, {2, 3});
  EXPECT_EQ(devices({grant(2, 1)}, 2), device_ids({1})) << "the odd end of a host";
  EXPECT_EQ(devices({grant(2, 2)}, 2), device_ids({4, 5})) << "a whole host rather than two ends";
  EXPECT_EQ(devices({grant(2, 3)}, 2), device_ids({1, 4, 5})) << "as few hosts as there can be";
}

TEST_F(Placing, GrowsBesideWhatItHas) {
  on(0, {2});
  on(1, {4, 5});
  EXPECT_EQ(devices({grant(0, 2)}, 0), device_ids({2, 3}));
  EXPECT_EQ(devices({grant(0, 4)}, 0), device_ids({2, 0, 1, 3})) << "its own first, the others by number";
}

TEST_F(Placing, ShrinksOntoTheFewestHostsOfItsOwn) {
  on(0, {0, 2, 3, 4, 5});
  on(1, {1});
  EXPECT_EQ(devices({grant(0, 4)}, 0), device_ids({2, 3, 4, 5}));
  EXPECT_EQ(devices({grant(0, 2)}, 0), device_ids({2, 3}));
}

TEST_F(Placing, OnAHostIdleDevicesComeBeforeThoseThatOthersAreStillOn) {
  on(0, {0});
  EXPECT_EQ(devices({grant(0, 0), grant(2, 1, {{HostId(0), 1}})}, 2), device_ids({1}));
  EXPECT_EQ(devices({grant(0, 0), grant(2, 2)}, 2), device_ids({0, 1})) << "the host is free, one device of it later";
}

TEST_F(Placing, EachKeepsItsOwnDevicesBeforeAnybodyElseTakesThem) {
  on(0, {1});
  on(1, {0});
  EXPECT_EQ(devices({grant(0, 1, {{HostId(0), 1}}), grant(2, 1, {{HostId(0), 1}}), grant(1, 0)}, 2), device_ids({0}));
}

TEST_F(Placing, AJobGoesBackToWhereItsStateIs) {
  standing_.home[0] = device_ids({6, 7});
  EXPECT_EQ(devices({grant(1, 2), grant(0, 2)}, 0), device_ids({6, 7}));
}

TEST_F(Placing, TheSameNumberIsNoChange) {
  on(0, {5, 1});
  EXPECT_TRUE(place({grant(0, 2)})->empty());
  EXPECT_TRUE(place({grant(0, 2, {{HostId(0), 1}, {HostId(2), 1}})})->empty());
  EXPECT_EQ(devices({grant(0, 2, {{HostId(3), 2}})}, 0), device_ids({6, 7}));
}

TEST_F(Placing, NamedHostsGoBeforeOthers) {
  EXPECT_EQ(devices({grant(0, 6), grant(1, 2, {{HostId(0), 2}})}, 1), device_ids({0, 1}));
}

TEST_F(Placing, WhatIsDownIsNotGiven) {
  standing_.usable = {0, 0, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(devices({grant(0, 2)}, 0), device_ids({2, 3}));
  standing_.home[1] = device_ids({1, 2});
  EXPECT_EQ(devices({grant(1, 2)}, 1), device_ids({2, 3})) << "of where its state is what is up";
  EXPECT_THAT(message_of(place({grant(0, 7)}).status()), HasSubstr("of which 6 are free"));
  EXPECT_THAT(message_of(place({grant(0, 1, {{HostId(0), 1}})}).status()), HasSubstr("host 0, which has 0 free"));
}

// Whatever is granted and held: as many as were given, nobody twice, none that is down, and none moved that was not
// named.
TEST_F(Placing, RandomDecisionsAreKept) {
  constexpr uint64_t kSeed = 5;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  int placed = 0;
  for (int round = 0; round < 3000; ++round) {
    standing_.usable.assign(8, 1);
    standing_.held.assign(8, 0);
    standing_.granted.assign(kJobs, {});
    standing_.home.assign(kJobs, {});
    for (int n = 0; n < 2; ++n) {
      if (random.below(3) == 0) standing_.usable[static_cast<size_t>(random.below(8))] = 0;
    }
    for (int device = 0; device < 8; ++device) {
      const auto job = static_cast<size_t>(random.below(kJobs + 2));
      if (standing_.usable[static_cast<size_t>(device)] == 0 || job >= kJobs) continue;
      standing_.granted[job].emplace_back(device);
      if (random.below(3) == 0) continue;  // it is not there yet
      standing_.home[job].emplace_back(device);
      standing_.held[static_cast<size_t>(device)] = 1;
    }
    std::vector<Grant> list;
    for (int job = 0; job < kJobs; ++job) {
      if (random.below(2) == 0) list.push_back(grant(job, static_cast<int>(random.below(5))));
    }
    const auto wishes = place(list);
    int wanted = 0;
    const int up = static_cast<int>(std::count(standing_.usable.begin(), standing_.usable.end(), 1));
    std::vector<std::vector<DeviceId>> now = standing_.granted;
    for (int job = 0; job < kJobs; ++job) {
      const auto named = std::find_if(list.begin(), list.end(), [&](const Grant& g) { return g.job == JobId(job); });
      wanted += named == list.end() ? static_cast<int>(now[static_cast<size_t>(job)].size()) : named->gpus;
    }
    ASSERT_EQ(wishes.ok(), wanted <= up) << wishes.status();
    if (!wishes.ok()) continue;
    ++placed;
    for (const Wish& wish : *wishes) now[static_cast<size_t>(wish.job)] = wish.devices;
    std::set<DeviceId> given;
    for (int job = 0; job < kJobs; ++job) {
      const auto named = std::find_if(list.begin(), list.end(), [&](const Grant& g) { return g.job == JobId(job); });
      const std::vector<DeviceId>& has = now[static_cast<size_t>(job)];
      if (named == list.end()) {
        EXPECT_EQ(has, standing_.granted[static_cast<size_t>(job)]);
      } else {
        EXPECT_EQ(static_cast<int>(has.size()), named->gpus);
      }
      for (const DeviceId device : has) {
        EXPECT_TRUE(given.insert(device).second);
        EXPECT_EQ(standing_.usable[static_cast<size_t>(device.value)], 1);
      }
    }
  }
  EXPECT_GT(placed, 1000);
}

}  // namespace
}  // namespace scalai::control
