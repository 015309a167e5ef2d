#include <gmock/gmock.h>

#include "executor/controller/internal/past.h"
#include "executor/controller/testing/test_fleet.h"

namespace scalai::executor::controller {
namespace {

using control::testing::Driver;
using control::testing::job_text;

// A run whose earlier controller was told these events. No worker has started.
class Resumed {
 public:
  explicit Resumed(std::vector<control::Event> events)
      : driver_(job_text("a",
                         "steps: 100 gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } "
                         "checkpoint { every_steps: 20 }")),
        pool_(driver_.scenario().cluster, fleet_.controller(), fleet_.pool_options()),
        run_(driver_.scenario(), pool_, recorder_,
             {.folder = folder_.path(), .resume = true, .past = std::move(events)}),
        arrivals_(run_, fleet_.controller()) {
    for (const control::Train& train : driver_.all<control::Train>()) past_.note(control::Command(train));
  }
  // All events, with the commands that follow from them but for those of the last.
  void replay() {
    while (true) {
      const control::Event& event = past_.next();
      if (past_.is_over()) return;
      for (const control::Command& command : driver_.feed(event.at_s, event.body)) past_.note(command);
    }
  }
  RunState& run() { return run_; }

 private:
  const testing::Folder folder_;
  Driver driver_;
  testing::Fleet fleet_{{.hosts = 4}};
  WorkerPool pool_;
  control::Recorder recorder_;
  RunState run_;
  Arrivals arrivals_;
  Executions executions_{run_, arrivals_};
  TrainingProgress training_{run_, arrivals_, executions_};
  Past past_{run_, executions_, training_};
};

TEST(Past, BringsTheAgendaToItsEvents) {
  Resumed resumed({{20, control::StepReached{0, 20}}});
  resumed.replay();
  EXPECT_EQ(resumed.run().agenda.now_s(), 20);
  EXPECT_EQ(resumed.run().job(0).work->step(), 20);
  EXPECT_FALSE(resumed.run().agenda.pending());
  EXPECT_TRUE(resumed.run().ready.empty()) << "the control loop has them from the past";
}

TEST(Past, KnowsLossesThatWereNoneOfTheAgenda) {
  Resumed resumed({{20, control::StepReached{0, 20}}, {25, control::DevicesLost{{DeviceId(1)}, 24}}});
  resumed.replay();
  EXPECT_TRUE(resumed.run().agenda.dead(DeviceId(1)));
  EXPECT_FALSE(resumed.run().agenda.dead(DeviceId(2)));
  EXPECT_TRUE(resumed.run().job(0).gone.contains(DeviceId(1)));
}

}  // namespace
}  // namespace scalai::executor::controller
