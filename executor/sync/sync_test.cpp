#include "executor/sync/sync.h"

#include <gmock/gmock.h>

#include "executor/sync/testing/sync_fixture.h"
#include "ptc/base/random.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::sync {
namespace sync_test {

using proto::CommandBody;
using ::testing::HasSubstr;

TEST_F(SyncTest, AnyLayoutComesToAnyOther) {
  for (uint64_t seed = 4000; seed < 4012; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Collection from = grid(plan::random_sizes(random, kHosts * kGpus));
    from.epoch = random.between(0, 9);
    const plan::Sizes to = plan::random_sizes(random, 6);
    const int receivers = to.world() % 3 == 0 ? 3 : to.world() % 2 == 0 ? 2 : 1;
    begin(std::move(from), grid(to), {.network = random.between(0, 1) == 0, .receivers = receivers});
    for (const int64_t step : {2, 5}) {
      train(step);
      const Shown now = shown();
      if (random.between(0, 1) == 0) train(step + 1);  // the shown step is in hosts' memories then
      const auto synced = sync_->bring(now);
      ASSERT_TRUE(synced.ok()) << synced.status();
      EXPECT_EQ(synced->step, step);
      EXPECT_GE(synced->planned_bytes, synced->least_bytes);
      EXPECT_EQ(wrong(step, step == 2 ? 0 : 1), "");
    }
    end();
  }
}

// A late one costs no later one: of every 10 from 4, 14 came as 16, 34 as 34, and 44 not at all.
TEST(SyncDue, OneOfEveryNStepsWhoeverIsLate) {
  std::vector<int64_t> due;
  for (const int64_t held : {4, 16, 24, 34, 53}) due.push_back(next_due(4, held, 10));
  EXPECT_THAT(due, ::testing::ElementsAre(14, 24, 34, 44, 54));
  for (int64_t held = 7; held < 20; ++held) EXPECT_EQ(next_due(7, held, 1), held + 1);
}

TEST_F(SyncTest, WhatHasNotChangedDoesNotTravel) {
  begin(grid({.pp = 2, .dp = 2}), grid({.tp = 2}), {});
  ASSERT_TRUE(sync_->bring(shown()).ok());
  const auto again = sync_->bring(shown());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_GT(again->planned_bytes, 0);
  EXPECT_EQ(again->moved_bytes, 0);
  EXPECT_EQ(wrong(1, 1), "");
  // Only one stage's host trains: its half is another one.
  train(2, {HostId(0)});
  const auto half = sync_->bring(shown());
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_GT(half->moved_bytes, 0);
  EXPECT_LT(half->moved_bytes, half->planned_bytes);
  EXPECT_EQ(sums(*pool_, 0, 2), sums(*training_, kTrained, 0));
  EXPECT_NE(wrong(2, 2), "");
}

TEST_F(SyncTest, WithoutDigestsAllTravels) {
  begin(grid({.tp = 2}), grid({.dp = 2}), {.digest_bytes = 0});
  ASSERT_TRUE(sync_->bring(shown()).ok());
  const auto again = sync_->bring(shown());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->moved_bytes, again->planned_bytes);
  EXPECT_EQ(wrong(1, 1), "");
}

// At any command of the second step, before and after it was run: all or nothing, and the next step comes.
TEST_F(SyncTest, AReceiverThatDiesLeavesTheOthersAtTheStepBefore) {
  const std::vector<std::pair<const char*, int>> commands = {{"prepare", 2}, {"round", 3}, {"round", 4}};
  for (const auto& [what, nth] : commands) {
    for (const bool after : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {} {}", what, nth, after ? "after" : "before"));
      begin(grid({.pp = 2, .dp = 2}), grid({.tp = 2}),
            {.deaths = {{.host = 3, .what = what, .nth = nth, .after = after}}});
      const auto first = sync_->bring(shown());
      ASSERT_TRUE(first.ok()) << first.status();
      train(2);
      EXPECT_FALSE(sync_->bring(shown()).ok());
      EXPECT_EQ(wrong_on(HostId(2), 1, 0), "");
      sync_->rest(0.1);
      EXPECT_FALSE(sync_->is_whole());
      train(3);
      const auto next = sync_->bring(shown());
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_TRUE(sync_->is_whole());
      EXPECT_EQ(wrong(3, 2), "");
      end();
    }
  }
}

TEST_F(SyncTest, AStepThatGoesWhileItIsReadIsGivenUp) {
  begin(grid({.tp = 2}), grid({.dp = 2}), {});
  ASSERT_TRUE(sync_->bring(shown()).ok());
  train(2);
  Shown lost = shown();
  CommandBody body;
  body.mutable_forget()->set_job(kTrained);
  body.mutable_forget()->set_version(lost.state().version());
  ASSERT_TRUE(training_->call("forget", training_->living(), body).ok());
  EXPECT_FALSE(sync_->bring(lost).ok());
  EXPECT_EQ(wrong(1, 0), "");
  Shown unkept = shown();
  unkept.kept = false;
  EXPECT_TRUE(absl::IsUnavailable(sync_->bring(unkept).status()));
  EXPECT_EQ(wrong(1, 0), "");
  EXPECT_TRUE(sync_->is_whole());
  ASSERT_TRUE(sync_->bring(shown()).ok());
}

TEST_F(SyncTest, ARunWithAnotherClusterIsRefused) {
  begin(grid({.tp = 2}), grid({.dp = 2}), {});
  proto::LiveState other = shown().state();
  other.add_gpus_of_host(2);
  const auto refused = sync_->bring(Shown(other, from_));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("another cluster"));
}

TEST_F(SyncTest, ALayoutThatDoesNotFitIsRefused) {
  Collection other = grid({.tp = 2});
  other.tensors.pop_back();
  begin(grid({.tp = 2}), other, {});
  const auto refused = sync_->bring(shown());
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
}

// What they have is of one step, whatever comes meanwhile.
TEST_F(SyncTest, ReadersOfReceiversKeepTheirStep) {
  begin(grid({.pp = 2}), grid({.tp = 2}), {});
  ASSERT_TRUE(sync_->bring(shown()).ok());
  const proto::LiveState state = ask(true, {});
  EXPECT_EQ(state.step(), 1);
  const auto has = [&](int64_t version) {
    const std::unique_ptr<worker::Places> places = reader_places();
    std::vector<float> got(19 * 2);
    const tensor::Box box({0, 0}, {10, 2});
    return places
        ->read(plan::Location::device(DeviceId(4)), {0, *state::StateVersion::from_wire(version)}, TensorId(0), box,
               {box, tensor::DType::kF32, reinterpret_cast<std::byte*>(got.data())})
        .ok();
  };
  EXPECT_TRUE(has(state.version()));
  train(2);
  ASSERT_TRUE(sync_->bring(shown()).ok());
  EXPECT_TRUE(has(state.version()));
  EXPECT_EQ(ask(true, {state.version()}).step(), 2);
  EXPECT_EQ(ask(false, {}).gone_size(), 0);
  sync_->rest(0.1);
  EXPECT_FALSE(has(state.version()));
  EXPECT_THAT(std::string(sync_->answer({}).status().message()), HasSubstr("ask that one"));
  proto::CtlRequest request;
  request.mutable_status();
  EXPECT_THAT(*sync_->answer(request), HasSubstr("\"step\": 2"));
}

}  // namespace sync_test
}  // namespace scalai::executor::sync
