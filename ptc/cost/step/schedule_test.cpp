#include "ptc/cost/step/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "ptc/cost/step/testing/bubble.h"

namespace scalai::step {
namespace {

constexpr Schedule kAll[] = {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kTwoBW};

// All shapes of the rest of this file, smallest first.
template <class Body>
void for_each_shape(const Body& body) {
  for (const Schedule schedule : kAll) {
    for (int pp = 1; pp <= 8; ++pp) {
      for (int vpp = 1; vpp <= (pp == 1 ? 1 : 4); ++vpp) {
        for (int m = 1; m <= 3 * pp; ++m) {
          SCOPED_TRACE(fmt::format("{} pp{} vpp{} m{}", name_of(schedule), pp, vpp, m));
          body(PipelineShape{.schedule = schedule, .pp = pp, .vpp = vpp, .micro_batches = m});
        }
      }
    }
  }
}

// What a slot waits for: the piece before it on the same micro-batch, and its own forward.
struct Key {
  bool backward;
  int piece;  // chunk · pp + stage
  int micro_batch;
  bool operator<(const Key& other) const {
    return std::tie(backward, piece, micro_batch) < std::tie(other.backward, other.piece, other.micro_batch);
  }
};

struct Executed {
  bool all_done = false;
  double end_s = 0;
};

// Runs the orders with these times of a forward and a backward slot; a stage takes its next one as soon as that can
// run.
Executed execute(const PipelineShape& shape, double forward_s, double backward_s) {
  std::vector<std::vector<Slot>> orders;
  for (int stage = 0; stage < shape.pp; ++stage) orders.push_back(slots_of(shape, stage));
  std::map<Key, double> end_of;
  std::vector<size_t> next(orders.size(), 0);
  std::vector<double> free_at(orders.size(), 0);
  const int last_piece = shape.pp * shape.vpp - 1;
  Executed result;
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < shape.pp; ++stage) {
      const size_t s = static_cast<size_t>(stage);
      if (next[s] == orders[s].size()) continue;
      const Slot slot = orders[s][next[s]];
      const int piece = slot.chunk * shape.pp + stage;
      double ready = free_at[s];
      bool can_run = true;
      const auto wait_for = [&](Key key) {
        const auto found = end_of.find(key);
        can_run = can_run && found != end_of.end();
        if (can_run) ready = std::max(ready, found->second);
      };
      if (!slot.backward && piece > 0) wait_for({false, piece - 1, slot.micro_batch});
      if (slot.backward) wait_for({false, piece, slot.micro_batch});
      if (slot.backward && piece < last_piece) wait_for({true, piece + 1, slot.micro_batch});
      if (!can_run) continue;
      free_at[s] = ready + (slot.backward ? backward_s : forward_s);
      end_of[{slot.backward, piece, slot.micro_batch}] = free_at[s];
      result.end_s = std::max(result.end_s, free_at[s]);
      ++next[s];
      moved = true;
    }
  }
  result.all_done = end_of.size() == static_cast<size_t>(2 * shape.pp * shape.vpp * shape.micro_batches);
  return result;
}

TEST(Schedule, EachChunkAndMicroBatchOnceEachWayForwardFirst) {
  for_each_shape([](const PipelineShape& shape) {
    for (int stage = 0; stage < shape.pp; ++stage) {
      std::map<std::pair<int, int>, int> passes;  // 1 = forward done, 2 = both
      for (const Slot& slot : slots_of(shape, stage)) {
        int& done = passes[{slot.chunk, slot.micro_batch}];
        ASSERT_EQ(done, slot.backward ? 1 : 0) << "chunk " << slot.chunk << " micro-batch " << slot.micro_batch;
        ++done;
      }
      ASSERT_EQ(passes.size(), static_cast<size_t>(shape.vpp * shape.micro_batches));
      for (const auto& [key, done] : passes) {
        ASSERT_EQ(done, 2);
        ASSERT_TRUE(key.first >= 0 && key.first < shape.vpp);
        ASSERT_TRUE(key.second >= 0 && key.second < shape.micro_batches);
      }
    }
  });
}

TEST(Schedule, NeverDeadlocks) {
  for_each_shape([](const PipelineShape& shape) { ASSERT_TRUE(execute(shape, 1, 2).all_done); });
}

// Idle over working time of the executed order, for any ratio of backward to forward.
TEST(Schedule, BubbleIsTheClosedForm) {
  for_each_shape([](const PipelineShape& shape) {
    if (shape.schedule == Schedule::kTwoBW) return;  // has none only in steady state: sim/iteration_test.cpp
    if (shape.vpp > 1 && shape.micro_batches % shape.pp != 0) return;
    for (const double backward : {1.0, 2.0, 3.0}) {
      const double work = shape.micro_batches * shape.vpp * (1 + backward);
      ASSERT_DOUBLE_EQ(execute(shape, 1, backward).end_s, work * (1 + bubble_fraction(shape))) << backward;
    }
  });
}

// A group with gaps costs at most what a full one does.
TEST(Schedule, ARestThatIsNotAGroupIsNoWorseThanAFullOne) {
  for_each_shape([](const PipelineShape& shape) {
    if (shape.vpp == 1 || shape.micro_batches % shape.pp == 0) return;
    PipelineShape full = shape;
    full.micro_batches = (shape.micro_batches / shape.pp + 1) * shape.pp;
    ASSERT_LE(execute(shape, 1, 2).end_s, execute(full, 1, 2).end_s);
  });
}

TEST(Schedule, InFlightIsWhatTheSlotsHold) {
  for_each_shape([](const PipelineShape& shape) {
    for (int stage = 0; stage < shape.pp; ++stage) {
      int now = 0, most = 0;
      for (const Slot& slot : slots_of(shape, stage)) {
        now += slot.backward ? -1 : 1;
        most = std::max(most, now);
      }
      ASSERT_DOUBLE_EQ(in_flight(shape, stage), static_cast<double>(most) / shape.vpp) << "stage " << stage;
    }
  });
}

TEST(Schedule, InFlightOfTheFirstStage) {
  const auto first = [](Schedule schedule, int pp, int vpp, int m) {
    return in_flight({.schedule = schedule, .pp = pp, .vpp = vpp, .micro_batches = m}, 0);
  };
  EXPECT_EQ(first(Schedule::kGPipe, 4, 1, 12), 12);
  EXPECT_EQ(first(Schedule::kOneFOneB, 4, 1, 12), 4);
  EXPECT_EQ(first(Schedule::kTwoBW, 4, 1, 12), 4);
  EXPECT_DOUBLE_EQ(first(Schedule::kOneFOneB, 4, 2, 12), 4 * (1 + 3.0 / (4 * 2)));
  EXPECT_EQ(in_flight({.pp = 4, .micro_batches = 12}, 3), 1);
}

TEST(Schedule, OneForwardOneBackwardByHand) {
  const std::vector<Slot> expected = {{false, 0, 0}, {false, 0, 1}, {true, 0, 0},
                                      {false, 0, 2}, {true, 0, 1},  {true, 0, 2}};
  EXPECT_EQ(slots_of({.pp = 2, .micro_batches = 3}, 0), expected);
}

// Megatron's order for pp 2, vpp 2, m 4: groups of two micro-batches through each chunk, backward from the last chunk.
TEST(Schedule, InterleavedByHand) {
  const std::vector<Slot> expected = {{false, 0, 0}, {false, 0, 1}, {false, 1, 0}, {true, 1, 0},
                                      {false, 1, 1}, {true, 1, 1},  {false, 0, 2}, {true, 0, 0},
                                      {false, 0, 3}, {true, 0, 1},  {false, 1, 2}, {true, 1, 2},
                                      {false, 1, 3}, {true, 1, 3},  {true, 0, 2},  {true, 0, 3}};
  EXPECT_EQ(slots_of({.pp = 2, .vpp = 2, .micro_batches = 4}, 1), expected);
}

}  // namespace
}  // namespace scalai::step
