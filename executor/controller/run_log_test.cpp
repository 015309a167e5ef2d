#include "executor/controller/run_log.h"
#include "ptc/plan/plan_draft.h"
#include "ptc/run/control/event_text.h"

#include <gmock/gmock.h>

#include "executor/controller/testing/test_fleet.h"
#include "executor/journal/journal.h"

namespace scalai::executor::controller {

using journal::TransactionState;

namespace {

control::Execute execution(int64_t epoch) {
  plan::PlanDraft plan;
  plan.to_epoch = epoch;
  return {.job = 0, .epoch = epoch, .plan = plan::seal(std::move(plan))};
}

class RunLogTest : public ::testing::Test {
 protected:
  TransactionState last() const { return journal_.transactions().value().back().state; }

  const testing::Folder folder_;
  journal::Journal journal_ =
      journal::Journal::create(folder_.path() + "/journal.db", {.scenario_text = "", .run_id = "test"}).value();
  const std::unique_ptr<RunLog> log_ = log_to(journal_);
};

TEST_F(RunLogTest, EventsReadBack) {
  const control::Event event{1.5, control::DevicesLost{{DeviceId(3), DeviceId(4)}, 0.25}};
  ASSERT_TRUE(log_->event(event).ok());
  ASSERT_TRUE(log_->event({2, control::StepReached{0, 17}}).ok());
  const auto events = control::parse_event_lines(journal_.events().value());
  ASSERT_TRUE(events.ok()) << events.status();
  ASSERT_EQ(events->size(), 2u);
  EXPECT_EQ(control::event_line((*events)[0]), control::event_line(event));
}

TEST_F(RunLogTest, AReconfigurationIsATransaction) {
  ASSERT_TRUE(log_->execute(execution(1)).ok());
  EXPECT_EQ(last(), TransactionState::kPrepared);
  ASSERT_TRUE(log_->commit({0, 1}).ok());
  EXPECT_EQ(last(), TransactionState::kCommitted);
  ASSERT_TRUE(log_->freed(0).ok());
  EXPECT_EQ(last(), TransactionState::kFreed);
  ASSERT_TRUE(log_->execute(execution(2)).ok());
  ASSERT_TRUE(log_->abort(0).ok());
  EXPECT_EQ(last(), TransactionState::kAborted);
}

TEST_F(RunLogTest, EverythingMayComeTwice) {
  ASSERT_TRUE(log_->execute(execution(1)).ok());
  ASSERT_TRUE(log_->execute(execution(1)).ok());
  EXPECT_EQ(journal_.transactions().value().front().state, TransactionState::kAborted) << "the first attempt";
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(log_->commit({0, 1}).ok());
    EXPECT_EQ(last(), time == 0 ? TransactionState::kCommitted : TransactionState::kFreed);
    ASSERT_TRUE(log_->freed(0).ok());
  }
  ASSERT_TRUE(log_->execute(execution(2)).ok());
  for (int time = 0; time < 2; ++time) ASSERT_TRUE(log_->abort(0).ok());
  EXPECT_EQ(last(), TransactionState::kAborted);
  EXPECT_EQ(journal_.transactions().value().size(), 3u);
}

}  // namespace
}  // namespace scalai::executor::controller
