#include "ptc/run/control/internal/script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/control/testing/parts_fixture.h"

namespace scalai::control {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Parts;
using testing::sized_job;

const std::string kEvents =
    "events { at: \"30s\" fail { devices: [1] } }\n"
    "events { at_step { step: 5 } resize { gpus: 2 } }\n"
    "events { at_step { step: 9 } resize { gpus: 4 } }\n"
    "events { during { reconfiguration: 1 after_round: 1 delay: \"2s\" } fail { devices: [2] } }\n";

class ScriptTest : public ::testing::Test {
 protected:
  Parts parts_{"until: \"100s\"\n" + sized_job("a", "checkpoint { every_steps: 10 }") + kEvents};
  Script script_{parts_.scenario};
};

TEST_F(ScriptTest, TimersAreNumberedInTheOrderOfArming) {
  script_.arm_end(parts_.turn);
  EXPECT_EQ(script_.arm(parts_.turn, 7, {.purpose = Timer::Purpose::kWake}), 1);
  script_.arm_events(parts_.turn);
  const std::vector<ArmTimer> armed = parts_.all<ArmTimer>();
  ASSERT_EQ(armed.size(), 3u);
  EXPECT_EQ(armed[0].at_s, 100);
  EXPECT_EQ(armed[1].at_s, 7);
  EXPECT_EQ(armed[2].at_s, 30);
  EXPECT_EQ(armed[2].timer, 2);
  EXPECT_EQ(script_.timer(0).purpose, Timer::Purpose::kUntil);
  EXPECT_EQ(script_.timer(1).purpose, Timer::Purpose::kWake);
  EXPECT_EQ(script_.timer(2).purpose, Timer::Purpose::kEvent);
  EXPECT_EQ(script_.timer(2).event, 0u);
}

TEST_F(ScriptTest, StepsComeOnce) {
  EXPECT_EQ(script_.next_step(0, 0), 5);
  EXPECT_EQ(script_.next_step(0, 5), 9);
  EXPECT_EQ(script_.next_step(0, 9), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(script_.next_step(1, 0), std::numeric_limits<int64_t>::max()) << "another job";
  EXPECT_THAT(script_.due_at_step(0, 4), IsEmpty());
  EXPECT_THAT(script_.due_at_step(0, 10), ElementsAre(1, 2)) << "also those before it";
  script_.set_fired(1);
  EXPECT_THAT(script_.due_at_step(0, 10), ElementsAre(2));
  EXPECT_EQ(script_.next_step(0, 0), 9);
}

TEST_F(ScriptTest, RoundsAreOfOneReconfiguration) {
  EXPECT_THAT(script_.due_in_round(0, 2, 1), IsEmpty());
  EXPECT_THAT(script_.due_in_round(0, 1, 0), IsEmpty());
  EXPECT_THAT(script_.due_in_round(0, 1, 1), ElementsAre(3));
  EXPECT_EQ(script_.delay_s(3), 2);
  script_.set_fired(3);
  EXPECT_THAT(script_.due_in_round(0, 1, 1), IsEmpty());
}

TEST_F(ScriptTest, NamesWhatNeverHappened) {
  script_.set_fired(1);
  EXPECT_THAT(script_.unreached(), ElementsAre("events[0] (at 30 s)", "events[2] (at step 9)",
                                               "events[3] (during reconfiguration 1 after round 1)"));
}

}  // namespace
}  // namespace scalai::control
