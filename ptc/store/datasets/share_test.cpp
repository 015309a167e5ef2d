#include "ptc/store/datasets/share.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/datasets/order.h"

namespace scalai::datasets {
namespace {

using testing::ElementsAre;

// --- the rule --------------------------------------------------------------------------------------------------------

TEST(RunOf, TheFirstRanksReadOneMore) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (int rank = 0; rank < 4; ++rank) {
    const PositionRange run = run_of(10, {rank, 4});
    runs.emplace_back(run.begin, run.end);
  }
  EXPECT_THAT(runs, ElementsAre(std::pair(0, 3), std::pair(3, 6), std::pair(6, 8), std::pair(8, 10)));
  EXPECT_EQ(run_of(2, {1, 4}).size(), 1);
  EXPECT_EQ(run_of(2, {2, 4}).size(), 0);
  EXPECT_EQ(run_of(0, {0, 4}).size(), 0);
}

// The rank that reads `offset` of a batch of `size`: the first size mod dp ranks have one position more.
int rank_reading(int64_t size, int64_t offset, int dp) {
  for (int rank = 0;; ++rank) {
    offset -= size / dp + (rank < size % dp ? 1 : 0);
    if (offset < 0) return rank;
  }
}

// Positions are dealt one by one: how many each gets is decided round-robin, where they lie by rank.
TEST(RunOf, CoversEverySmallBatchInRankOrder) {
  for (int dp = 1; dp <= 12; ++dp) {
    for (int64_t size = 0; size <= 40; ++size) {
      std::vector<int64_t> dealt(static_cast<size_t>(dp));
      for (int64_t i = 0; i < size; ++i) ++dealt[static_cast<size_t>(i % dp)];
      int64_t next = 0;
      for (int rank = 0; rank < dp; ++rank) {
        const PositionRange run = run_of(size, {rank, dp});
        ASSERT_EQ(run.begin, next) << size << " over " << dp;
        ASSERT_EQ(run.size(), dealt[static_cast<size_t>(rank)]) << size << " over " << dp;
        next = run.end;
      }
      ASSERT_EQ(next, size);
    }
  }
}

TEST(RunOfDeath, RanksLieBelowDp) { EXPECT_EXIT(run_of(4, {4, 4}), testing::ExitedWithCode(70), "rank < who.dp"); }

// --- a rank's share of a pass ----------------------------------------------------------------------------------------

void expect_share(const Steps& steps, int64_t step, DpRank who) {
  const RankShare share(steps, step, who);
  std::vector<std::pair<int64_t, int64_t>> expected;  // position, step
  std::vector<int64_t> before;
  const int64_t pass = steps.batch(step).pass;
  int64_t s = step;
  for (; steps.batch(s).pass == pass; ++s) {
    before.push_back(static_cast<int64_t>(expected.size()));
    const Batch batch = steps.batch(s);
    for (int64_t i = 0; i < batch.size; ++i) {
      if (rank_reading(batch.size, i, who.dp) == who.rank) expected.emplace_back(batch.begin + i, s);
    }
    const PositionRange range = positions_of(steps, s, who);
    ASSERT_EQ(range.size(), static_cast<int64_t>(expected.size()) - before.back());
    if (range.size() > 0) {
      ASSERT_EQ(range.begin, expected[static_cast<size_t>(before.back())].first);
    }
  }
  before.push_back(static_cast<int64_t>(expected.size()));
  ASSERT_EQ(share.pass(), pass);
  ASSERT_EQ(share.count(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < before.size(); ++i) ASSERT_EQ(share.count_before(step + static_cast<int64_t>(i)), before[i]);
  std::map<int64_t, int64_t> index;
  for (int64_t k = 0; k < share.count(); ++k) {
    ASSERT_EQ(share.position(k), expected[static_cast<size_t>(k)].first);
    ASSERT_EQ(share.step_of(k), expected[static_cast<size_t>(k)].second);
    index[share.position(k)] = k;
  }
  for (int64_t position = -1; position <= steps.first().samples; ++position) {
    const auto found = index.find(position);
    ASSERT_EQ(share.index_of(position), found == index.end() ? std::nullopt : std::optional<int64_t>(found->second));
  }
}

TEST(RankShare, IsTheWalkedOneForEverySmallCase) {
  for (const int64_t n : {1, 5, 12, 13}) {
    for (int64_t batch = 1; batch <= n + 1; ++batch) {
      for (const bool drop_last : {false, true}) {
        if (drop_last && batch > n) continue;
        for (const int64_t consumed : {int64_t{0}, n / 3}) {
          const Steps steps({.samples = n,
                             .drop_last = drop_last,
                             .global_batch = batch,
                             .step = 7,
                             .pass = 2,
                             .consumed = consumed});
          for (int dp = 1; dp <= 5; ++dp) {
            for (int rank = 0; rank < dp; ++rank) {
              for (int64_t step = 7; step < 11; ++step) expect_share(steps, step, {rank, dp});
              if (testing::Test::HasFatalFailure())
                FAIL() << n << " " << batch << " " << drop_last << " " << dp << " " << rank;
            }
          }
        }
      }
    }
  }
}

TEST(RankShare, OfHugePassesIsClosedForm) {
  const Steps steps({.samples = kMostInState, .global_batch = 1000});
  const RankShare share(steps, 17, {6, 7});
  EXPECT_EQ(share.count() / 142, (kMostInState - 17'000) / 1000) << "1000 over 7 is 142 for the last rank";
  const int64_t k = share.count() - 1;
  EXPECT_EQ(share.index_of(share.position(k)), k);
}

TEST(RankShareDeath, SamplesLieBelowCount) {
  const RankShare share(Steps({.samples = 10, .global_batch = 4}), 0, {0, 2});
  EXPECT_EXIT(share.position(5), testing::ExitedWithCode(70), "k < count");
  EXPECT_EXIT(share.count_before(4), testing::ExitedWithCode(70), "steps <= whole_");
}

// --- any history of changes ------------------------------------------------------------------------------------------

// A job that changes dp and global batch at random steps, against an explicit permutation array that is consumed front
// to back. Ranks know only (state, step, dp): nothing is handed over at a change.
class History {
 public:
  explicit History(uint64_t seed) : random_(seed) {
    first_.samples = random_.between(1, 60);
    first_.global_batch = random_.between(1, first_.samples + 5);
    first_.seed = random_.next();
    first_.shuffle = random_.below(4) != 0;
    first_.drop_last = random_.below(2) == 0;
    if (first_.drop_last) first_.global_batch = std::min(first_.global_batch, first_.samples);
  }

  void go() {
    State state = first_;
    for (int segment = 0; segment < 8; ++segment) {
      const Steps steps(state);
      if (is_over(state)) begin_pass();  // by the new batch, also when no step follows
      const int64_t last = state.step + random_.below(9);
      const int dp = static_cast<int>(random_.between(1, 9));
      for (int64_t step = state.step; step < last; ++step) {
        read_step(steps, step, dp);
        consume(state);
      }
      ASSERT_EQ(read_, expected_) << "segment " << segment;
      state = through_text(steps.at(last));
      if (is_over(state)) begin_pass();
      ASSERT_EQ(state.consumed, first_.samples - static_cast<int64_t>(rest_.size())) << "segment " << segment;
      if (random_.below(3) == 0) {
        const int64_t most = state.drop_last ? state.samples : state.samples + 5;
        state.global_batch = random_.between(1, most);
      }
    }
    expect_exactly_once();
  }

 private:
  using Reading = std::pair<int64_t, int64_t>;  // pass, sample

  // What all ranks read, in rank order: by positions, and the same by each rank's k-th samples.
  void read_step(const Steps& steps, int64_t step, int dp) {
    std::vector<Reading> by_share;
    for (int rank = 0; rank < dp; ++rank) {
      const Order order(first_.samples, first_.shuffle, first_.seed);
      const PositionRange range = positions_of(steps, step, {rank, dp});
      const int64_t pass = steps.batch(step).pass;
      for (int64_t p = range.begin; p < range.end; ++p) read_.emplace_back(pass, order.at(pass, p));
      // From any step of this pass that the state knows.
      const int64_t pass_begin = std::max(steps.first().step, first_step_of_pass(steps, step));
      const int64_t from = random_.between(pass_begin, step);
      const RankShare share(steps, from, {rank, dp});
      const int64_t end = share.count_before(step) + range.size();
      for (int64_t k = share.count_before(step); k < end; ++k) {
        by_share.emplace_back(share.pass(), order.at(share.pass(), share.position(k)));
      }
    }
    const std::vector<Reading> by_positions(read_.end() - static_cast<std::ptrdiff_t>(by_share.size()), read_.end());
    ASSERT_EQ(by_share, by_positions);
  }
  static int64_t first_step_of_pass(const Steps& steps, int64_t step) {
    while (step > steps.first().step && steps.batch(step - 1).pass == steps.batch(step).pass) --step;
    return step;
  }
  // The reference: an array of the pass, of which a step takes the next ones.
  void consume(const State& state) {
    if (is_over(state)) begin_pass();
    const size_t size = std::min(static_cast<size_t>(state.global_batch), rest_.size());
    for (size_t i = 0; i < size; ++i) expected_.emplace_back(pass_, rest_[i]);
    rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(size));
  }
  bool is_over(const State& state) const {
    return rest_.empty() || (state.drop_last && rest_.size() < static_cast<size_t>(state.global_batch));
  }
  void begin_pass() {
    ++pass_;
    rest_.clear();
    const Order order(first_.samples, first_.shuffle, first_.seed);
    for (int64_t i = 0; i < first_.samples; ++i) rest_.push_back(order.at(pass_, i));
  }
  static State through_text(const State& state) {
    const auto back = parse_state(state_text(state));
    EXPECT_TRUE(back.ok()) << back.status();
    return back.value_or(State{});
  }
  // Besides the order: nothing twice in a pass, and nothing missing but what drop_last drops at its end.
  void expect_exactly_once() const {
    std::map<int64_t, std::vector<int64_t>> passes;
    for (const auto& [pass, sample] : read_) passes[pass].push_back(sample);
    for (auto& [pass, samples] : passes) {
      std::sort(samples.begin(), samples.end());
      ASSERT_EQ(std::adjacent_find(samples.begin(), samples.end()), samples.end()) << "a sample twice in pass " << pass;
      if (pass < pass_ && !first_.drop_last) {
        ASSERT_EQ(static_cast<int64_t>(samples.size()), first_.samples);
      }
    }
  }

  Random random_;
  State first_;
  std::vector<Reading> read_, expected_;
  std::vector<int64_t> rest_;  // of the pass, in order
  int64_t pass_ = -1;
};

TEST(AnyHistory, ReadsThePrefixOfTheOrderExactlyOnce) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    History(seed).go();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(AnyHistory, FourSixOneInTheMiddleOfAPass) {
  const Steps steps({.samples = 1000, .seed = 9, .global_batch = 50});
  const Order order(1000, true, 9);
  std::vector<int64_t> read, reference;
  for (int64_t step = 0; step < 20; ++step) {
    const int dp = step < 7 ? 4 : step < 13 ? 6 : 1;
    for (int rank = 0; rank < dp; ++rank) {
      const PositionRange range = positions_of(steps, step, {rank, dp});
      for (int64_t p = range.begin; p < range.end; ++p) read.push_back(order.at(0, p));
    }
  }
  for (int64_t p = 0; p < 1000; ++p) reference.push_back(order.at(0, p));
  EXPECT_EQ(read, reference);
}

}  // namespace
}  // namespace scalai::datasets
