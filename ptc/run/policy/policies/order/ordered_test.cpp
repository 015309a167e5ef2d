#include "ptc/run/policy/policies/order/ordered.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ptc/base/random.h"
#include "ptc/run/policy/policies/order/testing/support.h"

namespace scalai::policy::order {
namespace {

using ::testing::ElementsAre;

// Jobs at whole seconds, so that all times are exact.
Workload random_jobs(Random& random) {
  Workload workload;
  double at_s = 0;
  for (int k = 0; k < 40; ++k) {
    at_s += static_cast<double>(random.below(60));
    const int gpus = static_cast<int>(random.below(2) == 0 ? 1 : random.between(1, 4));
    workload.jobs.push_back(
        testing::rigid_job(fmt::format("{}", k), at_s, gpus, static_cast<double>(random.between(1, 300))));
  }
  return workload;
}

// Hosts of one GPU that fail and come back.
Availability random_hosts(Random& random, int hosts) {
  Availability availability;
  double at_s = 0;
  for (int k = 0; k < 20; ++k) {
    at_s += static_cast<double>(random.below(100));
    const HostId host(random.below(hosts));
    availability.events.push_back({.at_s = at_s,
                                   .kind = random.below(2) == 0 ? FleetEvent::Kind::kUp : FleetEvent::Kind::kFailed,
                                   .hosts = {host}});
  }
  FleetEvent all{.at_s = at_s + 1, .kind = FleetEvent::Kind::kUp};
  for (int k = 0; k < hosts; ++k) all.hosts.push_back(HostId(k));
  availability.events.push_back(all);
  return availability;
}

// On a fleet of one type the fill is kept up step by step; a second type whose only host never comes makes it be done
// again at each event. Both must give the same.
TEST(Ordered, StepByStepIsAsFromScratch) {
  for (const char* name : {"fifo", "fifo-backfill", "sjf", "srtf", "srsf", "tiresias"}) {
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", name, seed));
      Random random(seed);
      const Workload workload = random_jobs(random);
      Fleet fleet = testing::plain_fleet(8, 1);
      Availability availability = random_hosts(random, 8);
      std::vector<std::pair<std::string, std::string>> set;
      if (std::string(name) == "tiresias") set = {{"threshold", "0.02"}, {"threshold-2", "0.1"}};
      const Outcome steps = play(make_order_policy(name, set).get(), workload, fleet, &availability);
      fleet.types.push_back({.name = "never"});
      fleet.hosts.push_back({.type = GpuType(1), .gpus = 1});
      availability.up.assign(8, 1);
      availability.up.push_back(0);
      const Outcome scratch = play(make_order_policy(name, set).get(), workload, fleet, &availability);
      ASSERT_EQ(finish_times(steps), finish_times(scratch));
    }
  }
}

// A view of nothing but two jobs, for the fill alone.
TEST(Ordered, AStrictLineStopsAtItsHeadAndABackfillDoesNot) {
  const Workload workload{.name = "",
                          .jobs = {testing::rigid_job("a", 0, 2, 10), testing::rigid_job("b", 0, 3, 10),
                                   testing::rigid_job("c", 0, 1, 10)}};
  Fleet fleet = testing::plain_fleet(3, 1);
  fleet.types.push_back({.name = "other"});
  fleet.hosts.push_back({.type = GpuType(1), .gpus = 1});
  Availability availability{.up = {1, 1, 1, 0}, .events = {}};
  EXPECT_THAT(finish_times(play(make_order_policy("fifo").get(), workload, fleet, &availability)),
              ElementsAre(10, 20, 30));
  EXPECT_THAT(finish_times(play(make_order_policy("fifo-backfill").get(), workload, fleet, &availability)),
              ElementsAre(10, 20, 10));
}

}  // namespace
}  // namespace scalai::policy::order
