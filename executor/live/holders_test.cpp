#include "executor/live/holders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::executor::live {
namespace holders_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Holders whose answers are written down, one a question; the last one stays.
struct Scripted {
  std::map<size_t, std::vector<absl::Status>> answers;
  std::vector<size_t> asked = {};
  std::vector<double> pauses = {};

  absl::Status ask() {
    return ask_holders(
        answers.size(),
        [this](size_t holder) {
          asked.push_back(holder);
          std::vector<absl::Status>& of_holder = answers[holder];
          const absl::Status answer = of_holder.front();
          if (of_holder.size() > 1) of_holder.erase(of_holder.begin());
          return answer;
        },
        [this](double seconds) { pauses.push_back(seconds); });
  }
};

const absl::Status kOk, kNone = absl::NotFoundError("not held"), kLate = absl::DeadlineExceededError("7 of 9 arrived"),
                        kGone = absl::UnavailableError("the worker is gone");

TEST(AskHolders, TheFirstThatHasItAnswers) {
  Scripted holders{{{0, {kNone}}, {1, {kGone}}, {2, {kOk}}, {3, {kOk}}}};
  EXPECT_TRUE(holders.ask().ok());
  EXPECT_THAT(holders.asked, ElementsAre(0, 1, 2));
  EXPECT_THAT(holders.pauses, ElementsAre());
}

TEST(AskHolders, OneThatIsBusyIsAskedAgain) {
  Scripted late{{{0, {kNone}}, {1, {kLate, kOk}}}};
  EXPECT_TRUE(late.ask().ok());
  EXPECT_THAT(late.asked, ElementsAre(0, 1, 1));
  Scripted changes{{{0, {kGone, kOk}}}};
  EXPECT_TRUE(changes.ask().ok());
  EXPECT_THAT(changes.pauses, ElementsAre(0.02));
  Scripted no_room{{{0, {absl::AbortedError("this end is busy"), kOk}}}};
  EXPECT_TRUE(no_room.ask().ok());
}

// A silent holder is none that has let go of it.
TEST(AskHolders, SilenceIsNoProof) {
  Scripted silent{{{0, {kNone}}, {1, {kLate}}}};
  const absl::Status status = silent.ask();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("does not answer: 7 of 9 arrived"));
  EXPECT_EQ(silent.asked.size(), 1U + kAskedMost);
  Scripted then_none{{{0, {kLate, kNone}}}};
  EXPECT_TRUE(absl::IsFailedPrecondition(then_none.ask()));
}

TEST(AskHolders, WhatAnAskerCannotDoIsSaid) {
  Scripted holders{{{0, {absl::ResourceExhaustedError("raise the limit of open files")}}, {1, {kNone}}}};
  EXPECT_TRUE(absl::IsResourceExhausted(holders.ask()));
  EXPECT_THAT(holders.asked, ElementsAre(0, 1));
}

TEST(AskHolders, WhatNobodyHasIsGone) {
  Scripted none{{{0, {kNone}}, {1, {kNone}}}};
  EXPECT_TRUE(absl::IsFailedPrecondition(none.ask()));
  EXPECT_THAT(none.asked, ElementsAre(0, 1));
  Scripted dead{{{0, {kGone}}}};
  const absl::Status status = dead.ask();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(message_of(status), HasSubstr("none of 1 holders has it any more: the worker is gone"));
  EXPECT_TRUE(absl::IsFailedPrecondition(Scripted{}.ask()));
}

}  // namespace holders_test
}  // namespace scalai::executor::live
