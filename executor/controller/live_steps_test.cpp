#include "executor/controller/live_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::controller {
namespace live_steps_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

proto::CtlLive request(uint64_t reader, bool wants = true, const std::vector<int64_t>& keeps = {},
                       int64_t after_step = -1) {
  proto::CtlLive live;
  live.set_reader(reader);
  *live.mutable_keeps() = {keeps.begin(), keeps.end()};
  live.set_wants(wants);
  live.set_after_step(after_step);
  return live;
}

class LiveStepsTest : public ::testing::Test {
 protected:
  // An answer on a thread of the server, which waits for the run.
  std::future<absl::StatusOr<proto::LiveState>> ask(const proto::CtlLive& what) {
    auto woken = std::make_shared<std::promise<void>>();
    std::future<void> waits = woken->get_future();
    auto answer = std::async(std::launch::async, [this, what, woken]() -> absl::StatusOr<proto::LiveState> {
      SCALAI_ASSIGN_OR_RETURN(const std::string text, steps_.answer(0, what, [woken] { woken->set_value(); }));
      proto::LiveState state;
      if (!state.ParseFromString(text)) return failed("no LiveState");
      return state;
    });
    if (what.wants()) waits.wait();
    return answer;
  }
  absl::StatusOr<proto::LiveState> tell(const proto::CtlLive& what) { return ask(what).get(); }
  absl::Status serve(int64_t step, int64_t epoch = 0) {
    return steps_.serve(
        0, epoch, step,
        [&](state::StateVersion version, const LiveSteps::Kind& kind) -> absl::StatusOr<proto::LiveState> {
          ++copies_;
          fleeting_ = kind.fleeting;
          if (!broken_.ok()) return broken_;
          proto::LiveState state;
          state.set_step(step);
          state.set_version(version.wire());
          return state;
        });
  }
  // A reader gets the state of this step, by a copy or one that is there.
  proto::LiveState given(uint64_t reader, int64_t step, const std::vector<int64_t>& keeps = {}) {
    auto answer = ask(request(reader, true, keeps));
    SCALAI_CHECK(serve(step).ok());
    return answer.get().value();
  }

  LiveSteps steps_{{.patience_s = 0.3, .forget_after_s = 0.5, .most = 2}};
  int copies_ = 0;
  bool fleeting_ = false;  // the last of them
  absl::Status broken_;
};

TEST_F(LiveStepsTest, AStepThatAnotherReaderKeepsIsGivenByItsNumber) {
  const int64_t version = given(1, 7).version();
  proto::CtlLive same = request(2, true);
  same.set_version(version);
  const auto nobody = [] { FAIL() << "nobody has to wait"; };
  const auto there = steps_.answer(0, same, nobody);
  ASSERT_TRUE(there.ok()) << there.status();
  proto::LiveState state;
  ASSERT_TRUE(state.ParseFromString(*there));
  EXPECT_TRUE(state.ready());
  EXPECT_EQ(state.step(), 7);
  EXPECT_EQ(copies_, 1);
  ASSERT_TRUE(tell(request(1, false)).ok());  // the first one lets go
  EXPECT_TRUE(steps_.take_unkept(0).empty()) << "the second one keeps it";
  EXPECT_TRUE(absl::IsNotFound(steps_.answer(1, same, nobody).status())) << "of another job";
  ASSERT_TRUE(tell(request(2, false)).ok());
  EXPECT_EQ(steps_.take_unkept(0).size(), 1U);
  EXPECT_TRUE(absl::IsNotFound(steps_.answer(0, same, nobody).status())) << "it is gone";
}

// They take no memory: as many as ask get them, and they leave room for others.
TEST_F(LiveStepsTest, StatisticsDoNotCountAsStepsThatAreKept) {
  const auto numbers = [&](uint64_t reader, int64_t step) {
    proto::CtlLive only = request(reader, true);
    only.set_stats(true);
    auto answer = ask(only);
    EXPECT_TRUE(serve(step).ok());
    return answer.get().value();
  };
  for (uint64_t reader = 1; reader <= 3; ++reader) EXPECT_TRUE(numbers(reader, static_cast<int64_t>(reader)).ready());
  EXPECT_TRUE(given(4, 4).ready());
  EXPECT_TRUE(given(5, 5).ready());
  EXPECT_TRUE(numbers(6, 6).ready()) << "two steps are kept";
}

TEST_F(LiveStepsTest, ReadersOfOneStepShareACopyThatGoesWithTheLast) {
  EXPECT_FALSE(steps_.watched(0));
  auto first = ask(request(1)), second = ask(request(2));
  EXPECT_TRUE(steps_.waits(0));
  ASSERT_TRUE(serve(7).ok());
  const proto::LiveState one = first.get().value(), two = second.get().value();
  EXPECT_TRUE(one.ready());
  EXPECT_EQ(one.step(), 7);
  EXPECT_EQ(one.version(), two.version());
  EXPECT_EQ(given(3, 7).version(), one.version());
  EXPECT_EQ(copies_, 1);
  EXPECT_THAT(steps_.take_unkept(0), IsEmpty());
  EXPECT_TRUE(tell(request(1, false)).ok());
  EXPECT_TRUE(tell(request(2, false)).ok());
  EXPECT_THAT(steps_.take_unkept(0), IsEmpty()) << "the third reads it";
  EXPECT_TRUE(tell(request(3, false)).ok());
  EXPECT_THAT(steps_.take_unkept(0), ElementsAre(*state::StateVersion::from_wire(one.version())));
  EXPECT_THAT(tell(request(3, false, {one.version()}))->gone(), ElementsAre(one.version()));
  EXPECT_FALSE(steps_.watched(0));
}

TEST_F(LiveStepsTest, AnotherStepOrEpochIsAnotherCopyAndNoVersionComesTwice) {
  const int64_t one = given(1, 7).version();
  const int64_t two = given(2, 8).version();
  EXPECT_NE(one, two);
  (void)tell(request(1, false));
  (void)tell(request(2, false));
  EXPECT_EQ(steps_.take_unkept(0).size(), 2U);
  auto again = ask(request(1));
  ASSERT_TRUE(serve(7, /*epoch=*/3).ok());
  EXPECT_NE(again.get()->version(), one);
}

TEST_F(LiveStepsTest, WhoWantsALaterStepWaitsForIt) {
  auto later = ask(request(1, true, {}, 7));
  ASSERT_TRUE(serve(7).ok());
  EXPECT_EQ(copies_, 0);
  ASSERT_TRUE(serve(8).ok());
  EXPECT_EQ(later.get()->step(), 8);
  EXPECT_FALSE(tell(request(2, true, {}, 8))->ready()) << "patience is over: ask again";
  EXPECT_FALSE(steps_.waits(0));
}

TEST_F(LiveStepsTest, AReaderThatFallsSilentKeepsNothing) {
  const int64_t version = given(1, 7).version();
  EXPECT_THAT(steps_.take_unkept(0), IsEmpty());
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  EXPECT_EQ(steps_.take_unkept(0).size(), 1U);
  EXPECT_THAT(tell(request(1, false, {version}))->gone(), ElementsAre(version));
}

TEST_F(LiveStepsTest, SoManyStepsAreKeptAndNoMore) {
  const int64_t first = given(1, 1).version();
  const int64_t second = given(1, 2, {first}).version();
  auto third = ask(request(1, true, {first, second}));
  EXPECT_TRUE(absl::IsResourceExhausted(serve(3)));
  EXPECT_THAT(message_of(third.get().status()), HasSubstr("readers keep 2 steps of this job already"));
  auto room = ask(request(1, true, {second}));
  EXPECT_TRUE(serve(3).ok()) << "what nobody keeps does not count";
  EXPECT_TRUE(room.get()->ready());
}

TEST_F(LiveStepsTest, AnErrorOfTheCopyIsItsReaders) {
  broken_ = absl::ResourceExhaustedError("no memory");
  auto answer = ask(request(1));
  EXPECT_TRUE(absl::IsResourceExhausted(serve(7)));
  EXPECT_EQ(message_of(answer.get().status()), "no memory");
  EXPECT_FALSE(steps_.watched(0));
}

TEST_F(LiveStepsTest, TheEndOfTheRunIsToldToAll) {
  auto waits = ask(request(1));
  steps_.end();
  EXPECT_TRUE(absl::IsUnavailable(waits.get().status()));
  EXPECT_TRUE(absl::IsUnavailable(tell(request(2, false)).status()));
}

TEST_F(LiveStepsTest, ReadersOfAStepAreToldOfEachOther) {
  const auto touch = [&](uint64_t reader, int64_t version) {
    proto::LiveSources sources;
    proto::CtlLive asks = request(reader);
    asks.mutable_touch()->set_version(version);
    asks.mutable_touch()->add_blocks(3);
    asks.mutable_touch()->add_bytes(1);
    EXPECT_TRUE(sources.ParseFromString(steps_.answer(0, asks, [] {}).value()));
    std::vector<uint64_t> readers;
    for (const auto& one : sources.sources()) {
      EXPECT_EQ(one.transport_address(), "at " + std::to_string(one.reader()));
      readers.push_back(one.reader());
    }
    return readers;
  };
  const auto word = [](uint64_t reader, bool wants, const std::vector<int64_t>& keeps) {
    proto::CtlLive asks = request(reader, wants, keeps);
    asks.set_host_name("m");
    asks.set_transport_address("at " + std::to_string(reader));
    return asks;
  };
  std::vector<std::future<absl::StatusOr<proto::LiveState>>> answers;
  for (uint64_t reader = 1; reader <= 3; ++reader) answers.push_back(ask(word(reader, true, {})));
  ASSERT_TRUE(serve(7).ok());
  const int64_t version = answers[0].get()->version();
  EXPECT_THAT(touch(1, version), IsEmpty());
  EXPECT_THAT(touch(2, version), ElementsAre(1)) << "before its next word";
  EXPECT_THAT(touch(9, version), IsEmpty()) << "nobody knows it";
  EXPECT_THAT(touch(1, version + 1), IsEmpty()) << "a step that it does not keep";
  EXPECT_TRUE(tell(word(1, false, {version})).ok());
  EXPECT_THAT(touch(3, version), ElementsAre(2, 1));
  EXPECT_TRUE(tell(word(2, false, {})).ok());
  EXPECT_TRUE(tell(word(3, false, {version})).ok());
  EXPECT_THAT(touch(1, version), ElementsAre(3)) << "who has let go of it is not named";
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  EXPECT_TRUE(tell(word(1, false, {version})).ok());
  EXPECT_THAT(steps_.take_unkept(0), IsEmpty());
  EXPECT_THAT(touch(1, version), IsEmpty()) << "nor who fell silent";
  steps_.end();
  proto::CtlLive late = request(1);
  late.mutable_touch()->set_version(version);
  EXPECT_TRUE(absl::IsUnavailable(steps_.answer(0, late, [] {}).status()));
}

TEST_F(LiveStepsTest, WhatStaysServesWhoeverTakesWhatIsFleeting) {
  proto::CtlLive brief = request(1);
  brief.set_fleeting(true);
  auto first = ask(brief);
  ASSERT_TRUE(serve(7).ok());
  const int64_t fleeting = first.get().value().version();
  EXPECT_TRUE(fleeting_);
  const int64_t stays = given(2, 7).version();
  EXPECT_NE(stays, fleeting);
  EXPECT_FALSE(fleeting_);
  EXPECT_EQ(copies_, 2);
  EXPECT_TRUE(tell(request(1, false)).ok());
  EXPECT_THAT(steps_.take_unkept(0), ElementsAre(state::StateVersion::from_wire(fleeting).value()));
  auto again = ask(brief);
  ASSERT_TRUE(serve(7).ok());
  EXPECT_EQ(again.get().value().version(), stays);
}

TEST_F(LiveStepsTest, AfterAChangeThatIsGivenUpNobodyGetsWhatWentWithIt) {
  proto::CtlLive brief = request(1);
  brief.set_fleeting(true);
  auto first = ask(brief);
  ASSERT_TRUE(serve(7).ok());
  const int64_t before = first.get().value().version();
  steps_.lose_fleeting(0);
  brief.set_reader(2);
  auto second = ask(brief);
  ASSERT_TRUE(serve(7).ok());
  EXPECT_NE(second.get().value().version(), before);
}

}  // namespace live_steps_test
}  // namespace scalai::executor::controller
