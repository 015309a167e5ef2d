#include "ptc/store/datasets/state.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::datasets {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kDigest(32, 'a');

State sample_state() {
  return {.index = kDigest,
          .samples = 100,
          .sequence = 7,
          .seed = 18'000'000'000'000'000'000u,
          .shuffle = true,
          .drop_last = true,
          .global_batch = 8,
          .step = 31,
          .pass = 2,
          .consumed = 16};
}

// --- the oracle: steps walked one by one -----------------------------------------------------------------------------

struct Walked {
  State state;  // before the step
  Batch batch;
  int64_t samples_before = 0;
};

std::vector<Walked> walk(State state, int64_t steps) {
  std::vector<Walked> walked;
  int64_t samples = 0;
  while (static_cast<int64_t>(walked.size()) < steps) {
    const int64_t left = state.samples - state.consumed;
    if (left == 0 || (state.drop_last && left < state.global_batch)) {
      ++state.pass;
      state.consumed = 0;
      continue;
    }
    const int64_t size = left < state.global_batch ? left : state.global_batch;
    walked.push_back({state, {state.pass, state.consumed, size}, samples});
    state.consumed += size;
    samples += size;
    ++state.step;
  }
  return walked;
}

void expect_as_walked(const State& first) {
  const Steps steps(first);
  const std::vector<Walked> walked = walk(first, 40);
  for (size_t i = 0; i < walked.size(); ++i) {
    const int64_t step = first.step + static_cast<int64_t>(i);
    const std::string where = state_text(first) + fmt::format(" step {}", step);
    ASSERT_EQ(steps.at(step), walked[i].state) << where;
    ASSERT_EQ(steps.batch(step), walked[i].batch) << where;
    ASSERT_EQ(steps.samples_before(step), walked[i].samples_before) << where;
    ASSERT_EQ(steps.step_of(walked[i].state.pass, walked[i].state.consumed).value_or(-1), step) << where;
    int64_t end = step, positions = 0;
    for (size_t j = i; j < walked.size() && walked[j].batch.pass == walked[i].batch.pass; ++j) {
      ++end;
      positions = walked[j].batch.begin + walked[j].batch.size;
    }
    if (end == first.step + static_cast<int64_t>(walked.size())) return;  // the pass goes on behind what was walked
    ASSERT_EQ(steps.pass_end(step), end) << where;
    ASSERT_EQ(steps.positions_end(step), positions) << where;
    ASSERT_EQ(steps.step_of(walked[i].batch.pass, positions).value_or(-1), end) << where << ": all of a pass";
  }
}

TEST(Steps, AreTheWalkedOnesForEverySmallCase) {
  for (int64_t n = 1; n <= 9; ++n) {
    for (int64_t batch = 1; batch <= n + 2; ++batch) {
      for (int64_t consumed = 0; consumed <= n; ++consumed) {
        for (const bool drop_last : {false, true}) {
          if (drop_last && batch > n) continue;
          expect_as_walked({.samples = n,
                            .drop_last = drop_last,
                            .global_batch = batch,
                            .step = 5,
                            .pass = 3,
                            .consumed = consumed});
        }
      }
    }
  }
}

TEST(Steps, OnlyBeginningsOfStepsHaveANumber) {
  const Steps steps({.samples = 10, .drop_last = true, .global_batch = 4, .step = 2, .pass = 1, .consumed = 1});
  // Pass 1: [1, 5) [5, 9), then pass 2: [0, 4) [4, 8), and so on.
  for (const auto& [pass, consumed, step] :
       std::vector<std::tuple<int64_t, int64_t, int64_t>>{{1, 1, 2},
                                                          {1, 5, 3},
                                                          {1, 9, 4},
                                                          {2, 0, 4},
                                                          {2, 4, 5},
                                                          {2, 8, 6},
                                                          {3, 0, 6},
                                                          {1000, 4, 2 + 2 + 998 * 2 + 1}}) {
    EXPECT_EQ(steps.step_of(pass, consumed).value_or(-1), step) << pass << " " << consumed;
  }
  for (const auto& [pass, consumed] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 0}, {1, 0}, {1, 4}, {1, 10}, {2, 1}, {2, 9}, {2, -4}, {-1, 0}, {int64_t{1} << 60, 0}}) {
    const auto step = steps.step_of(pass, consumed);
    ASSERT_FALSE(step.ok()) << pass << " " << consumed;
    EXPECT_THAT(message_of(step.status()),
                HasSubstr(fmt::format("no step begins at position {} of pass {}", consumed, pass)));
  }
}

// A new batch in the middle of a pass: the samples go on without gap, and so do the step numbers.
TEST(Steps, AnotherBatchGoesOnWhereTheLastStepEnded) {
  const Steps before({.samples = 20, .global_batch = 6});
  State next = before.at(2);
  next.global_batch = 5;
  const Steps after(next);
  EXPECT_EQ(before.batch(1), (Batch{0, 6, 6}));
  EXPECT_EQ(after.batch(2), (Batch{0, 12, 5}));
  EXPECT_EQ(after.batch(3), (Batch{0, 17, 3}));
  EXPECT_EQ(after.batch(4), (Batch{1, 0, 5}));
  EXPECT_EQ(after.first().step, 2);
}

TEST(Steps, WithDropLastANewBatchMayEndThePass) {
  const Steps before({.samples = 20, .drop_last = true, .global_batch = 6});
  State next = before.at(2);
  next.global_batch = 10;
  const Steps after(next);
  EXPECT_EQ(after.batch(2), (Batch{1, 0, 10})) << "8 samples are left, no whole batch";
}

TEST(Steps, LargeNumbersStayExact) {
  const Steps steps({.samples = kMostInState, .global_batch = 1});
  EXPECT_EQ(steps.batch(kMostInState - 1), (Batch{0, kMostInState - 1, 1}));
  EXPECT_EQ(steps.at(kMostInState).pass, 1);
  const Steps wide({.samples = kMostInState - 1, .global_batch = kMostInState, .pass = kMostInState});
  EXPECT_EQ(wide.batch(kMostInState), (Batch{2 * kMostInState, 0, kMostInState - 1}));
  EXPECT_EQ(wide.samples_before(kMostInState), INT64_MAX) << "saturated";
  EXPECT_EQ(wide.step_of(2 * kMostInState, 0).value_or(-1), kMostInState);
}

TEST(StepsDeath, StepsBeforeTheFirstAreNotKnown) {
  const Steps steps({.samples = 10, .step = 4});
  EXPECT_EXIT(steps.at(3), testing::ExitedWithCode(70), "step >= first_.step");
  EXPECT_EXIT(Steps(State{}), testing::ExitedWithCode(70), "/samples: must be from 1");
}

// --- the text --------------------------------------------------------------------------------------------------------

TEST(StateText, IsOneLineThatReadsBack) {
  const std::string text = state_text(sample_state());
  EXPECT_EQ(
      text,
      R"({"schema_version":1,"index":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","samples":100,"sequence":7,)"
      R"("seed":18000000000000000000,"shuffle":true,"drop_last":true,"global_batch":8,"step":31,"pass":2,"consumed":16})");
  const auto back = parse_state(text);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, sample_state());
}

TEST(StateText, RandomStatesReadBack) {
  Random random(3);
  for (int k = 0; k < 300; ++k) {
    State state;
    state.index = random.below(2) == 0 ? "" : kDigest;
    state.samples = random.between(1, random.below(2) == 0 ? 10 : kMostInState);
    state.sequence = random.below(5000);
    state.seed = random.next();
    state.shuffle = random.below(2) == 0;
    state.drop_last = random.below(2) == 0;
    state.global_batch = random.between(1, state.samples);
    state.step = random.below(kMostInState);
    state.pass = random.below(100);
    state.consumed = random.between(0, state.samples);
    const auto back = parse_state(state_text(state));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, state);
  }
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = state_text(sample_state());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& text) {
  const auto state = parse_state(text);
  EXPECT_FALSE(state.ok()) << text;
  EXPECT_EQ(exit_code_of(state.status()), 3);
  return message_of(state.status());
}

TEST(StateText, RefusesWhatIsWrong) {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"\"samples\":100", "\"samples\":0", "/samples: must be from 1 to"},
      {"\"samples\":100", "\"samples\":1e2", "/samples: takes a whole number"},
      {"\"samples\":100", "\"samples\":100,\"samples\":100", "/samples: appears twice"},
      {"\"samples\":100", "\"samples\":18446744073709551615", "/samples: takes a whole number"},
      {"\"samples\":100,", "", "/samples: is missing"},
      {"\"samples\":100", "\"samples\":4", "/consumed: must be from 0 to 4, is 16"},
      {"\"samples\":100", "\"samples\":4", "/global_batch: with drop_last a pass of 4 samples has no batch of 8"},
      {"\"sequence\":7", "\"sequence\":-1", "/sequence: must be from 0"},
      {"\"sequence\":7", "\"sequences\":7", "/sequences: is no field"},
      {"\"sequence\":7", "\"sequences\":7", "/sequence: is missing"},
      {"18000000000000000000", "-1", "/seed: takes a whole number from 0"},
      {"18000000000000000000", "18446744073709551616", "/seed: takes a whole number from 0"},
      {"\"shuffle\":true", "\"shuffle\":1", "/shuffle: takes true or false"},
      {"\"global_batch\":8", "\"global_batch\":0", "/global_batch: must be from 1"},
      {"\"step\":31", "\"step\":-1", "/step: must be from 0"},
      {"\"pass\":2", "\"pass\":9007199254740993", "/pass: must be from 0"},
      {"\"index\":\"aaa", "\"index\":\"xaa", "/index: must be the digest"},
      {"\"index\":\"", "\"index\":3,\"x\":\"", "/index: takes a text"},
      {"\"schema_version\":1", "\"schema_version\":2", "/schema_version: is 2, and this program reads 1"},
      {"\"schema_version\":1,", "", "/schema_version: is missing"},
      {"{", "[{", "is not one"},
      {"}", "", "is not one"},
      {"}", "} x", "is not one"},
  };
  for (const auto& [from, to, message] : cases) EXPECT_THAT(refusal(replaced(from, to)), HasSubstr(message)) << to;
  EXPECT_THAT(refusal(""), HasSubstr("is not one"));
  EXPECT_THAT(refusal("null"), HasSubstr("is not one"));
  EXPECT_THAT(refusal(std::string(5000, ' ')), HasSubstr("at most 4096 bytes"));
}

TEST(StateText, ListsAllProblems) {
  std::string text = replaced("\"samples\":100", "\"samples\":true");
  text.replace(text.find("\"global_batch\":8"), 16, "\"global_batch\":-8");
  text.replace(text.find("\"consumed\":16"), 13, "\"consumed\":-1,\"extra\":{}");
  const std::string message = refusal(text);
  for (const std::string part : {"/samples: takes", "/global_batch: must", "/consumed: must", "/extra: is no field"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
  EXPECT_THAT(message, Not(HasSubstr("/samples: must")));
}

}  // namespace
}  // namespace scalai::datasets
