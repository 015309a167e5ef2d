#include <gmock/gmock.h>

#include "executor/controller/internal/arrivals.h"
#include "executor/controller/testing/test_fleet.h"

namespace scalai::executor::controller {
namespace {

using control::testing::job_text;
using control::testing::kSmallCluster;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ArrivalsTest : public ::testing::Test {
 protected:
  const scenario::Scenario scenario_ =
      control::testing::scenario_of(std::string(kSmallCluster) +
                                    job_text("a", "steps: 100 gpus: 1 configs { layout: \"dp1\" step_time: \"1s\" }"))
          .value();
  LiveRequests requests_;
  testing::Fleet fleet_{{.hosts = 4}};
  WorkerPool pool_{scenario_.cluster, fleet_.controller(), fleet_.pool_options()};
  control::Recorder recorder_;
  RunState run_{scenario_, pool_, recorder_, {.requests = &requests_}};
  Arrivals arrivals_{run_, fleet_.controller()};
};

TEST_F(ArrivalsTest, ALostWorkerExplainsAnErrorAndIsReportedWithItsDevices) {
  ASSERT_TRUE(pool_.start().ok());
  ASSERT_TRUE(fleet_.kill(HostId(2)).ok());
  EXPECT_TRUE(arrivals_.unless_lost(absl::UnavailableError("no answer")).ok());
  EXPECT_FALSE(pool_.living().contains(HostId(2)));
  EXPECT_TRUE(run_.all_dead(HostId(2)));
  ASSERT_EQ(run_.ready.size(), 1u);
  const auto& lost = std::get<control::DevicesLost>(run_.ready.front().body);
  EXPECT_THAT(lost.devices, ElementsAre(DeviceId(4), DeviceId(5)));
  EXPECT_THAT(lost.cause, HasSubstr("the worker of h2"));
  EXPECT_TRUE(run_.job(0).gone.contains(DeviceId(4)));
  arrivals_.receive(0);
  EXPECT_EQ(run_.ready.size(), 1u) << "once";
}

TEST_F(ArrivalsTest, AnErrorOfAnotherKindIsOne) {
  EXPECT_EQ(arrivals_.unless_lost(absl::InternalError("it cannot")).message(), "it cannot");
}

TEST_F(ArrivalsTest, RequestsAreEventsOfTheirMoment) {
  requests_.add(control::UserResize{0, 2});
  arrivals_.receive(0);
  ASSERT_EQ(run_.ready.size(), 1u);
  EXPECT_EQ(std::get<control::UserResize>(run_.ready.front().body).gpus, 2);
}

}  // namespace
}  // namespace scalai::executor::controller
