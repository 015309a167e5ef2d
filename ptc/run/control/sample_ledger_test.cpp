#include "ptc/run/control/sample_ledger.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/datasets/share.h"

namespace scalai::control {
namespace {

using ::testing::HasSubstr;

datasets::State dataset(int64_t samples, int64_t batch, bool drop_last = false) {
  return {.samples = samples, .seed = 7, .drop_last = drop_last, .global_batch = batch};
}

using Sample = std::tuple<int64_t, int64_t, int64_t>;  // pass, position, id

// What each rank reads in these steps, by its share.
std::vector<std::vector<Sample>> reading(const datasets::State& state, int64_t from, int64_t until, int dp) {
  const datasets::Steps steps(state);
  const datasets::Order order(state.samples, state.shuffle, state.seed);
  std::vector<std::vector<Sample>> ranks(static_cast<size_t>(dp));
  for (int64_t step = from; step < until; ++step) {
    const int64_t pass = steps.batch(step).pass;
    for (int rank = 0; rank < dp; ++rank) {
      const datasets::PositionRange run = datasets::positions_of(steps, step, {.rank = rank, .dp = dp});
      for (int64_t at = run.begin; at < run.end; ++at)
        ranks[static_cast<size_t>(rank)].emplace_back(pass, at, order.at(pass, at));
    }
  }
  return ranks;
}

SamplesRead as_read(const std::vector<std::vector<Sample>>& ranks, int64_t from, int64_t until) {
  SamplesRead read{.from_step = from, .step = until};
  for (const std::vector<Sample>& samples : ranks) {
    datasets::SampleAccount& account = read.accounts.emplace_back();
    for (const auto& [pass, position, id] : samples) account.add(pass, position, id);
    read.bytes += 10 * static_cast<int64_t>(samples.size());
  }
  return read;
}

SamplesRead honest(const datasets::State& state, int64_t from, int64_t until, int dp) {
  return as_read(reading(state, from, until, dp), from, until);
}

// ---- accounts -------------------------------------------------------------------------------------------------------

TEST(SampleAccount, DependsOnAllThreeNumbersAndNotOnTheOrder) {
  std::set<std::pair<uint64_t, uint64_t>> sums;
  int made = 0;
  for (int64_t pass = 0; pass < 5; ++pass) {
    for (int64_t position = 0; position < 20; ++position) {
      for (int64_t id = 0; id < 20; ++id) {
        datasets::SampleAccount one;
        one.add(pass, position, id);
        sums.insert({one.sum_low, one.sum_high});
        ++made;
      }
    }
  }
  EXPECT_EQ(sums.size(), static_cast<size_t>(made));
  datasets::SampleAccount a, b, c;
  a.add(0, 1, 2);
  a.add(3, 4, 5);
  b.add(3, 4, 5);
  b.add(0, 1, 2);
  EXPECT_EQ(a, b);
  c.add(a);
  c.add(b);
  EXPECT_EQ(c.samples, 4);
  EXPECT_NE(c, a);
}

TEST(SampleAccount, CarriesIntoTheHighHalf) {
  datasets::SampleAccount a, b;
  a.sum_low = b.sum_low = ~uint64_t{0};
  a.add(b);
  EXPECT_EQ(a.sum_low, ~uint64_t{0} - 1);
  EXPECT_EQ(a.sum_high, 1u);
}

// Written down: accounts of a worker of another build have to fit.
TEST(SampleAccount, KnownValue) {
  datasets::SampleAccount one;
  one.add(1, 2, 3);
  EXPECT_EQ(fmt::format("{:016x}{:016x}", one.sum_high, one.sum_low), "45cc5a14a32c5b6eed671830066ae2ec");
}

// ---- the ledger -----------------------------------------------------------------------------------------------------

TEST(SampleLedger, AnHonestRunIsExactlyOnce) {
  const datasets::State state = dataset(23, 5);  // 5 steps a pass, the last one of 3
  SampleLedger ledger(state, true);
  ledger.done(3, 4);
  ledger.done(12, 6);
  EXPECT_TRUE(ledger.awaits());
  EXPECT_EQ(ledger.first_awaited(), "steps 0 to 2");
  EXPECT_EQ(ledger.record(12).exactly_once, false);
  EXPECT_EQ(ledger.account(honest(state, 0, 3, 4)), absl::OkStatus());
  EXPECT_EQ(ledger.first_awaited(), "steps 3 to 11");
  EXPECT_EQ(ledger.account(honest(state, 3, 12, 6)), absl::OkStatus());
  EXPECT_FALSE(ledger.awaits());
  const DatasetRecord record = ledger.record(12);
  EXPECT_EQ(record.exactly_once, true);
  EXPECT_EQ(record.samples_read, 2 * 23 + 10);
  EXPECT_EQ(record.bytes_read, 10 * (2 * 23 + 10));
  EXPECT_EQ(record.pass, 2);
  EXPECT_EQ(record.consumed, 10);
  EXPECT_EQ(record.samples, 23);
  EXPECT_EQ(record.samples_again, 0);
}

TEST(SampleLedger, ARollbackReadsAgainAndSaysSo) {
  const datasets::State state = dataset(23, 5);
  SampleLedger ledger(state, true);
  ledger.done(8, 4);
  ASSERT_TRUE(ledger.account(honest(state, 0, 8, 4)).ok());
  ledger.done(9, 4);    // its account comes after the rollback
  ledger.roll_back(4);  // in the middle of what was accounted for
  EXPECT_EQ(ledger.record(4).exactly_once, false);
  ledger.done(10, 1);
  ASSERT_TRUE(ledger.account(honest(state, 8, 9, 4)).ok());
  ASSERT_TRUE(ledger.account(honest(state, 4, 10, 1)).ok());
  const DatasetRecord record = ledger.record(10);
  EXPECT_EQ(record.exactly_once, true);
  EXPECT_EQ(record.steps_again, 5);
  EXPECT_EQ(record.samples_again, 3 + 5 + 5 + 5 + 5);
  EXPECT_EQ(record.samples_read, 2 * 23 + 23);
}

TEST(SampleLedger, WhatNobodyToldIsNotProved) {
  const datasets::State state = dataset(100, 10);
  SampleLedger ledger(state, true);
  const auto read = [&](int64_t from, int64_t until, int64_t assumed) {
    ledger.done(until, 2);
    SamplesRead samples = honest(state, from, until, 2);
    samples.assumed = assumed;
    EXPECT_TRUE(ledger.account(samples).ok());
  };
  read(0, 4, 0);
  EXPECT_EQ(ledger.record(4).exactly_once, true);
  read(4, 7, 5);
  EXPECT_EQ(ledger.record(7).exactly_once, std::nullopt);
  EXPECT_EQ(ledger.record(7).samples_assumed, 5);
  ledger.roll_back(4);  // and they are read again
  read(4, 7, 0);
  EXPECT_EQ(ledger.record(7).exactly_once, true);
  EXPECT_EQ(ledger.record(7).samples_assumed, 0);
}

TEST(SampleLedger, BackToTheBeginning) {
  const datasets::State state = dataset(100, 7);
  SampleLedger ledger(state, true);
  ledger.done(5, 2);
  ASSERT_TRUE(ledger.account(honest(state, 0, 5, 2)).ok());
  ledger.roll_back(0);
  ledger.done(2, 1);
  ASSERT_TRUE(ledger.account(honest(state, 0, 2, 1)).ok());
  EXPECT_EQ(ledger.record(2).exactly_once, true);
  EXPECT_EQ(ledger.record(2).steps_again, 5);
  EXPECT_EQ(ledger.record(2).samples_read, 35 + 14);
}

TEST(SampleLedger, NobodyReadsAndNothingIsAwaited) {
  SampleLedger ledger(dataset(23, 5), false);
  ledger.done(12, 4);
  ledger.roll_back(10);
  EXPECT_FALSE(ledger.awaits());
  const DatasetRecord record = ledger.record(1000);
  EXPECT_EQ(record.samples_read, std::nullopt);
  EXPECT_EQ(record.exactly_once, std::nullopt);
  EXPECT_EQ(record.steps_again, 2);
  EXPECT_EQ(record.samples_again, 10);
  EXPECT_EQ(record.pass, 200);
  EXPECT_EQ(ledger.samples_before(1000), 200 * 23);
}

TEST(SampleLedger, LastsAsLongAsAScenarioMay) {
  SampleLedger ledger(dataset(23, 5), false);
  ledger.done(int64_t{1} << 53, 1);
  EXPECT_GT(ledger.record(int64_t{1} << 53).pass, 0);
}

// ---- what must be found ---------------------------------------------------------------------------------------------

class Caught : public ::testing::Test {
 protected:
  // What the ledger says of a reading of steps 4 to 9 by three ranks, each step of five samples.
  std::string verdict(const std::vector<std::vector<Sample>>& ranks) {
    SampleLedger ledger(state_, true);
    ledger.done(4, 2);
    EXPECT_TRUE(ledger.account(honest(state_, 0, 4, 2)).ok());
    ledger.done(10, 3);
    const absl::Status status = ledger.account(as_read(ranks, 4, 10));
    EXPECT_EQ(ledger.record(10).exactly_once, status.ok());
    EXPECT_FALSE(ledger.awaits());
    if (!status.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(status));
    }
    return message_of(status);
  }
  const datasets::State state_ = dataset(23, 5);
  std::vector<std::vector<Sample>> ranks_ = reading(state_, 4, 10, 3);
};

TEST_F(Caught, NothingWhenNothingIsWrong) { EXPECT_EQ(verdict(ranks_), ""); }

TEST_F(Caught, AMissingSample) {
  ranks_[1].pop_back();
  EXPECT_EQ(verdict(ranks_),
            "samples were not read exactly once in steps 4 to 9 of 3 ranks: dp rank 1 read 9 samples, "
            "expected 10");
}

TEST_F(Caught, ADoubledSample) {
  ranks_[2].push_back(ranks_[2].front());
  EXPECT_THAT(verdict(ranks_), HasSubstr("dp rank 2 read 7 samples, expected 6"));
}

TEST_F(Caught, ASampleInPlaceOfAnother) {
  ranks_[0][3] = ranks_[0][2];
  EXPECT_THAT(verdict(ranks_), HasSubstr("dp rank 0 read 10 samples, expected 10, but others"));
}

TEST_F(Caught, TwoSamplesExchangedBetweenPositions) {
  std::swap(std::get<2>(ranks_[0][3]), std::get<2>(ranks_[0][2]));
  EXPECT_THAT(verdict(ranks_), HasSubstr("dp rank 0 read 10 samples, expected 10, but others"));
}

TEST_F(Caught, TwoSamplesExchangedBetweenRanks) {
  std::swap(ranks_[0][3], ranks_[1][3]);
  EXPECT_THAT(verdict(ranks_),
              HasSubstr("dp rank 0 read 10 samples, expected 10, but others: one is missing, doubled or "
                        "another's; dp rank 1 read"));
}

TEST_F(Caught, TheOrderOfAnotherPass) {
  std::get<0>(ranks_[0][3]) += 1;
  EXPECT_THAT(verdict(ranks_), HasSubstr("dp rank 0"));
}

TEST_F(Caught, AnotherNumberOfRanks) {
  EXPECT_EQ(verdict(reading(state_, 4, 10, 2)),
            "the samples of steps 4 to 9 of 2 ranks were read, not those of steps 4 to 9 of 3 ranks");
}

TEST_F(Caught, ManyRanksAreNotAllNamed) {
  SampleLedger ledger(dataset(100, 10), true);
  ledger.done(1, 10);
  SamplesRead read{.from_step = 0, .step = 1};
  read.accounts.resize(10);
  EXPECT_THAT(message_of(ledger.account(read)), HasSubstr("dp rank 3 read 0 samples, expected 1; and 6 more ranks"));
}

TEST_F(Caught, AStepCountedTwiceAfterARollback) {
  SampleLedger ledger(state_, true);
  ledger.done(6, 2);
  ASSERT_TRUE(ledger.account(honest(state_, 0, 6, 2)).ok());
  ledger.roll_back(4);
  ledger.done(8, 2);
  // As if step 3 had been rolled back, too.
  EXPECT_EQ(message_of(ledger.account(honest(state_, 3, 8, 2))),
            "the samples of steps 3 to 7 of 2 ranks were read, not those of steps 4 to 7 of 2 ranks");
}

TEST_F(Caught, AStepReadBySharesFromBeforeTheRollback) {
  SampleLedger ledger(state_, true);
  ledger.done(6, 2);
  ASSERT_TRUE(ledger.account(honest(state_, 0, 6, 2)).ok());
  ledger.roll_back(4);
  ledger.done(6, 2);
  // The right steps by name, the ones after them in truth: as a reader that goes on where it was would do.
  EXPECT_FALSE(ledger.account(as_read(reading(state_, 6, 8, 2), 4, 6)).ok());
}

TEST_F(Caught, AnAccountThatNobodyAskedFor) {
  SampleLedger ledger(state_, true);
  EXPECT_EQ(message_of(ledger.account(honest(state_, 0, 1, 2))),
            "the samples of step 0 of 2 ranks were read without a request");
  // Of a failed proof nothing more is asked.
  ledger.done(3, 2);
  EXPECT_FALSE(ledger.awaits());
  EXPECT_TRUE(ledger.account(honest(state_, 0, 3, 2)).ok());
  EXPECT_EQ(ledger.record(3).exactly_once, false);
}

// ---- random histories -----------------------------------------------------------------------------------------------

// Committed history, as a plain list, against what the ledger says of it.
TEST(SampleLedger, RandomHistories) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const int64_t samples = random.between(1, 60), batch = random.between(1, 15);
    const bool drop_last = samples >= batch && random.below(2) == 1;
    const datasets::State state = dataset(samples, batch, drop_last);
    SampleLedger ledger(state, true);
    std::vector<std::vector<Sample>> committed;  // by step
    std::deque<SamplesRead> late;
    int64_t read = 0, again = 0;
    const auto deliver = [&](size_t keep) {
      for (; late.size() > keep; late.pop_front()) ASSERT_EQ(ledger.account(late.front()), absl::OkStatus());
    };
    for (int turn = 0; turn < 12; ++turn) {
      const auto step = static_cast<int64_t>(committed.size());
      if (random.below(3) == 0 && step > 0) {
        const int64_t back = random.between(0, step);
        for (int64_t s = back; s < step; ++s) again += static_cast<int64_t>(committed[static_cast<size_t>(s)].size());
        committed.resize(static_cast<size_t>(back));
        ledger.roll_back(back);
      } else {
        const int64_t until = step + random.between(1, 9);
        const int dp = static_cast<int>(random.between(1, 9));
        ledger.done(until, dp);
        late.push_back(honest(state, step, until, dp));
        for (int64_t s = step; s < until; ++s) {
          std::vector<Sample>& list = committed.emplace_back();
          for (const std::vector<Sample>& rank : reading(state, s, s + 1, dp))
            list.insert(list.end(), rank.begin(), rank.end());
          read += static_cast<int64_t>(list.size());
        }
      }
      deliver(static_cast<size_t>(random.below(3)));
    }
    deliver(0);
    const DatasetRecord record = ledger.record(static_cast<int64_t>(committed.size()));
    EXPECT_EQ(record.exactly_once, true);
    EXPECT_EQ(record.samples_read, read);
    EXPECT_EQ(record.samples_again, again);
    // The history itself: positions 0, 1, 2, … of pass after pass.
    const int64_t of_a_pass = drop_last ? samples / batch * batch : samples;
    int64_t next = 0;
    for (const std::vector<Sample>& list : committed) {
      for (const auto& [pass, position, id] : list) {
        EXPECT_EQ(pass * of_a_pass + position, next++);
      }
    }
    EXPECT_EQ(next, read - again);
  }
}

}  // namespace
}  // namespace scalai::control
